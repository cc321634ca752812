# SPDX-License-Identifier: Apache-2.0
r"""A device trusts no service with its noise: what one report reveals at most, worked out from the published rules.

How strongly a noised contribution tells two users apart, μ, is the form's business
(:meth:`~reticent_wire.forms.form.Form.strength`); it holds whatever model, values and bounds the service sends,
since the form clips to these bounds itself. Here μ becomes ε at a δ.

**Discrete noise** on the rules' own grid is not quite Gaussian, and its share of δ is reserved here: a service that names a
coarse grid is charged for it. With :math:`s_i` the scale of coordinate i in grid steps, N reports are within total
variation :math:`T=\tfrac12\sqrt{\exp(N\sum_i1/143s_i^4)-1}` of rounded Gaussians (the proof of
``reticent.privacy.noise.discretization_delta``, coordinate by coordinate; all :math:`s_i\ge2^{10}`, which is checked), so
that ε holds at δ if :math:`\delta_\mu(\varepsilon)+(1+e^\varepsilon)T\le\delta`.

The accountant is a device's own: bisection over the exact curve of the Gaussian mechanism with the standard library's
``erfc``. The library's (``reticent.privacy.accounting.gaussian``) needs SciPy; tests hold the two to each other.
"""

from __future__ import annotations

import math

from reticent_wire.errors import InvalidInput
from reticent_wire.grid import TAIL, require_exact, require_fine
from reticent_wire.model import Model

SLACK = 1e-6
"""Relative excess over a demanded ε that passes: rounding of two accountants, not a matter of privacy."""

LARGEST_EXPONENT = 700.0
"""e to this power is a floating-point number."""


def require_promise(model: Model, epsilon: float | None, delta: float, reports: int = 1) -> None:
    """Refuse rules under which so many ``reports`` could reveal more than (``epsilon``, ``delta``); None: any noise.

    Also refused is a grid on which the discrete noise would not be what it is accounted as, or sums not exact.

    Raises:
      InvalidInput: they promise less; nothing has been sent.
    """
    rules = model.rules
    require_fine(rules.noise_scale, rules.grid)
    if epsilon is None:
        strongest, wanted = rules.form.strength(model.sizes, rules), "finite"
        limit = math.inf
    else:
        strongest, wanted = report_epsilon(model, delta, reports), f"at most {epsilon:g} at δ = {delta:g}"
        limit = epsilon * (1 + SLACK)
    if not (math.isfinite(strongest) and strongest <= limit):
        whose = "a report" if reports == 1 else f"{reports} reports"
        raise InvalidInput(
            f"ε of {whose} under the service's rules", f"{strongest:.4g}", wanted,
            "do not send; the service asks for less noise than it was trusted to",
        )  # fmt: skip
    require_exact((rules.form.largest(model.sizes, rules.bounds) + TAIL * rules.noise_scale) / rules.grid)


def report_epsilon(model: Model, delta: float, reports: int = 1) -> float:
    """The ε of a user's ``reports`` at ``delta``, between any two users; infinite if a number that can differ has no noise.

    Each has noise of its own, so that their strengths add up in squares. What discrete noise takes of δ is in it.
    """
    mu = math.sqrt(reports) * model.rules.form.strength(model.sizes, model.rules)
    return epsilon_of(mu, delta, discrete_distance(model, reports))


def discrete_distance(model: Model, reports: int = 1) -> float:
    """T of the module docstring: how far the noise of ``reports`` on the rules' grid may be from rounded Gaussian noise."""
    scales = model.rules.noise_scale[model.rules.noise_scale > 0] / model.rules.grid
    exponent = reports * float((1 / (143 * scales**4)).sum())
    return 0.5 * math.sqrt(math.expm1(exponent)) if exponent < 1 else 1.0


def epsilon_of(mu: float, delta: float, distance: float = 0.0) -> float:
    r"""The least ε for which noise at total variation ``distance`` T from a Gaussian mechanism of strength ``mu`` is
    (ε, ``delta``)-DP, by bisection from above; infinite if there is none.

    :math:`f(\varepsilon)=\delta_\mu(\varepsilon)+(1+e^\varepsilon)T` has the derivative
    :math:`e^\varepsilon(T-\bar\Phi(\varepsilon/\mu+\mu/2))`: it falls until that tail is T, and rises ever after. So the
    first ε with f ≤ δ lies before that point or nowhere.
    """
    if not math.isfinite(mu):
        return math.inf
    if mu == 0:
        return 0.0

    def enough(epsilon: float) -> bool:
        return _delta_of(mu, epsilon) + _reserve(distance, epsilon) <= delta

    def reached(epsilon: float) -> bool:
        return enough(epsilon) or 0 < distance >= _upper_tail(epsilon / mu + mu / 2)

    if enough(0.0):
        return 0.0
    # Concentrated DP is never below the exact curve, so it is where the search starts.
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    while not reached(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high if enough(high) else math.inf


def _reserve(distance: float, epsilon: float) -> float:
    """(1 + e^ε)T, which exchanging one law of noise for another at distance T takes of δ."""
    if distance == 0:
        return 0.0
    return (1 + math.exp(epsilon)) * distance if epsilon < LARGEST_EXPONENT else math.inf


def _delta_of(mu: float, epsilon: float) -> float:
    """δ(ε) of the Gaussian mechanism. The second term has a huge factor and a tiny tail, so their logarithms meet first."""
    first = _upper_tail(epsilon / mu - mu / 2)
    tail = _upper_tail(epsilon / mu + mu / 2)
    return first - (math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0)


def _upper_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2
