# SPDX-License-Identifier: Apache-2.0
"""Simulated users: one episode under a plan, from random draws that are keyed by seed and user.

Who asks does not matter: a simulation, a test and a replay get the same user from the same key and number.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.learner import AnyLearner
from reticent.learning.plan import Plan
from reticent.runtime import unrolling
from reticent.worlds import Episode, World
from reticent.worlds.continuous import ContinuousWorld

AnyWorld: TypeAlias = World | ContinuousWorld


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

    def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        index, draw = at
        action = agent.act(plan, index, state, draw[0])
        following, reward = world.step(index, state, action, draw[1:])
        return following, (state, action, reward)

    last, (states, actions, rewards) = jax.lax.scan(
        step,
        world.start(first if isinstance(world, ContinuousWorld) else first[0]),
        (jnp.arange(steps), draws),
        unroll=unrolling(steps),
    )
    return Episode(jnp.concatenate([states, last[None]]), actions, rewards)


def episode_uniforms(
    key: Array, episode: Array | int, horizon: int, start_draws: int = 1, step_draws: int = 2
) -> Array:
    """The uniforms of one user, ``1 + 3H`` in a finite world: the same whoever asks, so that tests can replay a run."""
    return jax.random.uniform(jax.random.fold_in(key, episode), (start_draws + horizon * (1 + step_draws),))
