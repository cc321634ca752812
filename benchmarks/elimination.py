# SPDX-License-Identifier: Apache-2.0
"""What privacy costs elimination, Score-VI and the paper's algorithm as users come. Makes the figure of
docs/theory/elimination.md.

    python benchmarks/elimination.py --users 100000 --seeds 8 --out docs/pictures/elimination.png

The price of privacy at k users is regret(ε) − regret(∞) after k of the run's K users, the same seeds in both. ε = ∞ is
the learner without clip and noise (``elimination``, ``score-vi``); the paper's algorithm has none with the same rounds, so
that ε = 1000 stands for it there. Defaults everywhere.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world

WORLDS = {
    "random-blend:states=6,actions=3,horizon=3,d=2": "6 states, H = 3, d = 2",
    "random-blend:states=12,actions=3,horizon=5,d=3": "12 states, H = 5, d = 3",
    "random-blend:states=8,actions=4,horizon=4,d=4,seed=1": "8 states, H = 4, d = 4",
}
PAIRS = {
    "private-elimination, ε = 1": ("private-elimination:epsilon=1", "elimination"),
    "private-elimination, ε = 0.3": ("private-elimination:epsilon=0.3", "elimination"),
    "private-score-vi, ε = 1": ("private-score-vi:epsilon=1", "score-vi"),
    "private-linopt-vi, ε = 1": ("private-linopt-vi:epsilon=1", "private-linopt-vi:epsilon=1000"),
}


def regrets(spec: str, world: World, users: int, seeds: int, points: np.ndarray) -> np.ndarray:
    """Regret after each of ``points`` users, ``(seeds, points)``."""
    curves = simulate(make_agent(spec, world.model, users), world, range(seeds))
    return np.stack([np.interp(points, curves.episodes, own) for own in np.asarray(curves.regret)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", default="docs/pictures/elimination.png")
    given = parser.parse_args()
    enable_compilation_cache()
    points = np.unique(np.round(np.geomspace(100, given.users, 60)).astype(int))
    shown = [int(np.abs(points - given.users / 10**back).argmin()) for back in (2, 1, 0)]
    figure = Figure(figsize=(12, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    print(f"| world | learner | {' | '.join(f'k = {points[index]:,}' for index in shown)} | regret(∞) |")
    print("|---|---|--:|--:|--:|--:|")
    for axes, (spec, title) in zip(figure.subplots(1, len(WORLDS)), WORLDS.items(), strict=True):
        world, known = make_world(spec), {}
        for colour, (label, pair) in zip(COLOURS, PAIRS.items(), strict=False):
            for name in pair:
                if name not in known:
                    known[name] = regrets(name, world, given.users, given.seeds, points)
            price = known[pair[0]] - known[pair[1]]
            mean, error = price.mean(axis=0), price.std(axis=0, ddof=1) / np.sqrt(given.seeds)
            axes.plot(points, mean, color=colour, linewidth=2, label=label)
            axes.fill_between(points, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.15, linewidth=0)
            cells = " | ".join(f"{mean[index]:.0f} ± {error[index]:.0f}" for index in shown)
            print(f"| {title} | {label} | {cells} | {known[pair[1]][:, -1].mean():.0f} |", flush=True)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=10)
        axes.set_title(title, fontsize=11, color=INK)
        axes.set_xlabel("users k")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("price of privacy: regret(ε) − regret(∞)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, labelcolor=INK, loc="outside lower center", ncols=4)
    figure.savefig(given.out)


if __name__ == "__main__":
    main()
