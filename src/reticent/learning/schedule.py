# SPDX-License-Identifier: Apache-2.0
"""When the learner may change its mind: a fixed public schedule of rounds.

A round is a fixed number of consecutive users who are all served the same plan. At its end the statistics are released
and the next plan is made. The schedule depends on the number of episodes only, never on data.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Literal

import numpy as np

from reticent.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Round sizes over K episodes.

    Attributes:
      episodes: K.
      sizes: the rounds' sizes, summing to K; None means that every episode is a round of its own (the paper).
      final_release: whether the sums after the last round are released too. Without it (the paper) the last round is
        played but not learned from; with it the final policy may be published, and is accounted for.
    """

    episodes: int
    sizes: tuple[int, ...] | None = None
    final_release: bool = False

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise InvalidInput("episodes", self.episodes, "at least 1", "give the number of users K")
        if self.sizes is not None and (sum(self.sizes) != self.episodes or min(self.sizes) < 1):
            raise InvalidInput(
                "sizes", f"sum {sum(self.sizes)}", f"positive, with sum {self.episodes}", "recompute the schedule"
            )

    @property
    def rounds(self) -> int:
        """Number of rounds played."""
        return self.episodes if self.sizes is None else len(self.sizes)

    @property
    def releases(self) -> int:
        """Number of rounds whose sums are released (at least 1, so that calibration is always defined)."""
        return max(1, self.rounds if self.final_release else self.rounds - 1)

    @functools.cached_property
    def round_sizes(self) -> np.ndarray:
        return np.ones(self.episodes, np.int64) if self.sizes is None else np.asarray(self.sizes, np.int64)

    def place_of(self, episode: int) -> int:
        """The 0-based place in its round of a user with this 0-based number."""
        return self.round_and_place(episode)[1]

    def round_and_place(self, episode: int) -> tuple[int, int]:
        """The 0-based round of a user with this 0-based number, and the 0-based place in it."""
        number = int(np.searchsorted(self.ends, episode, side="right"))
        return number, episode - (int(self.ends[number - 1]) if number else 0)

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Number of episodes finished when each round ends."""
        return np.cumsum(self.round_sizes)


Replan = Literal["episode", "epoch"]

MANY_PAIRS = 400
"""Pairs of state and action beyond which a plan costs as much as thousands of users."""


def replan_sizes(pairs: int, episodes: int, replan: Replan | None) -> tuple[int, ...] | None:
    """Rounds of a learner without privacy: every user one, or slowly growing epochs; None chooses by the number of
    pairs."""
    if replan is None:
        replan = "epoch" if pairs > MANY_PAIRS else "episode"
    return geometric_sizes(episodes, first=1, growth=1.2) if replan == "epoch" else None


def geometric_sizes(episodes: int, first: int, growth: float) -> tuple[int, ...]:
    """A public schedule of epochs: about ``first * growth**k`` users in epoch k, ``episodes`` users in all.

    Sizes never decrease. What is left at the end is an epoch of its own if it is at least as large as the one before,
    and otherwise joins that one, so that no tiny last epoch is drowned in its noise.

    Args:
      episodes: K, the number of users in all; at least 1.
      first: size of the first epoch; at least 1.
      growth: ratio of successive sizes; finite and at least 1.

    >>> geometric_sizes(100, 10, 2.0)
    (10, 20, 70)
    >>> geometric_sizes(115, 10, 2.0)
    (10, 20, 40, 45)
    """
    for field, value in (("episodes", episodes), ("first", first)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise InvalidInput(field, value, "a whole number of at least 1", "count users")
    if not (math.isfinite(growth) and growth >= 1):
        raise InvalidInput("growth", growth, "finite and at least 1", "epochs may not shrink; 2 doubles them")
    sizes: list[int] = []
    left, planned = int(episodes), float(first)
    while left > 0:
        size = left if planned >= left else round(planned)
        if sizes and size < sizes[-1]:
            sizes[-1] += left
            break
        sizes.append(size)
        left -= size
        planned *= growth
    return tuple(sizes)


def fitted_sizes(episodes: int, first: int, growth: float) -> tuple[int, ...]:
    """As :func:`geometric_sizes`, with a ratio of at most ``growth`` at which rounds fill ``episodes`` exactly.

    Nothing is left at the end that would have to join the last round, which may double it there: those users are served a
    plan that was learned from fewer than half of all.

    >>> fitted_sizes(100, 10, 2.0)
    (10, 17, 27, 46)
    >>> fitted_sizes(5, 10, 2.0)
    (5,)
    """
    without = geometric_sizes(episodes, first, growth)
    slowest, fastest = 1.0, min(float(growth), float(episodes))
    rounds = len(without)
    while _filled(first, fastest, rounds) < episodes:
        rounds += 1
    if first * rounds > episodes:  # rounds of the first one's size are too many already
        return without
    for _ in range(60):
        middle = (slowest + fastest) / 2
        slowest, fastest = (middle, fastest) if _filled(first, middle, rounds) < episodes else (slowest, middle)
    ends = [round(episodes * _filled(first, fastest, k) / _filled(first, fastest, rounds)) for k in range(rounds + 1)]
    # Rounding may exchange neighbours that are planned equal.
    return tuple(sorted(end - start for start, end in itertools.pairwise(ends)))


def _filled(first: int, growth: float, rounds: int) -> float:
    """Users of so many rounds."""
    return first * (float(rounds) if growth == 1 else (growth**rounds - 1) / (growth - 1))


def endless_sizes(episodes: int, first: int, growth: float, largest: int | None = None) -> tuple[int, ...]:
    """The rounds of a stream without end, as far as ``episodes`` users come: about ``first * growth**k``, never above
    ``largest``.

    No round but the last, which is cut where users end, depends on how many will come: the schedule of more users begins
    with that of fewer.

    >>> endless_sizes(100, 10, 2.0, 25)
    (10, 20, 25, 25, 20)
    >>> endless_sizes(150, 10, 2.0, 25)
    (10, 20, 25, 25, 25, 25, 20)
    """
    for field, value in (("episodes", episodes), ("first", first), ("largest", 1 if largest is None else largest)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise InvalidInput(field, value, "a whole number of at least 1", "count users")
    if not (math.isfinite(growth) and growth >= 1):
        raise InvalidInput("growth", growth, "finite and at least 1", "epochs may not shrink; 2 doubles them")
    most = math.inf if largest is None else largest
    sizes: list[int] = []
    left, planned = int(episodes), float(first)
    while left > 0:
        sizes.append(int(min(round(planned), most, left)))
        left -= sizes[-1]
        planned = min(planned * growth, most)
    return tuple(sizes)
