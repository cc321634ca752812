# SPDX-License-Identifier: Apache-2.0
r"""Mobile health: when to prompt, how hard, and when to leave a person alone.

An app helps people to move more. One user is one episode: a day of six decision points. At each the app sees how
active the person is and how burdened by its messages, and sends nothing, a gentle prompt or a strong one. Being
active is good, being vigorously active best; prompts cost a little each and wear people out, and a worn-out person
stops listening.

Behavioural science offers four kinds of people, the candidate models:

* **self-motivated**: moves more when left alone; every prompt crowds the own motive out;
* **responsive**: needs a strong push to get up, a gentle word to keep going, and slackens without either;
* **easily burdened**: takes one gentle prompt well, then needs rest, and recovers well if given it;
* **reactant**: does the contrary when pushed, but likes company once moving.

In every state some of them disagree about the right message, and the blend of this population is unknown.
The hidden truth: mostly responsive, a quarter easily burdened. Its optimal policy uses all three messages: push the
fresh who are idle, keep a gentle thread with those on the move, let the burdened rest before the next push. The values
over a day, in the true world, of the policies that are optimal under other beliefs:

=========================  =====
the true blend             3.322
all responsive             3.202
all easily burdened        2.816
an even blend              2.353
all reactant               2.352
all self-motivated         2.065
always gentle              2.866
always nothing             2.065
always strong              1.466
any message at random      2.306
=========================  =====

Finding the blend out takes records of health behaviour from everyone, which is why it should be done in private.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.names import Names
from reticent.worlds.registry import register_world
from reticent.worlds.transforms.unknown_start import Initial, with_unknown_start
from reticent.worlds.world import World

ACTIVITIES = ("idle", "light", "moderate", "vigorous")
BURDENS = ("fresh", "prompted", "weary", "fed up")
MESSAGES = ("nothing", "gentle", "strong")


class Person(NamedTuple):
    """How one kind of people reacts: rows are messages, columns burdens.

    A lift l > 0 raises activity by a level with probability 0.05 + 0.9 l, one l < 0 lowers it with 0.05 + 0.9 |l|; the
    other direction keeps probability 0.05. ``idle`` holds for idle and light activity, ``moving`` for moderate and
    vigorous. ``tires`` and ``eases`` are the chances, by message, that burden grows or falls by a level.
    """

    idle: list[list[float]]
    moving: list[list[float]]
    tires: list[float]
    eases: list[float]


PEOPLE = {
    "self-motivated": Person(
        idle=[[0.8, 0.7, 0.6, 0.5], [0.2, 0.1, -0.2, -0.4], [-0.4, -0.5, -0.7, -0.9]],
        moving=[[0.8, 0.8, 0.7, 0.6], [-0.2, -0.4, -0.6, -0.8], [-0.8, -0.9, -1.0, -1.0]],
        tires=[0.0, 0.4, 0.8],
        eases=[0.8, 0.1, 0.0],
    ),
    "responsive": Person(
        idle=[[-0.6, -0.6, -0.6, -0.6], [0.1, 0.0, -0.1, -0.2], [1.0, 1.0, 0.9, 0.8]],
        moving=[[-0.5, -0.5, -0.5, -0.5], [1.0, 1.0, 0.9, 0.8], [-0.2, -0.3, -0.4, -0.5]],
        tires=[0.0, 0.1, 0.5],
        eases=[0.7, 0.4, 0.0],
    ),
    "easily burdened": Person(
        idle=[[-0.3, -0.2, 0.0, 0.0], [0.8, 0.2, -0.6, -0.9], [0.6, -0.5, -1.0, -1.0]],
        moving=[[0.0, 0.2, 0.4, 0.4], [0.6, -0.1, -0.8, -1.0], [-0.5, -0.9, -1.0, -1.0]],
        tires=[0.0, 0.5, 1.0],
        eases=[0.9, 0.2, 0.0],
    ),
    "reactant": Person(
        idle=[[0.4, 0.4, 0.3, 0.2], [-0.4, -0.5, -0.6, -0.7], [-0.9, -0.9, -1.0, -1.0]],
        moving=[[0.1, 0.1, 0.1, 0.1], [0.8, 0.6, 0.2, -0.1], [-0.9, -1.0, -1.0, -1.0]],
        tires=[0.0, 0.2, 0.9],
        eases=[0.7, 0.3, 0.0],
    ),
}
POPULATION = (0.10, 0.55, 0.25, 0.10)

BENEFITS = ("activity", "goal reached", "ease of mind", "silence kept")
BENEFIT_WEIGHTS = (0.35, 0.40, 0.20, 0.05)


@register_world("mobile-health", episodes=20_000, sizes=(16, 3, 6, 4, 4))
def mobile_health(*, horizon: int = 6, bounds: Bounds = "paper", initial: Initial = "known") -> World:
    """Prompts for physical activity: which users to push, to nudge or to leave alone.

    16 states (4 activity levels × 4 burden levels; the day starts light and fresh), 3 messages, d1 = 4 kinds of people,
    d2 = 4 benefits. At the default horizon V* = 3.322; the uniform policy has 2.306 and the best fixed message 2.866.
    With ``initial=unknown`` the model does not know how the day starts.
    """
    world = blend(
        [candidate(kind) for kind in PEOPLE],
        benefits(),
        POPULATION,
        BENEFIT_WEIGHTS,
        horizon,
        initial=state_of("light", "fresh"),
        names=Names(tuple(state_name(state) for state in range(len(ACTIVITIES) * len(BURDENS))), MESSAGES),
        name="mobile-health",
        bounds=bounds,
    )
    return with_unknown_start(world) if initial == "unknown" else world


def state_of(activity: str, burden: str) -> int:
    """The state's index, from its two names."""
    return ACTIVITIES.index(activity) * len(BURDENS) + BURDENS.index(burden)


def state_name(state: int) -> str:
    """The state in words.

    >>> state_name(4)
    'light, fresh'
    """
    activity, burden = divmod(state, len(BURDENS))
    return f"{ACTIVITIES[activity]}, {BURDENS[burden]}"


def candidate(kind: str) -> np.ndarray:
    """The transition model ``(S, A, S)`` of one kind of people; activity and burden move independently given (s, a)."""
    person = PEOPLE[kind]
    by_activity = np.array([person.idle, person.idle, person.moving, person.moving])
    lift = by_activity.transpose(0, 2, 1)  # activity, burden, message
    activity = _moves(0.05 + 0.9 * np.maximum(lift, 0), 0.05 + 0.9 * np.maximum(-lift, 0), axis=0)
    burden = _moves(np.broadcast_to(person.tires, lift.shape), np.broadcast_to(person.eases, lift.shape), axis=1)
    joint = activity[..., :, None] * burden[..., None, :]
    size = len(ACTIVITIES) * len(BURDENS)
    return np.asarray(joint.reshape(size, len(MESSAGES), size))


def benefits() -> np.ndarray:
    """The reward components in [0, 1], ``(4, S, A)``, in the order of :data:`BENEFITS`; a cost is a benefit missed."""
    activity, burden = np.divmod(np.arange(len(ACTIVITIES) * len(BURDENS)), len(BURDENS))
    by_state = np.stack([activity / 3, activity == 3, 1 - burden / 3]).astype(np.float64)
    silence = np.array([1.0, 0.6, 0.0])
    each = np.broadcast_to(by_state[:, :, None], (3, activity.size, silence.size))
    return np.concatenate([each, np.broadcast_to(silence, (1, activity.size, silence.size))])


def _moves(up: np.ndarray, down: np.ndarray, axis: int) -> np.ndarray:
    """Distribution of the next level, appended as last axis: one up, one down or stay, and stay at the ends."""
    levels = up.shape[axis]
    here = np.arange(levels).reshape([-1 if position == axis else 1 for position in range(up.ndim)])
    targets = {1: np.minimum(here + 1, levels - 1), -1: np.maximum(here - 1, 0), 0: here}
    chances = {1: up, -1: down, 0: 1 - up - down}
    return np.asarray(sum(chances[move][..., None] * np.eye(levels)[targets[move]] for move in targets))
