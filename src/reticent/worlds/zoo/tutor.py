# SPDX-License-Identifier: Apache-2.0
r"""A tutor: what to practise next, how hard, and when to let a pupil rest.

A programme teaches arithmetic. One user is one episode: a lesson of eight exercises. Counting is the ground for adding
and adding for multiplying: a skill rises readily only while the one before it is ahead of it. At each point the tutor
sees how far the three skills have come (none, some, firm) and the pupil's mood (keen, tired, frustrated), and gives an
easy or a hard exercise in one skill, or a rest. Skills are what the lesson is for, multiplying most of all; a good mood
counts too.

Teaching knows four kinds of learners, the candidate models:

* **quick**: learns from hard exercises, even ahead of the ground for them; easy ones and rests bore;
* **repeating**: learns by easy exercises, again and again; hard ones are in vain and wear out;
* **forgetful**: learns from either, but what is not practised slips away;
* **anxious**: learns while keen and hardly otherwise; a hard exercise frustrates at once, a rest mends.

They want different lessons, and the blend of a school is unknown. The hidden truth: nearly half anxious, a
third repeating. Its optimal policy gives easy exercises in the order of the ground, rests with the tired, and keeps hard
ones for the end, when a bad mood does no more harm. The values over a lesson, in the true world, of the policies that are
optimal under other beliefs:

=====================  =====
the true blend         3.576
all anxious            3.508
all repeating          3.461
an even blend          3.269
all forgetful          3.257
all quick              1.874
a rest every time      2.180
anything at random     2.270
=====================  =====

What a child cannot do, and what frustrates them, is in these records: a reason to learn from them in private.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.names import Names
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

SKILLS = ("counting", "adding", "multiplying")
LEVELS = ("none", "some", "firm")
MOODS = ("keen", "tired", "frustrated")
EXERCISES = (
    "easy counting",
    "hard counting",
    "easy adding",
    "hard adding",
    "easy multiplying",
    "hard multiplying",
    "rest",
)
REST = 6


class Learner(NamedTuple):
    """How one kind of pupils learns.

    ``easy`` and ``hard`` are the chances that an exercise raises its skill from none to some and from some to firm. They
    are multiplied by ``mood`` (keen, tired, frustrated), and by ``unready`` if the skill before is not ahead. ``forgets``
    is the chance that a skill not practised now falls by a level; ``wears`` and ``mends`` are the chances, for easy, hard
    and rest, that the mood gets a level worse or better.
    """

    easy: list[float]
    hard: list[float]
    mood: list[float]
    unready: float
    forgets: float
    wears: list[float]
    mends: list[float]


LEARNERS = {
    "quick": Learner(
        easy=[0.35, 0.1],
        hard=[0.9, 0.9],
        mood=[1.0, 0.8, 0.6],
        unready=0.8,
        forgets=0.02,
        wears=[0.7, 0.1, 0.5],
        mends=[0.0, 0.5, 0.1],
    ),
    "repeating": Learner(
        easy=[0.9, 0.6],
        hard=[0.1, 0.2],
        mood=[1.0, 0.8, 0.5],
        unready=0.2,
        forgets=0.02,
        wears=[0.1, 0.8, 0.4],
        mends=[0.5, 0.0, 0.1],
    ),
    "forgetful": Learner(
        easy=[0.7, 0.2],
        hard=[0.4, 0.8],
        mood=[1.0, 0.7, 0.4],
        unready=0.5,
        forgets=0.4,
        wears=[0.2, 0.3, 0.0],
        mends=[0.1, 0.1, 0.5],
    ),
    "anxious": Learner(
        easy=[0.7, 0.2],
        hard=[0.2, 0.8],
        mood=[1.0, 0.2, 0.0],
        unready=0.1,
        forgets=0.05,
        wears=[0.4, 1.0, 0.0],
        mends=[0.0, 0.0, 1.0],
    ),
}
SCHOOL = (0.10, 0.35, 0.10, 0.45)

BENEFITS = ("ground laid", "multiplying", "good mood", "challenge")
BENEFIT_WEIGHTS = (0.30, 0.40, 0.25, 0.05)


@register_world("tutor", episodes=50_000, sizes=(81, 7, 8, 4, 4))
def tutor(*, horizon: int = 8, bounds: Bounds = "paper") -> World:
    """A lesson in arithmetic: what to practise, how hard, and when to rest.

    81 states (3 levels of each of 3 skills × 3 moods; the lesson starts with some counting, keen), 7 exercises, d1 = 4
    kinds of learners, d2 = 4 benefits. At the default horizon V* = 3.576, and exercises at random have 2.270.
    """
    return blend(
        [candidate(kind) for kind in LEARNERS],
        benefits(),
        SCHOOL,
        BENEFIT_WEIGHTS,
        horizon,
        initial=state_of("some", "none", "none", "keen"),
        names=Names(tuple(state_name(state) for state in range(81)), tuple(EXERCISES)),
        name="tutor",
        bounds=bounds,
    )


def state_of(counting: str, adding: str, multiplying: str, mood: str) -> int:
    """The state's index, from the three levels and the mood."""
    levels = [LEVELS.index(level) for level in (counting, adding, multiplying)]
    return int(np.ravel_multi_index((*levels, MOODS.index(mood)), (3, 3, 3, 3)))


def state_name(state: int) -> str:
    """The state in words.

    >>> state_name(state_of("firm", "some", "none", "tired"))
    'counting firm, adding some, multiplying none; tired'
    """
    *levels, mood = (int(part) for part in np.unravel_index(state, (3, 3, 3, 3)))
    skills = ", ".join(f"{skill} {LEVELS[level]}" for skill, level in zip(SKILLS, levels, strict=True))
    return f"{skills}; {MOODS[mood]}"


def candidate(kind: str) -> np.ndarray:
    """The transition model ``(S, A, S)`` of one kind of learners; skills and mood move independently given (s, a)."""
    learner = LEARNERS[kind]
    table = np.zeros((81, 7, 81))
    for state in range(81):
        *levels, mood = (int(part) for part in np.unravel_index(state, (3, 3, 3, 3)))
        for action in range(7):
            skill, hard = divmod(action, 2)
            joint = np.ones(1)
            for other, level in enumerate(levels):
                if action != REST and other == skill:
                    ready = other == 0 or levels[other - 1] > level
                    lifts = [*(learner.hard if hard else learner.easy), 0.0]
                    chance = lifts[level] * learner.mood[mood] * (1.0 if ready else learner.unready)
                    moves = _moves(level, up=chance, down=0.0)
                else:
                    moves = _moves(level, up=0.0, down=learner.forgets)
                joint = np.outer(joint, moves).ravel()
            kind_of_task = 2 if action == REST else hard
            moves = _moves(mood, up=learner.wears[kind_of_task], down=learner.mends[kind_of_task])
            table[state, action] = np.outer(joint, moves).ravel()
    return table


def benefits() -> np.ndarray:
    """The reward components in [0, 1], ``(4, S, A)``, in the order of :data:`BENEFITS`."""
    counting, adding, multiplying, mood = np.unravel_index(np.arange(81), (3, 3, 3, 3))
    by_state = np.stack([(counting + adding) / 4, multiplying / 2, 1 - mood / 2])
    challenge = np.array([0.5, 1.0, 0.5, 1.0, 0.5, 1.0, 0.0])
    return np.concatenate([np.broadcast_to(by_state[:, :, None], (3, 81, 7)), np.broadcast_to(challenge, (1, 81, 7))])


def _moves(level: int, up: float, down: float) -> np.ndarray:
    """Distribution of the next of three levels: one up, one down or stay, and stay at the ends."""
    chances = np.zeros(3)
    chances[min(level + 1, 2)] += up
    chances[max(level - 1, 0)] += down
    chances[level] += 1 - up - down
    return chances
