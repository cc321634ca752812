# SPDX-License-Identifier: Apache-2.0
"""What a belief about the own user is worth, and what privacy takes of it, in random worlds of latent kinds.

    python benchmarks/kinds.py --horizon 10 --apart 0.5 --worlds 20
    python benchmarks/kinds.py --horizon 10 --apart 0.5 --worlds 20 --mixed      # users without a kind
    python benchmarks/kinds.py --horizon 5 --plan point-based --points 16        # plans over beliefs

Prints one row: the share of the room (blend's plan with the true shares → known kind) that is closed without privacy and at
ε = 1, 0.3, mean ± standard error over worlds, then median and worst world; where users have no kind, what is lost to the
blend's plan. Then the value at the end relative to the agent without privacy. Then, for each agent, after how many users
the gap to the same policy with the true shares stays below 5 % of what it was at first, by the means over worlds, with a
95 % bootstrap interval over worlds. World seeds start at ``--seed``. One compiled program serves all worlds. With
``--save FILE`` every world's figures are added to the file, and worlds that are there are not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.kinds.learner import LEAST_SHARE, KindsLearner
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.learning.promise import NoPromise
from reticent.runtime import double_precision
from reticent.simulation.rollout import Streams, episode_uniforms, rollout, streams
from reticent.worlds.kinds import KindsWorld, random_kinds

FIRST_SEED = 50_000
RESAMPLES = 2_000
VALUED = 2**14
BLOCK = 512
AGENTS = {"no privacy": "kinds", "ε = 1": "private-kinds:epsilon=1", "ε = 0.3": "private-kinds:epsilon=0.3"}


@jax.jit
def plan_of(agent: KindsLearner, state: AgentState) -> Plan:
    return agent.plan(state)


@functools.partial(jax.jit, static_argnames="users")
def value_of(agent: KindsLearner, plan: Plan, world: KindsWorld, users: int) -> jax.Array:
    return agent.simulated_value(plan, world, users)


@jax.jit
def meet(
    agent: KindsLearner, world: KindsWorld, state: AgentState, plan: Plan, keys: Streams, first: Any, count: Any
) -> AgentState:
    """The state after ``count`` users of a round, at most a block."""

    def one(number: jax.Array) -> jax.Array:
        horizon = agent.model.horizon
        uniforms = episode_uniforms(keys.users, first + number, horizon, world.start_draws, world.step_draws)
        noise = agent.aggregator.simulate_user_noise(jax.random.fold_in(keys.user_noise, first + number))
        return agent.report(plan, rollout(agent, world, plan, uniforms), noise)

    numbers = jnp.arange(BLOCK)
    reports = jax.vmap(one)(numbers)
    return agent.absorb(state, jnp.tensordot((numbers < count).astype(reports.dtype), reports, axes=1))


@jax.jit
def close(agent: KindsLearner, state: AgentState, plan: Plan, keys: Streams, users: Any, number: Any) -> AgentState:
    noise = agent.aggregator.simulate_round_noise(jax.random.fold_in(keys.round_noise, number))
    return agent.close(state, plan, users, noise)


def trace(agent: KindsLearner, world: KindsWorld, seed: int) -> tuple[list[int], list[float], float]:
    """Users before every round (and after the last), the plan's value then, and the last plan's value by more users."""
    state, keys, met = agent.init(), streams(seed), 0
    at, values = [], []
    for number, size in enumerate(map(int, agent.schedule.round_sizes)):
        plan = plan_of(agent, state)
        at.append(met)
        values.append(float(value_of(agent, plan, world, VALUED)))
        for inside in range(0, size, BLOCK):
            state = meet(agent, world, state, plan, keys, met + inside, min(BLOCK, size - inside))
        state, met = close(agent, state, plan, keys, float(size), number), met + size
    plan = plan_of(agent, state)
    return (
        [*at, met],
        [*values, float(value_of(agent, plan, world, VALUED))],
        float(value_of(agent, plan, world, 2**16)),
    )


def with_true_shares(agent: KindsLearner, world: KindsWorld) -> Plan:
    """The plan of the same policy with the true shares: of kinds, or all of the blend where users have no kind."""
    state = agent.init()
    kinds = jnp.append(jnp.zeros(world.kinds), 1.0) if world.mixed else jnp.append(world.shares, 0.0)
    shares = (1 - LEAST_SHARE * kinds.size) * kinds + LEAST_SHARE
    return plan_of(agent, state._replace(past=state.past._replace(shares=shares, blend=world.shares)))


def with_error(values: np.ndarray, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def settled(at: list[int], gaps: np.ndarray, share: float = 0.05) -> float:
    """Users after which the mean gap ``(worlds, rounds)`` stays below a share of the first; ∞ if it never does."""
    mean = gaps.mean(axis=0)
    below = (mean < share * mean[0])[::-1].cumprod()[::-1]
    return at[int(below.argmax())] if below.any() else np.inf


def settled_with_interval(at: list[int], gaps: np.ndarray) -> str:
    draw = np.random.default_rng(0)
    again = [settled(at, gaps[draw.integers(len(gaps), size=len(gaps))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(again, [0.025, 0.975], method="nearest")
    return f"{settled(at, gaps):,.0f} [{low:,.0f}, {high:,.0f}]"


def with_plain_rewards(world: KindsWorld) -> KindsWorld:
    """The same world, whose reward weights have sum 1: that number is a constant of compiled programs."""
    return dataclasses.replace(
        world, model=dataclasses.replace(world.model, reward_features=world.means, reward_total=1.0)
    )


@double_precision
def in_world(
    seed: int, horizon: int, apart: float, users: int, mixed: bool, plan: str = "qmdp", points: int = 0
) -> dict[str, Any]:
    """The figures of one world: the blend's value and the best, and each agent's rounds, gaps and last value."""
    given = {"plan": plan, **({"points": points} if points else {})}
    world = with_plain_rewards(random_kinds(horizon=horizon, apart=apart, seed=seed, mixed=mixed))
    found: dict[str, Any] = {"blend": float(world.policy_value(world.blend_plan())), "best": world.optimal_value}
    for name, spec in AGENTS.items():
        agent = dataclasses.replace(make_agent(spec, world.model, users, **given), promise=NoPromise())
        at, values, last = trace(agent, world, seed)
        top = float(value_of(agent, with_true_shares(agent, world), world, VALUED))
        found[name] = {"at": at, "gaps": [top - value for value in values], "last": last}
    return found


def all_worlds(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of all worlds, those in the file as they are."""
    asked: tuple[Any, ...] = (chosen.horizon, chosen.apart, chosen.users, chosen.mixed)
    if chosen.plan != "qmdp":
        asked = (*asked, chosen.plan, chosen.points)
    file = None if chosen.save is None else Path(chosen.save)
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    known = {tuple(row["asked"]): row["found"] for row in map(json.loads, lines)}
    rows = []
    for seed in range(chosen.seed, chosen.seed + chosen.worlds):
        found = known.get((seed, *asked))
        if found is None:
            found = in_world(seed, *asked)
            if file is not None:
                with file.open("a") as written:
                    written.write(json.dumps({"asked": [seed, *asked], "found": found}) + "\n")
        rows.append(found)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=10, help="H")
    parser.add_argument("--apart", type=float, default=0.5, help="how far kinds differ")
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--users", type=int, default=2_000, help="K")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first world")
    parser.add_argument("--mixed", action="store_true", help="users have no kind")
    parser.add_argument("--plan", choices=("qmdp", "point-based"), default="qmdp")
    parser.add_argument("--points", type=int, default=16, help="of a plan over beliefs")
    parser.add_argument("--save", help="a file of the worlds that were run")
    chosen = parser.parse_args()
    rows = all_worlds(chosen)
    blend, best = (np.array([row[key] for row in rows]) for key in ("blend", "best"))
    last = np.array([[row[name]["last"] for row in rows] for name in AGENTS])
    columns = 100 * (last - blend) / (blend if chosen.mixed else best - blend)
    digits = 2 if chosen.mixed else 0
    cells = " | ".join(f"{with_error(column, digits)} %" for column in columns)
    room = (100 * (best - blend) / blend).mean()
    kind = "users have no kind, change of value" if chosen.mixed else f"room {room:.1f} % of value, closed"
    print(f"| {chosen.horizon} | {chosen.apart:g} | {len(rows)} worlds, {kind} | {cells} |")
    rest = zip(AGENTS, np.median(columns, axis=1), columns.min(axis=1), strict=True)
    print("median, worst:", {name: (f"{middle:.{digits}f}", f"{worst:.{digits}f}") for name, middle, worst in rest})
    private = zip(list(AGENTS)[1:], 100 * (last[1:] / last[0] - 1), strict=True)
    print("value against no privacy, %:", {name: f"{with_error(r, 3)}, worst {r.min():.3f}" for name, r in private})
    print("below 5 % of the first gap after:", {
        name: settled_with_interval(rows[0][name]["at"], np.array([row[name]["gaps"] for row in rows]))
        for name in AGENTS
    })  # fmt: skip


if __name__ == "__main__":
    main()
