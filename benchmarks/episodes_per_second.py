"""Learner-episodes per second of the simulation engine, on whatever device JAX runs on.

    python benchmarks/episodes_per_second.py --seeds 16 --episodes 20000
    python benchmarks/episodes_per_second.py --seeds 8192 --episodes 1000     # on a GPU

One row per agent: S=20, A=4, H=5, d=4, after compilation, all seeds in one program.
"""

from __future__ import annotations

import argparse

import jax

from reticent.agents import make_agent
from reticent.experiments.simulate import simulate
from reticent.worlds.registry import make_world_from

WORLD = "random-blend:states=20,actions=4,horizon=5,d=4"
AGENTS = {
    "no privacy, replanning every episode": "ucrl-vtr",
    "tree counters, replanning every episode": "private-linopt-vi:counter=tree",
    "no privacy, replanning every epoch": "ucrl-vtr:replan=epoch",
    "epochs": "private-linopt-vi:counter=epochs",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=20_000)
    arguments = parser.parse_args()
    world = make_world_from(WORLD)
    device = jax.devices()[0]
    print(
        f"{WORLD}, {arguments.seeds} seeds, {arguments.episodes} episodes, {device.device_kind}, jax {jax.__version__}"
    )
    print("| | learner-episodes/s | compile s |\n|---|--:|--:|")
    for label, spec in AGENTS.items():
        agent = make_agent(spec, world.model, arguments.episodes)
        first = simulate(agent, world, range(arguments.seeds), segments=2)
        again = simulate(agent, world, range(arguments.seeds), segments=2)
        rate = arguments.seeds * arguments.episodes / again.seconds
        print(f"| {label} (`{spec}`) | {rate:,.0f} | {first.compile_seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
