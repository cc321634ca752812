# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's tables, learned with and without privacy: the figures of docs/gymnasium.md.

    python benchmarks/gymnasium_tables.py [--worlds lake cliff taxi] [--episodes 20000] [--seeds 8]

One line per world and agent: the return of the policies of the last 5 % of users, in the environment's own rewards (mean ±
standard error over seeds), the gap to the best policy in percent of what acting at random loses (mean, largest), and regret
in rewards of [0, 1]. ε = 1, δ = 1e-5, joint, where there is a promise. Agents of the second list are told candidates: the
same environment on other days.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np

import reticent
from reticent.errors import InvalidInput
from reticent.runtime import enable_compilation_cache
from reticent.worlds import World


class Case(NamedTuple):
    """An environment, and what is compared in it."""

    nothing: Callable[[], World]
    candidates: Callable[[], World]
    reward_range: tuple[float, float]


def lake(rate: float) -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", success_rate=rate)


def cliff(slippery: bool) -> gymnasium.Env:
    return gymnasium.make("CliffWalking-v1", is_slippery=slippery)


def taxi(rain: float) -> gymnasium.Env:
    return gymnasium.make("Taxi-v4", is_rainy=True, rainy_probability=rain)


CASES = {
    "lake": Case(
        lambda: reticent.from_gymnasium(lake(1 / 3), horizon=50),
        lambda: reticent.from_gymnasium(lake(1 / 3), horizon=50, candidates=[lake(0.2), lake(0.9)]),
        (0, 1),
    ),
    "cliff": Case(
        lambda: reticent.from_gymnasium(cliff(False), horizon=20),
        lambda: reticent.from_gymnasium(cliff(False), horizon=20, candidates=[cliff(False), cliff(True)]),
        (-100, 0),
    ),
    "taxi": Case(
        lambda: reticent.from_gymnasium(taxi(0.5), horizon=20),
        lambda: reticent.from_gymnasium(taxi(0.5), horizon=20, candidates=[taxi(0.1), taxi(0.9)]),
        (-10, 20),
    ),
}
NOTHING = (
    "q-learning",
    "ucbvi:pool=true,replan=epoch",
    "score-vi:residual=on",
    "private-ucb-vi:counter=epochs",
    "dp-ucbvi:counter=epochs",
    "private-score-vi:residual=on",
)
CANDIDATES = ("score-vi", "private-score-vi")


def line(world: World, agent: str, episodes: int, seeds: int, reward_range: tuple[float, float]) -> str:
    """What one agent reaches in one world."""
    try:
        made = reticent.make_agent(agent, world.model, episodes)
    except InvalidInput as refusal:
        return f"refused: {refusal}"
    curves = reticent.simulate(made, world, range(seeds))
    (low, high), horizon = reward_range, world.model.horizon
    reached = (world.optimal_value - curves.tail_regret) * (high - low) + low * horizon
    gap = 100 * curves.tail_regret / (world.optimal_value - world.uniform_value)
    regret = curves.regret[:, -1]
    return (
        f"return {reached.mean():.2f} ± {_error(reached):.2f} | gap {gap.mean():.1f} % (largest {gap.max():.1f} %) | "
        f"regret {regret.mean():.0f} ± {_error(regret):.0f} | {curves.seconds:.0f} s"
    )


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--agents", nargs="+", default=[], help="only these, as they are named here")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=8)
    chosen = parser.parse_args()
    enable_compilation_cache()
    for name in chosen.worlds:
        case = CASES[name]
        for label, make, agents in (("nothing", case.nothing, NOTHING), ("candidates", case.candidates, CANDIDATES)):
            world = make()
            (low, high), horizon = case.reward_range, world.model.horizon
            best, random = (
                value * (high - low) + low * horizon for value in (world.optimal_value, world.uniform_value)
            )
            print(f"{name}, told {label}: best {best:.2f}, at random {random:.2f}", flush=True)
            for agent in agents:
                if not chosen.agents or agent in chosen.agents:
                    found = line(world, agent, chosen.episodes, chosen.seeds, case.reward_range)
                    print(f"  {agent}: {found}", flush=True)


if __name__ == "__main__":
    main()
