"""What each trust model costs: joint, local and no privacy across ε, on one world. Makes the README's figure.

    python benchmarks/trust_and_epsilon.py --episodes 200000 --seeds 16 --out docs/pictures/trust_and_epsilon.png

Two panels against ε: cumulative regret as a share of the uniform policy's, and the final gap as a share of
(optimal − uniform). The learner is private-linopt-vi with its defaults; ε = ∞ is the same learner without noise, that is
ucrl-vtr with the same statistical options on an epoch schedule.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import make_world_from

EPSILONS = (0.1, 1.0, 10.0)
FLOOR = 1e-4
"""Shares below this are drawn on it: the bottom of the axis means at most 0.01%."""
NO_NOISE = "score-vi"


def measure(world_spec: str, episodes: int, seeds: int) -> list[dict[str, float | str]]:
    """One row per (trust, ε): shares of the uniform policy's regret and of its gap, with standard errors."""
    world = make_world_from(world_spec)
    gap = world.optimal_value - world.uniform_value
    runs = [("none", float("inf"), NO_NOISE)]
    for trust in ("joint", "shuffle", "local"):
        for epsilon in EPSILONS:
            runs.append((trust, epsilon, f"private-score-vi:trust={trust},epsilon={epsilon}"))
    rows: list[dict[str, float | str]] = []
    for trust, epsilon, spec in runs:
        curves = simulate(make_agent(spec, world.model, episodes), world, range(seeds))
        regret, tail = curves.regret[:, -1] / (gap * episodes), curves.tail_regret / gap
        rows.append(
            {
                "trust": trust,
                "epsilon": epsilon,
                "agent": spec,
                "regret": float(curves.regret[:, -1].mean()),
                "regret_share": float(regret.mean()),
                "regret_share_stderr": float(regret.std(ddof=1) / np.sqrt(seeds)),
                "final_gap_share": float(tail.mean()),
                "final_gap_share_stderr": float(tail.std(ddof=1) / np.sqrt(seeds)),
            }
        )
        print(f"{trust:6s} ε={epsilon:<5g} regret {regret.mean():7.2%}  final gap {tail.mean():7.2%}", file=sys.stderr)
    return rows


def draw(rows: list[dict[str, float | str]], title: str, path: str, seeds: int) -> None:
    """The two panels."""
    figure = Figure(figsize=(10.67, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    words = {"joint": "joint: the server is trusted", "local": "local: nobody is trusted"}
    for axes, key, label in (
        (panels[0], "regret_share", "regret over all users\n(share of the uniform policy's)"),
        (panels[1], "final_gap_share", "gap of the last 5% of users\n(share of optimal − uniform)"),
    ):
        for colour, trust in zip(COLOURS, words, strict=False):
            chosen = [row for row in rows if row["trust"] == trust]
            axes.errorbar(
                [row["epsilon"] for row in chosen],
                [row[key] for row in chosen],
                yerr=np.array(
                    [[min(1.96 * row[f"{key}_stderr"], 0.9 * row[key]), 1.96 * row[f"{key}_stderr"]] for row in chosen]
                ).T,
                color=colour,
                marker="o",
                capsize=4,
                linewidth=2,
                label=words[trust],
            )
        none = next(row for row in rows if row["trust"] == "none")
        axes.axhline(max(none[key], FLOOR), color=COLOURS[2], linestyle="--", linewidth=2, label="no privacy (ε = ∞)")
        axes.axhline(1, color="#777777", linestyle=":", linewidth=1.5, label="uniform policy: learns nothing")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(FLOOR / 1.3, 2)
        axes.set_xticks(EPSILONS, [f"{value:g}" for value in EPSILONS])
        axes.minorticks_off()
        ticks = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1]
        axes.set_yticks(
            ticks,
            ["≤ 0.01%", *(f"{100 * t:g}%" for t in ticks[1:])],
        )
        axes.set_xlabel("ε (less is more private), δ = 1e-5")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left", bbox_to_anchor=(0.0, 0.08))
    figure.suptitle(f"{title}\nmean ± 1.96 standard errors over {seeds} seeds", fontsize=12, color=INK)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="mobile-health")
    parser.add_argument("--episodes", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", default="trust_and_epsilon.png")
    arguments = parser.parse_args()
    enable_compilation_cache()
    rows = measure(arguments.world, arguments.episodes, arguments.seeds)
    title = f"What privacy costs on {arguments.world}, {arguments.episodes:,} users"
    draw(rows, title, arguments.out, arguments.seeds)
    print(json.dumps([{**row, "epsilon": str(row["epsilon"])} for row in rows], indent=1))


if __name__ == "__main__":
    main()
