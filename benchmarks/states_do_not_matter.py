# SPDX-License-Identifier: Apache-2.0
"""Regret does not grow with the number of states, and planning costs what the transition entries cost.

    python benchmarks/states_do_not_matter.py [--seeds 16] [--out docs/pictures/states_do_not_matter.png]

The world is ``large-blend``: one small blend embedded in S states, each with features of its own, so that S is all that
changes. Every size meets the same random numbers. Two panels and a markdown table: regret of private-linopt-vi with its
defaults at ε = 1, and the time of one plan. The last row of the table is a plan for 100 000 states, 10 actions, 20
successors, d = 8 and H = 10, whose transition features are 160 million numbers.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.reports.plots import COLOURS, DPI, FAINT, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world

SIZES = (100, 1000, 10_000, 100_000)
LARGEST = "large-blend:states=100000,actions=10,d=8,horizon=10"
AGENT = "private-score-vi:epsilon=1,delta=1e-5"
SCRATCH = 2**28
"""Seeds run side by side as long as one number per seed and transition entry fits into so many bytes."""

Row = dict[str, Any]


def entries(world: World) -> int:
    """How many transition features a plan reads at every step: d₁ for each successor of each pair."""
    return int(world.model.transition_features.size)


def least_seconds(function: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Wall-clock and CPU seconds, the least of some repetitions each; CPU time says what it costs beside other work."""
    wall, cpu = [], []
    for _ in range(repeats):
        started, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    return min(wall), min(cpu)


def plan_times(world: World, episodes: int) -> Row:
    """Seconds of one plan, and of the exact evaluation of what it chose."""
    agent = make_agent(AGENT.format(0.05), world.model, episodes)
    state, plan, value = agent.init(), jax.jit(lambda a, s: a.plan(s)), jax.jit(lambda w, p: w.policy_value(p))
    chosen = plan(agent, state).policy
    value(world, chosen)
    repeats = 4 if entries(world) > 10**8 else 20
    wall, cpu = least_seconds(lambda: plan(agent, state), repeats)
    work = entries(world) * world.model.horizon
    return {
        "states": world.model.states,
        "entries": entries(world),
        "work": work,
        "plan_wall": wall,
        "plan_cpu": cpu,
        "nanoseconds": 1e9 * cpu / work,
        "evaluate_cpu": least_seconds(lambda: value(world, chosen), repeats)[1],
    }


def measure(states: int, episodes: int, seeds: int) -> Row:
    """One size: regret of all seeds, and the time of a plan."""
    spec = f"large-blend:states={states}"
    world = make_world(spec)
    agent = make_agent(AGENT, world.model, episodes)
    together = max(1, min(seeds, SCRATCH * world.model.d1 // (8 * entries(world))))
    started = time.perf_counter()
    parts = [
        simulate(agent, world, range(first, min(first + together, seeds))).regret[:, -1]
        for first in range(0, seeds, together)
    ]
    simulated = time.perf_counter() - started
    regret = np.concatenate(parts)
    row = {
        **plan_times(world, episodes),
        "optimal": world.optimal_value,
        "gap": world.optimal_value - world.uniform_value,
        "regrets": regret,
        "regret": float(regret.mean()),
        "stderr": stderr(regret),
    }
    print(
        f"S = {states}: regret {row['regret']:.0f} ± {row['stderr']:.0f} in {simulated:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    return row


def stderr(sample: np.ndarray) -> float:
    """Standard error of the mean."""
    return float(sample.std(ddof=1) / math.sqrt(len(sample))) if len(sample) > 1 else math.nan


def largest() -> Row:
    """The plan of :data:`LARGEST`, its construction, and the memory of the whole process so far."""
    started = time.perf_counter()
    world = make_world(LARGEST)
    built = time.perf_counter() - started
    row = plan_times(world, 20_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {**row, "built": built, "features_gb": 8 * entries(world) / 2**30, "peak_gb": peak}


def timings(row: Row) -> str:
    """The last cells of a line of the table."""
    wall, cpu, evaluation = (
        f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
        for seconds in (row["plan_wall"], row["plan_cpu"], row["evaluate_cpu"])
    )
    return f"{wall} | {cpu} | {row['nanoseconds']:.2f} ns | {evaluation}"


def markdown(rows: list[Row], big: Row | None, episodes: int, seeds: int) -> str:
    """The table, with a line for :data:`LARGEST`."""
    lines = [
        f"`large-blend`, K = {episodes}, private-linopt-vi at ε = 1, δ = 1e-5, {seeds} seeds (mean ± standard error). "
        "Change: from the first row, seed by seed. Entry: one number of the transition features, read once per step. "
        "Times: the least of several, of one plan for one seed; CPU time counts both cores.",
        "",
        "| states | regret | change | optimal value | transition entries | plan, wall | plan, CPU | per entry and step | "
        "evaluation, CPU |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        change = row["regrets"] - rows[0]["regrets"]
        lines.append(
            f"| {row['states']:,} | {row['regret']:.0f} ± {row['stderr']:.0f} | {change.mean():+.0f} ± "
            f"{stderr(change):.0f} | {row['optimal']:.6f} | {row['entries']:,} "
            f"| {timings(row)} |"
        )
    if big is not None:
        lines.append(f"| {big['states']:,} (A = 10, d = 8, H = 10) | – | – | – | {big['entries']:,} | {timings(big)} |")
        lines += [
            "",
            f"The last world is built in {big['built']:.0f} s; its features take {big['features_gb']:.2f} GB and the "
            f"process had {big['peak_gb']:.2f} GB at its peak.",
        ]
    return "\n".join(lines)


def draw(rows: list[Row], big: Row | None, path: str, episodes: int, seeds: int) -> None:
    """Regret against states, and time of a plan against entries."""
    figure = Figure(figsize=(10.67, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    states = [row["states"] for row in rows]
    left.errorbar(
        states, [row["regret"] for row in rows], yerr=[1.96 * row["stderr"] for row in rows],
        color=COLOURS[0], marker="o", capsize=4, linewidth=2,
    )  # fmt: skip
    left.set_xscale("log")
    left.set_ylim(0, 1.6 * max(row["regret"] for row in rows))
    left.set_xlabel("number of states S")
    left.set_ylabel(f"regret over {episodes:,} users")
    left.set_title("What learning costs", fontsize=11, color=INK)
    uniform = rows[0]["gap"] * episodes
    left.text(
        0.98, 0.95, f"always playing at random would cost {uniform:,.0f}", transform=left.transAxes,
        ha="right", va="top", fontsize=9, color=FAINT,
    )  # fmt: skip

    groups = [
        ("the worlds on the left", "o", rows),
        ("100,000 states, A = 10, d = 8, H = 10", "s", [big] if big else []),
    ]
    for colour, (label, marker, group) in zip(COLOURS, groups, strict=False):
        if group:
            work, taken = [row["work"] for row in group], [1e3 * row["plan_cpu"] for row in group]
            right.plot(work, taken, marker, color=colour, label=label)
    every = [row for _, _, group in groups for row in group]
    reach = np.array([min(row["work"] for row in every), max(row["work"] for row in every)])
    rate = max(every, key=lambda row: row["work"])["nanoseconds"]
    right.plot(reach, rate * reach / 1e6, "--", color=FAINT, label=f"{rate:.2f} ns for each")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("transition entries × steps")
    right.set_ylabel("CPU milliseconds per plan")
    right.set_title("What planning costs", fontsize=11, color=INK)
    right.legend(frameon=False, fontsize=9, labelcolor=INK)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"The same blend in ever more states: private-linopt-vi, ε = 1, mean ± 1.96 standard errors over {seeds} seeds",
        fontsize=12, color=INK,
    )  # fmt: skip
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, nargs="+", default=SIZES)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--no-largest", action="store_true", help="leave out the plan of the largest world")
    parser.add_argument("--out", default="docs/pictures/states_do_not_matter.png")
    given = parser.parse_args()
    enable_compilation_cache()
    rows = [measure(states, given.episodes, given.seeds) for states in given.states]
    big = None if given.no_largest else largest()
    draw(rows, big, given.out, given.episodes, given.seeds)
    print(markdown(rows, big, given.episodes, given.seeds))


if __name__ == "__main__":
    main()
