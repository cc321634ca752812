# SPDX-License-Identifier: Apache-2.0
"""What a wrong model costs, and what the inflated confidence radius is good for.

    python benchmarks/misspecification.py [--world mobile-health] [--seeds 16] [--out docs/pictures/misspecification.png]

The truth is moved off the span of the candidates by ζ in total variation, against the learner
(:mod:`reticent.worlds.transforms.misspecified`). Learners with and without privacy run twice: as they are, and told ζ by
their option ``misspecification``, which adds ζ·R·√n to the radius of a regression with n targets in an interval
of length R.

Left: regret, as a share of the uniform policy's in the same world. Right: how far the final estimate is from θ in the norm
of its own regression, as a share of the theory's radius (worst step, worst seed): above 1 the guarantee is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reticent.agents import make_agent
from reticent.agents.linear_mixture.constraint import project_sum
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.learning.learner import AgentState
from reticent.learning.ridge import estimates
from reticent.reports.plots import COLOURS, DPI, FAINT, INK
from reticent.runtime import enable_compilation_cache
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world, misspecified

AMOUNTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
LEARNERS = {"ucrl-vtr": "ucrl-vtr:replan=epoch", "private-linopt-vi, ε = 1": "private-linopt-vi:epsilon=1"}
SCALES = {"ucrl-vtr": 0.05, "private-linopt-vi, ε = 1": 0.05}

Row = dict[str, Any]


def used_radius(agent: LinOptLearner, state: AgentState, theta: jax.Array) -> jax.Array:
    """‖θ̂ − θ‖_Λ over β at the theory's scale, the largest of all steps that have something to learn."""
    estimate, _ = estimates(agent.aggregator.released(state.aggregate))
    if agent.normalize:
        estimate = project_sum(estimate)
    error = jnp.linalg.norm((estimate.theta - theta)[:, None, :] @ estimate.factor, axis=(-2, -1))
    radius, _ = agent.radii.after(state.rounds)
    learns = jnp.asarray(agent.frame.bounds(agent.model).feature > 0)
    return jnp.where(learns, error / radius, 0).max()


def measure(base: World, label: str, told: bool, amount: float, bonus_scale: float, episodes: int, seeds: int) -> Row:
    """One learner in the world that is ``amount`` off."""
    # One name for all amounts: they share a compiled program.
    world = dataclasses.replace(misspecified(base, amount), name=base.name)
    gap = world.optimal_value - world.uniform_value
    option = f",misspecification={amount}" if told else ""
    agent = make_agent(f"{LEARNERS[label]},bonus_scale={bonus_scale}{option}", world.model, episodes)
    curves = simulate(agent, world, range(seeds))
    regret = curves.regret[:, -1] / (gap * episodes)
    used = jax.vmap(lambda state: used_radius(agent, state, world.transition_theta))(curves.carry.state)
    believed = (world.optimal_value - float(world.policy_value(base.optimal_choices))) / gap
    row = {
        "learner": label,
        "told": told,
        "amount": amount,
        "regret": float(regret.mean()),
        "stderr": float(regret.std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else math.nan,
        "final_gap": float(curves.tail_regret.mean()) / gap,
        "used_radius": float(used.max()),
        "believed": believed,
    }
    print(
        f"{label}, ζ = {amount:g}, told {told}: {row['regret']:.1%}, radius used {row['used_radius']:.2f}",
        file=sys.stderr,
    )
    return row


def markdown(rows: list[Row], world: str, episodes: int, seeds: int) -> str:
    """One line per amount and learner."""
    lines = [
        f"`{world}`, K = {episodes}, {seeds} seeds. Regret as a share of the uniform policy's (mean ± standard error); gap "
        "of the last 5% of the users as a share of optimal − uniform; ‖θ̂ − θ‖ over β at the end, worst step and seed.",
        "",
        "| learner | ζ | regret | told ζ | final gap | told ζ | ‖θ̂ − θ‖/β | told ζ | optimal policy of θ |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    told = {(row["learner"], row["amount"]): row for row in rows if row["told"]}
    for row in rows:
        if not row["told"]:
            other = told[row["learner"], row["amount"]]
            cells = [f"{one['regret']:.1%} ± {one['stderr']:.1%}" for one in (row, other)]
            cells += [f"{one['final_gap']:.1%}" for one in (row, other)]
            cells += [f"{one['used_radius']:.2f}" for one in (row, other)]
            lines.append(f"| {row['learner']} | {row['amount']:g} | {' | '.join(cells)} | {row['believed']:.1%} |")
    return "\n".join(lines)


def draw(rows: list[Row], path: str, title: str) -> None:
    """Regret and used radius against ζ."""
    figure = Figure(figsize=(10.67, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for colour, label in zip(COLOURS, LEARNERS, strict=False):
        for told, style, word in ((False, "-", ""), (True, "--", ", told ζ")):
            chosen = [row for row in rows if row["learner"] == label and row["told"] is told]
            amounts = [row["amount"] for row in chosen]
            left.errorbar(
                amounts, [row["regret"] for row in chosen], yerr=[1.96 * row["stderr"] for row in chosen],
                color=colour, linestyle=style, marker="o", markersize=3, capsize=3, linewidth=2, label=label + word,
            )  # fmt: skip
            used = [row["used_radius"] for row in chosen]
            right.plot(amounts, used, style, color=colour, marker="o", markersize=4, linewidth=2)
    believed = {row["amount"]: row["believed"] for row in rows}
    left.plot(
        list(believed),
        list(believed.values()),
        ":",
        color=FAINT,
        linewidth=1.5,
        label="the optimal policy of θ",
    )
    left.set_ylim(0, 1.25 * max(row["regret"] for row in rows))
    left.set_ylabel("regret (share of the uniform policy's)")
    left.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    figure.legend(frameon=False, fontsize=9, labelcolor=INK, loc="outside lower center", ncols=5, handlelength=3.5)
    right.axhline(1, color=FAINT, linestyle=":", linewidth=1.5)
    right.text(max(believed), 0.98, "above: θ is outside the ellipsoid", fontsize=9, color=FAINT, ha="right", va="top")
    right.set_ylim(0, None)
    right.set_ylabel("‖θ̂ − θ‖ as a share of the radius")
    for axes in (left, right):
        axes.set_xlabel("misspecification ζ (total variation)")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=12, color=INK)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="mobile-health")
    parser.add_argument("--amounts", type=float, nargs="+", default=AMOUNTS)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", default="docs/pictures/misspecification.png")
    given = parser.parse_args()
    enable_compilation_cache()
    base = make_world(given.world)
    rows = [
        measure(base, label, told, amount, SCALES[label], given.episodes, given.seeds)
        for label in LEARNERS
        for told in (False, True)
        for amount in given.amounts
    ]
    title = (
        f"{given.world} off its model: {given.episodes:,} users, mean ± 1.96 standard errors over {given.seeds} seeds"
    )
    draw(rows, given.out, title)
    print(markdown(rows, given.world, given.episodes, given.seeds))


if __name__ == "__main__":
    main()
