# SPDX-License-Identifier: Apache-2.0
r"""Where noise comes from: one source for simulations, one for deployments, and no way to take one for the other.

* :class:`~reticent.privacy.simulation_noise.SimulationNoise` draws floating-point Gaussians from an explicit JAX key.
  Reproducible, fast, and unfit to protect anyone: the key may be logged, and the low bits of floating-point Gaussians
  betray the data (Mironov 2012).
* :class:`SecureNoise` draws integers from OpenDP's exact discrete Gaussian, fed by the operating system's entropy. It
  takes no seed and buffers nothing, so there is nothing to log, to restore or to duplicate by ``fork``.

They share no base class and no module, so that what draws for a deployment needs no JAX. A deployment takes a
``SecureNoise``, gets :class:`GridNoise` and adds integers to integers; :func:`require_deployable` says the same at run
time.

**The grid.** A deployment works in integer multiples of a public power of two g. Each *user's* clipped statistics are
rounded to it by :func:`~reticent_wire.grid.quantize` before anything is summed, so that all sums are exact and the
order of additions cannot show. With :math:`\mathcal N_{\mathbb Z}(0,s^2)` the discrete Gaussian, :math:`P(k)\propto
e^{-k^2/2s^2}`, the noise is :math:`g\,\mathcal N_{\mathbb Z}(0,(\sigma/g)^2)` per coordinate. Two things change against
the continuous mechanism, both negligible at the default :math:`\sigma/g\ge2^{24}` and both accounted for: rounding adds
to the sensitivity (:func:`quantized_sensitivity`), and the discrete Gaussian is not quite a Gaussian
(:func:`discretization_delta`).

Exactness holds for counters whose strategy C has integer entries (``tree``, ``epochs``): Cx then stays on the grid. For
one with real coefficients (``toeplitz``, ``blt``) Cx does not, and two neighbours are no longer a lattice vector apart;
the theorems cited here do not cover that.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidInput
from reticent.extras import require
from reticent_wire.grid import MINIMUM_BITS, quantize, require_fine, require_grid, whole

__all__ = [
    "MINIMUM_BITS",
    "GridNoise",
    "SecureNoise",
    "delta_for_gaussian",
    "discretization_delta",
    "grid_for",
    "quantize",
    "quantized_sensitivity",
    "require_deployable",
    "touched_draws",
]

GRID_BITS = 24
"""A grid is at most σ/2^24: fine enough to forget, coarse enough that 2^29 standard deviations are below 2^53 steps."""


@dataclasses.dataclass(frozen=True)
class GridNoise:
    """Noise as integer multiples of a grid: add ``integers`` to quantized statistics, *then* multiply by ``grid``."""

    integers: NDArray[np.int64]
    grid: float

    @property
    def values(self) -> NDArray[np.float64]:
        """The noise in the statistics' unit; exact, as the grid is a power of two and the integers fit 53 bits."""
        return np.multiply(self.integers, self.grid, dtype=np.float64)


@dataclasses.dataclass(frozen=True)
class SecureNoise:
    r"""Exact discrete Gaussian noise from the operating system's entropy, for deployments. Takes no seed.

    Formal guarantee. Integers of sensitivity Δ/g plus this noise satisfy :math:`\rho=\Delta^2/2\sigma^2` concentrated
    DP exactly (Canonne, Kamath and Steinke 2020), and the (ε, δ) curve of the Gaussian mechanism of
    :math:`\mu=\Delta/\sigma` up to :func:`discretization_delta`. The sampler is OpenDP's, in integer arithmetic.

    Every call goes to OpenDP, whose randomness is OpenSSL's generator: seeded by the operating system and reseeded
    after a ``fork``, so processes forked from one parent draw different noise (tested). Noise that belongs to a release
    must be stored before the release is shown: drawing again after a crash would let the two be averaged.
    """

    def __post_init__(self) -> None:
        _opendp()  # fail when the service is built, not when the first user's episode ends

    def draw(self, scale: ArrayLike, *, grid: float | None = None) -> GridNoise:
        """Independent noise of standard deviation ``scale``, coordinate by coordinate, in the shape of ``scale``.

        ``grid`` is the power of two that the statistics were quantized to; by default :func:`grid_for` the least scale.
        """
        sigma = np.asarray(scale, dtype=np.float64)
        if sigma.size == 0 or not (np.isfinite(sigma).all() and (sigma > 0.0).all()):
            raise InvalidInput("scale", sigma, "finite and greater than 0", "pass the calibrated standard deviation")
        least = float(sigma.min())
        grid = grid_for(least) if grid is None else require_grid(grid)
        require_fine(sigma, grid)
        integers = np.empty(sigma.shape, dtype=np.int64)
        for value in np.unique(sigma):
            chosen = sigma == value
            integers[chosen] = _discrete_gaussian(float(value) / grid, int(chosen.sum()))
        return GridNoise(whole(integers), grid)


def require_deployable(source: object) -> SecureNoise:
    """Return ``source`` if it may protect real users, and refuse everything else.

    Raises:
      InvalidInput: ``source`` is a simulation's noise or not a noise source of this library at all.
    """
    if not isinstance(source, SecureNoise):
        remedy = "pass SecureNoise(), which needs pip install 'reticent[secure]'"
        raise InvalidInput("noise source", type(source).__name__, "SecureNoise to serve real users", remedy)
    return source


def grid_for(sigma: float, bits: int = GRID_BITS) -> float:
    r"""The largest power of two that is at most :math:`\sigma/2^{bits}`. Public, like σ itself.

    >>> grid_for(3.0, bits=10) == 2 / 2**10
    True
    """
    if not (math.isfinite(sigma) and sigma > 0.0):
        raise InvalidInput("sigma", sigma, "finite and greater than 0", "pass the calibrated standard deviation")
    _, exponent = math.frexp(sigma)  # σ = m·2^e with 1/2 ≤ m < 1
    return math.ldexp(1.0, exponent - 1 - bits)


def quantized_sensitivity(sensitivity: float, grid: float, dimension: int) -> float:
    r"""The sensitivity after rounding, in the statistics' unit: :math:`\Delta+g\sqrt D`.

    Proof. Rounding moves each of D coordinates by at most g/2, hence a vector by at most :math:`g\sqrt D/2`; two
    neighbours are each moved once. (Under zero-out one of them is exactly 0 and half of it would do.) ∎

    Calibrate with this number. At the default grid it raises σ by a factor of at most :math:`1+\sqrt D\,2^{-24}/\mu`.
    """
    if not (math.isfinite(sensitivity) and sensitivity >= 0.0):
        raise InvalidInput("sensitivity", sensitivity, "finite and at least 0", "see reticent.privacy.sensitivity")
    if dimension < 1:
        raise InvalidInput("dimension", dimension, "at least 1", "pass the number of coordinates released")
    return sensitivity + require_grid(grid) * math.sqrt(dimension)


def discretization_delta(draws: int, epsilon: float, bits: int = GRID_BITS) -> float:
    r"""What to add to δ if the Gaussian accountant is used for N draws of discrete noise with :math:`s\ge2^{bits}`.

    Formal guarantee. If Gaussian noise gives (ε, δ)-DP, then :class:`SecureNoise` at the same σ on the same quantized
    statistics gives (ε, δ + this)-DP. N counts the draws that *one user's* item can touch (:func:`touched_draws`):
    given the transcript so far, all other draws are made and used in the same way for both neighbours, so that nothing
    has to be exchanged there. For N = 100 and the default grid it is below 1e-13 at ε = 1 and below 1e-6 at ε = 20.

    Proof. Let P be the discrete Gaussian of scale s and R a continuous one of that scale rounded to integers. Adding
    R to integers is Gaussian noise followed by rounding, so it has the Gaussian guarantee. The mechanism is a function
    of data and noise, however adaptive, so exchanging R for P costs :math:`(1+e^\varepsilon)\,TV` in δ, with TV the
    distance between the products of N copies. With U uniform on [−1/2, 1/2],

    .. math:: R(k)/P(k)=Z\cdot E\big[e^{-U^2/2s^2}\cosh(kU/s^2)\big],\qquad Z=\sum_j e^{-j^2/2s^2}\big/\sqrt{2\pi s^2}.

    By Poisson summation :math:`1\le Z\le1+3e^{-2\pi^2s^2}`, which is 1 for every purpose. Jensen's inequality and
    cosh ≥ 1 bound the ratio below by :math:`e^{-1/24s^2}`; :math:`\sinh(x)/x\le e^{x^2/6}` bounds it above by
    :math:`e^{k^2/24s^4}`. Under P, :math:`E(k/s)^4=3`, hence
    :math:`\chi^2(R\|P)=E_P(R/P-1)^2\le(1+3.01)/(576\,s^4)\le1/(143\,s^4)` for s ≥ 2^10, and for N independent copies
    :math:`TV\le\tfrac12\sqrt{(1+\chi^2)^N-1}`. ∎
    """
    if draws < 0:
        raise InvalidInput("draws", draws, "at least 0", "count the coordinates of every draw of the run")
    if bits < MINIMUM_BITS:
        raise InvalidInput("bits", bits, f"at least {MINIMUM_BITS}", "use a finer grid")
    exponent = draws * 2.0 ** (-4.0 * bits) / 143.0
    distance = 0.5 * math.sqrt(math.expm1(exponent)) if exponent < 1.0 else 1.0
    # Above ε = 700, where exp overflows, one draw costs more than 1 anyway.
    return (1.0 + math.exp(min(epsilon, 700.0))) * min(1.0, distance)


def touched_draws(coordinates: int, blocks: float = 1.0) -> int:
    """N of :func:`discretization_delta`: of so many coordinates an item is in ``blocks`` noised blocks of its counter.

    Twice, because a report that comes late touches another round than its replacement would.
    """
    return 2 * coordinates * math.ceil(blocks)


def delta_for_gaussian(delta: float, epsilon: float, draws: int) -> float:
    """What is left of ``delta`` for the Gaussian accountant when discrete noise has had its share.

    Raises:
      InvalidInput: nothing is left: ε is so large that discrete noise alone would cost more than δ.
    """
    # One bit less than the grid has: the halves of pan-private noise are √2 finer.
    left = delta - discretization_delta(draws, epsilon, GRID_BITS - 1)
    if left <= 0:
        raise InvalidInput(
            "delta", delta, f"above {delta - left:.3g}, which discrete noise costs at epsilon = {epsilon:g}",
            "promise a smaller epsilon, or a larger delta",
        )  # fmt: skip
    return left


def _discrete_gaussian(scale: float, size: int) -> NDArray[np.int64]:
    dp = _opendp()
    # "i64" by name: OpenDP's default integer has 32 bits and saturates.
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.asarray(dp.m.make_gaussian(*space, scale=scale)(np.zeros(size, dtype=np.int64)), dtype=np.int64)


def _opendp() -> Any:
    dp = require("opendp.prelude", "SecureNoise")
    dp.enable_features("contrib")  # OpenDP's flag for all mechanisms whose proofs are public but not yet vetted
    return dp
