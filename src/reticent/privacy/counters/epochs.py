# SPDX-License-Identifier: Apache-2.0
"""Epochs: each user is in one batch, each batch is noised once, and large batches count for more."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.privacy.counters.checks import check_rounds
from reticent.privacy.counters.registry import register_counter


class EpochState(NamedTuple):
    r"""Epochs closed, and :math:`\sum_i n_i(x_i+z_i)`: the division by the largest size waits for the release."""

    t: Array
    weighted: Array


@dataclasses.dataclass(frozen=True)
class EpochCounter:
    r"""A weighted running sum over epochs of public sizes :math:`n_1,\dots,n_m`.

    Release t is :math:`\sum_{i\le t}w_i(x_i+z_i)` with :math:`w_i=n_i/\max_{j\le t}n_j`.

    *Why these weights.* Let each of the :math:`n_i` users of epoch i contribute p on average. The release then carries
    the signal :math:`p\sum_i w_in_i` in noise of variance :math:`\sigma^2\sum_i w_i^2`. By Cauchy-Schwarz
    :math:`(\sum_i w_in_i)^2\le\sum_i w_i^2\cdot\sum_i n_i^2`, with equality exactly when w is proportional to n; so
    these weights have the best signal-to-noise ratio, whatever p is. The common factor is free: dividing by the
    largest size so far counts the largest epoch's users fully, keeps every weight in (0, 1], and makes the release a
    sum of :meth:`effective_users` users.

    **Formal guarantee.** All releases are a function of :math:`x+z`, so C is the identity (parallel composition): with
    noise of scale σ and a user moving their epoch's sum by at most Δ, the transcript is (Δ/σ)-Gaussian-DP, however many
    epochs there are, also when later epochs act on earlier releases (Denisov et al., arXiv 2202.08312). The sizes are
    public: they may not depend on the users' data.

    Weights are at least 1/(largest size), never zero; items of integer type are summed exactly. Epochs closed after the
    last are ignored.
    """

    sizes: tuple[int, ...]

    name = "epochs"
    keeps_noisy_sums_only = True
    integer_strategy = True
    sensitivity = 1.0
    memory = 1
    noise_shape_prefix = ()

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise InvalidInput("sizes", self.sizes, "a non-empty tuple", "list the number of users of each epoch")
        for position, size in enumerate(self.sizes):
            whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
            if not whole or size < 1:
                raise InvalidInput(f"sizes[{position}]", size, "a whole number of at least 1", "drop empty epochs")
        check_rounds(len(self.sizes))

    @property
    def rounds(self) -> int:
        return len(self.sizes)

    def release_std(self) -> np.ndarray:
        sizes = self._sizes()
        return np.asarray(np.sqrt(np.cumsum(sizes**2)) / np.maximum.accumulate(sizes))

    def exposure(self) -> np.ndarray:
        return np.ones(self.rounds)

    def strategy(self) -> np.ndarray:
        return np.eye(self.rounds)

    def weights(self) -> np.ndarray | None:
        return np.array(self.sizes)

    def effective_users(self) -> np.ndarray:
        r""":math:`\sum_{i\le t}w_in_i` for each t: of how many users' contributions release t is the sum.

        >>> EpochCounter((1, 2, 4)).effective_users().tolist()
        [1.0, 2.5, 5.25]
        """
        sizes = self._sizes()
        return np.asarray(np.cumsum(sizes**2) / np.maximum.accumulate(sizes))

    def init(self, shape: tuple[int, ...], dtype: Any) -> EpochState:
        return EpochState(jnp.int32(0), jnp.zeros(shape, dtype))

    def close(self, state: EpochState, item: Array, noise: Array) -> EpochState:
        # Size 0 past the last epoch: such an item must leave no trace.
        table = jnp.asarray((*self.sizes, 0), state.weighted.dtype)
        return EpochState(
            t=jnp.minimum(state.t + 1, self.rounds),
            weighted=state.weighted + table[state.t] * (item + noise),
        )

    def release(self, state: EpochState) -> Array:
        largest = jnp.asarray(np.maximum.accumulate(np.array(self.sizes)), state.weighted.dtype)
        return state.weighted / largest[jnp.maximum(state.t - 1, 0)]

    def _sizes(self) -> np.ndarray:
        return np.array(self.sizes, dtype=np.float64)


@register_counter("epochs", grouped=True)
def epochs(sizes: tuple[int, ...]) -> EpochCounter:
    """Growing epochs, each summed and noised once."""
    return EpochCounter(sizes)
