# SPDX-License-Identifier: Apache-2.0
"""What privacy costs elimination, Score-VI and the paper's algorithm as users come. Makes the tables and the figure of
docs/measurements/elimination.md.

    python benchmarks/elimination.py run 0 --users 10000000 --seeds 4      # one world; 0-2 reported, 3-5 held out
    python benchmarks/elimination.py search 2 --users 10000000 --seeds 4   # elimination with a larger population
    python benchmarks/elimination.py epsilons 2 --users 1000000 --seeds 8  # price against epsilon
    python benchmarks/elimination.py report --out docs/pictures/elimination.png

The price of privacy at k users is regret(ε) − regret(∞) after k of the run's K users, the same seeds in both. ε = ∞ is
the learner without clip and noise (``elimination``, ``score-vi``); the paper's algorithm has none with the same rounds, so
that ε = 1000 stands for it there. Defaults everywhere. ``run`` and ``epsilons`` keep what they have measured under
``benchmarks/measured/elimination`` and go on from there; ``report`` reads it.

Defaults of the elimination agents were tuned on the first three worlds. The last three were written down before
anything was run on them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world

KEPT = Path(__file__).parent / "measured" / "elimination"
WORLDS = {
    "random-blend:states=6,actions=3,horizon=3,d=2": "6 states, H = 3, d = 2",
    "random-blend:states=12,actions=3,horizon=5,d=3": "12 states, H = 5, d = 3",
    "random-blend:states=8,actions=4,horizon=4,d=4,seed=1": "8 states, H = 4, d = 4",
    "random-blend:states=10,actions=2,horizon=6,d=2,seed=11": "10 states, H = 6, d = 2",
    "random-blend:states=5,actions=5,horizon=4,d=3,seed=12": "5 states, H = 4, d = 3",
    "random-blend:states=16,actions=3,horizon=3,d=5,seed=13": "16 states, H = 3, d = 5",
}
REPORTED = 3
"""Worlds before this one are those that defaults were tuned on."""

FREE = {
    "private-elimination": "elimination",
    "private-score-vi": "score-vi",
    "private-linopt-vi": "private-linopt-vi:epsilon=1000",
}
PRICED = [
    ("private-elimination", 1.0), ("private-elimination", 0.3), ("private-score-vi", 1.0), ("private-linopt-vi", 1.0),
]  # fmt: skip
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COMPARED = ("private-elimination", "private-linopt-vi")
"""Agents whose price is measured against ε."""

LARGER = "candidates=1024,proposals=8"
"""The population of ``search``, eight times the default's proposals."""

RESAMPLES = 2000
"""Bootstrap resamples of seeds behind an interval."""


def spec_of(agent: str, epsilon: float) -> str:
    return f"{agent}:epsilon={epsilon:g}"


def points_of(users: int) -> np.ndarray:
    """Numbers of users at which regret is kept: eight to a decade, whole decades among them."""
    return np.unique(np.round(10 ** np.arange(2, np.log10(users) + 1e-9, 0.125)).astype(int))


def measure(world: World, specs: list[str], file: Path, users: int, seeds: int) -> None:
    """Regret of each agent after each of :func:`points_of`, ``(seeds, points)``; kept after every agent."""
    file.parent.mkdir(parents=True, exist_ok=True)
    points = points_of(users)
    kept: dict[str, Any] = {"users": users, "seeds": seeds, "points": points.tolist(), "regret": {}}
    if file.exists():
        earlier = json.loads(file.read_text())
        if (earlier["users"], earlier["seeds"]) == (users, seeds):
            kept = earlier
    for spec in specs:
        if spec in kept["regret"]:
            continue
        start = time.process_time()
        curves = simulate(make_agent(spec, world.model, users), world, range(seeds))
        found = [np.interp(points, curves.episodes, own).round(2).tolist() for own in np.asarray(curves.regret)]
        kept["regret"][spec] = found
        file.write_text(json.dumps(kept))
        spent = time.process_time() - start
        print(
            f"{file.stem} {spec}: {spent:.0f} CPU seconds, {users * seeds / spent:,.0f} episodes a second", flush=True
        )


def slope(points: np.ndarray, price: np.ndarray) -> tuple[float, float, float]:
    """The slope of log mean price in log points and its 95 % bootstrap interval over seeds; prices are ``(seeds, points)``.

    NaN where a mean price is not above 0.
    """

    def fitted(sample: np.ndarray) -> float:
        mean = sample.mean(axis=0)
        return float(np.polyfit(np.log(points), np.log(mean), 1)[0]) if (mean > 0).all() else np.nan

    draw = np.random.default_rng(0)
    resampled = [fitted(price[draw.integers(0, len(price), len(price))]) for _ in range(RESAMPLES)]
    if np.isnan(resampled).mean() > 0.025:
        return fitted(price), np.nan, np.nan
    return fitted(price), *np.nanquantile(resampled, [0.025, 0.975])


def shown(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.2f}"


def with_error(sample: np.ndarray) -> str:
    """Mean ± standard error."""
    return f"{sample.mean():,.0f} ± {sample.std(ddof=1) / np.sqrt(len(sample)):,.0f}"


def price_rows(title: str, kept: dict[str, Any]) -> None:
    """Rows of the table of one world: prices at whole decades, the slope over the last three."""
    points, last = np.array(kept["points"]), round(np.log10(kept["users"]))
    decades = [int(np.flatnonzero(points == 10**power)[0]) for power in range(3, last + 1)]
    fitted = points >= 10 ** (last - 3)
    for agent, epsilon in PRICED:
        free = np.array(kept["regret"][FREE[agent]])
        price = np.array(kept["regret"][spec_of(agent, epsilon)]) - free
        cells = [with_error(price[:, index]) for index in decades] + ["–"] * (7 - last)
        middle, low, high = slope(points[fitted], price[:, fitted])
        interval = f"{shown(middle)} ({shown(low)} to {shown(high)})"
        free_growth = slope(points[fitted], free[:, fitted])[0]
        print(
            f"| {title} | `{agent}`, ε = {epsilon:g} | {' | '.join(cells)} | {interval} | {free[:, -1].mean():,.0f}"
            f" ({shown(free_growth)}) |"
        )


def epsilon_rows(kept: dict[str, Any]) -> None:
    """Price by ε at three numbers of users, and the slope of log price in log 1/ε and of log regret in 1/ε."""
    points = np.array(kept["points"])
    for agent in COMPARED:
        free = np.array(kept["regret"][FREE[agent]])
        for users in (kept["users"] // 100, kept["users"] // 10, kept["users"]):
            index = int(np.flatnonzero(points == users)[0])
            regret = np.array([kept["regret"][spec_of(agent, epsilon)] for epsilon in EPSILONS])[:, :, index].T
            price = regret - free[:, index : index + 1]
            middle, low, high = slope(1 / np.array(EPSILONS), price)
            cells = " | ".join(with_error(price[:, place]) for place in range(len(EPSILONS)))
            print(
                f"| `{agent}` | {users:,} | {cells} | {with_error(free[:, index])} | "
                f"{shown(middle)} ({shown(low)} to {shown(high)}) |"
            )


def draw_prices(axes: Any, title: str, kept: dict[str, Any]) -> None:
    """Price against users, with a band of two standard errors."""
    points = np.array(kept["points"])
    for colour, (agent, epsilon) in zip(COLOURS, PRICED, strict=False):
        price = np.array(kept["regret"][spec_of(agent, epsilon)]) - np.array(kept["regret"][FREE[agent]])
        mean, error = price.mean(axis=0), price.std(axis=0, ddof=1) / np.sqrt(len(price))
        axes.plot(points, mean, color=colour, linewidth=2, label=f"{agent}, ε = {epsilon:g}")
        axes.fill_between(points, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=10)
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xlabel("users k")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def report(out: str) -> None:
    """Tables on the standard output, and the figure."""
    measured = [(number, KEPT / f"world{number}.json") for number in range(len(WORLDS))]
    measured = [(number, file) for number, file in measured if file.exists()]
    rows = math.ceil(len(measured) / REPORTED)
    figure = Figure(figsize=(12, 0.6 + 3.7 * rows), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    heads = " | ".join(f"k = 10{power}" for power in "³⁴⁵⁶⁷")
    print(f"| world | learner | {heads} | slope of the last three decades | regret(∞) (slope) |")
    print("|---|---|" + "--:|" * 7)
    every_axes = figure.subplots(rows, REPORTED, squeeze=False)
    for axes, (number, file) in zip(every_axes.flat, measured, strict=False):
        kept, title = json.loads(file.read_text()), list(WORLDS.values())[number]
        price_rows(title, kept)
        draw_prices(axes, title + ("" if number < REPORTED else " (held out)"), kept)
    for file in sorted(KEPT.glob("search*.json")):
        kept = json.loads(file.read_text())
        free, private = (np.array(own) for own in kept["regret"].values())
        decades = [kept["points"].index(10**power) for power in range(3, round(np.log10(kept["users"])) + 1)]
        print(f"\n{file.stem}: regret(∞), then price at ε = 1, by decade and by seed at the end")
        print(" | ".join(with_error(free[:, index]) for index in decades), np.round(free[:, -1]))
        print(" | ".join(with_error(private[:, index] - free[:, index]) for index in decades), np.round(private[:, -1]))
    for axes in every_axes[:, 0]:
        axes.set_ylabel("regret(ε) − regret(∞)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, labelcolor=INK, loc="outside lower center", ncols=4)
    figure.savefig(out)
    for file in sorted(KEPT.glob("epsilons*.json")):
        names = " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS)
        print(f"\n{file.stem}\n| learner | k | {names} | regret(∞) | slope in 1/ε |\n|---|--:|" + "--:|" * 8)
        epsilon_rows(json.loads(file.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["run", "search", "epsilons", "report"])
    parser.add_argument("world", type=int, nargs="?", default=0, choices=range(len(WORLDS)))
    parser.add_argument("--users", type=int, default=100_000, help="a power of ten")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", default="docs/pictures/elimination.png")
    given = parser.parse_args()
    if given.task == "report":
        report(given.out)
        return
    enable_compilation_cache()
    world = make_world(list(WORLDS)[given.world])
    if given.task == "run":
        specs = [*FREE.values(), *(spec_of(*own) for own in PRICED)]
        file = KEPT / f"world{given.world}.json"
    elif given.task == "search":
        specs = [f"elimination:{LARGER}", f"private-elimination:{LARGER},epsilon=1"]
        file = KEPT / f"search{given.world}.json"
    else:
        specs = [FREE[agent] for agent in COMPARED]
        specs += [spec_of(agent, epsilon) for agent in COMPARED for epsilon in EPSILONS]
        file = KEPT / f"epsilons{given.world}.json"
    measure(world, specs, file, given.users, given.seeds)


if __name__ == "__main__":
    main()
