# SPDX-License-Identifier: Apache-2.0
"""A micro-randomised study in NumPy: thousands of studies side by side, whose policies follow earlier noisy releases.

Six states in three groups of two, two actions, five decisions. What the treatment does depends on the group; where a user
goes and the further reward depend on the state and on earlier actions.
"""

from __future__ import annotations

import numpy as np

from reticent.inference import Contrast, Decisions, contributions

HORIZON, STATES = 5, 6
GROUPS = np.tile(np.repeat(np.arange(3), 2), (HORIZON, 1))
EFFECTS = np.array([0.3, 0.0, -0.15])


def contrast(floor: float) -> Contrast:
    return Contrast(GROUPS, floor)


def play(floor: float, studies: int, users: int, rounds: int, seed: int) -> np.ndarray:
    """Sums of contributions ``(studies, 3p)``, without noise: ``rounds`` rounds of ``users`` users each."""
    draw = np.random.default_rng(seed)
    question = contrast(floor)
    preferred = draw.random((studies, HORIZON, STATES)) < 0.5
    total = np.zeros((studies, 3 * question.size))
    for _ in range(rounds):
        summed = contributions(question, _round(draw, preferred, floor, users)).sum(axis=1)
        total += summed
        # The next policy follows a noisy look at this round: adaptive as a learner is, and often wrong.
        seen = summed[:, : question.size] + draw.normal(0, 2.0, (studies, question.size))
        preferred = seen[:, GROUPS] > 0
    return total


def _round(draw: np.random.Generator, preferred: np.ndarray, floor: float, users: int) -> Decisions:
    studies = len(preferred)
    state = draw.integers(0, STATES, (studies, users))
    which = np.arange(studies)[:, None]
    columns: list[tuple[np.ndarray, ...]] = []
    for step in range(HORIZON):
        treat = np.where(preferred[which, step, state], 1 - floor, floor)
        action = (draw.random(state.shape) < treat).astype(np.int64)
        mean = 0.35 + 0.05 * (state % 3) + EFFECTS[state // 2] * action
        outcome = (draw.random(state.shape) < mean).astype(float)
        columns.append((state, action, outcome, np.stack([1 - treat, treat], axis=-1)))
        state = (state + action + draw.integers(0, 3, state.shape) + outcome.astype(np.int64)) % STATES
    states, actions, outcomes = (np.stack([column[place] for column in columns], axis=2) for place in range(3))
    return Decisions(states, actions, outcomes, np.stack([column[3] for column in columns], axis=2))
