# SPDX-License-Identifier: Apache-2.0
"""How often the agent's own check of its candidates complains: of blends that are right, and of blends that are not.

    python benchmarks/goodness_of_fit.py [--users 20000] [--seeds 64]

Every row is one world, its truth moved off the candidates' span by ζ in total variation; the last columns are the shares of
seeds in which the χ² of all foretold releases has a probability below 5 % and 1 % (what the dashboard calls "the model
does not explain what users do").
"""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np
from rich.console import Console
from rich.table import Table

from reticent.agents import make_agent
from reticent.agents.score.diagnostics import fit_of
from reticent.agents.score.evidence import Fit
from reticent.agents.score.learner import ScoreLearner
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world, misspecified

WORLDS = ("random-blend", "mobile-health", "tutor")
AMOUNTS = (0.0, 0.1, 0.3)
AGENTS = ("score-vi", "private-score-vi:epsilon=1", "private-score-vi:epsilon=3")


def probabilities(world_name: str, amount: float, agent_name: str, users: int, seeds: int) -> np.ndarray:
    """The probability, one per seed, of a misfit as large if the candidates were right."""
    base = make_world(world_name)
    world = dataclasses.replace(misspecified(base, amount), name=base.name) if amount else base
    agent = make_agent(agent_name, world.model, users)
    assert isinstance(agent, ScoreLearner)
    fits = simulate(agent, world, list(range(seeds))).carry.state.past.fit
    each = [fit_of(agent, Fit(*(leaf[seed] for leaf in fits))) for seed in range(seeds)]
    return np.array([1.0 if one is None else one.probability for one in each])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--world", action="append", default=[])
    options = parser.parse_args()
    table = Table("world", "ζ", "agent", "median probability", "below 5 %", "below 1 %")
    for world in options.world or WORLDS:
        for amount in AMOUNTS:
            for agent in AGENTS:
                found = probabilities(world, amount, agent, options.users, options.seeds)
                shares = (f"{(found < level).mean():.0%}" for level in (0.05, 0.01))
                table.add_row(world, f"{amount:g}", agent, f"{np.median(found):.3f}", *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
