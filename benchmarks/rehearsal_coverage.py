# SPDX-License-Identifier: Apache-2.0
"""Does a rehearsal predict? Measured regret beside its 90 % band, on 50 worlds that nobody tuned on.

    python benchmarks/rehearsal_coverage.py                   # the table of docs/from-records.md
    python benchmarks/rehearsal_coverage.py --worlds 5        # a quick look

Five shapes of random blends, ten seeds each. For each the model is rehearsed over 200 truths of the public prior, and then
meets three populations with users and noise of their own: the world's hidden blend (drawn uniformly, as the prior
says), one that a single kind dominates (Dirichlet 0.3), and one that no blend meets (transitions moved by a total
variation of 0.05). Where the prior is right the band must hold nine in ten; the other two say what it is worth where it
is not.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from reticent.experiments.rehearsal import Spread, rehearse
from reticent.worlds import World, blend, misspecified
from reticent.worlds.models.prior import draw_truths

SHAPES = (  # states, actions, horizon, candidates, reward tables, concentration of the candidates' rows
    (20, 4, 5, 4, 4, 0.1),
    (10, 3, 8, 3, 3, 0.1),
    (30, 5, 3, 6, 6, 0.1),
    (6, 2, 12, 2, 2, 0.1),
    (12, 4, 4, 5, 2, 0.3),
)
FIRST_SEED = 1_000
"""Seeds of the worlds: none of them was ever used to choose a setting."""

POPULATIONS = ("as the prior", "one kind dominates", "no blend meets it")


def random_world(shape: tuple[int, int, int, int, int, float], seed: int) -> World:
    """Random candidates and a hidden blend that is uniform on the simplex.

    In one pair all tables pay 1, so that all worlds of a shape have the same declared bounds and are one compiled program.
    """
    states, actions, horizon, d1, d2, concentration = shape
    random = np.random.default_rng(seed)
    rows = random.dirichlet(np.full(states, concentration), size=(d1, states, actions))
    tables = random.uniform(size=(d2, states, actions))
    tables[:, -1, -1] = 1.0
    return blend(rows, tables, random.dirichlet(np.ones(d1)), random.dirichlet(np.ones(d2)), horizon)


def measure(world: World, number: int, truths: int, users: int, epsilon: float, trust: str) -> list[dict[str, float]]:
    """Band and measured regret of the three populations of one world."""
    drawn = draw_truths(world.model, truths, seed=number)
    dominated = draw_truths(world.model, 1, seed=10_000 + number, concentration=0.3)[0]
    met = [world, dominated, misspecified(world, 0.05)]
    found = rehearse(
        world.model, users=users, epsilons=(epsilon,), trusts=(trust,), truths=[*drawn, *met], floor=False, seed=number
    )
    (outcome,) = found.outcomes
    total = outcome.regret[:, -1]
    band = Spread.of(total[:truths])
    gap = Spread.of(outcome.final_gap[:truths])
    return [
        {
            "low": band.low_end, "high": band.high_end, "mean": band.mean, "measured": float(total[truths + place]),
            "gap_high": gap.high_end, "gap_measured": float(outcome.final_gap[truths + place]),
        }
        for place in range(len(met))
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="begin with this one, as the rest of an earlier run")
    parser.add_argument("--truths", type=int, default=200)
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--trust", default="joint")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file for the numbers of every world")
    arguments = parser.parse_args()
    began = time.perf_counter()
    rows = []
    for number in range(arguments.first, arguments.worlds):
        # Shape by shape, so that each is compiled once.
        shape = SHAPES[number * len(SHAPES) // max(arguments.worlds, len(SHAPES))]
        world = random_world(shape, FIRST_SEED + number)
        rows.append(measure(world, number, arguments.truths, arguments.users, arguments.epsilon, arguments.trust))
        told = ", ".join(f"{row['low']:.0f} ≤ {row['measured']:.0f} ≤ {row['high']:.0f}" for row in rows[-1])
        print(f"{shape} {FIRST_SEED + number}: {told}", flush=True)
    seconds = time.perf_counter() - began
    print(
        f"\n{arguments.trust}, ε = {arguments.epsilon:g}, {arguments.users:,} users, {arguments.truths} truths, "
        f"{len(rows)} worlds, {seconds:.0f} s\n\n| population | regret inside its 90% band | above | below | "
        "measured / predicted mean | final gap at most its 95% quantile |\n|---|--:|--:|--:|--:|--:|"
    )
    for place, name in enumerate(POPULATIONS):
        own = [row[place] for row in rows]
        above = sum(row["measured"] > row["high"] for row in own)
        below = sum(row["measured"] < row["low"] for row in own)
        ratio = np.sum([row["measured"] for row in own]) / np.sum([row["mean"] for row in own])
        gap = sum(row["gap_measured"] <= row["gap_high"] + 1e-9 for row in own)
        count, inside = len(own), len(own) - above - below
        print(f"| {name} | {inside} of {count} | {above} | {below} | {ratio:.2f} | {gap} of {count} |")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
