# SPDX-License-Identifier: Apache-2.0
r"""The exact Gaussian accountant: what a Gaussian mechanism of a given strength costs, and the other way round.

A Gaussian mechanism that adds noise of standard deviation σ to something of sensitivity Δ is described by one number,
:math:`\mu=\Delta/\sigma`. Any number of them, each calibrated in advance and run adaptively on the same people, is
together again one Gaussian mechanism, of :math:`\mu^2=\sum_i\mu_i^2`; no composition theorem is lost on the way. All
4H counters of a private agent are therefore accounted for by a single μ, and its privacy curve is (Balle and Wang 2018,
Theorem 8; Dong, Roth and Su 2022, Corollary 1)

.. math:: \delta(\varepsilon)=\Phi(-\varepsilon/\mu+\mu/2)-e^{\varepsilon}\,\Phi(-\varepsilon/\mu-\mu/2).

Formal guarantee. The functions return floating-point numbers that err on the private side of the curve they evaluate:
``delta_of(mu_of(e, d), e) <= d`` and ``delta_of(m, epsilon_of(m, d)) <= d`` hold as stated, in floating point. The
curve itself is evaluated to a relative accuracy of about 1e-12.

Everything here is plain Python on floats: accounting happens once, before a run, and must not hang on JAX's precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from reticent.errors import InvalidInput

# SciPy is imported where it is used: code that only reads a ledger's numbers, as the service's workers do, need not carry
# its 50 MiB.

__all__ = ["compose", "delta_of", "epsilon_of", "group", "mu_of", "zcdp_epsilon", "zcdp_of"]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def delta_of(mu: float, epsilon: float) -> float:
    r"""The least δ for which a Gaussian mechanism of strength ``mu`` is (ε, δ)-DP.

    ``epsilon`` may be 0, which gives the total variation distance between neighbours.

    >>> round(delta_of(1 / 3.73063, 1.0) * 1e5, 4)
    1.0
    """
    return _exp(_log_delta(_check_mu(mu), _check_epsilon(epsilon, allow_zero=True)))


def epsilon_of(mu: float, delta: float) -> float:
    """The least ε ≥ 0 for which a Gaussian mechanism of strength ``mu`` is (ε, ``delta``)-DP.

    >>> round(epsilon_of(0.2681, 1e-5), 3)
    1.0
    """
    mu, delta = _check_mu(mu), _check_delta(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    log_delta = math.log(delta)
    # The curve is decreasing in ε, and the concentrated-DP bound is never below it.
    high = _simple_zcdp_epsilon(zcdp_of(mu), delta)
    found = _root(lambda epsilon: _log_delta(mu, epsilon) - log_delta, 0.0, high)
    return _nudge(found, up=True, accept=lambda epsilon: delta_of(mu, epsilon) <= delta)


def mu_of(epsilon: float, delta: float) -> float:
    r"""The largest μ that is (``epsilon``, ``delta``)-DP: the whole budget of a private agent as one number.

    A single release of sensitivity Δ then needs noise of standard deviation :math:`\Delta/\mu`.

    >>> round(1 / mu_of(1.0, 1e-5), 5)
    3.73063
    """
    epsilon, delta = _check_epsilon(epsilon), _check_delta(delta)
    log_delta = math.log(delta)
    # ρ + 2√(ρ ln 1/δ) = ε solved for √ρ, without the cancellation of √(L+ε) − √L; private by the concentrated-DP bound.
    low = math.sqrt(2.0) * epsilon / (math.sqrt(epsilon - log_delta) + math.sqrt(-log_delta))
    high = 2.0 * low
    while _log_delta(high, epsilon) <= log_delta:
        low, high = high, 2.0 * high
    found = _root(lambda mu: _log_delta(mu, epsilon) - log_delta, low, high)
    return _nudge(found, up=False, accept=lambda mu: delta_of(mu, epsilon) <= delta)


def zcdp_of(mu: float) -> float:
    r"""The zero-concentrated DP parameter :math:`\rho=\mu^2/2` of a Gaussian mechanism (Bun and Steinke 2016).

    The discrete Gaussian on an integer grid satisfies the same ρ exactly (Canonne, Kamath and Steinke 2020, Theorem 4),
    so :func:`zcdp_epsilon` is the accounting for a deployment that accepts no approximation at all.
    """
    return _check_mu(mu) ** 2 / 2.0


def zcdp_epsilon(rho: float, delta: float, *, simple: bool = False) -> float:
    r"""An ε for which ρ-concentrated DP implies (ε, ``delta``)-DP.

    With ``simple`` the bound the paper uses, :math:`\rho+2\sqrt{\rho\ln(1/\delta)}`. Otherwise the least over α > 1 of
    :math:`\alpha\rho+\ln(1-1/\alpha)-\ln(\alpha\delta)/(\alpha-1)` (Canonne, Kamath and Steinke 2020, Proposition 12).
    Each α gives a valid bound, so a minimization that stops early can only return a larger ε.
    """
    if not (math.isfinite(rho) and rho >= 0.0):
        raise InvalidInput("rho", rho, "finite and at least 0", "pass zcdp_of(mu)")
    delta = _check_delta(delta)
    simplest = _simple_zcdp_epsilon(rho, delta)
    if simple or rho == 0.0:
        return simplest

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # α − 1
        alpha = 1.0 + excess
        return alpha * rho + log_excess - math.log(alpha) - (math.log(alpha) + math.log(delta)) / excess

    from scipy.optimize import minimize_scalar

    # √(ln(1/δ)/ρ) minimizes the simple bound; the optimum lies within a few powers of e of it.
    centre = 0.5 * math.log(-math.log(delta) / rho)
    best = minimize_scalar(bound, bounds=(centre - 4.0, centre + 4.0), method="bounded", options={"xatol": 1e-10})
    return max(0.0, min(simplest, float(best.fun)))


def compose(mus: Iterable[float]) -> float:
    r"""The strength :math:`\sqrt{\sum_i\mu_i^2}` of several Gaussian mechanisms run on the same people.

    Formal guarantee. Exact, for mechanisms with independent noise whose μ are fixed in advance, also if each is chosen
    after seeing the outputs of the earlier ones (Dong, Roth and Su 2022, Corollary 2).
    """
    return math.hypot(*(_check_mu(mu) for mu in mus))


def group(mu: float, times: int) -> float:
    r"""The strength against someone who takes part ``times`` times: :math:`g\mu`.

    Changing all g contributions moves the protected quantity by at most the sum of g single moves, so its sensitivity
    is at most gΔ at the same σ. The factor is g and not √g, because the same person's contributions may all point the
    same way, in the same sum. Where no sum holds more than one of a user's items it is √g:
    :mod:`reticent.privacy.participation`.
    """
    if not (isinstance(times, int | np.integer) and times >= 1):
        raise InvalidInput("times", times, "an integer of at least 1", "count how often one user may take part")
    return _check_mu(mu) * int(times)


def _log_delta(mu: float, epsilon: float) -> float:
    r"""ln δ(ε), stable from the far tail to δ near 1.

    With u = ε/μ − μ/2 and v = u + μ, φ(u) = e^ε φ(v); so δ = φ(u)·(R(u) − R(v)) with Mills' ratio R(x) = Φ(−x)/φ(x),
    which is a scaled complementary error function and neither over- nor underflows for x ≥ 0. The difference
    cancels for small μ: there it is taken as the integral of −R'(t) = 1 − t·R(t) from u to v.
    """
    if mu == 0.0:
        return -math.inf
    centre = epsilon / mu
    if centre > 1e100:  # δ is far below the least float, and squares would overflow
        return -math.inf
    lower, upper = centre - mu / 2.0, centre + mu / 2.0
    if lower < -1.0:  # most of the mass is already lost, and μ > 2: the two terms are far apart
        from scipy.special import log_ndtr

        kept = float(log_ndtr(-lower))
        return kept + math.log1p(-_exp(epsilon + float(log_ndtr(-upper)) - kept))
    if mu < 0.5:
        difference = mu / 2.0 * float(_WEIGHTS @ _mills_slope(centre + mu / 2.0 * _NODES))
    else:
        difference = _mills(lower) - _mills(upper)
    if difference <= 0.0:  # only beyond the range of floating point
        return -math.inf
    return -lower * lower / 2.0 - _HALF_LOG_TWO_PI + math.log(difference)


def _mills(x: float) -> float:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2.0) * float(erfcx(x / math.sqrt(2.0)))


def _mills_slope(x: np.ndarray) -> np.ndarray:
    """−R'(x) = 1 − x·R(x) for x > −1; its asymptotic series where the difference would cancel."""
    from scipy.special import erfcx

    near = 1.0 - x * math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))
    inverse = 1.0 / np.maximum(x, 50.0) ** 2
    series = [1.0, -3.0, 15.0, -105.0, 945.0]
    far = inverse * np.polynomial.polynomial.polyval(inverse, series)
    return np.asarray(np.where(x > 50.0, far, near))


def _simple_zcdp_epsilon(rho: float, delta: float) -> float:
    return rho + 2.0 * math.sqrt(-rho * math.log(delta))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """A root in [low, high] of a function that changes sign there; −∞ is cut off so that secant steps make sense."""

    def finite(x: float) -> float:
        return max(function(x), -1e9)

    at_low, at_high = finite(low), finite(high)
    if at_low == 0.0 or at_high == 0.0 or (at_low > 0.0) == (at_high > 0.0):  # rounding: the end nearest to the root
        return low if abs(at_low) <= abs(at_high) else high
    from scipy.optimize import brentq

    return float(brentq(finite, low, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def _nudge(value: float, *, up: bool, accept: Callable[[float], bool]) -> float:
    """Move ``value`` by the first power of two times its rounding error that makes ``accept`` true."""
    step, moved = max(value, 1e-16) * 2.0**-52, value
    while not accept(moved):
        moved, step = value + (step if up else -step), 2.0 * step
    return moved


def _exp(log_value: float) -> float:
    return math.exp(log_value) if log_value < 709.0 else math.inf


def _check_mu(mu: float) -> float:
    if not (math.isfinite(mu) and mu >= 0.0):
        raise InvalidInput("mu", mu, "finite and at least 0", "pass sensitivity / sigma with a positive sigma")
    return float(mu)


def _check_epsilon(epsilon: float, *, allow_zero: bool = False) -> float:
    if not (math.isfinite(epsilon) and (epsilon > 0.0 or (allow_zero and epsilon == 0.0))):
        bound = "finite and at least 0" if allow_zero else "finite and greater than 0"
        raise InvalidInput("epsilon", epsilon, bound, "choose a privacy budget such as 1.0")
    return float(epsilon)


def _check_delta(delta: float) -> float:
    if not 0.0 < delta < 1.0:
        raise InvalidInput("delta", delta, "strictly between 0 and 1", "choose less than one over the number of users")
    return float(delta)
