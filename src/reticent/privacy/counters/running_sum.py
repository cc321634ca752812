# SPDX-License-Identifier: Apache-2.0
"""The exact running sum: no noise, and hence no protection of its own."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.privacy.counters.checks import check_rounds


class RunningSumState(NamedTuple):
    """The sum so far."""

    total: Array


@dataclasses.dataclass(frozen=True)
class RunningSum:
    r"""The sum of all items so far, as they are; the round's noise is ignored.

    **Formal guarantee.** None: the stated sensitivity is infinite, so that an accountant asked to protect items by
    this counter finds no finite noise that does. Its place is behind reports that are already private, as in the local
    model, where each user adds noise before anything is sent and the server only post-processes.
    """

    rounds: int

    name = "sum"
    keeps_noisy_sums_only = False
    integer_strategy = True
    sensitivity = math.inf  # releases are exact
    memory = 1
    noise_shape_prefix = ()

    def __post_init__(self) -> None:
        check_rounds(self.rounds)

    def release_std(self) -> np.ndarray:
        return np.zeros(self.rounds)

    def exposure(self) -> np.ndarray:
        return np.full(self.rounds, math.inf)

    def strategy(self) -> np.ndarray:
        """Infinite where an item is: releases are exact."""
        return np.diag(np.full(self.rounds, math.inf))

    def weights(self) -> np.ndarray | None:
        return None

    def init(self, shape: tuple[int, ...], dtype: Any) -> RunningSumState:
        return RunningSumState(jnp.zeros(shape, dtype))

    def close(self, state: RunningSumState, item: Array, noise: Array) -> RunningSumState:  # noqa: ARG002
        return RunningSumState(state.total + item)

    def release(self, state: RunningSumState) -> Array:
        return state.total
