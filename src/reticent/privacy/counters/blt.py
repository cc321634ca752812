# SPDX-License-Identifier: Apache-2.0
"""The buffered linear Toeplitz counter: near-optimal noise from a handful of buffers, whatever the number of rounds."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import toeplitz as toeplitz_matrix
from scipy.signal import lfilter

from reticent.errors import InvalidInput
from reticent.privacy.counters.blt_parameters import PARAMETERS
from reticent.privacy.counters.checks import check_floating, check_rounds
from reticent.privacy.counters.registry import register_counter
from reticent.privacy.counters.toeplitz import square_root_coefficients

Floats = tuple[float, ...]

LARGEST_CHECKED = 2**22
"""Accuracy beyond this many rounds is not computed when a counter is made: privacy does not depend on it."""


class BltState(NamedTuple):
    """Rounds closed, the noisy sum, and the buffers, shape ``(buffers, *shape)``."""

    t: Array
    total: Array
    buffers: Array


@dataclasses.dataclass(frozen=True)
class BltCounter:
    r"""Running sums with noise from a linear recurrence of a few buffers.

    The strategy is Toeplitz with coefficients :math:`c_0=1,\ c_j=\sum_i\omega_i\theta_i^{j-1}`, a sum of geometric
    decays that follows the :math:`1/\sqrt{\pi j}` of the square root, its columns scaled to norm one: :math:`CD^{-1}`
    with :math:`D_t^2=\sum_{k\le n-t}c_k^2`. The release noise :math:`ADC^{-1}z` then costs one pass over the buffers a
    round,

    .. math:: x_t=z_t-\sum_i\omega_is_i,\qquad s_i\leftarrow\theta_is_i+x_t,\qquad
              \text{noise}_t=\text{noise}_{t-1}+D_tx_t,

    and :math:`D_t` has a closed form (:func:`column_norm`), so neither state nor work grows with n.

    **Formal guarantee.** All releases are a function of :math:`CD^{-1}x+z`, whose columns have norm 1: with noise of
    scale σ and items of norm at most Δ the transcript is (Δ/σ)-Gaussian-DP, also when items depend on earlier
    releases, the strategy being lower triangular (Denisov et al., arXiv 2202.08312). After release t no item has spent
    more than item 1: with :math:`S(m)=\sum_{k<m}c_k^2`, item i has spent :math:`S(t-i+1)/S(n-i+1)`; c does not
    increase (as :math:`\sum_i\omega_i\le1`), so S is concave and thus log-concave, and :math:`S(a)/S(a+g)` does not
    decrease in a.

    The guarantee is for continuous noise. Noise on an integer grid does not hide :math:`CD^{-1}x`, whose entries are
    off the grid even when the items are on it: their fractional parts would show. A deployment with discrete noise
    takes the tree or the epochs, whose strategies are integer.

    References: Dvijotham et al., arXiv 2404.16706; McMahan, Xu and Zhang, arXiv 2408.08868. The parameters are our own
    fit of the largest release noise (``benchmarks/fit_blt.py``), one for each power of two; n takes the next one up.
    They are checked when a counter is made (:func:`verify`). Beyond the last power the privacy statement holds as it
    is, and only the accuracy falls behind; :meth:`release_std` always states it exactly.

    Rounds closed after the last are ignored.

    Attributes:
      rounds: n.
      buffers: how many decays; more follow the square root further, see :data:`PARAMETERS` for those fitted.
    """

    rounds: int
    buffers: int = 4

    name = "blt"
    keeps_noisy_sums_only = False
    integer_strategy = False
    sensitivity = 1.0
    noise_shape_prefix = ()

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if self.buffers not in PARAMETERS:
            fitted = ", ".join(map(str, sorted(PARAMETERS)))
            raise InvalidInput("buffers", self.buffers, f"one of {fitted}", "4 suits up to millions of rounds")
        verify(self.rounds, *self.parameters)

    @property
    def parameters(self) -> tuple[Floats, Floats]:
        """The decays θ and the weights ω fitted for the next power of two."""
        fits = PARAMETERS[self.buffers]
        return fits[min((size for size in fits if size >= self.rounds), default=max(fits))]

    @property
    def memory(self) -> int:
        return self.buffers + 1

    def release_std(self) -> np.ndarray:
        return np.asarray(np.sqrt(release_variance(self.rounds, *self.parameters)))

    def exposure(self) -> np.ndarray:
        spent = column_norm(np.arange(1, self.rounds + 1, dtype=np.float64), *self.parameters) ** 2
        return np.asarray(spent / spent[-1])

    def strategy(self) -> np.ndarray:
        decays, weights = (np.array(values) for values in self.parameters)
        later = decays ** np.arange(self.rounds - 1)[:, None] @ weights
        columns = toeplitz_matrix(np.concatenate([[1.0], later]), np.zeros(self.rounds))
        return np.asarray(columns / np.linalg.norm(columns, axis=0))

    def weights(self) -> np.ndarray | None:
        return None

    def init(self, shape: tuple[int, ...], dtype: Any) -> BltState:
        check_floating(self.name, dtype)
        return BltState(jnp.int32(0), jnp.zeros(shape, dtype), jnp.zeros((self.buffers, *shape), dtype))

    def close(self, state: BltState, item: Array, noise: Array) -> BltState:
        is_open = state.t < self.rounds
        decay, weight = (jnp.asarray(values, state.total.dtype) for values in self.parameters)
        # Clipped, because past the last round a column has no rows and its norm no meaning.
        rows = jnp.maximum(self.rounds - state.t, 1).astype(jnp.float64)
        norm = jnp.asarray(column_norm(rows, *self.parameters), state.total.dtype)
        fresh = noise - jnp.tensordot(weight, state.buffers, axes=1)
        buffers = decay.reshape(-1, *([1] * item.ndim)) * state.buffers + fresh
        return BltState(
            t=jnp.where(is_open, state.t + 1, state.t),
            total=jnp.where(is_open, state.total + item + norm * fresh, state.total),
            buffers=jnp.where(is_open, buffers, state.buffers),
        )

    def release(self, state: BltState) -> Array:
        return state.total


def column_norm(rows: Any, decays: Floats, weights: Floats) -> Any:
    r"""The norm of a column of C of which ``rows`` entries are inside the matrix (NumPy or JAX, any shape).

    .. math:: S(m)=\sum_{k<m}c_k^2=1+\sum_{i,j}\omega_i\omega_j\frac{1-(\theta_i\theta_j)^{m-1}}{1-\theta_i\theta_j}.
    """
    exp = jnp.exp if isinstance(rows, Array) else np.exp
    squared: Any = 1.0
    for i, (decay, weight) in enumerate(zip(decays, weights, strict=True)):
        for j in range(i + 1):
            product = decay * decays[j]
            pairs = (1 if i == j else 2) * weight * weights[j] / (1 - product)
            squared = squared + pairs * (1 - exp(math.log(product) * (rows - 1)))
    return squared**0.5


@functools.lru_cache(maxsize=4)
def release_variance(rounds: int, decays: Floats, weights: Floats) -> np.ndarray:
    r"""The squared row norms of :math:`ADC^{-1}`: the variance of the noise in each release, exactly, in O(n).

    In the scaled buffers :math:`\sqrt{\omega_i}s_i` the recurrence has the symmetric matrix
    :math:`\mathrm{diag}(\theta)-\sqrt\omega\sqrt\omega^\top`. In its eigenbasis, with eigenvalues λ and input a, the
    buffers are :math:`g\leftarrow\lambda g+az_t` and :math:`x_t=z_t-a\cdot g`, so that their covariance is geometric
    and their covariance q with the noise released so far is a first-order filter per coordinate.
    """
    root = np.sqrt(np.array(weights))
    eigenvalues, basis = np.linalg.eigh(np.diag(decays) - np.outer(root, root))
    drive = basis.T @ root
    norms = np.asarray(column_norm(np.arange(rounds, 0, -1, dtype=np.float64), decays, weights))
    # buffer_fresh[i] is the covariance of g_i, before the round, with the -x it causes.
    buffer_fresh = np.zeros((len(drive), rounds))
    for i in range(len(drive)):
        for j in range(i + 1):
            product = eigenvalues[i] * eigenvalues[j]
            covariance = drive[i] * drive[j] * _geometric_sums(product, rounds)
            buffer_fresh[i] += drive[j] * covariance
            if i != j:
                buffer_fresh[j] += drive[i] * covariance
    variance = norms**2 * (1 + drive @ buffer_fresh)
    for i, eigenvalue in enumerate(eigenvalues):
        arriving = norms * (drive[i] - eigenvalue * buffer_fresh[i])
        released_buffer = lfilter([1.0], [1.0, -eigenvalue], arriving)
        variance[1:] -= 2 * norms[1:] * drive[i] * released_buffer[:-1]
    variance = np.cumsum(variance)
    variance.flags.writeable = False
    return variance


def _geometric_sums(ratio: float, rounds: int) -> np.ndarray:
    """1 + ratio + ... with t terms, for t = 0 .. rounds - 1; by recursion, which is faster than powers."""
    return np.asarray(lfilter([0.0, 1.0], [1.0, -ratio], np.ones(rounds)))


@functools.lru_cache(maxsize=64)
def verify(rounds: int, decays: Floats, weights: Floats) -> None:
    r"""Check what the guarantee and the stated accuracy of a :class:`BltCounter` rest on; cached.

    * :math:`0<\theta_i<1,\ \omega_i>0,\ \sum\omega_i\le1`: c is positive and does not increase;
    * the closed form of the column norms agrees with adding up the coefficients (up to 4096 rows);
    * for 16 rounds or more, the largest release noise is at most 1.02 times that of the square-root Toeplitz counter at
      equal privacy, :math:`\sum_{j<n}\binom{2j}{j}^24^{-2j}` (computed for n up to :data:`LARGEST_CHECKED`).

    Raises:
      InvalidInput: a check fails; the buffers are too few for so many rounds, or the parameters have been damaged.
    """

    def require(holds: bool, field: str, value: object, bound: str) -> None:
        if not holds:
            raise InvalidInput(f"BLT {field}", value, bound, "use more buffers, or fit with benchmarks/fit_blt.py")

    require(len(decays) == len(weights) > 0, "parameters", (decays, weights), "as many decays as weights")
    require(all(0 < decay < 1 for decay in decays), "decays", decays, "strictly between 0 and 1")
    require(all(weight > 0 for weight in weights), "weights", weights, "positive")
    require(sum(weights) <= 1, "sum of weights", sum(weights), "at most 1")

    rows = np.arange(1, min(rounds, 4096) + 1, dtype=np.float64)
    later = np.array(decays) ** (rows[1:, None] - 2) @ np.array(weights)
    added_up = np.sqrt(1 + np.concatenate([[0.0], np.cumsum(later**2)]))
    error = float(np.max(np.abs(column_norm(rows, decays, weights) / added_up - 1)))
    require(error < 1e-9, "column norm error", error, "below 1e-9")

    if rounds >= 16:
        checked = min(rounds, LARGEST_CHECKED)
        largest = float(np.sqrt(np.max(release_variance(checked, decays, weights))))
        bound = 1.02 * float(np.sum(square_root_coefficients(checked) ** 2))
        require(largest <= bound, f"largest release std for {checked} rounds", largest, f"at most {bound:.4f}")


@register_counter("blt")
def blt(sizes: tuple[int, ...]) -> BltCounter:
    """Buffered linear Toeplitz: four buffers of state, within 5% of the least noise there is."""
    return BltCounter(len(sizes))
