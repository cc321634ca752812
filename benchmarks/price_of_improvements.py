# SPDX-License-Identifier: Apache-2.0
"""The price of each improvement over the paper's privatizer, one after the other, as a table.

    python benchmarks/price_of_improvements.py [--world random-blend] [--episodes 20000] [--seeds 16] [--json]

Starts from the paper's calibration and counter and switches one improvement on at a time, keeping those before it. Every
row is one agent, and is reproduced alone by the command given with it (seeds 0, 1, ... as here).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import numpy as np

from reticent import naming
from reticent.agents.linear_mixture.certificate import release_multipliers
from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan, PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.reward_coordinates import reward_coordinates
from reticent.agents.registry import AGENTS
from reticent.privacy.counters import EpochCounter
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world

METHODS = {"private-linopt-vi": "value-iteration", "private-linopt-po": "policy-optimization"}
BONUS = {"private-linopt-vi": 0.05, "private-linopt-po": 0.1}
BARE = {
    "calibration": "exact", "counter": "tree", "centred": False, "span": "horizon", "split": "even",
    "pool": False, "normalize": False, "shift_scale": 1.0, "contrasts": False, "learning_rate": "paper",
}  # fmt: skip
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("exact accounting, exact quantiles for the shift", {}),
    ("per-step ranges: V ∈ [0, H−h]", {"span": "step"}),
    ("centred values", {"centred": True}),
    ("frame of the published V", {"span": "seen"}),
    ("tree with the variance-reduced estimate", {"counter": "tree-reduced"}),
    ("BLT", {"counter": "blt"}),
    ("epochs", {"counter": "epochs"}),
    ("optimised split", {"split": "optimised"}),
    ("pooled steps", {"pool": True}),
    ("estimates that sum to one", {"normalize": True}),
    ("half the shift", {"shift_scale": 0.5}),
    ("rewards as contrasts, or known", {"contrasts": True}),
    ("each mirror step ahead of its round, and faster", {"learning_rate": None}),
]


def rows(world: World, method: str) -> list[tuple[str, dict[str, Any]]]:
    """Each improvement that the world's model allows, with the options in force once it is on."""
    found: list[tuple[str, dict[str, Any]]] = [("the paper", {"calibration": "paper", "counter": "tree"})]
    options = dict(BARE)
    for label, change in STEPS:
        if ("pool" in change and not world.model.stationary) or ("normalize" in change and not world.model.sums_to_one):
            continue
        if "contrasts" in change and reward_coordinates(world.model, None) is None:
            continue
        if "learning_rate" in change and method != "policy-optimization":
            continue
        options = {**options, **change}
        found.append((label, dict(options)))
    return found


def gram_noise(plan: PrivacyPlan) -> float:
    """Largest std of a released transition Gram entry (step 1, or all steps if pooled), relative to the most that all
    users together can add to it: the users that count in the last release times L²."""
    calibration, ends = plan.calibration, plan.schedule.ends[: plan.schedule.releases]
    sigma, gram = calibration.transition.gram_sigma, calibration.transition.gram_sensitivity
    largest = gram / (math.sqrt(2) if plan.options.adjacency == "replace" else 1.0)
    noise, signal = (math.hypot(*sigma), largest.sum()) if plan.options.pool else (sigma[0], largest[0])
    counter = calibration.counter
    users = counter.effective_users()[-1] if isinstance(counter, EpochCounter) else ends[-1]
    return float(noise * release_multipliers(calibration, ends).max() / (signal * users))


def measure(world: World, agent_name: str, options: dict[str, Any], episodes: int, seeds: int) -> dict[str, Any]:
    """Run one row."""
    given = {"bonus_scale": BONUS[agent_name], **options}
    agent = make_private(world.model, episodes, METHODS[agent_name], PrivateOptions(**given))  # type: ignore[arg-type]
    assert agent.theory is not None
    assert agent.theory.privacy is not None
    plan = agent.theory.privacy
    curves = simulate(agent, world, range(seeds))
    regret = curves.regret[:, -1]
    offered = AGENTS.find(agent_name).options
    return {
        "regret_mean": float(regret.mean()),
        "regret_stderr": float(regret.std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else None,
        "final_gap_share": float(np.mean(curves.tail_regret)) / (world.optimal_value - world.uniform_value),
        "gram_noise": gram_noise(plan),
        "epsilon_spent": plan.calibration.epsilon_spent,
        "seconds": curves.seconds,
        "spec": naming.join(agent_name, {key: str(value).lower() for key, value in given.items() if key in offered}),
    }


def markdown(world: str, episodes: int, seeds: int, table: list[dict[str, Any]]) -> str:
    """The table, and below it the command of each row."""
    lines = [
        f"`{world}`, K = {episodes}, ε = 1, δ = 1e-5, replace adjacency, {seeds} seeds. ×: regret of the row above over "
        "this one's. Final gap: mean over the last 5% of the users, as a share of optimal minus uniform value. Noise: "
        "largest std of a released Gram entry, as a share of the most that all users can add to it.",
        "",
        "| # | switched on, keeping those above | regret | ± | × | final gap | noise | ε spent |",
        "|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    before = None
    for number, row in enumerate(table):
        gain = "" if before is None else f"{before / row['regret_mean']:.2f}"
        error = "" if row["regret_stderr"] is None else f"{row['regret_stderr']:.0f}"
        lines.append(
            f"| {number} | {row['label']} | {row['regret_mean']:.0f} | {error} | {gain} | "
            f"{row['final_gap_share']:.1%} | {row['gram_noise']:.3%} | {row['epsilon_spent']:.3g} |"
        )
        before = row["regret_mean"]
    lines += ["", "Each row by itself:", "", "```"]
    lines += [
        f"# {number}\nreticent run --world {world} --episodes {episodes} --seeds {seeds} --agent '{row['spec']}'"
        for number, row in enumerate(table)
    ]
    return "\n".join([*lines, "```"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", default="random-blend")
    parser.add_argument("--agent", default="private-linopt-vi", choices=sorted(METHODS))
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of a markdown table")
    given = parser.parse_args()
    world = make_world(given.world)
    table = []
    for label, options in rows(world, METHODS[given.agent]):
        table.append({"label": label, **measure(world, given.agent, options, given.episodes, given.seeds)})
        print(f"{label}: {table[-1]['regret_mean']:.0f} in {table[-1]['seconds']:.0f} s", file=sys.stderr, flush=True)
    if given.json:
        print(json.dumps(table, indent=1))
    else:
        print(markdown(given.world, given.episodes, given.seeds, table))


if __name__ == "__main__":
    main()
