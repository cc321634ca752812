# SPDX-License-Identifier: Apache-2.0
"""Private learning on real states: what it costs on glucose, and how often a report is clipped between the nodes.

    python benchmarks/real_states.py --seeds 8

For growing numbers of nodes: regret and final gap of private-linopt-vi with users anywhere in the box, judged on a finer
grid, beside the finite world that jumps from node to node; and, for users of the final plans, the share of transition
pairs whose feature or target is beyond the frame that the nodes span (the privatizer clips these), with the largest excess.
"""

from __future__ import annotations

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents import make_agent
from reticent.agents.linear_mixture import off_grid
from reticent.agents.linear_mixture.frame import framed_values
from reticent.runtime import enable_compilation_cache
from reticent.simulation.rollout import rollout
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import default_episodes, make_world

WALKS = 1000


def clipped(agent, world, plans) -> dict[str, float]:
    """Share and excess of pairs beyond the frame, over users of the last plan of every seed (steps with a future only)."""
    draws = world.start_draws + world.model.horizon * (1 + world.step_draws)
    uniforms = jax.random.uniform(jax.random.key(2**20), (WALKS, draws))

    def one(plan, draw):
        episode = rollout(agent, world, plan, draw)
        seen = off_grid.observe(world.model, plan.extension.between, framed_values(plan), episode)
        return jnp.maximum(jnp.linalg.norm(seen.value_features, axis=-1), jnp.abs(seen.targets))[:-1]

    reach = np.asarray(jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(plans, uniforms))
    return {"share": float((reach > 1 + 1e-9).mean()), "largest": float(reach.max()) - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 14])
    arguments = parser.parse_args()
    enable_compilation_cache()
    spec, users = "private-linopt-vi:bonus_scale=0.03", default_episodes("glucose")
    for nodes in arguments.nodes:
        for states in ("nodes", "real"):
            world = make_world(f"glucose:states={states},nodes={nodes}")
            gap = world.optimal_value - world.uniform_value
            agent = make_agent(spec, world.model, users)
            curves = simulate(agent, world, range(arguments.seeds), width=64)
            row = {
                "states": states,
                "nodes": world.model.states,
                "optimal_value": world.optimal_value,
                "regret": float(curves.regret[:, -1].mean()),
                "regret_stderr": float(curves.regret[:, -1].std(ddof=1) / np.sqrt(arguments.seeds)),
                "final_gaps": [round(float(value), 4) for value in curves.tail_regret / gap],
                "seconds": round(curves.seconds, 1),
            }
            if states == "real":
                row["clipped"] = clipped(agent, world, curves.carry.plan)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
