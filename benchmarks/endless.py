# SPDX-License-Identifier: Apache-2.0
"""Streams without end and users who change: regret of the endless schedule beside known K, and through a change of phase.

    python benchmarks/endless.py --seeds 4 --out docs/pictures/endless.png --rows endless.json

``--rows`` keeps what was measured; if the file is there, only the picture is drawn anew.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.simulation.non_stationary import simulate_non_stationary
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.non_stationary import phases_of

KNOWN = (1_000, 10_000, 100_000, 1_000_000)
WORLD, TURNING = "random-blend:states=8,actions=4,horizon=4,d=4", "random-blend:states=4,actions=3,horizon=3,d=3"
SEASON = 10
"""Of 60 seeds the one whose change costs the old plan most (0.83 a user); in the median it costs 0.006."""

WATCHED = {"never forgets": "", "half-life 1500": ",half_life=1500", "alarm 0.001": ",alarm=0.001"}


def row(curves: Curves) -> dict[str, Any]:
    return {"episodes": curves.episodes.tolist(), "regret": curves.regret.tolist()}


def measure(seeds: int) -> dict[str, Any]:
    """Curves of the endless schedule, final regrets of known K, and curves through a change after 4 000 users."""
    world, lanes = make_world(WORLD), list(range(seeds))
    endless = make_agent("private-score-vi:endless=true", world.model, KNOWN[-1])
    found: dict[str, Any] = {"endless": row(simulate(endless, world, lanes, width=1024))}
    for episodes in KNOWN:
        agent = make_agent("private-score-vi", world.model, episodes)
        found[str(episodes)] = simulate(agent, world, lanes, width=1024).regret[:, -1].tolist()
    turning = make_world(TURNING)
    phases = phases_of(turning, [4_000], seed=SEASON)
    for name, options in WATCHED.items():
        spec = f"private-score-vi:epsilon=2,endless=true,largest=400{options}"
        curves = simulate_non_stationary(make_agent(spec, turning.model, 10_000), phases, list(range(2 * seeds)))
        found[name] = {**row(curves), "alarms": np.asarray(curves.carry.state.past.alarms).tolist()}
    return found


def draw(found: dict[str, Any], path: str) -> None:
    figure = Figure(figsize=(8.4, 3.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    endless = found["endless"]
    left.plot(
        endless["episodes"], np.mean(endless["regret"], axis=0), color=COLOURS[0], label="endless: K is not known"
    )
    known = [episodes for episodes in KNOWN if str(episodes) in found]
    left.plot(known, [np.mean(found[str(k)]) for k in known], "o", color=INK, ms=5, label="known K, one run for each")
    for k in known:
        ratio = np.mean([np.interp(k, endless["episodes"], one) for one in endless["regret"]]) / np.mean(found[str(k)])
        print(f"K = {k}: endless over known {ratio:.3f}")
    left.set(xscale="log", xlim=(10, 2e6), ylim=(0, None), xlabel="users", ylabel="regret")
    for (name, _), colour in zip(WATCHED.items(), (INK, *COLOURS), strict=False):
        if name in found:
            regret = np.asarray(found[name]["regret"])
            right.plot(found[name]["episodes"], regret.mean(axis=0), color=colour, label=name)
            print(f"{name}: {regret[:, -1].mean():.0f}, alarms {found[name]['alarms']}")
    right.axvline(4_000, color=INK, lw=0.8, linestyle=":")
    right.set(xlabel="users", ylabel="regret against the moving optimum")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.25)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", default="docs/pictures/endless.png")
    parser.add_argument("--rows", type=Path, default=Path("endless.json"))
    arguments = parser.parse_args()
    if not arguments.rows.exists():
        arguments.rows.write_text(json.dumps(measure(arguments.seeds)))
    draw(json.loads(arguments.rows.read_text()), arguments.out)


if __name__ == "__main__":
    main()
