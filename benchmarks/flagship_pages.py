# SPDX-License-Identifier: Apache-2.0
"""Measurements of benchmarks/flagship.py as pictures and as the tables of docs/improvements.md and its records.

    python benchmarks/flagship_pages.py --picture docs/pictures/flagship.png
    python benchmarks/flagship_pages.py --tables

Reads ``benchmarks/measured/flagship.json``, or another file with ``--rows``; seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
MEASURED = Path(__file__).with_name("measured") / "flagship.json"
OURS, TODAY, PAPER = "private-score-vi", "private-linopt-vi", "private-linopt-vi:calibration=paper"
TRUSTS = {
    "joint": "joint: the server is trusted",
    "shuffle": "shuffle: the shuffler is trusted",
    "local": "local: no server is trusted",
}
EPSILONS = (0.1, 0.3, 1, 3, 10)


def chosen(rows: list[Row], part: str, **fields: object) -> list[Row]:
    return [row for row in rows if row["part"] == part and all(row[key] == value for key, value in fields.items())]


def only(rows: list[Row], part: str, **fields: object) -> Row:
    (row,) = chosen(rows, part, **fields)
    return row


def draw(rows: list[Row], path: Path) -> None:
    """Regret against users, and against ε; both on the mobile-health world."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from reticent.reports.plots import COLOURS, DPI, INK

    figure = Figure(figsize=(11, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    lines = {
        PAPER: ("the paper's constants, ε = 1", COLOURS[1]),
        TODAY: ("the paper's algorithm, least noise, ε = 1", COLOURS[2]),
        OURS: ("reticent, ε = 1", COLOURS[0]),
        "score-vi": ("no privacy", INK),
    }
    for agent, (label, colour) in lines.items():
        row = only(rows, "curves", agent=agent)
        left.plot(row["points"], row["curve"], color=colour, label=label, lw=2, ls="--" if agent == "score-vi" else "-")
        left.annotate(f"{row['mean']:,.0f}", (row["points"][-1], row["curve"][-1]), xytext=(5, -3),
                      textcoords="offset points", color=colour)  # fmt: skip
    left.set(xscale="log", yscale="log", xlim=(10, 7e5), xlabel="users so far", ylabel="regret (reward lost so far)")
    left.set_title("How much is lost until it has learned", loc="left", fontsize=10)
    left.legend(frameon=False, loc="upper left", fontsize=9)
    for colour, (trust, label) in zip((COLOURS[0], COLOURS[3], COLOURS[4]), TRUSTS.items(), strict=True):
        found = [only(rows, "curves", agent=f"{OURS}:trust={trust},epsilon={epsilon}") for epsilon in EPSILONS]
        means, errors = [row["mean"] for row in found], [1.96 * row["stderr"] for row in found]
        right.errorbar(EPSILONS, means, yerr=errors, color=colour, marker="o", capsize=3, label=label)
    floor, chance = only(rows, "curves", agent="score-vi"), only(rows, "curves", agent=OURS)["chance"]
    right.axhline(floor["mean"], color=INK, ls="--")
    right.annotate("no privacy", (0.1, floor["mean"]), xytext=(0, 4), textcoords="offset points", color=INK)
    right.axhline(chance, color=INK, lw=0.8, ls=":")
    right.annotate("acting at random", (0.1, chance), xytext=(0, 4), textcoords="offset points", color=INK)
    right.set(xscale="log", yscale="log", xlabel="ε (smaller is more private)", ylabel="regret after 200,000 users")
    right.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    right.set_title("What the promise costs", loc="left", fontsize=10)
    right.legend(frameon=False, loc="upper right", fontsize=9, bbox_to_anchor=(1, 0.93))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        "mobile-health, δ = 1e-5, 16 seeds; bars are 95% intervals of the mean", x=0.01, ha="left", fontsize=9
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def regret(row: Row) -> str:
    stuck = f", {row['stuck']}/{row['seeds']} stuck" if row["stuck"] else ""
    return f"{row['mean']:,.0f} ± {row['stderr']:,.0f}{stuck}"


def table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rule = "|".join(["---", *["--:"] * (len(head) - 1)])
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def worlds(rows: list[Row], part: str) -> list[str]:
    return list(dict.fromkeys(row["world"] for row in rows if row["part"] == part))


def main_table(rows: list[Row]) -> str:
    lines = []
    for world in worlds(rows, "floor"):
        short, long = (only(rows, "main", world=world, agent=OURS, users=users) for users in (20_000, 10**6))
        likely = only(rows, "main", world=world, agent=f"{OURS}:score=likelihood", users=20_000)
        before, shuffled = only(rows, "main", world=world, agent=TODAY), only(rows, "shuffle", world=world)
        floor = only(rows, "floor", world=world, agent="score-vi")
        lines.append(
            (f"`{world}`", regret(short), f"{short['median']:,.0f}", f"{short['q90']:,.0f}", regret(long), regret(likely),
             regret(shuffled), regret(before), regret(floor))
        )  # fmt: skip
    head = ("world", "20 000 users", "median", "90%", "1 000 000 users", "likelihood", "shuffle", "`private-linopt-vi`",
            "no privacy")  # fmt: skip
    return table(head, lines)


def users_table(rows: list[Row]) -> str:
    lines = []
    for world in worlds(rows, "epsilons"):
        found = [only(rows, "epsilons", world=world, agent=f"{OURS}:epsilon={epsilon}") for epsilon in (0.1, 0.3)]
        found.append(only(rows, "main", world=world, agent=OURS, users=20_000))
        found += [only(rows, "epsilons", world=world, agent=f"{OURS}:epsilon={epsilon}") for epsilon in (3, 10)]
        lines.append((f"`{world}`", *(f"{row['users_5']:,} ({row['mean']:,.0f})" for row in found)))
    return table(("world", "ε = 0.1", "0.3", "1", "3", "10"), lines)


def against(rows: list[Row], part: str) -> str:
    lines = []
    for world in worlds(rows, part):
        ours, before = only(rows, part, world=world, agent=OURS), only(rows, part, world=world, agent=TODAY)
        likely = chosen(rows, part, world=world, agent=f"{OURS}:score=likelihood")
        lines.append(
            (f"`{world}`", regret(ours), f"{ours['median']:,.0f}", regret(likely[0]) if likely else "–", regret(before),
             f"{before['mean'] / ours['mean']:.1f}")
        )  # fmt: skip
    return table(("world", "private-score-vi", "median", "likelihood", "private-linopt-vi", "times"), lines)


def local_table(rows: list[Row]) -> str:
    lines = [
        (
            f"`{row['world']}`",
            row["agent"].partition(":")[2],
            f"{row['users']:,}",
            regret(row),
            f"{100 * row['final']:.2f}%",
        )
        for row in chosen(rows, "local")
    ]
    return table(("world", "options", "users", "regret", "final gap"), lines)


def sensitivity_table(rows: list[Row]) -> str:
    """Geometric mean over worlds of regret with one setting changed, over that with the defaults; least and greatest."""
    base = {row["world"]: row["mean"] for row in chosen(rows, "sensitivity", agent=OURS)}
    settings = list(
        dict.fromkeys(row["agent"] for row in rows if row["part"] == "sensitivity" and row["agent"] != OURS)
    )
    lines = []
    for agent in settings:
        ratios = [row["mean"] / base[row["world"]] for row in chosen(rows, "sensitivity", agent=agent)]
        stuck = sum(row["stuck"] for row in chosen(rows, "sensitivity", agent=agent))
        lines.append((f"`{agent.partition(':')[2]}`", f"{statistics.geometric_mean(ratios):.2f}", f"{min(ratios):.2f}",
                      f"{max(ratios):.2f}", f"{stuck}"))  # fmt: skip
    return table(("one setting changed", "regret, times the default's", "least", "greatest", "stuck"), lines)


def floor_table(rows: list[Row]) -> str:
    agents = list(dict.fromkeys(row["agent"] for row in rows if row["part"] == "floor"))
    lines = [
        (f"`{world}`", *(regret(only(rows, "floor", world=world, agent=agent)) for agent in agents))
        for world in worlds(rows, "floor")
    ]
    return table(("world", *(f"`{agent}`" for agent in agents)), lines)


TABLES: dict[str, Callable[[list[Row]], str]] = {
    "The five worlds": main_table,
    "Users until the gap stays below 5% (and regret at 20 000)": users_table,
    "Local": local_table,
    "The rest of the zoo": lambda rows: against(rows, "zoo"),
    "Twenty blends not looked at before": lambda rows: against(rows, "blends"),
    "The zoo and the blends at a million users": lambda rows: against(rows, "million"),
    "Sensitivity": sensitivity_table,
    "Without privacy": floor_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=Path, default=MEASURED)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = json.loads(given.rows.read_text())
    if given.picture is not None:
        draw(rows, given.picture)
    if given.tables:
        for title, make in TABLES.items():
            print(f"## {title}\n\n{make(rows)}")


if __name__ == "__main__":
    main()
