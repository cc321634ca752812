# SPDX-License-Identifier: Apache-2.0
"""A world of kinds in which asking costs a step and tells nearly all: what a plan that never asks leaves.

Each user is of one of M kinds, and one of M offers suits them. A step either makes an offer, which is taken up more often
by the kind that it suits, or asks: that earns nothing, and the answer, which names the user's kind most of the time, is
the next state. Offers tell something too, but slowly.
"""

from __future__ import annotations

import numpy as np

from reticent.worlds.kinds import KindsWorld, kinds_world
from reticent.worlds.models.blend import blend
from reticent.worlds.models.names import Names

ASK = 0
"""The action that asks."""


def asking_kinds(
    *, kinds: int = 4, horizon: int = 5, right: float = 0.9, suits: float = 0.6, otherwise: float = 0.2
) -> KindsWorld:
    """M equally frequent kinds. An answer is ``right`` with this probability, else any other; offers are taken up with
    probability ``suits`` by the kind that they suit and ``otherwise`` by the rest."""
    rows = np.zeros((kinds, kinds + 1, kinds + 1, kinds + 1))
    rows[:, :, 1:, 0] = 1.0  # after an offer nothing is said
    wrong = (1 - right) / (kinds - 1)
    rows[:, :, ASK, 1:] = np.where(np.eye(kinds), right, wrong)[:, None]
    means = np.full((kinds, kinds + 1, kinds + 1), otherwise)
    means[:, :, ASK] = 0.0
    means[np.arange(kinds), :, np.arange(kinds) + 1] = suits
    shares = np.full(kinds, 1 / kinds)
    states = ("nothing said", *(f"said to be of kind {number + 1}" for number in range(kinds)))
    actions = ("ask", *(f"offer for kind {number + 1}" for number in range(kinds)))
    made = blend(rows, means, shares, shares, horizon, names=Names(states, actions), name="asking-kinds")
    return kinds_world(made.model, shares, name="asking-kinds")
