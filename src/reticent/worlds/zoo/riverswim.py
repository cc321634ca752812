# SPDX-License-Identifier: Apache-2.0
"""RiverSwim: a chain on which only steady effort against the current pays (Strehl & Littman 2008).

The swimmer starts at the left bank. *Left* always succeeds and pays 0.005 on average at the bank; *right* is carried
back by the current now and then and pays 1 only at the far end. An agent that does not explore settles for 0.1 an
episode; the optimum is more than thirty times that. The numbers are those of the private tabular literature (6 states,
20 steps) and of its short rivers (3 to 5 states, 4 steps a state), so that regrets can be compared. Rewards are 0 or 1
with these means.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.names import Names
from reticent.worlds.models.tabular import tabular
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

LEFT, RIGHT = 0, 1
SMALL_REWARD, LARGE_REWARD = 0.005, 1.0


@dataclasses.dataclass(frozen=True)
class Current:
    """What *right* does under one strength of current: its probabilities in the middle and at the two ends."""

    back: float
    forward: float
    leave_first: float
    hold_last: float

    def transitions(self, states: int) -> np.ndarray:
        """The river under this current, ``(S, 2, S)``."""
        table = np.zeros((states, 2, states))
        places = np.arange(states)
        table[places, LEFT, np.maximum(places - 1, 0)] = 1
        middle = places[1:-1]
        table[middle, RIGHT, middle - 1] = self.back
        table[middle, RIGHT, middle] = 1 - self.back - self.forward
        table[middle, RIGHT, middle + 1] = self.forward
        table[0, RIGHT, :2] = 1 - self.leave_first, self.leave_first
        table[-1, RIGHT, -2:] = 1 - self.hold_last, self.hold_last
        return table


TRUE_LONG = Current(back=0.05, forward=0.35, leave_first=0.6, hold_last=0.6)
TRUE_SHORT = Current(back=0.1, forward=0.3, leave_first=0.7, hold_last=0.9)

# Calm, mild, strong, flood: linearly independent, and blended by STRENGTHS they are exactly the true currents above.
STRENGTHS = (0.4, 0.3, 0.2, 0.1)
CANDIDATES_LONG = (
    Current(back=0.00, forward=0.60, leave_first=0.9, hold_last=0.85),
    Current(back=0.05, forward=0.30, leave_first=0.6, hold_last=0.70),
    Current(back=0.10, forward=0.10, leave_first=0.3, hold_last=0.25),
    Current(back=0.15, forward=0.00, leave_first=0.0, hold_last=0.00),
)
CANDIDATES_SHORT = (
    Current(back=0.05, forward=0.50, leave_first=1.0, hold_last=1.0),
    Current(back=0.10, forward=0.30, leave_first=0.7, hold_last=1.0),
    Current(back=0.15, forward=0.05, leave_first=0.4, hold_last=0.7),
    Current(back=0.20, forward=0.00, leave_first=0.1, hold_last=0.6),
)


@register_world("riverswim", episodes=20_000, sizes=(6, 2, 20, 72, 12))
def riverswim(
    *,
    states: int = 6,
    features: Literal["tabular", "blend"] = "tabular",
    horizon: int | None = None,
    bounds: Bounds = "paper",
    stationary: bool = False,
) -> World:
    """A river to swim up: little pay at the near bank, much at the far end, against the current.

    ``states`` is 3, 4, 5 (horizon 4S) or 6 (horizon 20); ``horizon`` changes the latter. V* is 5.71992, 5.65089,
    5.58513 and 3.39726. ``features=tabular`` knows nothing (d1 = S²A = 72 for six states); ``features=blend`` knows
    four strengths of current (d1 = 4) and the two places that may pay (d2 = 2), and is the same river. ``stationary``
    declares that the tabular river is the same at every step; without it agents learn every step by itself.
    """
    if states not in (3, 4, 5, 6):
        raise InvalidInput("riverswim: states", states, "3, 4, 5 or 6", "choose a river with known answers")
    long = states == 6
    steps = horizon if horizon is not None else (20 if long else 4 * states)
    names = Names(tuple(f"place {place}" for place in range(1, states + 1)), ("left", "right"))
    if features == "tabular":
        rewards = np.zeros((states, 2))
        rewards[0, LEFT], rewards[-1, RIGHT] = SMALL_REWARD, LARGE_REWARD
        truth = (TRUE_LONG if long else TRUE_SHORT).transitions(states)
        return tabular(truth, rewards, steps, name="riverswim", bounds=bounds, stationary=stationary, names=names)
    candidates = [current.transitions(states) for current in (CANDIDATES_LONG if long else CANDIDATES_SHORT)]
    places = np.zeros((2, states, 2))
    places[0, 0, LEFT] = places[1, -1, RIGHT] = 1
    return blend(
        candidates, places, STRENGTHS, (SMALL_REWARD, LARGE_REWARD), steps, name="riverswim", bounds=bounds, names=names
    )
