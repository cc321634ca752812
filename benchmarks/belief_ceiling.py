# SPDX-License-Identifier: Apache-2.0
"""How much of the room between the blend's plan and knowing the kind any policy can close, in random worlds of kinds.

    python benchmarks/belief_ceiling.py --seed 910000 --worlds 8

Exact, with known shares and short horizons: all histories of actions, rewards and states are enumerated from every first
state, once for the Bayes-optimal policy and once for the one that takes the best action on average over the belief (QMDP,
what devices do). Prints the share of the room that either closes, mean ± standard error over worlds, and every world's.
The worlds are those of ``benchmarks/kinds.py`` with the same seeds. A tree has (actions · successors · 2)^(H-1) leaves.
"""

from __future__ import annotations

import argparse

import numpy as np

from reticent.agents.kinds.belief import Laws
from reticent.agents.kinds.learner import optimal_tables
from reticent.runtime import double_precision
from reticent.worlds.kinds import KindsWorld, kind_means, random_kinds


def values(world: KindsWorld, first: int, tables: np.ndarray) -> tuple[float, float]:
    """The Bayes-optimal value and that of QMDP from a first state, by enumeration."""
    rows = np.asarray(world.model.transition_features)
    means, horizon = np.asarray(kind_means(world.model)), world.model.horizon
    kinds, _, actions, _ = rows.shape
    places = rows.sum(axis=0) > 0
    count = int(places.sum(axis=-1).max())
    reached = np.argsort(~places, axis=-1, kind="stable")[..., :count]
    chances = np.take_along_axis(rows, np.broadcast_to(reached, (kinds, *reached.shape)), axis=-1)

    def from_here(step: int, states: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of nodes with unnormalised beliefs ``(n, Z)``: weighted values ``(n,)`` of either policy."""
        paid = np.einsum("nz,zna->na", weights, means[:, states])
        chosen = np.einsum("nz,zna->na", weights, tables[step][:, states]).argmax(axis=1)
        here = np.arange(len(states))
        if step == horizon - 1:
            return paid.max(axis=1), paid[here, chosen]
        best, greedy = np.full(len(states), -np.inf), np.zeros(len(states))
        for action in range(actions):
            odds = means[:, states, action]
            won = np.stack([odds, 1 - odds], axis=-1)  # (Z, n, 2)
            joint = np.einsum("nz,znr,znk->nrkz", weights, won, chances[:, states, action])
            following = np.broadcast_to(reached[states, action][:, None], joint.shape[:-1])
            later, later_greedy = from_here(step + 1, following.reshape(-1), joint.reshape(-1, kinds))
            best = np.maximum(best, paid[:, action] + later.reshape(len(states), -1).sum(axis=1))
            mine = chosen == action
            greedy[mine] = paid[mine, action] + later_greedy.reshape(len(states), -1).sum(axis=1)[mine]
        return best, greedy

    found = from_here(0, np.array([first]), np.asarray(world.shares)[None])
    return float(found[0][0]), float(found[1][0])


@double_precision
def closed(seed: int, horizon: int, apart: float) -> tuple[float, float]:
    """Shares of the room that the Bayes-optimal policy and QMDP close in one world."""
    world = random_kinds(horizon=horizon, apart=apart, seed=seed)
    laws = Laws(world.model.transition_features, kind_means(world.model))
    tables = np.asarray(optimal_tables(laws, world.model))
    each = np.array([values(world, first, tables) for first in range(world.model.states)])
    blend = float(world.policy_value(world.blend_plan()))
    best, greedy = (np.asarray(world.model.initial) @ each - blend) / (world.optimal_value - blend)
    return float(best), float(greedy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=5, help="H")
    parser.add_argument("--apart", type=float, default=0.5, help="how far kinds differ")
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=910_000, help="of the first world")
    chosen = parser.parse_args()
    rows = []
    for seed in range(chosen.seed, chosen.seed + chosen.worlds):
        rows.append(closed(seed, chosen.horizon, chosen.apart))
        print(f"world {seed}: Bayes-optimal {100 * rows[-1][0]:.2f} %, QMDP {100 * rows[-1][1]:.2f} %", flush=True)
    for name, column in zip(("Bayes-optimal", "QMDP"), 100 * np.array(rows).T, strict=True):
        error = column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else float("nan")
        print(f"{name} closes {column.mean():.1f} ± {error:.1f} % of the room")


if __name__ == "__main__":
    main()
