# SPDX-License-Identifier: Apache-2.0
"""How much of the room between the blend's plan and knowing the kind any policy can close, in random worlds of kinds.

    python benchmarks/belief_ceiling.py --seed 910000 --worlds 8
    python benchmarks/belief_ceiling.py --asking                   # values in a world where asking costs a step

Exact, with known shares and short horizons: all histories of actions, rewards and states are enumerated from every first
state, for the Bayes-optimal policy, for the one that takes the best action on average over the belief (QMDP) and for the
point-based plan with so many ``--points``. Prints the share of the room that each closes, mean ± standard error over
worlds, and every world's.
The worlds are those of ``benchmarks/kinds.py`` with the same seeds. A tree has (actions · successors · 2)^(H-1) leaves.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents.kinds.belief import Laws, with_blend
from reticent.agents.kinds.learner import optimal_tables
from reticent.agents.kinds.point_based import BeliefPlan, Published, better_plan
from reticent.runtime import double_precision
from reticent.worlds.asking import asking_kinds
from reticent.worlds.kinds import KindsWorld, kind_means, random_kinds

POLICIES = ("Bayes-optimal", "QMDP", "point-based")


def planned(world: KindsWorld, points: int) -> tuple[np.ndarray, BeliefPlan]:
    """Optimal tables ``(H, M, S, A)`` and the point-based plan, by the true shares; no user is of the blend."""
    kinds = Laws(world.model.transition_features, kind_means(world.model))
    tables = optimal_tables(with_blend(kinds, world.shares), world.model)
    known = Published(kinds, world.shares, tables, jnp.append(world.shares, 0.0))
    plan = jax.jit(lambda one: better_plan(one, world.model, points, jax.random.key(0)))(known)
    return np.asarray(tables)[:, :-1], BeliefPlan(np.asarray(plan.vectors)[..., :-1], np.asarray(plan.choices))


def chosen_by(plan: BeliefPlan, step: int, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The plan's action at nodes with these unnormalised beliefs ``(n, Z)``."""
    actions = np.zeros(len(states), int)
    for state in np.unique(states):
        here = states == state
        best = (weights[here] @ plan.vectors[step, state].T).argmax(axis=1)
        actions[here] = plan.choices[step, state][best]
    return actions


def values(world: KindsWorld, first: int, tables: np.ndarray, plan: BeliefPlan) -> np.ndarray:
    """Values from a first state by enumeration, of :data:`POLICIES`."""
    rows = np.asarray(world.model.transition_features)
    means, horizon = np.asarray(kind_means(world.model)), world.model.horizon
    kinds, _, actions, _ = rows.shape
    places = rows.sum(axis=0) > 0
    count = int(places.sum(axis=-1).max())
    reached = np.argsort(~places, axis=-1, kind="stable")[..., :count]
    chances = np.take_along_axis(rows, np.broadcast_to(reached, (kinds, *reached.shape)), axis=-1)

    def from_here(step: int, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Of nodes with unnormalised beliefs ``(n, Z)``: weighted values ``(3, n)``."""
        paid = np.einsum("nz,zna->na", weights, means[:, states])
        chosen = np.stack([
            np.einsum("nz,zna->na", weights, tables[step][:, states]).argmax(axis=1),
            chosen_by(plan, step, states, weights),
        ])  # fmt: skip
        if step == horizon - 1:
            return np.stack([paid.max(axis=1), *np.take_along_axis(paid, chosen.T, axis=1).T])
        found = np.concatenate([np.full((1, len(states)), -np.inf), np.zeros(chosen.shape)])
        for action in range(actions):
            odds = means[:, states, action]
            won = np.stack([odds, 1 - odds], axis=-1)  # (Z, n, 2)
            joint = np.einsum("nz,znr,znk->nrkz", weights, won, chances[:, states, action])
            following = np.broadcast_to(reached[states, action][:, None], joint.shape[:-1])
            later = from_here(step + 1, following.reshape(-1), joint.reshape(-1, kinds))
            earned = paid[:, action] + later.reshape(len(later), len(states), -1).sum(axis=-1)
            found[0] = np.maximum(found[0], earned[0])
            found[1:] = np.where(chosen == action, earned[1:], found[1:])
        return found

    return from_here(0, np.array([first]), np.asarray(world.shares)[None])[:, 0]


def exact(world: KindsWorld, points: int) -> np.ndarray:
    """The values of :data:`POLICIES`."""
    tables, plan = planned(world, points)
    starts = np.flatnonzero(np.asarray(world.model.initial))
    each = np.array([values(world, int(first), tables, plan) for first in starts])
    return np.asarray(world.model.initial)[starts] @ each


@double_precision
def closed(seed: int, horizon: int, apart: float, points: int) -> np.ndarray:
    """Shares of the room that :data:`POLICIES` close in one world."""
    world = random_kinds(horizon=horizon, apart=apart, seed=seed)
    blend = float(world.policy_value(world.blend_plan()))
    return (exact(world, points) - blend) / (world.optimal_value - blend)


@double_precision
def asking(points: int) -> None:
    world = asking_kinds()
    print(f"one plan for all {float(world.policy_value(world.blend_plan())):.3f}, known kind {world.optimal_value:.3f}")
    print(", ".join(f"{name} {value:.3f}" for name, value in zip(POLICIES, exact(world, points), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=5, help="H")
    parser.add_argument("--apart", type=float, default=0.5, help="how far kinds differ")
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=910_000, help="of the first world")
    parser.add_argument("--points", type=int, default=16, help="beliefs at which the point-based plan is made")
    parser.add_argument("--asking", action="store_true", help="the world in which asking costs a step")
    chosen = parser.parse_args()
    if chosen.asking:
        return asking(chosen.points)
    rows = []
    for seed in range(chosen.seed, chosen.seed + chosen.worlds):
        rows.append(closed(seed, chosen.horizon, chosen.apart, chosen.points))
        shown = ", ".join(f"{name} {100 * share:.2f} %" for name, share in zip(POLICIES, rows[-1], strict=True))
        print(f"world {seed}: {shown}", flush=True)
    for name, column in zip(POLICIES, 100 * np.array(rows).T, strict=True):
        error = column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else float("nan")
        print(f"{name} closes {column.mean():.1f} ± {error:.1f} % of the room")


if __name__ == "__main__":
    main()
