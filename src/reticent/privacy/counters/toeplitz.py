# SPDX-License-Identifier: Apache-2.0
"""The square-root Toeplitz counter: near-optimal noise, at the price of remembering every round's."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import toeplitz as toeplitz_matrix

from reticent.privacy.counters.checks import check_floating, check_rounds
from reticent.privacy.counters.registry import register_counter


@functools.lru_cache(maxsize=8)
def square_root_coefficients(rounds: int) -> np.ndarray:
    r"""The first coefficients of :math:`(1-z)^{-1/2}`: :math:`c_j=\binom{2j}{j}4^{-j}\approx 1/\sqrt{\pi j}`.

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    j = np.arange(1, rounds, dtype=np.float64)
    coefficients = np.cumprod(np.concatenate([[1.0], (2 * j - 1) / (2 * j)]))
    coefficients.flags.writeable = False
    return coefficients


class ToeplitzState(NamedTuple):
    """Rounds closed, the exact sum, and the noise of every round (zero where not yet drawn)."""

    t: Array
    total: Array
    noise: Array


@dataclasses.dataclass(frozen=True)
class ToeplitzCounter:
    r"""Running sums through the square root of the all-ones triangle.

    The lower-triangular Toeplitz matrix C with coefficients :math:`c_j=\binom{2j}{j}4^{-j}` satisfies :math:`C^2=A`,
    the all-ones triangle, because :math:`(1-z)^{-1/2}` squared is :math:`1/(1-z)`. Releasing :math:`C(Cx+z)` hence
    gives the prefix sums :math:`Ax` with noise :math:`\sum_{j\le t}c_{t-j}z_j` in release t.

    **Formal guarantee.** All releases are a function of :math:`Cx+z`. Column 1 of C is its longest, with squared norm
    :math:`\sum_{j<n}c_j^2`; so with noise of scale σ and items of norm at most Δ, the whole transcript is μ-Gaussian-DP
    with :math:`\mu=\Delta\,(\sum_{j<n}c_j^2)^{1/2}/\sigma`, also when items are chosen after seeing earlier releases, C
    being lower triangular. At equal μ the largest release noise is :math:`\sum_{j<n}c_j^2\approx(\ln n)/\pi+1.07` times
    that of a single sum.

    The guarantee is for continuous noise. Noise on an integer grid does not hide :math:`Cx`, whose entries are off the
    grid even when the items are on it: their fractional parts would show. A deployment with discrete noise takes the
    tree or the epochs, whose strategies are integer.

    References: Fichtenberger, Henzinger and Upadhyay, arXiv 2202.11205; Henzinger, Upadhyay and Upadhyay, arXiv
    2211.05006; adaptivity: Denisov et al., arXiv 2202.08312.

    The state holds n noise arrays and a release costs O(n): use :class:`~reticent.privacy.counters.BltCounter` unless n
    is small. Rounds closed after the last are ignored.
    """

    rounds: int

    name = "toeplitz"
    keeps_noisy_sums_only = False
    integer_strategy = False
    noise_shape_prefix = ()

    def __post_init__(self) -> None:
        check_rounds(self.rounds)

    @property
    def sensitivity(self) -> float:
        return math.sqrt(float(np.sum(square_root_coefficients(self.rounds) ** 2)))

    @property
    def memory(self) -> int:
        return self.rounds + 1

    def release_std(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.exposure()))

    def exposure(self) -> np.ndarray:
        return np.cumsum(square_root_coefficients(self.rounds) ** 2)

    def strategy(self) -> np.ndarray:
        return np.asarray(toeplitz_matrix(square_root_coefficients(self.rounds), np.zeros(self.rounds)))

    def weights(self) -> np.ndarray | None:
        return None

    def init(self, shape: tuple[int, ...], dtype: Any) -> ToeplitzState:
        check_floating(self.name, dtype)
        return ToeplitzState(jnp.int32(0), jnp.zeros(shape, dtype), jnp.zeros((self.rounds, *shape), dtype))

    def close(self, state: ToeplitzState, item: Array, noise: Array) -> ToeplitzState:
        # Past the last round there is no noise to protect an item, so it must not enter the sum either.
        is_open = state.t < self.rounds
        return ToeplitzState(
            t=jnp.where(is_open, state.t + 1, state.t),
            total=state.total + jnp.where(is_open, item, 0),
            noise=state.noise.at[state.t].set(noise, mode="drop"),
        )

    def release(self, state: ToeplitzState) -> Array:
        age = state.t - 1 - jnp.arange(self.rounds, dtype=jnp.int32)
        coefficients = jnp.asarray(square_root_coefficients(self.rounds), state.noise.dtype)
        scale = jnp.where(age >= 0, coefficients[jnp.maximum(age, 0)], 0)
        return state.total + jnp.tensordot(scale, state.noise, axes=1)


@register_counter("toeplitz")
def toeplitz(sizes: tuple[int, ...]) -> ToeplitzCounter:
    """The square root of the running sum, a Toeplitz matrix."""
    return ToeplitzCounter(len(sizes))
