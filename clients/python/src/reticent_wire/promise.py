# SPDX-License-Identifier: Apache-2.0
r"""A device trusts nobody with its noise: what one report reveals at most, worked out here from the rules it would follow.

How strongly a noised contribution tells two users apart, μ, is the form's business
(:meth:`~reticent_wire.forms.form.Form.strength`); it holds whatever model, values and bounds the service sends,
since the form clips to these bounds itself. Here μ becomes ε at a δ.

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


def require_promise(model: Model, epsilon: float | None, delta: float, reports: int = 1) -> None:
    """Refuse rules under which so many ``reports`` could reveal more than (``epsilon``, ``delta``); None: any noise.

    Also refused is a grid on which the discrete noise would not be what it is accounted as, or sums not exact.

    Raises:
      InvalidInput: they promise less; nothing has been sent.
    """
    strongest = report_epsilon(model, delta, reports)
    limit = math.inf if epsilon is None else epsilon * (1 + SLACK)
    if not (math.isfinite(strongest) and strongest <= limit):
        wanted = "finite" if epsilon is None else f"at most {epsilon:g} at δ = {delta:g}"
        raise InvalidInput(
            "ε of a report under the service's rules", f"{strongest:.4g}", wanted,
            "do not send; the service asks for less noise than it was trusted to",
        )  # fmt: skip
    rules = model.rules
    require_fine(rules.noise_scale, rules.grid)
    require_exact((rules.form.largest(model.sizes, rules.bounds) + TAIL * rules.noise_scale) / rules.grid)


def report_epsilon(model: Model, delta: float, reports: int = 1) -> float:
    """The ε of a user's ``reports`` at ``delta``, between any two users; infinite if a number that can differ has no noise.

    Each has noise of its own, so that their strengths add up in squares.
    """
    return epsilon_of(math.sqrt(reports) * model.rules.form.strength(model.sizes, model.rules), delta)


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
