# SPDX-License-Identifier: Apache-2.0
r"""How large the noise is: exact quantiles of the operator norm of a noise matrix and of the length of a noise vector.

A privatizer must know a number that the noise in a released Gram matrix exceeds only with small probability. Noise of
unit variance on a packed matrix (:func:`reticent.privacy.sensitivity.pack_symmetric`) unpacks to a symmetric M with
variance 1 on the diagonal and 1/2 off it: the Gaussian orthogonal ensemble with density proportional to
:math:`\exp(-\operatorname{tr}M^2/2)`, whose spectrum is known exactly. With the orthonormal Hermite functions
:math:`\varphi_j` its expected eigenvalue density is (Mehta, *Random Matrices*, chapter 7)

.. math::
   \rho_d(x)=\sum_{j<d}\varphi_j(x)^2
   +\sqrt{\tfrac d2}\,\varphi_{d-1}(x)\int\tfrac12\operatorname{sgn}(x-t)\,\varphi_d(t)\,dt
   +[d\text{ odd}]\,\frac{\varphi_{d-1}(x)}{\int\varphi_{d-1}(t)\,dt}.

The spectrum is symmetric about 0, so by Markov's inequality for the number of eigenvalues beyond ±x

.. math:: P(\|M\|_{op}>x)\le 2\int_x^\infty\rho_d(t)\,dt,

with equality for d = 1. It counts a matrix twice only if two eigenvalues are beyond x, which is rare where it matters:
the bound is asymptotically exact for small probabilities.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfc
from scipy.stats import chi

from reticent.errors import InvalidInput

__all__ = [
    "chi_quantile",
    "eigenvalue_density",
    "eigenvalues_beyond",
    "lemma_chi",
    "lemma_operator_norm",
    "operator_norm_bound",
    "operator_norm_quantile",
]

EXACT_DIMENSION = 256
"""Up to here the density is evaluated; e^{−x²/2} is far from underflow wherever it contributes."""

_PANELS = 48
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@functools.lru_cache(maxsize=4096)
def operator_norm_quantile(dimension: int, probability: float) -> float:
    r"""A number that :math:`\|M\|_{op}` exceeds with at most the given probability, M as in the module docstring.

    It is the least x with :math:`2\int_x^\infty\rho_d\le p` (up to 1e-12, upwards), and :func:`operator_norm_bound` for
    dimensions above 256. For noise of scale σ multiply by σ.

    Formal guarantee. :math:`P(\|M\|_{op}>x)\le p`. The slack is the chance of two eigenvalues beyond x at once, some
    2% of p at p = 0.1 and below 1% of it from p = 1e-2 on (simulated for d up to 8).

    >>> round(operator_norm_quantile(1, 0.05), 4)  # the two-sided normal quantile
    1.96
    """
    _check(dimension, probability)
    ceiling = operator_norm_bound(dimension, probability)
    if dimension > EXACT_DIMENSION:
        return ceiling
    # At 0 half of the d eigenvalues lie beyond x, so the function is d − p > 0 there.
    root = float(brentq(lambda x: 2.0 * eigenvalues_beyond(dimension, x) - probability, 0.0, ceiling, xtol=1e-13))
    return min(root * (1.0 + 1e-12), ceiling)


def operator_norm_bound(dimension: int, probability: float) -> float:
    r"""The bound :math:`\sqrt{2d}+\sqrt{2\ln(2/p)}` on the same quantile, for any dimension.

    Proof. :math:`X_u=u^\top Mu` has increments :math:`E(X_u-X_{u'})^2=\|uu^\top-u'u'^\top\|_F^2=2-2c^2` with
    :math:`c=u\cdot u'`, and :math:`2-2c^2\le4-4c`, which is that of :math:`\sqrt2\,g\cdot u` for a standard Gaussian g.
    By the Sudakov-Fernique inequality :math:`E\lambda_{max}\le\sqrt2\,E\|g\|\le\sqrt{2d}`. The largest eigenvalue is
    1-Lipschitz in the Frobenius norm, in which M is standard, so it exceeds its mean by t with probability at most
    :math:`e^{-t^2/2}`; the smallest likewise. ∎
    """
    _check(dimension, probability)
    return math.sqrt(2.0 * dimension) + math.sqrt(2.0 * math.log(2.0 / probability))


def lemma_operator_norm(dimension: int, sigma: float, probability: float) -> float:
    r"""The paper's lemma: :math:`4\sigma\sqrt n+2t` with :math:`t=\sigma\sqrt{2\ln(2/p)}`.

    It is stated for independent noise of scale σ on and above the diagonal, *without* the √2 of packing; applied to the
    paper's counters with :math:`p=\alpha/(4KH)` it gives :math:`\Sigma_{p,1}`.
    """
    _check(dimension, probability)
    if not (math.isfinite(sigma) and sigma >= 0.0):
        raise InvalidInput("sigma", sigma, "finite and at least 0", "pass the noise's standard deviation")
    return sigma * (4.0 * math.sqrt(dimension) + 2.0 * math.sqrt(2.0 * math.log(2.0 / probability)))


def chi_quantile(dimension: int, probability: float) -> float:
    """The number that the norm of a standard Gaussian vector exceeds with exactly the given probability."""
    _check(dimension, probability)
    return float(chi.isf(probability, dimension))


def lemma_chi(dimension: int, probability: float) -> float:
    r"""The paper's bound :math:`\sqrt d+\sqrt{2\ln(1/p)}` on :func:`chi_quantile` (Laurent and Massart 2000)."""
    _check(dimension, probability)
    return math.sqrt(dimension) + math.sqrt(2.0 * math.log(1.0 / probability))


def eigenvalue_density(dimension: int, x: np.ndarray) -> np.ndarray:
    r"""The expected density :math:`\rho_d(x)` of eigenvalues of M; it integrates to d.

    The Hermite functions and their upper integrals :math:`T_n(x)=\int_x^\infty\varphi_n` follow two-term recurrences.
    Beyond the largest zero every term of the second one is positive and the first follows its growing solution, so
    nothing cancels in the tail; the density is led there by :math:`\varphi_{d-1}(x)` times a constant.
    """
    x = np.abs(np.asarray(x, dtype=np.float64))  # the density is even, and the recurrences are best on this side
    functions = [math.pi**-0.25 * np.exp(-x * x / 2.0)]
    tails = [math.pi**-0.25 * math.sqrt(math.pi / 2.0) * erfc(x / math.sqrt(2.0))]
    functions.append(math.sqrt(2.0) * x * functions[0])
    tails.append(math.sqrt(2.0) * functions[0])
    for n in range(1, dimension):
        functions.append((math.sqrt(2.0) * x * functions[n] - math.sqrt(n) * functions[n - 1]) / math.sqrt(n + 1.0))
        tails.append((math.sqrt(2.0) * functions[n] + math.sqrt(n) * tails[n - 1]) / math.sqrt(n + 1.0))
    # ∫φ over the line: zero for odd n, and a product of √((k−1)/k) over even k for even n.
    even = dimension if dimension % 2 == 0 else dimension - 1
    whole = math.pi**0.25 * math.sqrt(2.0) * math.prod(math.sqrt((k - 1.0) / k) for k in range(2, even + 1, 2))
    last = functions[dimension - 1]
    density: np.ndarray = np.square(functions[:dimension]).sum(axis=0)
    if dimension % 2 == 0:
        density += math.sqrt(dimension / 2.0) * last * (whole / 2.0 - tails[dimension])
    else:
        density += last / whole - math.sqrt(dimension / 2.0) * last * tails[dimension]
    return density


def eigenvalues_beyond(dimension: int, x: float) -> float:
    r""":math:`\int_x^\infty\rho_d(t)\,dt`, the expected number of eigenvalues above x ≥ 0, by Gauss-Legendre panels."""
    # 14 beyond the edge the density is below e^{-98}; panels are shorter than its fastest oscillation, ~π/√(2d).
    edges = np.linspace(x, max(x, math.sqrt(2.0 * dimension)) + 14.0, _PANELS + 1)
    half = np.diff(edges) / 2.0
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    return float((half[:, None] * _WEIGHTS * eigenvalue_density(dimension, nodes)).sum())


def _check(dimension: int, probability: float) -> None:
    if not (isinstance(dimension, int | np.integer) and dimension >= 1):
        raise InvalidInput("dimension", dimension, "an integer of at least 1", "pass the number of features")
    if not 0.0 < probability < 1.0:
        raise InvalidInput("probability", probability, "strictly between 0 and 1", "pass the allowed chance of failure")
