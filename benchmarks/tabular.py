# SPDX-License-Identifier: Apache-2.0
"""The tabular agents on RiverSwim with six states, K = 20 000: regret with noise that keeps its word.

``python benchmarks/tabular.py run [group ...]`` adds curves to ``results/tabular.json``, ``... draw`` makes
``docs/pictures/tabular.png`` and prints the table of ``docs/baselines/tabular.md`` from what is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
STORE, PICTURE = ROOT / "results" / "tabular.json", ROOT / "docs" / "pictures" / "tabular.png"
EPISODES, SEEDS, POINTS = 20_000, range(8), 200
RIVER, POOLED = "riverswim", "riverswim:features=blend"

# By group: the world, the agent, and the values of ε that are run side by side.
GROUPS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "ucbvi": (RIVER, "ucbvi", ()),
    "ucbvi bernstein": (RIVER, "ucbvi:bonus=bernstein,bonus_scale=0.003", ()),
    "psrl": (RIVER, "psrl:replan=epoch", ()),
    "q-learning": (RIVER, "q-learning", ()),
    "private-ucb-vi": (RIVER, "private-ucb-vi", (1.0, 10.0, 100.0)),
    "private-ucb-po": (RIVER, "private-ucb-po", (1.0, 10.0, 100.0)),
    "dp-ucbvi": (RIVER, "dp-ucbvi", (1.0, 10.0, 100.0)),
    "pucb": (RIVER, "pucb", (1.0, 10.0, 100.0)),
    "private-ucb-vi local": (RIVER, "private-ucb-vi:trust=local", (1.0, 10.0, 100.0)),
    "ldp-obi": (RIVER, "ldp-obi", (1.0, 10.0, 100.0)),
    "noisy-q-learning": (RIVER, "noisy-q-learning", (1.0,)),
    "ucbvi pooled": (POOLED, "ucbvi:pool=true", ()),
    "private-ucb-vi pooled": (POOLED, "private-ucb-vi", (1.0, 10.0)),
    "private-ucb-po pooled": (POOLED, "private-ucb-po", (1.0, 10.0)),
    "dp-ucbvi pooled": (POOLED, "dp-ucbvi", (1.0, 10.0)),
    "pucb pooled": (POOLED, "pucb", (1.0, 10.0)),
    "private-ucb-vi local pooled": (POOLED, "private-ucb-vi:trust=local", (1.0, 10.0)),
}
UNIFORM = 67_069
"""Regret of uniform play over all users."""


def run(names: list[str]) -> None:
    """Simulate groups and store their curves as they finish."""
    from reticent.agents import make_agent
    from reticent.simulation.simulate import simulate_settings
    from reticent.worlds import make_world

    for name in names or list(GROUPS):
        where, spec, epsilons = GROUPS[name]
        world = make_world(where)
        specs = [f"{spec}{',' if ':' in spec else ':'}epsilon={one:g}" for one in epsilons] or [spec]
        agents = [make_agent(one, world.model, EPISODES) for one in specs]
        found = simulate_settings(agents, world, list(SEEDS))
        stored = json.loads(STORE.read_text()) if STORE.exists() else {}
        for epsilon, spec_in_full, curves in zip(epsilons or (None,), specs, found, strict=True):
            at = np.unique(np.linspace(0, len(curves.episodes) - 1, POINTS).astype(int))
            label = name if epsilon is None else f"{name}, ε = {epsilon:g}"
            stored[label] = {
                "world": where, "agent": spec_in_full, "seconds": curves.seconds,
                "episodes": curves.episodes[at].tolist(), "regret": np.asarray(curves.regret)[:, at].tolist(),
                "last_value": np.asarray(curves.value)[:, -1].tolist(),
            }  # fmt: skip
        STORE.parent.mkdir(exist_ok=True)
        STORE.write_text(json.dumps(stored))
        for label in [key for key in stored if key == name or key.startswith(f"{name}, ")]:
            print(row(label, stored[label]), flush=True)


def row(label: str, curves: dict) -> str:
    """One line of the table: mean regret with its standard error, and the value of the last policy."""
    last = np.array(curves["regret"])[:, -1]
    error = last.std(ddof=1) / len(last) ** 0.5
    value = np.mean(curves["last_value"])
    return f"| {label} | `{curves['agent']}` | {last.mean():,.0f} ± {error:,.0f} | {value:.2f} |"


def draw() -> None:
    """Two panels: counts per step, as the papers have it, and counts pooled over steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    stored = json.loads(STORE.read_text())
    figure = Figure(figsize=(11, 5.2), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("Counts per step", "Counts of all steps added up (the river is stationary)")
    shown = (
        ("ucbvi", "q-learning", "private-ucb-vi, ε = 1", "private-ucb-vi, ε = 10", "private-ucb-po, ε = 10",
         "dp-ucbvi, ε = 10", "pucb, ε = 100", "ldp-obi, ε = 100"),
        ("ucbvi pooled", "private-ucb-vi pooled, ε = 1", "private-ucb-po pooled, ε = 1", "dp-ucbvi pooled, ε = 1",
         "private-ucb-vi pooled, ε = 10", "pucb pooled, ε = 10", "private-ucb-vi local pooled, ε = 10"),
    )  # fmt: skip
    for axes, title, labels in zip(panels, titles, shown, strict=True):
        axes.plot([0, EPISODES], [0, UNIFORM], color="#999999", linewidth=1, linestyle=(0, (4, 3)))
        ends = [(UNIFORM, "uniform play", "#777777")]
        for label in (one for one in labels if one in stored):
            episodes, regret = np.array(stored[label]["episodes"]), np.array(stored[label]["regret"])
            mean, error = regret.mean(axis=0), regret.std(axis=0, ddof=1) / len(regret) ** 0.5
            agent, _, epsilon = label.replace(" pooled", "").partition(", ε = ")
            colour = COLOURS[agent]
            axes.plot(episodes, mean, color=colour, linewidth=1.7, linestyle=STYLES[epsilon])
            axes.fill_between(episodes, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.18, linewidth=0)
            ends.append((float(mean[-1]), label.replace(" pooled", ""), colour))
        for height, (_, label, colour) in zip(spread([end[0] for end in sorted(ends)]), sorted(ends), strict=True):
            axes.annotate(
                label, (EPISODES * 1.02, height), fontsize=8, color=colour, va="center", annotation_clip=False
            )
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_xlim(0, EPISODES)
        axes.set_ylim(0, 1.06 * UNIFORM)
        axes.set_xlabel("users")
        axes.set_xticks(range(0, EPISODES + 1, 5000))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("regret so far (mean of 8 seeds, band: two standard errors)")
    figure.subplots_adjust(left=0.075, right=0.84, top=0.92, bottom=0.1, wspace=0.42)
    figure.savefig(PICTURE)
    print("\n".join(row(label, curves) for label, curves in stored.items()))


COLOURS = {
    "ucbvi": "#222222",
    "q-learning": "#E69F00",
    "private-ucb-vi": "#0072B2",
    "private-ucb-po": "#009E73",
    "dp-ucbvi": "#CC79A7",
    "pucb": "#D55E00",
    "private-ucb-vi local": "#56B4E9",
    "ldp-obi": "#7F3C8D",
}
STYLES = {"": "solid", "1": "solid", "10": (0, (6, 2)), "100": (0, (1.5, 1.5))}
"""One colour per agent, one line style per ε."""


def spread(heights: list[float], apart: float = 2600.0) -> list[float]:
    """Heights of labels: those of the curves' ends, pushed up where two would overlap."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + apart) if placed else height)
    return placed


if __name__ == "__main__":
    draw() if sys.argv[1:2] == ["draw"] else run(sys.argv[2:])
