r"""A device trusts nobody with its noise: what one report reveals at most, worked out here from the rules it would follow.

A report is one Gaussian release per regression and step: the pair [xxᵀ, x·v] with ‖x‖ ≤ L and |v| ≤ V. If the matrix has
noise σ and the vector σ/w, two users differ by at most Δ(L, V, w) (proof:
:func:`reticent.privacy.sensitivity.joint_sensitivity`) plus :math:`g\sqrt{\cdot}` for the rounding to the grid g, and
releases compose as :math:`\mu^2=\sum(\Delta/\sigma)^2`. All bounds are enforced by :mod:`reticent.client.report`, so the
result holds whatever model, values and bounds the service sends.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.client.published import Model
from reticent.errors import InvalidInput

SLACK = 1e-6
"""Relative excess over a demanded ε that passes: rounding of two accountants, not a matter of privacy."""


def require_promise(model: Model, epsilon: float | None, delta: float) -> None:
    """Refuse rules under which a report could reveal more than (``epsilon``, ``delta``); None asks for any noise at all.

    Raises:
      InvalidInput: they promise less; nothing has been sent.
    """
    found = report_epsilon(model, delta)
    limit = math.inf if epsilon is None else epsilon * (1 + SLACK)
    if not (math.isfinite(found) and found <= limit):
        wanted = "finite" if epsilon is None else f"at most {epsilon:g} at δ = {delta:g}"
        raise InvalidInput(
            "ε of a report under the service's rules", f"{found:.4g}", wanted,
            "do not send; the service asks for less noise than it was trusted to",
        )  # fmt: skip


def report_epsilon(model: Model, delta: float) -> float:
    """The ε of one report at ``delta``, between any two users; infinite if a number that can differ has no noise."""
    rules, d1, d2 = model.rules, model.d1, model.d2
    ends = np.cumsum([d1 * (d1 + 1) // 2, d1, d2 * (d2 + 1) // 2])
    square = 0.0
    for step in range(model.horizon):
        gram_p, moment_p, gram_r, moment_r = (float(part.min()) for part in np.split(rules.noise_scale[step], ends))
        reach = max(abs(float(rules.target_low[step])), abs(float(rules.target_high[step])))
        square += _strength(float(rules.feature_bound[step]), reach, gram_p, moment_p, d1, rules.grid) ** 2
        square += _strength(1.0, 1.0, gram_r, moment_r, d2, rules.grid, rules.nonnegative_rewards) ** 2
    return epsilon_of(math.sqrt(square), delta)


def epsilon_of(mu: float, delta: float) -> float:
    """The least ε for which a Gaussian mechanism of strength ``mu`` is (ε, ``delta``)-DP, by bisection from above."""
    if not math.isfinite(mu):
        return math.inf
    if mu == 0 or _delta_of(mu, 0.0) <= delta:
        return 0.0
    # Concentrated DP is never below the exact curve, so it is where the search starts.
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if _delta_of(mu, middle) <= delta else (middle, high)
    return high


def _delta_of(mu: float, epsilon: float) -> float:
    """δ(ε) of the Gaussian mechanism. The second term has a huge factor and a tiny tail, so their logarithms meet first."""
    first = _upper_tail(epsilon / mu - mu / 2)
    tail = _upper_tail(epsilon / mu + mu / 2)
    return first - (math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0)


def _upper_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def _strength(
    bound: float, target: float, gram: float, moment: float, dimension: int, grid: float, nonnegative: bool = False
) -> float:
    """μ of one regression at one step; ``gram`` and ``moment`` are the least noise scales of its two parts."""
    if bound == 0:  # features clipped to nothing: matrix and vector are zero for every user
        return 0.0
    if not (bound > 0 and gram > 0 and moment > 0 and math.isfinite(bound + target)):
        return math.inf
    weight = gram / moment
    ratio = (weight * target / bound) ** 2
    if nonnegative:
        distance = math.sqrt(2) * bound**2 * math.sqrt(1 + ratio)
    elif ratio <= 2:
        distance = math.sqrt(2) * bound**2 * (1 + ratio / 2)
    else:
        distance = 2 * bound**2 * math.sqrt(ratio)
    rounding = grid * math.sqrt(dimension * (dimension + 1) // 2 + weight**2 * dimension)
    return (distance + rounding) / gram
