# SPDX-License-Identifier: Apache-2.0
r"""Noise in proportion to a smooth bound on the local sensitivity (Nissim, Raskhodnikova and Smith 2007).

A function f of the data whose sensitivity is large for odd data sets only may be released with less noise on good ones.
Let S be a *β-smooth* bound: :math:`\|f(X)-f(X')\|\le S(X)` and :math:`S(X)\le e^\beta S(X')` for all neighbours. Publish

.. math:: f(X)+\kappa\,S(X)\,\eta,\qquad\eta\sim N(0,I_d),

and nothing else; S(X) itself is a function of raw data and must not be shown.

**Theorem.** With :math:`\varepsilon=\varepsilon_1+\varepsilon_2` and :math:`\delta=\delta_1+e^{\varepsilon_1}\delta_2`
this is (ε, δ)-DP if :math:`1/\kappa\le\mu(\varepsilon_1,\delta_1)`, the μ of the exact Gaussian mechanism, and if
:math:`N(0,I_d)` and :math:`N(0,e^{2\beta}I_d)` are :math:`(\varepsilon_2,\delta_2)`-indistinguishable in both directions.

*Proof.* Move from X to X' in two steps. First the centre, by at most S(X) in noise of scale κS(X): a Gaussian mechanism of
:math:`\mu\le1/\kappa`. Then the scale, by a factor between :math:`e^{-\beta}` and :math:`e^\beta`; the hockey-stick
divergence of two centred Gaussians grows with the ratio of their scales. Chaining
:math:`P_1\le e^{\varepsilon_1}P_2+\delta_1` and :math:`P_2\le e^{\varepsilon_2}P_3+\delta_2` gives the claim. ∎

Both conditions are solved exactly here, the second by the χ² distribution of :math:`\|\eta\|^2`. Lemma 2.7 of Nissim et
al. is this with tail bounds, :math:`\kappa=5\sqrt{2\ln(2/\delta)}/\varepsilon` and :math:`\beta=\varepsilon/(4(d+\ln(2/
\delta)))`: 3.4 times our κ and two thirds of our β at ε = 1, δ = 1e-5, d = 4.
"""

from __future__ import annotations

import dataclasses
import math

from scipy.optimize import brentq
from scipy.stats import chi2

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.guarantee import check_promise

__all__ = ["SmoothNoise", "dilation_delta", "smooth_noise"]


@dataclasses.dataclass(frozen=True)
class SmoothNoise:
    """β, how fast a smooth bound may change from neighbour to neighbour, and κ, the noise per unit of it."""

    beta: float
    multiplier: float


def dilation_delta(beta: float, epsilon: float, dimension: int) -> float:
    r"""The least δ for which :math:`N(0,I_d)` and :math:`N(0,e^{2\beta}I_d)` are (ε, δ)-indistinguishable, both ways.

    The log-likelihood ratio of the narrow to the wide one at distance r is
    :math:`d\beta-\tfrac12r^2(1-e^{-2\beta})`, so that each side's worst set is a ball or the outside of one.
    """
    if beta <= 0:
        return 0.0
    squeeze = -math.expm1(-2 * beta)
    inside = 2 * (dimension * beta - epsilon) / squeeze
    narrow = 0.0
    if inside > 0:
        narrow = chi2.cdf(inside, dimension) - math.exp(epsilon) * chi2.cdf(inside * math.exp(-2 * beta), dimension)
    outside = 2 * (dimension * beta + epsilon) / squeeze
    wide = chi2.sf(outside * math.exp(-2 * beta), dimension) - math.exp(epsilon) * chi2.sf(outside, dimension)
    return max(float(narrow), float(wide), 0.0)


def smooth_noise(epsilon: float, delta: float, dimension: int) -> SmoothNoise:
    """β and κ of the theorem for a vector of this dimension: half of ε and of δ for the centre, half for the scale.

    >>> found = smooth_noise(1.0, 1e-5, 4)
    >>> round(found.multiplier, 2), round(found.beta, 4)
    (7.35, 0.0236)
    """
    check_promise(epsilon, delta)
    if dimension < 1:
        raise InvalidInput("dimension", dimension, "at least 1", "pass the number of released coordinates")
    half, allowed = epsilon / 2, delta / 2 * math.exp(-epsilon / 2)
    high = 1e-3
    while dilation_delta(high, half, dimension) <= allowed:
        high *= 2
    found = float(brentq(lambda beta: dilation_delta(beta, half, dimension) - allowed, 0.0, high, xtol=1e-14))
    while dilation_delta(found, half, dimension) > allowed:  # a root is found from either side; err on this one
        found *= 1 - 1e-9
    return SmoothNoise(found, 1 / mu_of(half, delta / 2))
