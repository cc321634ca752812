# SPDX-License-Identifier: Apache-2.0
"""What late and lost reports cost: regret against the mean delay and against the share that never arrives.

    python benchmarks/delays.py --episodes 20000 --seeds 8 --out docs/pictures/delays.png

Delays are geometric and counted in users admitted meanwhile. Rounds end on admissions, so the noise and the promise are the
same at every point of a curve: what is lost is information, or time.
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
from reticent.simulation.delayed import Delay, FixedDelay, GeometricDelay, Lost, simulate_delayed
from reticent.worlds.registry import make_world

MEANS = (0, 100, 1000, 5000)
LOSSES = (0.0, 0.5, 0.9)
AGENTS = {
    "ε = 1, growing epochs": "private-linopt-vi:bonus_scale=0.05",
    "ε = 1, replanned for every user (blt)": "private-linopt-vi:bonus_scale=0.05,counter=blt",
    "no privacy, replanned for every user": (
        "ucrl-vtr:bonus_scale=0.05,centred=true,span=seen,pool=true,normalize=true"
    ),
}

Row = dict[str, float | str]


def measure(world_spec: str, episodes: int, seeds: int) -> list[Row]:
    """One row per agent and delay; regret as a share of the uniform policy's."""
    world = make_world(world_spec)
    uniform = episodes * (world.optimal_value - world.uniform_value)
    delays: list[tuple[float, float, Delay]] = [
        (mean, 0.0, GeometricDelay(mean) if mean else FixedDelay(0)) for mean in MEANS
    ]
    delays += [(0, loss, Lost(loss)) for loss in LOSSES if loss]
    rows: list[Row] = []
    for name, spec in AGENTS.items():
        agent = make_agent(spec, world.model, episodes)
        for mean, loss, delay in delays:
            curves = simulate_delayed(agent, world, range(seeds), delay)
            share = curves.regret[:, -1] / uniform
            rows.append(
                {
                    "agent": name,
                    "mean_delay": mean,
                    "loss": loss,
                    "regret": float(curves.regret[:, -1].mean()),
                    "share": float(share.mean()),
                    "stderr": float(share.std(ddof=1) / np.sqrt(seeds)),
                    "late": float(curves.late.mean() / episodes),
                    "lost": float(curves.lost.mean() / episodes),
                }
            )
            print(
                f"{name:40s} delay {mean:<5g} loss {loss:<4g} regret {share.mean():7.2%} ± {rows[-1]['stderr']:.2%}  "
                f"late {rows[-1]['late']:.0%}  lost {rows[-1]['lost']:.0%}",
                file=sys.stderr,
                flush=True,
            )
    return rows


def draw(rows: list[Row], title: str, path: str, seeds: int) -> None:
    """Two panels with one axis of regret: by delay, and by loss."""
    figure = Figure(figsize=(10.67, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, other, label in (
        (panels[0], "mean_delay", "loss", "mean delay of a report (users admitted meanwhile)"),
        (panels[1], "loss", "mean_delay", "share of reports that never arrive"),
    ):
        for colour, name in zip(COLOURS, AGENTS, strict=False):
            chosen = [row for row in rows if row["agent"] == name and row[other] == 0]
            axes.errorbar(
                range(len(chosen)),
                [100 * float(row["share"]) for row in chosen],
                yerr=[196 * float(row["stderr"]) for row in chosen],
                color=colour, marker="o", capsize=4, linewidth=2, label=name,
            )  # fmt: skip
        words = MEANS if key == "mean_delay" else [f"{loss:.0%}" for loss in LOSSES]
        axes.set_xticks(range(len(words)), [f"{word:,}" if key == "mean_delay" else word for word in words])
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(bottom=0)  # after both are drawn: they share the axis
    panels[0].set_ylabel("regret over all users\n(% of the uniform policy's)")
    panels[0].legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left")
    figure.suptitle(f"{title}\nmean ± 1.96 standard errors over {seeds} seeds", fontsize=12, color=INK)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="random-blend")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", default="delays.png")
    arguments = parser.parse_args()
    enable_compilation_cache()
    rows = measure(arguments.world, arguments.episodes, arguments.seeds)
    title = f"What late and lost reports cost on {arguments.world}, {arguments.episodes:,} users"
    draw(rows, title, arguments.out, arguments.seeds)
    print(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
