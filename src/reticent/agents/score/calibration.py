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

import numpy as np

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, Account, GaussianAccount
from reticent.privacy.accounting.binomial import TAIL_SHARE, BinomialAccount, account_of
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.counters.counter import Counter
from reticent.privacy.guarantee import DeclaredGroup, Guarantee, check_promise, noisy_sums
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.noise import grid_for, touched_draws
from reticent.privacy.participation import ONCE, Participation
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import Law, Trust
from reticent_wire.shuffling import coin_excess, coins_for

ROUNDING = 0.1
"""The most by which a shuffled user's rounding may raise the sensitivity; halving it quadruples the messages."""

REMAINDER = 0.02
"""The most that the binomial account's remainder may take of ε; a finer grid is taken otherwise."""


@dataclasses.dataclass(frozen=True)
class VectorNoise:
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

    def counter(self, rounds: int) -> Counter:
        """Rounds by themselves under every trust model: each sum is in coordinates of its own, so they do not add up."""
        return SeparateRounds(rounds)

    def guarantee(self, round_ends: np.ndarray, settings: dict[str, object], honest: float = 1.0) -> Guarantee:
        """What a run promises that releases after these numbers of users."""
        counter = self.counter(len(round_ends))
        share = CounterShare("vector", 1, self.sensitivity, self.scale)
        charged = exposure_of(self.trust, self.participation, np.arange(1, len(round_ends) + 1))
        ledger = Ledger.of(
            [share], self.trust.released_by(counter), charged, round_ends,
            epsilon=self.epsilon, delta=self.delta, account=self.account,
        )  # fmt: skip
        users = np.diff(round_ends, prepend=0)
        largest = math.sqrt(users.max()) if self.trust.noised_reports else 1.0
        return Guarantee(
            trust=self.trust,
            adjacency=self.adjacency,
            epsilon=self.epsilon,
            delta=self.delta,
            ledger=ledger,
            sums=noisy_sums([share], self.account.excess * largest),
            groups=(DeclaredGroup("vector", 1, slice(0, self.dimension), self.sensitivity),),
            reliance=self.trust.reliance(honest),
            settings=settings,
            participation=self.participation,
        )


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
    check_promise(epsilon, delta)
    exact = unit_sensitivity(adjacency)
    if trust.wire == "messages":
        if participation != ONCE:
            raise InvalidInput(
                "contributions", participation.contributions, "1 with trust=shuffle",
                "coins are counted for one contribution per user",
            )  # fmt: skip
        return _shuffled(dimension, trust, adjacency, epsilon, delta, sizes, honest)
    # Every round of theirs has draws that they touch, each a little farther from a Gaussian's law.
    touched = touched_draws(dimension, participation.contributions)
    account = GaussianAccount(draws=touched) if deployment else GAUSSIAN
    mu = account.strength_of(epsilon, delta) / math.sqrt(most_exposed(trust, participation, len(sizes) or None))
    grid = grid_for(exact / mu) if deployment else 0.0
    sensitivity = exact + grid * math.sqrt(dimension)
    return VectorNoise(
        trust, adjacency, epsilon, delta, dimension, sensitivity, sensitivity / mu, grid, account, participation
    )


def _shuffled(
    dimension: int,
    trust: Trust,
    adjacency: Adjacency,
    epsilon: float,
    delta: float,
    sizes: tuple[int, ...],
    honest: float,
) -> VectorNoise:
    """The fewest coins on the coarsest grid that costs little; the order is that of the linear learners' calibration."""
    exact, tail = unit_sensitivity(adjacency), TAIL_SHARE * delta
    grid = 2.0 ** math.floor(math.log2(ROUNDING * exact / math.sqrt(dimension)))
    while True:
        sensitivity = exact + grid * math.sqrt(dimension)
        free = BinomialAccount(tail, 0.0).strength_of(epsilon, delta)
        account = _account(dimension, sensitivity, sensitivity / free, grid, tail)
        if account is not None and account.slope * free <= REMAINDER * epsilon:
            break
        grid /= 2
    coins = int(coins_for(sensitivity / account.strength_of(epsilon, delta), grid))
    excess = math.sqrt(coin_excess(sizes, coins, honest))
    return VectorNoise(
        trust, adjacency, epsilon, delta, dimension, sensitivity, grid * math.sqrt(coins) / 2, grid,
        dataclasses.replace(account, excess=excess),
    )  # fmt: skip


def _account(dimension: int, sensitivity: float, sigma: float, grid: float, tail: float) -> BinomialAccount | None:
    """The account of coins that spread by ``sigma``; None if they are too few for the theorem."""
    coins = np.full(dimension, int(coins_for(sigma, grid)))
    try:
        return account_of(coins, np.full(dimension, sensitivity / grid), tail)
    except InvalidInput:
        return None
