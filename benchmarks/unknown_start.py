# SPDX-License-Identifier: Apache-2.0
"""What it costs not to know where users begin, and to be wrong about it (docs/measurements/unknown-start.md).

    python benchmarks/unknown_start.py --users 20000 --seeds 16

Every world is met three times with the same seeds by ``private-score-vi``: with its first states declared, with a model
that does not know them, and with a model that declares all states to be as likely.
"""

from __future__ import annotations

import argparse
import dataclasses

import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.runtime import double_precision
from reticent.simulation.simulate import simulate
from reticent.worlds import Model, World, make_world, with_unknown_start, world_from_parameters

WORLDS = ("random-blend", "mobile-health", "random-blend:per_step=True")


@double_precision
def beginning_anywhere(world: World) -> World:
    """The same world, whose users' first states are drawn from a Dirichlet(0.3) distribution over the states."""
    drawn = np.random.default_rng(5).dirichlet(np.full(world.model.states, 0.3))
    model = dataclasses.replace(world.model, initial=jnp.asarray(drawn))
    name = f"{world.name}, Dirichlet(0.3)"
    return world_from_parameters(
        model, world.transition_theta, world.reward_theta, name=name, reward_kind=world.reward_kind
    )


def regrets(model: Model, world: World, users: int, seeds: int) -> np.ndarray:
    agent = make_agent("private-score-vi", model, users)
    return np.asarray(simulate(agent, world, list(range(seeds))).regret[:, -1])


def compare(known: World, users: int, seeds: int) -> None:
    """Print the row of a world."""
    unknown = with_unknown_start(known)
    wrong = dataclasses.replace(unknown.model, initial_known=True)
    declared = regrets(known.model, known, users, seeds)
    cells = [f"{declared.mean():.0f}"]
    for model in (unknown.model, wrong):
        found = regrets(model, unknown, users, seeds)
        more = found - declared
        cells.append(f"{found.mean():.0f} ({more.mean():+.0f} ± {more.std(ddof=1) / seeds**0.5:.0f})")
    print(f"| {known.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--world", action="append", default=None, help="only this one; repeat for more")
    arguments = parser.parse_args()
    print("| first states | declared | unknown, guess uniform | uniform wrongly declared |\n|---|--:|--:|--:|")
    for spec in arguments.world or WORLDS:
        world = make_world(spec)
        for each in (world, beginning_anywhere(world)):
            compare(each, arguments.users, arguments.seeds)
