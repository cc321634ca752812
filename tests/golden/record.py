# SPDX-License-Identifier: Apache-2.0
"""Golden regrets: every agent in two small worlds, fixed seeds, double precision; to be kept bit for bit.

``python tests/golden/record.py`` writes ``regrets.json`` beside this file, and with names of worlds and agents, in turn,
prints what they give; ``--again`` before them writes these over what was recorded. Recorded before the house was rebuilt;
a change of these numbers is a change of an algorithm, and needs a reason: it is written in :data:`RECORDED_AGAIN`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_name("regrets.json")

EPISODES, SEEDS = 150, (0, 1)

WORLDS = {
    "blend": "random-blend:states=5,actions=3,horizon=3,d=3,seed=7",
    "river": "riverswim:states=3,horizon=5",
    "bandit": "contextual-bandit:contexts=5,actions=4,d=3",
    "blend_by_step": "random-blend:states=4,actions=2,horizon=3,d=2,per_step=True",
}

EVERYWHERE = [
    "ucrl-vtr", "ucrl-vtr:replan=epoch,centred=True,span=seen", "oppo", "private-linopt-vi",
    "private-linopt-vi:trust=shuffle,epsilon=4", "private-linopt-vi:trust=local,epsilon=10",
    "private-linopt-vi:calibration=paper", "private-linopt-vi:counter=tree", "private-linopt-vi:counter=tree-reduced",
    "private-linopt-vi:counter=blt", "private-linopt-vi:counter=toeplitz", "private-linopt-po", "ldp-ucrl-vtr",
    "lsvi-ucb", "private-lsvi-ucb", "lsw-improve", "lsl-improve", "dp-ucbvi", "ldp-obi", "noisy-q-learning",
    "private-ucb-vi", "private-ucb-vi:law=laplace", "private-ucb-vi:trust=local", "private-ucb-po", "psrl", "pucb",
    "ucbvi", "q-learning",
]  # fmt: skip
ONLY_BANDITS = ["linucb", "private-linucb", "private-linucb:noise=wishart", "private-linucb:trust=local"]
ONLY_BY_STEP = ["private-linopt-vi", "private-linopt-po", "ucrl-vtr", "private-score-vi"]
SCORES = [
    ("blend", "score-vi"), ("blend", "private-score-vi"), ("blend", "private-score-vi:trust=local,epsilon=10"),
    ("river", "private-score-vi"),
]  # fmt: skip

RUNS = (
    [(world, agent) for world in ("blend", "river") for agent in EVERYWHERE]
    + SCORES
    + [("bandit", agent) for agent in ONLY_BANDITS]
    + [("blend_by_step", agent) for agent in ONLY_BY_STEP]
)


RECORDED_AGAIN = {
    "Ties at the ceiling are broken by the unclipped Q, no longer for action 0 (2026-11-16).": [
        "river ucrl-vtr", "bandit private-linucb",
    ],
    "Policy optimization steps ahead of its round, along that round's Q, and 30 times faster; its epochs grow by 1.5 "
    "(2026-11-16).": [
        "blend oppo", "river oppo", "blend private-linopt-po", "river private-linopt-po",
        "blend_by_step private-linopt-po",
    ],
    "Rewards of a blend are learned as contrasts of its tables, with noise of their own; calibration=paper is as it was "
    "(2026-11-16).": [
        "blend private-linopt-vi", "blend private-linopt-vi:trust=shuffle,epsilon=4",
        "blend private-linopt-vi:trust=local,epsilon=10", "blend private-linopt-vi:counter=tree",
        "blend private-linopt-vi:counter=tree-reduced", "blend private-linopt-vi:counter=blt",
        "blend private-linopt-vi:counter=toeplitz", "blend_by_step private-linopt-vi",
    ],
    "Residuals are learned by default where a public rule allows it: the candidates are a prior (2026-11-18).": [
        "blend score-vi", "blend private-score-vi", "river private-score-vi", "blend_by_step private-score-vi",
    ],
    "Blend and residuals are learned from one model, and residuals share a covariance that is learned (2026-11-18).": [
        "blend score-vi", "blend private-score-vi", "river private-score-vi", "blend_by_step private-score-vi",
    ],
    "With residuals rounds fill the users exactly; residuals are clipped at 0.7 of their length, and what the clip does to "
    "their average is undone (2026-11-19).": [
        "blend score-vi", "blend private-score-vi", "river private-score-vi", "blend_by_step private-score-vi",
    ],
}  # fmt: skip
"""Which runs were recorded again, and why. All others are as they were first."""


def regrets(world_name: str, agent_name: str) -> list[list[str]]:
    """Regret of each seed after a third of the users, two thirds and all, as exact hexadecimal numbers."""
    import numpy as np

    import reticent

    world = reticent.make_world(WORLDS[world_name])
    agent = reticent.make_agent(agent_name, world.model, EPISODES)
    curves = reticent.simulate(agent, world, SEEDS)
    at = np.searchsorted(curves.episodes, [EPISODES // 3, 2 * EPISODES // 3, EPISODES])
    return [[float(value).hex() for value in row] for row in curves.regret[:, at]]


def record() -> None:
    """Run everything and write it down."""
    recorded = {}
    for number, (world, agent) in enumerate(RUNS, 1):
        recorded[f"{world} {agent}"] = regrets(world, agent)
        print(f"{number}/{len(RUNS)} {world} {agent}", recorded[f"{world} {agent}"][0][-1], flush=True)
    FILE.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    again, names = sys.argv[1:2] == ["--again"], [name for name in sys.argv[1:] if name != "--again"]
    if names:
        runs = zip(names[::2], names[1::2], strict=True)
        found = {f"{world} {agent}": regrets(world, agent) for world, agent in runs}
        print(json.dumps(found))
        if again:
            FILE.write_text(json.dumps({**json.loads(FILE.read_text()), **found}, indent=1) + "\n")
    else:
        record()
