# SPDX-License-Identifier: Apache-2.0
"""Made-up records of a coaching app, to walk the way from records to a private agent:

    python examples/make_log.py --out records            # pilot.csv and trial.csv

Each day has three moments. Before each the user is tired or fresh, and gets one of three messages: rest, nudge or push.
What helps differs between people, and the share of each kind between clinics. The pilot's records are public; the
trial's users are from other clinics, and their messages were drawn at random with recorded probabilities.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

MOODS, MESSAGES = ("fresh", "tired"), ("nudge", "push", "rest")
STEPS = 3
PROBABILITIES = {"fresh": (0.5, 0.25, 0.25), "tired": (0.25, 0.25, 0.5)}

FRESH_AFTER = {  # chance of being fresh at the next moment, by kind, mood and message
    "early bird": {"fresh": (0.8, 0.9, 0.6), "tired": (0.5, 0.2, 0.7)},
    "night owl": {"fresh": (0.5, 0.2, 0.8), "tired": (0.2, 0.1, 0.6)},
}
MOVES = {  # chance of moving in the half hour after
    "early bird": {"fresh": (0.5, 0.9, 0.2), "tired": (0.4, 0.2, 0.1)},
    "night owl": {"fresh": (0.7, 0.3, 0.2), "tired": (0.3, 0.1, 0.2)},
}


def people(first: int, users: int, clinics: dict[str, float], seed: int) -> pl.DataFrame:
    """A long table of users numbered from ``first``; ``clinics`` maps each name to its share of early birds."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        clinic = list(clinics)[user % len(clinics)]
        kind = "early bird" if random.random() < clinics[clinic] else "night owl"
        mood = MOODS[int(random.random() < 0.5)]
        for step in range(STEPS):
            chances = PROBABILITIES[mood]
            message = random.choice(len(MESSAGES), p=chances)
            moved = float(random.random() < MOVES[kind][mood][message])
            then = MOODS[int(random.random() >= FRESH_AFTER[kind][mood][message])]
            rows.append((first + user, step, clinic, mood, MESSAGES[message], moved, chances[message], then))
            mood = then
    columns = ("user", "step", "clinic", "mood", "message", "moved", "probability", "next")
    return pl.DataFrame(rows, schema=columns, orient="row")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="folder to write to")
    parser.add_argument("--pilot", type=int, default=4_000, help="users of the pilot")
    parser.add_argument("--trial", type=int, default=20_000, help="users of the trial")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pilot = people(0, arguments.pilot, {"north": 0.9, "east": 0.7, "south": 0.3, "west": 0.1}, arguments.seed)
    pilot.write_csv(arguments.out / "pilot.csv")
    # Nobody is in both: what is fitted to the pilot is published.
    trial = people(arguments.pilot, arguments.trial, {"harbour": 0.15}, arguments.seed + 1)
    trial.write_csv(arguments.out / "trial.csv")
    print(f"{arguments.out / 'pilot.csv'}: public records; {arguments.out / 'trial.csv'}: users to be protected")
