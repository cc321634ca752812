# SPDX-License-Identifier: Apache-2.0
r"""From what a family releases to noise, ledger and guarantee: the part that is the same for all families.

A family states its *releases* (:class:`Release`): which sums of which step leave, how far one user moves each, and the
noise on them that a given strength asks for. From that follow

* the noise. :func:`least_noise` spends all that (ε, δ) allows on Gaussian noise, continuous or, in a deployment, on an
  integer grid whose rounding and discrete noise are paid for. :func:`fewest_coins` does the same for shuffled users;
* the ledger and the guarantee (:class:`Calibrated`), with the groups that the audit holds the code to.

Formal guarantee. Everything here is a function of public numbers. A ledger refuses a plan that costs more than it promises
(:mod:`reticent.privacy.ledger`), so that noise of a wrong strength is no guarantee of a wrong promise: there is none.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.account import Account, GaussianAccount
from reticent.privacy.accounting.binomial import TAIL_SHARE, BinomialAccount, account_of
from reticent.privacy.counters import make_counter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.guarantee import DeclaredGroup, Guarantee, NoisySum, check_promise
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.noise import grid_for
from reticent.privacy.participation import ONCE, Participation
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import Trust
from reticent_wire.shuffling import coin_excess, coins_for

Floats = NDArray[np.float64]

ROUNDING = 0.1
"""The most by which a shuffled user's rounding may raise any sensitivity; halving it quadruples the messages."""

REMAINDER = 0.02
"""The most that the binomial account's remainder may take of ε; a finer grid is taken otherwise."""


class Release(NamedTuple):
    """One sum of one step (1-based) that a user is in.

    Attributes:
      sensitivity: how far one user moves it, as it is composed with the others.
      scale: of its noise; 0 where nothing is released.
      columns: its place in the packed statistics; None of a sum that is not held to its declaration.
      alone: how far one user moves it by itself, where that is not its ``sensitivity``.
      spread: noise of each column in units of ``scale``, where columns differ.
      largest: noise of its noisiest release in units of ``scale``, where that is not its counter's.
    """

    name: str
    step: int
    sensitivity: float
    scale: float
    columns: slice | None = None
    alone: float | None = None
    spread: tuple[float, ...] = ()
    largest: float | None = None


class Calibrated(abc.ABC):
    """Noise that was calibrated to a promise; a family says its :meth:`releases`. Data-independent.

    Attributes:
      trust, adjacency, epsilon, delta: the promise. account: how the noise's law is accounted for.
      counter: how sums are released, where it is chosen once for all rounds. participation: how often a user is in them.
    """

    trust: Trust
    adjacency: Adjacency
    epsilon: float
    delta: float
    account: Account
    counter: Counter
    participation: Participation = ONCE

    @abc.abstractmethod
    def releases(self) -> Sequence[Release]:
        """Every sum of every step."""

    def counter_of(self, rounds: int) -> Counter:
        """The counter of a run of so many rounds."""
        del rounds
        return self.counter

    def exposure(self, rounds: int) -> Floats:
        """How often the most exposed user is charged after each round."""
        return np.asarray(self.trust.exposure(self.counter_of(rounds)), np.float64)

    def released_by(self, rounds: int) -> str:
        """How sums are released, for display."""
        return self.trust.released_by(self.counter_of(rounds))

    def largest(self, round_ends: NDArray[np.int64]) -> float:
        """Noise of the noisiest release that is counted on, in units of its scale."""
        return float(self.trust.release_std(self.counter_of(len(round_ends)), round_ends).max())

    @property
    def charged(self) -> float:
        """How often the most exposed user is charged in all."""
        return 1.0

    @property
    def mu(self) -> float:
        """The joint strength of everything released, under this adjacency: μ of one Gaussian mechanism, or ε."""
        return self.account.strength(self.shares(), self.charged)

    @property
    def epsilon_spent(self) -> float:
        """The ε that the noise really gives at the requested δ."""
        return self.epsilon_at(self.mu)

    def epsilon_at(self, mu: float) -> float:
        """The ε of noise of this kind and of strength ``mu`` at the requested δ."""
        return self.account.epsilon_of(mu, self.delta)

    @property
    def late_report_ratio(self) -> float:
        """By how much the noise falls short if reports may arrive late or never; 1 is not at all, and what is expected."""
        return 1.0

    def shares(self) -> list[CounterShare]:
        """The rows of the ledger: sums that are released, in the order of the steps."""
        released = sorted((one for one in self.releases() if one.scale > 0), key=lambda one: one.step)
        return [CounterShare(one.name, one.step, one.sensitivity, one.scale) for one in released]

    def ledger(self, round_ends: ArrayLike) -> Ledger:
        """The account of a run that releases after these numbers of users."""
        rounds = len(np.asarray(round_ends))
        return Ledger.of(
            self.shares(), self.released_by(rounds), self.exposure(rounds), round_ends,
            epsilon=self.epsilon, delta=self.delta, account=self.account,
        )  # fmt: skip

    def guarantee(
        self,
        round_ends: NDArray[np.int64],
        settings: Mapping[str, Any],
        honest: float = 1.0,
        *,
        calibration: str = "exact",
        remark: str = "",
        releases: Sequence[Release] | None = None,
    ) -> Guarantee:
        """What a run promises that releases after these numbers of users.

        ``honest``: share of users who are relied upon to flip coins. ``calibration``: ``paper`` for an author's constants.
        ``releases``: with the columns that they have in a run, where the noise alone does not say.
        """
        releases = self.releases() if releases is None else releases
        ledger = self.ledger(round_ends)
        largest = self.account.excess * self.largest(round_ends)
        noisiest = {(one.name, one.step): largest if one.largest is None else one.largest for one in releases}
        return Guarantee(
            trust=self.trust,
            adjacency=self.adjacency,
            epsilon=self.epsilon,
            delta=self.delta,
            ledger=ledger,
            sums=tuple(
                NoisySum(row.name, row.step, row.sensitivity, row.sigma, row.sigma * noisiest[row.name, row.step])
                for row in ledger.shares
            ),
            groups=tuple(
                DeclaredGroup(
                    one.name,
                    one.step,
                    one.columns,
                    float(one.sensitivity if one.alone is None else one.alone),
                    one.spread,
                )
                for one in releases
                if one.columns is not None
            ),
            calibration=calibration,
            late_report_ratio=self.late_report_ratio,
            participation=self.participation,
            remark=remark,
            reliance=self.trust.reliance(honest),
            settings=settings,
        )


# -- how much noise -------------------------------------------------------------------------------------------------------

Found = TypeVar("Found")


def least_noise(
    noise: Callable[[float, float], Found],
    least: Callable[[Found], float],
    *,
    epsilon: float,
    delta: float,
    draws: int = 0,
    coarsest: float = math.inf,
) -> tuple[Found, float, GaussianAccount]:
    """The least Gaussian noise that (ε, δ) allows, its grid (0: none) and its account.

    Args:
      noise: a family's noise for a strength μ of all that is released, with statistics on a grid (0: as they are).
      least: the smallest scale of it, which the grid must suit.
      draws: of discrete noise that one user can touch in a deployment; 0 is continuous noise.
      coarsest: the largest grid that is any use.

    Raises:
      InvalidInput: a promise that is none.
    """
    check_promise(epsilon, delta)
    account = GaussianAccount(draws=draws)
    strength = account.strength_of(epsilon, delta)
    grid = min(coarsest, grid_for(least(noise(strength, 0.0)))) if draws else 0.0
    return noise(strength, grid), grid, account


def coarsest_grid(sums: Iterable[tuple[float, float]]) -> float:
    """The largest power of two on which rounding raises no sensitivity by more than the share :data:`ROUNDING`.

    ``sums`` are pairs: a sensitivity, and by how much rounding raises it per unit of the grid.
    """
    return 2.0 ** math.floor(math.log2(min(ROUNDING * sensitivity / raised for sensitivity, raised in sums)))


def fewest_coins(
    sums: Callable[[float, float], tuple[ArrayLike, ArrayLike]],
    grid: float,
    *,
    epsilon: float,
    delta: float,
    sizes: Sequence[int],
    honest: float,
) -> tuple[float, float, BinomialAccount]:
    """The strength of shuffled users' noise that (ε, δ) allows, the grid that it is on and its account.

    A first pass at the strength without the account's remainder gives scales, and with them the remainder's slope; the
    second spends what is left of ε. A smaller strength means more coins, and slope and remainder only fall with these, so
    that the first pass's slope is on the safe side of the second.

    Args:
      sums: for a strength and a grid, the noise's scale on every coordinate, and how far one user moves its sum.
      grid: the coarsest that is tried; a coarse one saves messages, of which there are :math:`4\\sigma^2/g^2`.
      sizes: of the rounds. honest: share of their users who are relied upon: noise grows by 1/√honest.

    Raises:
      InvalidInput: a promise that is none.
    """
    check_promise(epsilon, delta)
    tail = TAIL_SHARE * delta
    free = BinomialAccount(tail, 0.0).strength_of(epsilon, delta)
    while True:
        account = _account_of_coins(*sums(free, grid), grid, tail)
        if account is not None and account.slope * free <= REMAINDER * epsilon:
            break
        grid /= 2
    strength = account.strength_of(epsilon, delta)
    coins = coins_for(sums(strength, grid)[0], grid)
    excess = math.sqrt(coin_excess(sizes, int(coins[coins > 0].min()), honest))
    return strength, grid, dataclasses.replace(account, excess=excess)


def of_whole_coins(scale: ArrayLike, grid: float) -> Floats:
    """Scales raised to the next ones that whole coins can have."""
    return np.asarray(grid * np.sqrt(coins_for(scale, grid)) / 2)


def _account_of_coins(scale: ArrayLike, moves: ArrayLike, grid: float, tail: float) -> BinomialAccount | None:
    """The account of coins that spread by ``scale``; None if they are too few for the theorem."""
    try:
        return account_of(coins_for(scale, grid), np.asarray(moves) / grid, tail)
    except InvalidInput:
        return None


# -- what plans of all families ask ---------------------------------------------------------------------------------------


class Scaled(Protocol):
    """Options that multiply what a theory says, which holds with probability 1−α."""

    @property
    def bonus_scale(self) -> float: ...
    @property
    def shift_scale(self) -> float: ...
    @property
    def alpha(self) -> float: ...


def check_scales(options: Scaled) -> None:
    """Refuse multiples of the theory that are none."""
    for field in ("bonus_scale", "shift_scale"):
        value = getattr(options, field)
        if not 0 <= value < math.inf:
            raise InvalidInput(field, value, "a finite number of at least 0", "1 is the theory's value")
    if not 0 < options.alpha <= 1:
        raise InvalidInput("alpha", options.alpha, "in (0, 1]", "use 0.05 if in doubt")


def counter_for(trust: Trust, name: str, schedule: Schedule) -> Counter:
    """The counter of this name for the rounds of ``schedule`` that are released, or the trust model's own."""
    released = tuple(schedule.round_sizes[: schedule.releases].tolist())
    return trust.counter(lambda: make_counter(name, released), schedule.releases)
