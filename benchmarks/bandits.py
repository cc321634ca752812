# SPDX-License-Identifier: Apache-2.0
"""What privacy costs a linear contextual bandit, by trust and by noise. Makes the figure of docs/baselines/bandits.md.

    python benchmarks/bandits.py --seeds 16 --out docs/pictures/bandits.png

The gap of the policy in force to the best one, as a share of what acting at random loses, over users on a logarithmic axis.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import default_episodes, make_world

WORLD = "contextual-bandit"
SHOWN = {
    "private-linucb:trust=local": "local",
    "private-linucb:noise=wishart": "joint, tree, Wishart noise",
    "private-linucb": "joint, tree, Gaussian noise (Shariff and Sheffet)",
    "private-linucb:trust=shuffle": "shuffle, growing epochs",
    "private-linucb:counter=epochs": "joint, growing epochs",
    "linucb": "no privacy",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", default="bandits.png")
    arguments = parser.parse_args()
    enable_compilation_cache()
    world, users = make_world(WORLD), default_episodes(WORLD)
    gap = world.optimal_value - world.uniform_value
    figure = Figure(figsize=(8.5, 4.8), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for colour, (spec, label) in zip(COLOURS, SHOWN.items(), strict=False):
        name = spec.partition(":")[0]
        options = {"bonus_scale": 0.1}
        if name.startswith("private"):
            options["epsilon"] = arguments.epsilon
        agent = make_agent(spec, world.model, users, **options)
        curves = simulate(agent, world, range(arguments.seeds))
        share = (world.optimal_value - np.asarray(curves.value)) / gap
        mean, error = share.mean(axis=0), share.std(axis=0, ddof=1) / np.sqrt(arguments.seeds)
        axes.plot(curves.episodes, mean, color=colour, linewidth=2, label=label)
        low, high = np.maximum(mean - 1.96 * error, 1e-6), mean + 1.96 * error
        axes.fill_between(curves.episodes, low, high, color=colour, alpha=0.15, linewidth=0)
        regret = curves.regret[:, -1]
        print(
            f"{spec:32s} regret {regret.mean():8.1f} ± {regret.std(ddof=1) / np.sqrt(arguments.seeds):6.1f}   final gap "
            f"{curves.tail_regret.mean() / gap:7.2%}",
            file=sys.stderr,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, users)
    axes.set_ylim(1e-4, 1.3)
    axes.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["0.01%", "0.1%", "1%", "10%", "100%"])
    axes.set_xlabel("users so far")
    axes.set_ylabel("gap to the best policy\n(share of what acting at random loses)")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left")
    axes.set_title(
        f"{WORLD}, ε = {arguments.epsilon:g}, δ = 1e-5: mean ± 1.96 standard errors over {arguments.seeds} seeds",
        loc="left", fontsize=11, color=INK,
    )  # fmt: skip
    figure.savefig(arguments.out)


if __name__ == "__main__":
    main()
