# SPDX-License-Identifier: Apache-2.0
r"""The theorem of docs/theory/elimination.md with every constant.

With probability at least 1 − p, for an oracle that returns a point of C of at least the largest value minus ω,

.. math::

    \text{Regret}\le 2mn_0H+(3+2\sqrt m)\big[18s\sqrt{2\ell mK}+4m(E+1)\sigma\varpi\sqrt{2\ell}+12\beta K\big]+\omega K,

where m bounds how often models are caught (Lemma 3), ℓ = ln(4K/p), ϖ = R_e + RW and E is the last epoch. Under local
privacy :math:`s^2+\sigma^2\varpi^2` stands in the place of s², and σ = 0 in the additive term (Corollary 3). No bound is
claimed where the oracle leaves C.
"""

from __future__ import annotations

import dataclasses
import math

from reticent.agents.linear_mixture.bounds import Bound
from reticent.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Constants:
    """What the bound depends on besides K, p, noise and bias; worst cases over plans.

    Attributes:
      horizon: H. dimension: D. diameter: W. radius: R. error_radius: R_e.
      variance: s², the sub-Gaussian parameter of one user (Lemma 1).
      ratio: Q/K, a bound on ‖X‖²/s² for every plan with that plan's own s (Lemma 3).
    """

    horizon: int
    dimension: int
    diameter: float
    radius: float
    error_radius: float
    variance: float
    ratio: float

    @classmethod
    def paper(cls, horizon: int, d1: int, d2: int) -> Constants:
        """Of the paper's Assumption 1: every step has parameters of its own, users begin in one state."""
        radius = math.sqrt(d1 * horizon**3 / 3 + horizon)
        variance = certain_variance(horizon, fixed_start=True)
        diameter = 2 * math.sqrt(horizon * (d1 + d2))
        return cls(horizon, horizon * (d1 + d2), diameter, radius, horizon / 2, variance, 4.0 * d1)

    @classmethod
    def blend(
        cls,
        horizon: int,
        d1: int,
        d2: int,
        *,
        pooled: bool,
        fixed_start: bool = True,
        reward_span: float = 1.0,
    ) -> Constants:
        """Of weights on simplices, one for all steps if ``pooled``; mean rewards are in [0, 1].

        ``reward_span`` is the largest difference of two reward tables at a pair; d2 = 1 stands for known rewards too.
        """
        groups = 1 if pooled else horizon
        moving = 0 if horizon == 1 else (1 if pooled else horizon - 1)
        squared = 2 * moving * (d1 > 1) + 2 * groups * (d2 > 1)
        steps = [
            math.hypot(math.sqrt(d1) * (horizon - h) / 2 * (d1 > 1), math.sqrt(d2) * reward_span / 2 * (d2 > 1))
            for h in range(1, horizon + 1)
        ]
        radius = sum(steps) if pooled else math.sqrt(sum(step**2 for step in steps))
        ratio = float(max(d1, d2) * (horizon if pooled else 1))
        return cls(
            horizon, moving * (d1 - 1) + groups * (d2 - 1), math.sqrt(squared), radius,
            horizon / 2 if fixed_start else float(horizon), certain_variance(horizon, fixed_start), ratio,
        )  # fmt: skip

    @property
    def noise_factor(self) -> float:
        """ϖ: the noise of a constraint is at most σϖ/n."""
        return self.error_radius + self.radius * self.diameter


@dataclasses.dataclass(frozen=True)
class Noise:
    """σ on every coordinate of a sum, or of every report where reports are noised; and the variance that a user's own
    rounding adds to a coordinate."""

    scale: float
    on_reports: bool = False
    rounding: float = 0.0

    def per_user(self, factor: float) -> float:
        """What noise adds to the variance s² of one user, ϖ being ``factor``."""
        return ((self.scale**2 if self.on_reports else 0.0) + self.rounding) * factor**2

    def once(self, factor: float) -> float:
        """The standard deviation σϖ of the noise that a round carries once."""
        return 0.0 if self.on_reports else self.scale * factor


NO_NOISE = Noise(0.0)

APPROXIMATE = (
    "The planning oracle in use is approximate: what it misses of the maximum comes on top for every user, and no bound is "
    "claimed where it serves a model outside the constraints of earlier catches."
)


def certain_variance(horizon: int, fixed_start: bool) -> float:
    """s² of Lemma 1 in the worst case: H(H+1)(2H+1)/24, and H² at least where first states vary."""
    steps = horizon * (horizon + 1) * (2 * horizon + 1) / 24
    return steps if fixed_start else max(steps, float(horizon**2))


def confidence_level(episodes: int, failure: float) -> float:
    """ℓ = ln(4K/p)."""
    if not 0 < failure < 1:
        raise InvalidInput("failure", failure, "in (0, 1)", "use 0.05 if in doubt")
    return math.log(4 * episodes / failure)


def catches(constants: Constants, episodes: int, level: float, slack: float = 1.0) -> int:
    """m of Lemma 3: models are caught less often than that, over all rounds of a run.

    ``slack`` is χ: the oracle's models meet the constraints of earlier catches up to χ of their widths.

    >>> catches(Constants.blend(3, 2, 2, pooled=True), 1000, confidence_level(1000, 0.05))
    12
    """
    root = math.sqrt(2 * level)
    longest = math.sqrt(episodes * constants.ratio) / root
    longest += (math.sqrt(constants.dimension) + root) / (constants.diameter * root)
    return least_count(constants.dimension, longest * constants.diameter / (1 + slack))


def least_count(dimension: int, length: float) -> int:
    """The least m with ln C(2m, m) > D ln(1 + m·length²/D), which is (3) for length = ZW/(1 + χ)."""
    count, product = 1, math.log(2)
    while product <= dimension * math.log1p(count * length**2 / dimension):
        product += math.log(2 * (2 * count + 1) / (count + 1))
        count += 1
    return count


def threshold(most: int, slack: float = 1.0) -> float:
    """κ = 1 + (1 + χ)√m: how many of its own errors a test must exceed (Lemma 3)."""
    return 1 + (1 + slack) * math.sqrt(most)


def width(constants: Constants, noise: Noise, users: float, level: float, bias: float = 0.0) -> float:
    """b(n) of (2)."""
    per_user = constants.variance + noise.per_user(constants.noise_factor)
    once = noise.once(constants.noise_factor)
    return bias + math.sqrt(2 * level * (per_user / users + (once / users) ** 2))


def first_size(constants: Constants, noise: Noise, episodes: int, level: float, most: int, bias: float = 0.0) -> int:
    """n₀: the least power of two with κ·b(n₀) ≤ H, at most K; smaller tests can catch nothing."""
    room = constants.horizon / threshold(most) - bias
    if room <= 0:
        return episodes
    users = 1
    while users < episodes and width(constants, noise, users, level) > room:
        users *= 2
    return min(users, episodes)


def regret_bound(
    constants: Constants,
    noise: Noise,
    users: int,
    *,
    first: int,
    failure: float,
    bias: float = 0.0,
    planned: int | None = None,
    exact: bool = True,
) -> Bound:
    """(4) after ``users`` users of a run that was made for ``planned``, by default as many.

    >>> regret_bound(Constants.paper(5, 4, 4), NO_NOISE, 1000, first=1, failure=0.05).vacuous
    True
    """
    episodes = planned or users
    level = confidence_level(episodes, failure)
    most, root = catches(constants, episodes, level), math.sqrt(2 * level)
    epochs = 1 + max(0.0, math.log2(users / (most * first)))
    variance = constants.variance + noise.per_user(constants.noise_factor)
    factor = 3 + 2 * math.sqrt(most)
    terms = {
        "first rounds": 2.0 * most * first * constants.horizon,
        "sampling": factor * 18 * root * math.sqrt(variance * most * users),
        "privacy": factor * 4 * most * (epochs + 1) * noise.once(constants.noise_factor) * root,
        "bias": factor * 12 * bias * users,
    }
    caveats = () if exact else (APPROXIMATE,)
    return Bound("Elimination theorem", terms, constants.horizon, users, 1 - failure, caveats)
