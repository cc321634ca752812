# SPDX-License-Identifier: Apache-2.0
"""People who come again: who is admitted when, whose report arrives when, and which of them are counted.

Every visit uses up a place. Its report takes some further admissions to arrive, and is checked *then*
(:func:`reticent.privacy.participation.allowed`), with the round that is open: a report that would be one too many in
that round, or too near to another of the same person, is not counted, and nothing but the person's own
contribution depends on it. None of this depends on data, so that a simulation may draw it before the first episode.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.participation import Participation, allowed

NOT_COUNTED = -1


@dataclasses.dataclass(frozen=True)
class Attendance:
    """Who came, and what became of it.

    Attributes:
      persons: who has each place, ``(K,)``. counted: the 0-based round that counts the report, or
    :data:`NOT_COUNTED`."""

    persons: np.ndarray
    counted: np.ndarray

    def times(self, person: int, rounds: int) -> np.ndarray:
        """How often each round counts this person, ``(rounds,)``."""
        theirs = self.counted[(self.persons == person) & (self.counted != NOT_COUNTED)]
        return np.bincount(theirs, minlength=rounds)

    @property
    def share_counted(self) -> float:
        return float((self.counted != NOT_COUNTED).mean())


def attend(
    schedule: Schedule, persons: int, participation: Participation, seed: int, *, mean_delay: float = 0.0
) -> Attendance:
    """Fill all places with ``persons`` people who come at random times; reports take ``mean_delay`` admissions on average.

    A person is refused at admission, and leaves the place to another, only for what is public: that they have been
    admitted ``contributions`` times, or that the round in force has had them ``per_round`` times or is too near.

    Raises:
      InvalidInput: so few people cannot fill the rounds.
    """
    draw = np.random.default_rng(seed)
    served = np.searchsorted(schedule.ends, np.arange(schedule.episodes), side="right")
    admitted: list[list[int]] = [[] for _ in range(persons)]
    who = np.empty(schedule.episodes, np.int64)
    for number, in_round in enumerate(served):
        free = [person for person in range(persons) if allowed(participation, admitted[person], int(in_round))]
        if not free:
            raise InvalidInput(
                "persons", persons, f"enough to fill round {in_round + 1}", "lower largest, or admit more people"
            )
        who[number] = draw.choice(free)
        admitted[who[number]].append(int(in_round))
    delays = draw.geometric(1 / (1 + mean_delay), schedule.episodes) - 1
    arrival = np.arange(schedule.episodes) + delays
    counted = np.full(schedule.episodes, NOT_COUNTED)
    theirs: list[list[int]] = [[] for _ in range(persons)]
    for number in np.argsort(arrival, kind="stable"):
        in_round = int(np.searchsorted(schedule.ends, arrival[number], side="right"))
        if in_round < schedule.releases and allowed(participation, theirs[who[number]], in_round):
            theirs[who[number]].append(in_round)
            counted[number] = in_round
    return Attendance(who, counted)
