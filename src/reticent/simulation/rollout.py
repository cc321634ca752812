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
from reticent.learning.capabilities import act_from, empty_memory, remember, visits_of
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.runtime import unrolling
from reticent.worlds import Episode, World
from reticent.worlds.continuous import ContinuousWorld
from reticent.worlds.episode import as_stay
from reticent.worlds.kinds import KindsWorld
from reticent.worlds.tastes import RecordedTastes, TasteWorld

HiddenWorld: TypeAlias = KindsWorld | TasteWorld | RecordedTastes
"""Worlds that hide something of every user: a learner sees what ``observed`` leaves of a state."""

AnyWorld: TypeAlias = World | ContinuousWorld | HiddenWorld


class Streams(NamedTuple):
    """Independent random streams of one seed: the users' behaviour, their own noise, the server's noise."""

    users: Array
    user_noise: Array
    round_noise: Array


def streams(seed: int | Array) -> Streams:
    """The three streams of a seed."""
    return Streams(*jax.random.split(jax.random.key(seed), 3))


def rollout(agent: AnyLearner, world: AnyWorld, plan: AnyPlan, uniforms: Array) -> Episode:
    """One user's episode under ``plan``, from :func:`episode_uniforms`: the start, then (action, transition, reward).

    Where a report is about a stay, all its visits by the same user and plan, with what the device remembers carried on.
    """
    visits = visits_of(agent)
    if visits == 1:
        return _visit(agent, world, plan, _start(world, uniforms), empty_memory(agent, plan), uniforms)[0]

    def visit(both: tuple[Array, PyTree], own: Array) -> tuple[tuple[Array, PyTree], Episode]:
        last, memory = both
        first = own[: world.start_draws]
        start = world.start_again(last, first) if isinstance(world, HiddenWorld) else _start(world, own)
        episode, last, memory = _visit(agent, world, plan, start, memory, own)
        return (last, memory), episode

    each = uniforms.reshape(visits, -1)
    return as_stay(jax.lax.scan(visit, (_start(world, each[0]), empty_memory(agent, plan)), each)[1])


def _start(world: AnyWorld, uniforms: Array) -> Array:
    first = uniforms[: world.start_draws]
    return world.start(first[0] if isinstance(world, World) else first)


def _visit(
    agent: AnyLearner, world: AnyWorld, plan: AnyPlan, start: Array, memory: PyTree, uniforms: Array
) -> tuple[Episode, Array, PyTree]:
    """One visit from ``start``: what was seen, the world's last state, and what the device remembers after it."""
    draws = uniforms[world.start_draws :].reshape(-1, 1 + world.step_draws)
    steps = draws.shape[0]
    observed = world.observed if isinstance(world, HiddenWorld) else _itself

    def step(
        both: tuple[Array, PyTree], at: tuple[Array, Array]
    ) -> tuple[tuple[Array, PyTree], tuple[Array, Array, Array]]:
        (state, memory), (index, draw) = both, at
        here = observed(state)
        action = act_from(agent, plan, memory, index, here, draw[0])
        following, reward = world.step(index, state, action, draw[1:])
        memory = remember(agent, plan, memory, here, action, reward, observed(following))
        return (following, memory), (here, action, reward)

    begin = start, memory
    (last, memory), taken = jax.lax.scan(step, begin, (jnp.arange(steps), draws), unroll=unrolling(steps))
    states, actions, rewards = taken
    return Episode(jnp.concatenate([states, observed(last)[None]]), actions, rewards), last, memory


def _itself(state: Array) -> Array:
    return state


def episode_uniforms(
    key: Array, episode: Array | int, horizon: int, start_draws: int = 1, step_draws: int = 2, visits: int = 1
) -> Array:
    """The uniforms of one user, ``1 + 3H`` for each visit in a finite world: the same for every caller, so that tests can
    replay a run."""
    return jax.random.uniform(jax.random.fold_in(key, episode), (visits * (start_draws + horizon * (1 + step_draws)),))


def draw_sizes(agent: AnyLearner, world: AnyWorld) -> tuple[int, int, int, int]:
    """What :func:`episode_uniforms` must know of an agent's users in a world."""
    return world.model.horizon, world.start_draws, world.step_draws, visits_of(agent)
