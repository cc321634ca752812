# SPDX-License-Identifier: Apache-2.0
"""Made-up records of a coaching app, to walk the way from records to a private agent.

Each day has three moments. Before each the user is fresh or tired, and gets one of three messages: nudge, push or rest.
A push moves early birds and tires night owls; a nudge is the reverse; rest helps tired users. The pilot's clinics have
mostly early birds, and its records are public. The trial's users are to be protected. They come from another clinic, with
mostly night owls, so the plan that is best for the pilot is poor for them: there is something to learn. In both, messages
were drawn at random with recorded probabilities, so the trial can be replayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reticent.extras import require

if TYPE_CHECKING:
    import polars

KINDS, MOODS, MESSAGES = ("early bird", "night owl"), ("fresh", "tired"), ("nudge", "push", "rest")
STEPS = 3
FRESH_AFTER = np.array(  # chance of being fresh at the next moment, by kind, mood and message
    [
        [[0.6, 0.8, 0.5], [0.2, 0.1, 0.8]],
        [[0.8, 0.3, 0.6], [0.2, 0.1, 0.8]],
    ]
)
MOVES = np.array(  # chance of moving in the half hour after
    [
        [[0.3, 0.9, 0.1], [0.1, 0.2, 0.1]],
        [[0.9, 0.2, 0.1], [0.2, 0.1, 0.1]],
    ]
)
PROBABILITY = 1 / len(MESSAGES)


def people(users: int, clinics: dict[str, float], seed: int, first: int = 0) -> polars.DataFrame:
    """A long table, one row per user and moment, users numbered from ``first``; ``clinics`` maps each name to its
    share of early birds."""
    require("polars", "the example's records")
    import polars as pl

    random = np.random.default_rng(seed)
    clinic = np.arange(users) % len(clinics)
    kind = (random.random(users) >= np.array(list(clinics.values()))[clinic]).astype(int)
    mood = random.integers(len(MOODS), size=users)
    moments = []
    for step in range(STEPS):
        message = random.integers(len(MESSAGES), size=users)
        moved = random.random(users) < MOVES[kind, mood, message]
        following = (random.random(users) >= FRESH_AFTER[kind, mood, message]).astype(int)
        moments.append(
            pl.DataFrame(
                {
                    "user": first + np.arange(users),
                    "step": np.full(users, step),
                    "clinic": np.array(list(clinics))[clinic],
                    "mood": np.array(MOODS)[mood],
                    "message": np.array(MESSAGES)[message],
                    "moved": moved.astype(float),
                    "probability": np.full(users, PROBABILITY),
                    "next": np.array(MOODS)[following],
                }
            )
        )
        mood = following
    return pl.concat(moments).sort("user", "step")


def write_logs(folder: Path, pilot: int = 4_000, trial: int = 40_000, seed: int = 0) -> tuple[Path, Path]:
    """Write ``pilot.csv`` and ``trial.csv`` of so many users; says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        folder / "pilot.csv": people(pilot, {"north": 0.9, "east": 0.8, "south": 0.6, "west": 0.3}, seed),
        folder / "trial.csv": people(trial, {"harbour": 0.15}, seed + 1, first=pilot),  # no user is in both,
    }
    for path, table in tables.items():
        table.write_csv(path)
    first, second = tables
    return first, second
