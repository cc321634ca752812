# SPDX-License-Identifier: Apache-2.0
"""What a plan is worth on which every user acts with a memory of their own: by simulated users, the same for every plan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.capabilities import act_from, empty_memory, remember, visits_of
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import AnyPlan


def simulated_returns(agent: AnyLearner, plan: AnyPlan, world: Any, users: int, dtype: Any) -> Array:
    """Returns ``(users, V)`` of the visits of simulated users, who carry their memory on from visit to visit.

    Where the world hides something of a user, they are of the rewards that are expected given it.
    """
    horizon, visits = agent.model.horizon, visits_of(agent)
    draws = world.start_draws + horizon * world.step_draws
    uniforms = jax.random.uniform(jax.random.key(17), (users, visits * draws), dtype)
    hidden = hasattr(world, "observed")

    def visit(both: tuple[Any, Any], uniform: Array) -> tuple[tuple[Any, Any], Array]:
        first, rest = uniform[: world.start_draws], uniform[world.start_draws :]

        def step(both: tuple[Any, Any], at: tuple[Array, Array]) -> tuple[tuple[Any, Any], Array]:
            (state, memory), (index, draw) = both, at
            here = world.observed(state) if hidden else state
            action = act_from(agent, plan, memory, index, here, 0.0)
            following, reward = world.step(index, state, action, draw)
            there = world.observed(following) if hidden else following
            earned = world.mean_reward(state, action) if hidden else reward
            return (following, remember(agent, plan, memory, here, action, reward, there)), earned

        last, memory = both
        start = world.start_again(last, first) if hidden else world.start(first[0])
        numbered = jnp.arange(horizon), rest.reshape(horizon, -1)
        after, earned = jax.lax.scan(step, (start, memory), numbered)
        return after, earned.sum()

    def stay(uniform: Array) -> Array:
        first = uniform[: world.start_draws]
        person = world.start(first if hidden else first[0])
        return jax.lax.scan(visit, (person, empty_memory(agent, plan)), uniform.reshape(visits, -1))[1]

    return jax.vmap(stay)(uniforms)
