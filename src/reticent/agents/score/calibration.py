# SPDX-License-Identifier: Apache-2.0
r"""From a promise to the noise on one clipped vector per user.

Vectors lie in the unit ball of :math:`\mathbb R^D`; a user is in one round, whose sum is released once. Replacing them
moves that sum by at most Δ = 2, setting them to zero by Δ = 1, and no other release. With noise of scale σ on every
coordinate the whole run is one Gaussian mechanism of :math:`\mu=\Delta/\sigma`, however many rounds there are and
however they depend on earlier ones (parallel composition, adaptively: Denisov et al. 2022), so
:math:`\sigma=\Delta/\mu(\varepsilon,\delta)` is exact. In the local model the same noise is on every user's own vector.

**Rounding** to a grid g moves two neighbours apart by at most :math:`g\sqrt D` more: every coordinate of either is moved by
less than g, by the same amount of randomness where rounding is random, hence the difference of the two by less than g.

**Late reports.** A vector formed for an earlier round is in the unit ball too. If it arrives in another round than its
replacement would have, the transcript moves by :math:`\sqrt{1+1}\le2` (:mod:`reticent.privacy.late_reports`), so nothing
changes.

**Returning users.** Rounds are noised separately and a round holds at most ``per_round`` of a user's contributions, so g of
them in as many rounds move the transcript by :math:`\Delta\sqrt g` and not by :math:`\Delta g`; late or not
(:mod:`reticent.privacy.participation`). In the local model g reports are g mechanisms of their own: √g as well.

**Shuffled** users round to a coarse grid and hide each other with coins; their noise is binomial
(:mod:`reticent.privacy.accounting.binomial`), on D coordinates instead of the hundreds of a regression.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, Account, GaussianAccount
from reticent.privacy.calibration import Calibrated, Release, coarsest_grid, fewest_coins, least_noise, of_whole_coins
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.counters.counter import Counter
from reticent.privacy.noise import touched_draws
from reticent.privacy.participation import ONCE, Participation
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import Law, Trust


@dataclasses.dataclass(frozen=True)
class VectorNoise(Calibrated):
    """The noise on sums of vectors in the unit ball, and what it promises. Data-independent.

    Attributes:
      dimension: D. sensitivity: Δ, rounding included. scale: σ that is counted on, of every coordinate.
      grid: spacing of the grid; 0 is none.
    """

    trust: Trust
    adjacency: Adjacency
    epsilon: float
    delta: float
    dimension: int
    sensitivity: float
    scale: float
    grid: float = 0.0
    account: Account = GAUSSIAN
    participation: Participation = ONCE

    @property
    def law(self) -> Law:
        return "gaussian" if isinstance(self.account, GaussianAccount) else "binomial"

    @property
    def scale_in_use(self) -> float:
        """Standard deviation of the noise if all users flip their coins; elsewhere that which is counted on."""
        return self.scale * self.account.excess

    def releases(self) -> Sequence[Release]:
        return [Release("vector", 1, self.sensitivity, self.scale, slice(0, self.dimension))]

    def counter_of(self, rounds: int) -> Counter:
        """Rounds by themselves under every trust model: each sum is in coordinates of its own, so they do not add up."""
        return SeparateRounds(rounds)

    def exposure(self, rounds: int) -> NDArray[np.float64]:
        return exposure_of(self.trust, self.participation, np.arange(1, rounds + 1))

    def largest(self, round_ends: NDArray[np.int64]) -> float:
        return math.sqrt(np.diff(round_ends, prepend=0).max()) if self.trust.noised_reports else 1.0


def unit_sensitivity(adjacency: Adjacency) -> float:
    """How far one user moves a sum of vectors of norm at most 1."""
    return 2.0 if adjacency == "replace" else 1.0


def exposure_of(trust: Trust, participation: Participation, rounds: int | np.ndarray) -> np.ndarray:
    """How often the most exposed user is charged after so many rounds: squares of strengths add up."""
    if trust.noised_reports:
        return participation.local_exposure(rounds)
    return participation.separate_exposure(rounds)


def most_exposed(trust: Trust, participation: Participation, rounds: int | None = None) -> float:
    """How often the most exposed user is charged in all; in so many rounds, where there is an end to them."""
    last = participation.contributions * participation.gap
    return float(exposure_of(trust, participation, last if rounds is None else rounds))


def calibrate_vectors(
    dimension: int,
    trust: Trust,
    *,
    adjacency: Adjacency,
    epsilon: float,
    delta: float,
    deployment: bool = False,
    sizes: tuple[int, ...] = (),
    honest: float = 1.0,
    participation: Participation = ONCE,
) -> VectorNoise:
    """The least noise that (ε, δ) allows.

    ``deployment`` accounts for the integer grid of the secure noise; ``sizes`` (of the rounds) and ``honest`` matter to
    shuffled users, only that share of them relied upon; the number of ``sizes``, where given, bounds how often a user
    with this ``participation`` can contribute.

    Raises:
      InvalidInput: a promise that is none, or shuffled users who return.
    """
    exact, root = unit_sensitivity(adjacency), math.sqrt(dimension)
    if trust.wire == "messages":
        if participation != ONCE:
            raise InvalidInput(
                "contributions", participation.contributions, "1 with trust=shuffle",
                "coins are counted for one contribution per user",
            )  # fmt: skip

        def coins(strength: float, grid: float) -> tuple[np.ndarray, np.ndarray]:
            moved = exact + grid * root
            return np.full(dimension, moved / strength), np.full(dimension, moved)

        strength, grid, tossed = fewest_coins(
            coins, coarsest_grid([(exact, root)]), epsilon=epsilon, delta=delta, sizes=sizes, honest=honest
        )
        sensitivity = exact + grid * root
        scale = float(of_whole_coins(sensitivity / strength, grid))
        return VectorNoise(trust, adjacency, epsilon, delta, dimension, sensitivity, scale, grid, tossed)
    charged = math.sqrt(most_exposed(trust, participation, len(sizes) or None))

    def noise(strength: float, grid: float) -> tuple[float, float]:
        moved = exact + grid * root
        return moved, moved / (strength / charged)

    # Every round of a user's has draws that the user touches, each a little farther from a Gaussian's law.
    (sensitivity, scale), grid, account = least_noise(
        noise, lambda found: found[1], epsilon=epsilon, delta=delta,
        draws=touched_draws(dimension, participation.contributions) if deployment else 0,
    )  # fmt: skip
    return VectorNoise(
        trust, adjacency, epsilon, delta, dimension, sensitivity, scale, grid, account, participation
    )  # fmt: skip
