# SPDX-License-Identifier: Apache-2.0
"""Made-up logs for the tests of ``reticent fit``."""

from __future__ import annotations

import numpy as np
import polars as pl

STATES, ACTIONS, KINDS = 5, 2, 3


def kinds_of_people(seed=0, states=STATES, actions=ACTIONS, kinds=KINDS):
    """Transitions ``(kinds, S, A, S)`` and mean rewards ``(kinds, S, A)`` that differ clearly."""
    random = np.random.default_rng(seed)
    return random.dirichlet(np.full(states, 0.3), size=(kinds, states, actions)), random.random(
        (kinds, states, actions)
    )


def recorded(users, weights, *, seed=0, steps=6, groups=None, people=None):
    """A long table: users of one kind each by ``weights``, or, with ``groups`` ``(G, kinds)``, blends by group."""
    transitions, rewards = kinds_of_people() if people is None else people
    kinds, states, actions, _ = transitions.shape
    random = np.random.default_rng(seed)
    group = np.zeros(users, int) if groups is None else random.integers(len(groups), size=users)
    kind = random.choice(kinds, size=users, p=weights)
    state = np.zeros(users, int)
    parts = []
    for step in range(steps):
        if groups is not None:
            kind = np.array([random.choice(kinds, p=groups[own]) for own in group])
        action = random.integers(actions, size=users)
        paid = (random.random(users) < rewards[kind, state, action]).astype(float)
        chances = transitions[kind, state, action].cumsum(axis=1)
        following = np.minimum((random.random(users)[:, None] > chances).sum(axis=1), states - 1)
        parts.append(
            pl.DataFrame(
                {
                    "user": [f"u{number:06d}" for number in range(users)],
                    "step": step,
                    "state": [f"s{one}" for one in state],
                    "action": [f"a{one}" for one in action],
                    "reward": paid,
                    "next": [f"s{one}" for one in following],
                    "clinic": [f"g{one}" for one in group],
                }
            )
        )
        state = following
    return pl.concat(parts)


def small_table(**changes):
    """Three users with three steps each; keyword arguments replace cells: ``reward={4: 7.0}`` changes row 4's."""
    content = {
        "user": ["ann"] * 3 + ["bob"] * 3 + ["cy"] * 3,
        "step": [0, 1, 2] * 3,
        "state": ["low", "high", "low", "low", "low", "high", "high", "high", "low"],
        "action": ["rest", "push", "rest"] * 3,
        "reward": [0.0, 1.0, 0.5] * 3,
    }
    for column, cells in changes.items():
        values = list(content.get(column, [None] * 9))
        for row, value in cells.items():
            values[row - 1] = value
        content[column] = values
    return pl.DataFrame(content, strict=False)


def clicks(rows, items, rate, seed=0):
    """One row per user: a position of three, an item drawn at random, and a click that depends on neither."""
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user": np.arange(rows),
            "step": 0,
            "state": random.integers(3, size=rows),
            "action": [f"item {item}" for item in random.integers(items, size=rows)],
            "reward": (random.random(rows) < rate).astype(float),
            "probability": 1 / items,
        }
    )
