# SPDX-License-Identifier: Apache-2.0
"""The compiled program of a simulation: blocks of users, seeds and settings side by side.

The program is a ``scan`` over *blocks*. A block is a group of users of one round who are served the same plan, so they are
rolled out side by side; where every episode is a round, a block is one user. Inside the scan, seeds are one ``vmap`` and
*settings* another: agents that differ in numbers only (ε, δ, bonus scale, learning rate…) are one agent whose numbers
have a leading axis. The schedule is the same for all of them, so the decision to replan is one branch for all.

Every leaf of a :class:`Carry` has two leading axes, ``(settings, seeds)``.

The world is the same for all seeds, or each seed has its own (:class:`reticent.simulation.world_batch.WorldBatch`):
worlds that share their model are one more thing that differs along the axis of seeds.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning.capabilities import SumsReports
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.simulation.rollout import AnyWorld, Streams, draw_sizes, episode_uniforms, rollout
from reticent.simulation.world_batch import AnyPlace, WorldBatch, example_of
from reticent.worlds import Episode

DRAWN_TOGETHER = 8
"""Users whose random numbers are drawn at once where every user is a round."""


class Carry(NamedTuple):
    """Everything between two blocks: the agents, what they publish, its value, and the regret so far."""

    state: AgentState
    plan: AnyPlan
    value: Array
    regret: Array


class Block(NamedTuple):
    """What the schedule says of a block: first user, number of users, whether its round ends, the round and its size.

    ``place`` is that of the block's first user in its round.
    """

    first: Any
    users: Any
    closes: Any
    round: Any
    round_users: Any
    place: Any


class Shape(NamedTuple):
    """What is fixed when a program is compiled: most users of a block, and whether every block ends its round."""

    width: int
    always_closes: bool


def blocks(agent: AnyLearner, width: int) -> Block:
    """Cut the schedule's rounds into blocks of at most ``width`` users."""
    schedule = agent.schedule
    if schedule.sizes is None:
        index = np.arange(schedule.episodes)
        one = np.ones_like(index)
        closes = np.ones_like(index, dtype=bool)
        table = [index, one, closes, index, one, np.zeros_like(index)]
    else:
        rows = []
        start = 0
        for number, size in enumerate(schedule.sizes):
            for offset in range(0, size, width):
                users = min(width, size - offset)
                rows.append((start + offset, users, offset + users == size, number, size, offset))
            start += size
        table = [np.array(column) for column in zip(*rows, strict=True)]
    if not schedule.final_release:
        table[2][-1] = False
    return Block(*table)


# -- settings -------------------------------------------------------------------------------------------------------------


def program_of(agent: AnyLearner) -> Any:
    """What must be equal for two agents of one model to be settings of one program (a hashable key)."""
    leaves, structure = jax.tree.flatten(dataclasses.replace(agent, name=""))
    alone = None if jax.tree.leaves(_without_model(agent)) else id(agent)  # no numbers that could have an axis
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves), alone


def stack_settings(agents: Sequence[AnyLearner]) -> AnyLearner:
    """Agents of one model that differ in numbers only, as one agent whose numbers have a leading axis.

    Raises:
      InvalidInput: they differ in more than numbers.
    """
    if len({program_of(agent) for agent in agents}) != 1:
        raise InvalidInput(
            "agents", [agent.name for agent in agents], "alike but for numbers such as epsilon or bonus_scale",
            "simulate agents of different structure one by one",
        )  # fmt: skip
    unnamed = [dataclasses.replace(agent, name="", model=agents[0].model) for agent in agents]
    together: AnyLearner = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(_without_model(agent) for agent in unnamed)
    )
    return dataclasses.replace(together, model=agents[0].model)


def _without_model(agent: AnyLearner) -> AnyLearner:
    return dataclasses.replace(agent, model=None)  # type: ignore[arg-type]


def _over_lanes(function: Any, agents: AnyLearner, *arguments: Any, keys: Any) -> Any:
    """``function(agent, *arguments, key)`` for every setting and seed; ``keys`` have a seed axis only."""
    numbers = _without_model(agents)
    axes = jax.tree.map(lambda _: 0, numbers)
    # Agents without any number are all the same: they are one setting.
    settings = next((leaf.shape[0] for leaf in jax.tree.leaves(numbers)), 1)
    count = len(arguments)
    seeds = jax.vmap(function, in_axes=(None, *[0] * count, 0))
    return jax.vmap(seeds, in_axes=(axes, *[0] * count, None), axis_size=settings)(agents, *arguments, keys)


def _in_place(function: Any, agents: AnyLearner, place: AnyPlace, *arguments: Any, keys: Any) -> Any:
    """``function(agent, world, *arguments, key)`` for every setting and seed, in the world of each seed."""
    if not isinstance(place, WorldBatch):
        return _over_lanes(lambda agent, *rest: function(agent, place, *rest), agents, *arguments, keys=keys)

    def own(agent: AnyLearner, *rest: Any) -> Any:
        *others, (key, truth) = rest
        return function(agent, place.world_of(truth), *others, key)

    return _over_lanes(own, agents, *arguments, keys=(keys, place.own))


# -- the program ----------------------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """Random numbers of a block: the users' uniforms ``(seeds, width, n)`` and, where every user is a round, all noise."""

    uniforms: Array
    user_noise: Any
    round_noise: Any


def _draw(agents: AnyLearner, place: AnyPlace, keys: Streams, shape: Shape, block: Block) -> Draws:
    sizes = draw_sizes(agents, example_of(place))
    users = block.first + jnp.arange(shape.width)
    uniforms = jax.vmap(lambda key: jax.vmap(lambda user: episode_uniforms(key, user, *sizes))(users))(keys.users)
    if not shape.always_closes:
        return Draws(uniforms, None, None)
    user_noise = _over_lanes(lambda agent, key: _user_noise(agent, key, users), agents, keys=keys)
    round_noise = _over_lanes(lambda agent, key: _round_noise(agent, key, block.round), agents, keys=keys)
    return Draws(uniforms, user_noise, round_noise)


def _user_noise(agent: AnyLearner, key: Streams, users: Array) -> Any:
    return jax.vmap(lambda user: agent.aggregator.simulate_user_noise(jax.random.fold_in(key.user_noise, user)))(users)


def _round_noise(agent: AnyLearner, key: Streams, number: Array) -> Any:
    return agent.aggregator.simulate_round_noise(jax.random.fold_in(key.round_noise, number))


def _advance_block(
    agents: AnyLearner,
    place: AnyPlace,
    optimal: Array,
    keys: Streams,
    shape: Shape,
    carry: Carry,
    block: Block,
    draws: Draws,
) -> Carry:
    users = jnp.arange(shape.width)
    drawn = shape.always_closes

    def absorb(
        agent: AnyLearner, world: AnyWorld, state: AgentState, plan: AnyPlan, noise: Any, own: tuple[Streams, Array]
    ) -> AgentState:
        key, uniforms = own
        noise = noise if drawn else _user_noise(agent, key, block.first + users)
        plan = agent.for_many(plan) if shape.width > 1 else plan

        def one(uniform: Array, own_noise: Any, at: Array) -> Any:
            served = agent.served(plan, at)
            return agent.report(served, rollout(agent, world, served, uniform), own_noise)

        def play(uniform: Array, at: Array) -> Episode:
            return rollout(agent, world, agent.served(plan, at), uniform)

        present, places = users < block.users, block.place + users
        if isinstance(agent, SumsReports) and agent.sums_reports:
            episodes = jax.vmap(play)(uniforms, places)
            return agent.absorb(state, agent.summed_reports(plan, places, episodes, present))
        reports = jax.vmap(one)(uniforms, noise, places)
        return agent.absorb(
            state, jax.tree.map(lambda leaf: jnp.tensordot(present.astype(leaf.dtype), leaf, axes=1), reports)
        )

    def end_round(
        agent: AnyLearner, world: AnyWorld, state: AgentState, plan: AnyPlan, noise: Any, key: Streams
    ) -> tuple[AgentState, AnyPlan, Array]:
        noise = noise if drawn else _round_noise(agent, key, block.round)
        state = agent.close(state, plan, block.round_users, noise)
        plan = agent.plan(state)
        return state, plan, agent.plan_value(plan, world)

    regret = carry.regret + block.users * (optimal - carry.value)
    state = _in_place(absorb, agents, place, carry.state, carry.plan, draws.user_noise, keys=(keys, draws.uniforms))
    ended = functools.partial(_in_place, end_round, agents, place, state, carry.plan, draws.round_noise, keys=keys)
    if shape.always_closes:
        state, plan, value = ended()
    else:
        state, plan, value = jax.lax.cond(block.closes, ended, lambda: (state, carry.plan, carry.value))
    return Carry(state, plan, value, regret)


@functools.partial(jax.jit, static_argnames=("shape",), donate_argnames=("carry",))
def _advance(
    agents: AnyLearner, place: AnyPlace, keys: Streams, carry: Carry, segment: Block, count: Array, shape: Shape
) -> tuple[Carry, tuple[Array, Array]]:
    """``count`` blocks of the segment; regret and value after and in each, ``(blocks, settings, seeds)``.

    Random numbers are drawn for a few blocks at a time, in a loop of their own. A compiler that could see them in the
    block would draw them again wherever they are used: for every level of a tree, for every possible next state.
    """
    optimal = place.optimal_policy_value()
    length = len(segment.users)
    group = min(DRAWN_TOGETHER, length) if shape.width == 1 else 1

    def several(number: Array, both: tuple[Carry, Array, Array]) -> tuple[Carry, Array, Array]:
        start = number * group
        rows = jnp.minimum(start + jnp.arange(group), length - 1)
        blocks = Block(*(column[rows] for column in segment))
        draws = jax.vmap(lambda block: _draw(agents, place, keys, shape, block))(blocks)

        def one(index: Array, both: tuple[Carry, Array, Array]) -> tuple[Carry, Array, Array]:
            carry, regrets, values = both
            block, own = jax.tree.map(lambda leaf: leaf[index], (blocks, draws))
            after = _advance_block(agents, place, optimal, keys, shape, carry, block, own)
            at = start + index
            return after, regrets.at[at].set(after.regret), values.at[at].set(carry.value)

        after: tuple[Carry, Array, Array] = jax.lax.fori_loop(0, jnp.minimum(group, count - start), one, both)
        return after

    empty = jnp.zeros((length, *carry.regret.shape), carry.regret.dtype)
    carry, regrets, values = jax.lax.fori_loop(0, -(-count // group), several, (carry, empty, empty))
    return carry, (regrets, values)


@jax.jit
def begin(agents: AnyLearner, place: AnyPlace, keys: Streams) -> Carry:
    """The carry before the first user."""

    def one(agent: AnyLearner, world: AnyWorld, key: Streams) -> Carry:
        del key
        state = agent.init()
        plan = agent.plan(state)
        value = agent.plan_value(plan, world)
        return Carry(state, plan, value, jnp.zeros_like(value))

    return _in_place(one, agents, place, keys=keys)  # type: ignore[no-any-return]


_PROGRAMS: dict[Any, Any] = {}
"""Compiled programs of this process. (A lowered and compiled program is not in ``jit``'s own cache.)"""


def compiled(arguments: tuple[Any, ...], shape: Shape) -> Any:
    """The compiled segment for arguments of these shapes: compiled apart from its first run, so that both can be timed."""
    leaves, structure = jax.tree.flatten(arguments)
    key = (structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves), shape)
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= 64:
            _PROGRAMS.pop(next(iter(_PROGRAMS)))
        _PROGRAMS[key] = _advance.lower(*arguments, shape=shape).compile()
    return _PROGRAMS[key]
