# SPDX-License-Identifier: Apache-2.0
"""Simulated users: one episode under a plan, from random draws that are keyed by seed and user.

Who asks does not matter: a simulation, a test and a replay get the same user from the same key and number.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import act_from, empty_memory, remember
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import Plan
from reticent.runtime import unrolling
from reticent.worlds import Episode, World
from reticent.worlds.continuous import ContinuousWorld
from reticent.worlds.kinds import KindsWorld

AnyWorld: TypeAlias = World | ContinuousWorld | KindsWorld


class Streams(NamedTuple):
    """Independent random streams of one seed: the users' behaviour, their own noise, the server's noise."""

    users: Array
    user_noise: Array
    round_noise: Array


def streams(seed: int | Array) -> Streams:
    """The three streams of a seed."""
    return Streams(*jax.random.split(jax.random.key(seed), 3))


def rollout(agent: AnyLearner, world: AnyWorld, plan: Plan, uniforms: Array) -> Episode:
    """One user's episode under ``plan``, from :func:`episode_uniforms`: the start, then (action, transition, reward)."""
    first, draws = uniforms[: world.start_draws], uniforms[world.start_draws :].reshape(-1, 1 + world.step_draws)
    steps = draws.shape[0]
    start = world.start(first[0] if isinstance(world, World) else first)
    observed = world.observed if isinstance(world, KindsWorld) else _itself

    def step(
        both: tuple[Array, PyTree], at: tuple[Array, Array]
    ) -> tuple[tuple[Array, PyTree], tuple[Array, Array, Array]]:
        (state, memory), (index, draw) = both, at
        here = observed(state)
        action = act_from(agent, plan, memory, index, here, draw[0])
        following, reward = world.step(index, state, action, draw[1:])
        memory = remember(agent, plan, memory, here, action, reward, observed(following))
        return (following, memory), (here, action, reward)

    begin = start, empty_memory(agent, plan)
    (last, _), taken = jax.lax.scan(step, begin, (jnp.arange(steps), draws), unroll=unrolling(steps))
    states, actions, rewards = taken
    return Episode(jnp.concatenate([states, observed(last)[None]]), actions, rewards)


def _itself(state: Array) -> Array:
    return state


def episode_uniforms(
    key: Array, episode: Array | int, horizon: int, start_draws: int = 1, step_draws: int = 2
) -> Array:
    """The uniforms of one user, ``1 + 3H`` in a finite world: the same for every caller, so that tests can replay a run."""
    return jax.random.uniform(jax.random.fold_in(key, episode), (start_draws + horizon * (1 + step_draws),))
