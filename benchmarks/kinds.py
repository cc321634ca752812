# SPDX-License-Identifier: Apache-2.0
"""What a belief about the own user is worth, and what privacy takes of it, in random worlds of latent kinds.

    python benchmarks/kinds.py --worlds 6 --users 2000

Prints a row per horizon and distance between kinds: the share of the room (blend's plan with the true shares → known kind)
that is closed without privacy and at ε = 1, 0.3; and, where users have no kind, what is lost to the blend's plan.
World seeds start at 40 000; none of them was looked at while the agent was written.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.simulation import engine
from reticent.simulation.simulate import simulate
from reticent.worlds.kinds import KindsWorld, random_kinds

FIRST_SEED = 40_000
VALUED = 2**16
AGENTS = ("kinds", "private-kinds:epsilon=1", "private-kinds:epsilon=0.3")
SETTINGS = ((5, 0.5), (10, 0.5), (20, 0.5), (5, 1.0), (20, 1.0))


@double_precision
def final_values(world: KindsWorld, users: int, seeds: int) -> list[float]:
    """The value of the last plan of every agent, averaged over seeds."""
    found = []
    for spec in AGENTS:
        agent = make_agent(spec, world.model, users)
        curves = simulate(agent, world, range(seeds))
        plans = jax.tree.map(lambda leaf: leaf[0] if leaf.shape[:1] == (1,) else leaf, curves.carry.plan)
        found.append(float(values_of(agent, plans, world).mean()))
    jax.clear_caches()  # programs of one world are of no use to the next, and the system allows so many memory maps
    engine._PROGRAMS.clear()
    return found


@jax.jit
def values_of(agent: KindsLearner, plans: Plan, world: KindsWorld) -> jax.Array:
    """What the plan of each seed is worth, by many simulated users."""
    return jax.vmap(lambda plan: agent.simulated_value(plan, world, VALUED))(plans)


def with_error(values: np.ndarray, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=6, help="worlds per row")
    parser.add_argument("--users", type=int, default=2_000, help="K")
    parser.add_argument("--seeds", type=int, default=2, help="runs per world")
    chosen = parser.parse_args()
    print("| H | kinds differ by | room, % of value | closed, no privacy | ε = 1 | ε = 0.3 |")
    print("|--:|--:|--:|--:|--:|--:|")
    for horizon, apart in SETTINGS:
        rooms, closed = [], []
        for number in range(chosen.worlds):
            world = random_kinds(horizon=horizon, apart=apart, seed=FIRST_SEED + number)
            blend = float(world.policy_value(world.blend_plan()))
            room = world.optimal_value - blend
            rooms.append(100 * room / blend)
            closed.append([100 * (value - blend) / room for value in final_values(world, chosen.users, chosen.seeds)])
        cells = " | ".join(f"{with_error(column, 0)} %" for column in np.array(closed).T)
        print(f"| {horizon} | {apart:g} | {np.mean(rooms):.1f} | {cells} |", flush=True)
    lost = []
    for number in range(chosen.worlds):
        world = random_kinds(horizon=10, apart=0.5, seed=FIRST_SEED + number, mixed=True)
        best = world.optimal_value
        lost.append([100 * (best - value) / best for value in final_values(world, chosen.users, chosen.seeds)])
    cells = " | ".join(f"loses {with_error(column, 2)} %" for column in np.array(lost).T)
    print(f"| 10 | 0.5, users have no kind | – | {cells} |")


if __name__ == "__main__":
    main()
