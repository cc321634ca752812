# SPDX-License-Identifier: Apache-2.0
"""What wrong candidates cost, and none at all: the flagship with and without its residual block.

    python benchmarks/prior.py [--worlds right wrong tables] [--agents on off floor] [--episodes 20000] [--seeds 32]

One line per world and agent: regret after 20 000, 200 000 and 1 000 000 users (mean and standard error), its median and
largest, and the final gap in percent of what acting at random loses (mean and largest). ``on`` is ``private-score-vi`` with
the residual block, ``off`` without it, ``floor`` the same learner without privacy; ``ucbvi`` and ``ucrl-vtr`` are the other
learners without privacy. ε = 1, δ = 1e-5, joint. docs/misspecification.md has what it printed.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable

import numpy as np

from reticent.agents import make_agent
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world
from reticent.worlds.models.blend import blend
from reticent.worlds.models.tabular import tabular
from reticent.worlds.world import checked_truth

AGENTS = {
    "on": "private-score-vi:residual=on",
    "off": "private-score-vi:residual=off",
    "floor": "score-vi:residual=on",
    "blend-floor": "score-vi:residual=off",
    "ucbvi": "ucbvi",
    "ucrl-vtr": "ucrl-vtr:replan=epoch,centred=True,span=seen",
}
POINTS = (20_000, 200_000, 1_000_000)
SIZES = 20, 4, 5
"""States, actions and steps of the random tables."""


def random_table(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """A table that nobody described: rows of a few likely successors, uniform rewards."""
    draw, (states, actions, _) = np.random.default_rng(500 + seed), SIZES
    rows = draw.dirichlet(np.full(states, 0.1), size=(states, actions))
    return rows, draw.uniform(size=(states, actions)), draw


def without_candidates(seed: int = 0) -> World:
    """A random table that is learned from nothing."""
    rows, rewards, _ = random_table(seed)
    return tabular(rows, rewards, SIZES[2], stationary=True, name="no candidates")


def unrelated_candidates(seed: int = 0) -> World:
    """The same table, with four candidates that have nothing to do with it."""
    rows, rewards, draw = random_table(seed)
    states, actions, horizon = SIZES
    candidates = draw.dirichlet(np.full(states, 0.1), size=(4, states, actions))
    tables = draw.uniform(size=(4, states, actions))
    world = blend(candidates, tables, np.full(4, 0.25), np.full(4, 0.25), horizon, name="four unrelated candidates")
    return dataclasses.replace(world, **checked_truth(rows[None], rewards[None]))


def named(name: str) -> Callable[[], World]:
    return lambda: make_world(name)


WRONG = "random-blend:misspecification"
WORLDS: dict[str, dict[str, Callable[[], World]]] = {
    "right": {
        name: named(name)
        for name in ("random-blend", "mobile-health", "tutor", "hard-instance", "riverswim:features=blend")
    },
    "wrong": {f"{WRONG}={amount}": named(f"{WRONG}={amount}") for amount in (0.1, 0.2, 0.3)},
    "held-out-right": {f"random-blend:seed={seed}": named(f"random-blend:seed={seed}") for seed in range(2001, 2021)},
    "held-out-wrong": {
        name: named(name)
        for seed, amount in zip(range(3001, 3011), (0.05, 0.1, 0.15, 0.2, 0.3) * 2, strict=True)
        for name in [f"random-blend:seed={seed},misspecification={amount}"]
    },
    "rivers": {
        name: named(name)
        for name in ("riverswim:states=4,stationary=True", "riverswim:stationary=True", "riverswim:states=4")
    },
    "tables": {"no candidates": without_candidates, "four unrelated candidates": unrelated_candidates},
    "large": {
        name: named(name) for name in ("random-blend:states=69,actions=18,misspecification=0.2",)
    },
}  # fmt: skip


def line(world: World, agent_name: str, episodes: int, seeds: int) -> str:
    """What one agent loses in one world."""
    agent = make_agent(AGENTS[agent_name], world.model, episodes)
    curves = simulate(agent, world, range(seeds))
    gap = 100 * curves.tail_regret / (world.optimal_value - world.uniform_value)
    parts = []
    for point in [*(point for point in POINTS if point < episodes), episodes]:
        at = np.array([np.interp(point, curves.episodes, one) for one in curves.regret])
        error = at.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
        parts.append(f"{point}: {at.mean():.0f} ± {error:.0f} (median {np.median(at):.0f}, largest {at.max():.0f})")
    speed = seeds * episodes / curves.seconds
    return " | ".join([*parts, f"gap {gap.mean():.3f} % (largest {gap.max():.2f} %)", f"{speed:.3g} episodes/s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=["right", "wrong", "rivers", "tables"], choices=WORLDS)
    parser.add_argument("--agents", nargs="+", default=["off", "on", "floor"], choices=AGENTS)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=32)
    chosen = parser.parse_args()
    enable_compilation_cache()
    for group in chosen.worlds:
        for name, make in WORLDS[group].items():
            world = make()
            for agent in chosen.agents:
                print(f"{name} {agent}: {line(world, agent, chosen.episodes, chosen.seeds)}", flush=True)


if __name__ == "__main__":
    main()
