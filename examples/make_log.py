# SPDX-License-Identifier: Apache-2.0
"""Made-up records of a coaching app, to walk the way from records to a private agent:

    python examples/make_log.py --out records            # pilot.csv and trial.csv

Each day has three moments. Before each the user is fresh or tired, and gets one of three messages: nudge, push or rest.
A push moves early birds and tires night owls; a nudge is the reverse; rest helps whoever is tired. The pilot's clinics have
mostly early birds, and its records are public. The trial's users are to be protected. They come from another clinic, with
mostly night owls, so the plan that is best for the pilot is poor for them: there is something to learn. In both, messages
were drawn at random with recorded probabilities, so the trial can be replayed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

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


def people(users: int, clinics: dict[str, float], seed: int) -> pl.DataFrame:
    """A long table, one row per user and moment: ``clinics`` maps each name to its share of early birds."""
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
                    "user": np.arange(users),
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="folder to write to")
    parser.add_argument("--pilot", type=int, default=4_000, help="users of the pilot")
    parser.add_argument("--trial", type=int, default=40_000, help="users of the trial")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pilot = people(arguments.pilot, {"north": 0.9, "east": 0.8, "south": 0.6, "west": 0.3}, arguments.seed)
    pilot.write_csv(arguments.out / "pilot.csv")
    people(arguments.trial, {"harbour": 0.15}, arguments.seed + 1).write_csv(arguments.out / "trial.csv")
    print(f"{arguments.out / 'pilot.csv'}: public records; {arguments.out / 'trial.csv'}: users to be protected")
