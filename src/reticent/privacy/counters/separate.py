# SPDX-License-Identifier: Apache-2.0
"""Every round's sum released by itself, once."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.privacy.counters.checks import check_rounds


class SeparateState(NamedTuple):
    """The number of closed rounds, and the noisy sum of the last of them."""

    t: Array
    last: Array


@dataclasses.dataclass(frozen=True)
class SeparateRounds:
    r"""Releases :math:`x_t+z_t` after round t, and nothing about earlier rounds: C is the identity.

    **Formal guarantee.** A user is in one round, so with noise of scale σ and an item that the user moves by at most Δ, the
    transcript is (Δ/σ)-Gaussian-DP however many rounds there are, also when later rounds act on earlier releases (parallel
    composition; Denisov et al., arXiv 2202.08312). For learners that combine rounds themselves, each with what was known
    when it was planned; as post-processing that is free.

    It has no name among the counters that one may choose: a learner that expects running sums would take the last round for
    all of them. Rounds closed after the last are ignored.
    """

    rounds: int

    name = "separate"
    keeps_noisy_sums_only = True
    integer_strategy = True
    sensitivity = 1.0
    memory = 1
    noise_shape_prefix = ()

    def __post_init__(self) -> None:
        check_rounds(self.rounds)

    def release_std(self) -> np.ndarray:
        return np.ones(self.rounds)

    def exposure(self) -> np.ndarray:
        return np.ones(self.rounds)

    def strategy(self) -> np.ndarray:
        return np.eye(self.rounds)

    def weights(self) -> np.ndarray | None:
        return None

    def init(self, shape: tuple[int, ...], dtype: Any) -> SeparateState:
        return SeparateState(jnp.int32(0), jnp.zeros(shape, dtype))

    def close(self, state: SeparateState, item: Array, noise: Array) -> SeparateState:
        within = state.t < self.rounds
        return SeparateState(jnp.minimum(state.t + 1, self.rounds), jnp.where(within, item + noise, state.last))

    def release(self, state: SeparateState) -> Array:
        return state.last
