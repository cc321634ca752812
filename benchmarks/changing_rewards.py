# SPDX-License-Identifier: Apache-2.0
"""Rewards that change and are announced after each episode: regret against the best fixed policy in hindsight.

    python benchmarks/changing_rewards.py --episodes 4000 --seeds 8 --out docs/pictures/changing_rewards.png

Three streams (alternating, drifting, adversarial) and five learners: policy optimization with and without privacy, and
value iteration that plans for the last announcement or for the mean of all. ``--rows`` keeps what was measured; if the file
is there, only the picture is drawn anew.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.agents.linear_mixture.changing_rewards import for_changing_rewards
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.reports.plots import COLOURS, DPI, FAINT, INK, band, band_words
from reticent.reports.progress import reporter
from reticent.simulation.changing_rewards import Expects, simulate_changing_rewards
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.changing_rewards import StreamKind, reward_stream

WORLD, SWING = "random-blend:states=5,actions=4,horizon=3,d=3", 0.6
ALIKE = "contrasts=true,centred=true,span=seen,pool=true,normalize=true"
LEARNERS: dict[str, tuple[str, Expects]] = {
    "policy optimization, no privacy": (f"oppo:{ALIKE}", "last"),
    "policy optimization, ε = 1": ("private-linopt-po:epsilon=1", "last"),
    "policy optimization, ε = 0.1": ("private-linopt-po:epsilon=0.1", "last"),
    "value iteration for the last table": (f"ucrl-vtr:{ALIKE}", "last"),
    "value iteration for the mean table": (f"ucrl-vtr:{ALIKE}", "mean"),
}
SHORTER = 4
"""Policy optimization is run for a quarter of the episodes as well: its rate is chosen for the length of a run."""

Row = dict[str, Any]


def measure(episodes: int, seeds: int) -> list[Row]:
    """One row per stream, learner and length."""
    world = make_world(WORLD)
    work = [
        (kind, name, length)
        for kind in get_args(StreamKind)
        for name in LEARNERS
        for length in ((episodes // SHORTER, episodes) if "policy" in name else (episodes,))
    ]
    rows: list[Row] = []
    progress = reporter()
    progress.start("changing rewards", len(work), 1, "runs")
    for done, (kind, name, length) in enumerate(work):
        spec, expects = LEARNERS[name]
        stream = reward_stream(world, kind, swing=SWING, period=episodes // 4 if kind == "drifting" else None)
        made = make_agent(spec, stream.world.model, length)
        assert isinstance(made, LinOptLearner)
        curves = simulate_changing_rewards(for_changing_rewards(made), stream, range(seeds), expects=expects)
        rows.append(
            {"kind": kind, "learner": name, "length": length, "episodes": curves.episodes.tolist(),
             "regret": curves.regret.tolist(), "shares": curves.shares.mean(axis=0).tolist()}
        )  # fmt: skip
        progress.advance(done + 1, f"{kind}: {name}")
    progress.finish()
    progress.close()
    return rows


def tell(rows: list[Row]) -> None:
    """Final regrets with their standard errors, and how regret grew with the length of the run."""
    for row in rows:
        last = np.array(row["regret"])[:, -1]
        spread = last.std(ddof=1) / np.sqrt(len(last)) if len(last) > 1 else float("nan")
        shares = " ".join(f"{share:.2f}" for share in row["shares"])
        print(
            f"{row['kind']:12s} {row['learner']:36s} K = {row['length']:<6d} regret {last.mean():8.1f} ± {spread:5.1f}   "
            f"per episode {last.mean() / row['length']:7.4f}   tables {shares}"
        )


def draw(rows: list[Row], path: str) -> None:
    """One panel per stream."""
    kinds = get_args(StreamKind)
    figure = Figure(figsize=(10.67, 4.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    longest = max(row["length"] for row in rows)
    panels = figure.subplots(1, len(kinds), sharey=True)
    for axes, kind in zip(panels, kinds, strict=True):
        for colour, name in zip(COLOURS, LEARNERS, strict=False):
            row = next(row for row in rows if (row["kind"], row["learner"], row["length"]) == (kind, name, longest))
            mean, low, high = band(np.array(row["regret"]))
            style = {"color": colour, "linewidth": 2, "linestyle": "--" if name.endswith("no privacy") else "-"}
            # Dashed and above the others: with and without privacy lie close together.
            axes.plot(row["episodes"], mean, label=name, zorder=3 if style["linestyle"] == "--" else 2, **style)
            if low is not None and high is not None:
                axes.fill_between(row["episodes"], low, high, color=colour, alpha=0.25, linewidth=0)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_title(kind, loc="left", fontsize=11, color=INK)
        axes.set_xlabel("users (episodes)")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("regret against the best fixed policy in hindsight")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=9
    )
    figure.supxlabel(
        band_words(len(rows[0]["regret"])) + " Simulated; uses the hidden truth.", fontsize=8.5, color=FAINT
    )
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", default="docs/pictures/changing_rewards.png")
    parser.add_argument("--rows", type=Path, default=Path("changing_rewards.json"))
    arguments = parser.parse_args()
    if not arguments.rows.exists():
        arguments.rows.write_text(json.dumps(measure(arguments.episodes, arguments.seeds)))
    rows = json.loads(arguments.rows.read_text())
    tell(rows)
    draw(rows, arguments.out)


if __name__ == "__main__":
    main()
