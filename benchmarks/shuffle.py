# SPDX-License-Identifier: Apache-2.0
"""What a shuffler is worth: joint, shuffle and local trust at one ε, on two worlds. Makes the figure of docs/shuffle.md.

    python benchmarks/shuffle.py --seeds 16 --out docs/pictures/shuffle.png

One panel per world: the gap of the policy in force to the best one over users, as a share of what acting at random
loses, for private-score-vi. Also printed: regret, final gap, noise and the number of
one-bit messages that a user sends.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.sums import PrivateSums, private_sums
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import default_episodes, make_world
from reticent_wire.shuffling import coins_for, messages_per_user

WORDS = {
    "joint": "joint: the server is trusted",
    "shuffle": "shuffle: the shuffler is trusted",
    "local": "local: no server is trusted",
}
WORLDS = ("random-blend", "mobile-health")
LEARNER = "private-score-vi"


def sent_per_user(sums: PrivateSums, sizes: list[int]) -> list[int]:
    """One-bit messages that a user of each round sends; none without a shuffler."""
    if sums.trust.wire != "messages":
        return [0] * len(sizes)
    grid = float(sums.grid)
    reach = np.ceil(sums.contribution_bound / grid)
    return [messages_per_user(coins_for(np.asarray(sums.noise_scale), grid), reach, size) for size in sizes]


def measure(world_spec: str, epsilon: float, seeds: int) -> dict[str, Any]:
    """Curves and figures of the three trust models on one world, at its default number of users."""
    world, users = make_world(world_spec), default_episodes(world_spec)
    gap = world.optimal_value - world.uniform_value
    options = {"epsilon": epsilon, "delta": 1e-5}
    found: dict[str, Any] = {"world": world_spec, "episodes": users, "epsilon": epsilon, "models": {}}
    for trust in WORDS:
        agent = make_agent(f"{LEARNER}:trust={trust}", world.model, users, **options)
        guarantee, sums = guarantee_of(agent), private_sums(agent)
        assert guarantee is not None
        curves = simulate(agent, world, range(seeds))
        regret = np.asarray(curves.regret) / gap
        points = np.asarray(curves.episodes)
        slope = np.diff(regret, axis=1) / np.diff(points)
        messages = sent_per_user(sums, agent.schedule.round_sizes.tolist())
        found["models"][trust] = {
            "regret": float(curves.regret[:, -1].mean()),
            "regret_stderr": float(curves.regret[:, -1].std(ddof=1) / np.sqrt(seeds)),
            "final_gap_share": float(curves.tail_regret.mean() / gap),
            "final_gap_share_stderr": float(curves.tail_regret.std(ddof=1) / np.sqrt(seeds) / gap),
            "sigma": float(sums.noise_scale[0, 0]),
            "epsilon_spent": guarantee.spent,
            "messages_first_epoch": int(messages[0]),
            "messages_last_epoch": int(messages[-1]),
            "users": points[1:].tolist(),
            "gap_share": slope.mean(axis=0).tolist(),
            "gap_share_stderr": (slope.std(axis=0, ddof=1) / np.sqrt(seeds)).tolist(),
        }
        row = found["models"][trust]
        print(
            f"{world_spec:14s} {trust:8s} regret {row['regret']:9.1f} ± {row['regret_stderr']:6.1f}  final gap "
            f"{row['final_gap_share']:7.2%}  σ {row['sigma']:7.3f}  messages {messages[0]:,} … {messages[-1]:,}",
            file=sys.stderr,
        )
    return found


def draw(found: list[dict[str, Any]], path: str, seeds: int) -> None:
    """One panel per world."""
    figure = Figure(figsize=(10.67, 4.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, one in zip(figure.subplots(1, len(found), sharey=True), found, strict=True):
        for colour, (trust, label) in zip(COLOURS, WORDS.items(), strict=False):
            row = one["models"][trust]
            users, mean, error = (np.array(row[key]) for key in ("users", "gap_share", "gap_share_stderr"))
            axes.plot(users, mean, color=colour, linewidth=2, label=label)
            axes.fill_between(users, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, linewidth=0)
        axes.set_title(f"{one['world']}, ε = {one['epsilon']:g}, δ = 1e-5", loc="left", fontsize=11, color=INK)
        axes.set_xlabel("users so far")
        axes.set_ylim(0, None)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels = figure.axes
    panels[0].set_ylabel("gap to the best policy\n(share of what acting at random loses)")
    panels[0].set_yticks([0, 0.25, 0.5, 0.75, 1, 1.25], ["0", "25%", "50%", "75%", "100%", "125%"])
    panels[0].legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper right")
    figure.suptitle(
        f"A shuffler is almost as good as a trusted server (mean ± 1.96 standard errors over {seeds} seeds)",
        fontsize=12, color=INK,
    )  # fmt: skip
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", help="repeat for more; by default two")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", default="shuffle.png")
    arguments = parser.parse_args()
    enable_compilation_cache()
    found = [measure(world, arguments.epsilon, arguments.seeds) for world in arguments.world or WORLDS]
    draw(found, arguments.out, arguments.seeds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
