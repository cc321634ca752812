"""Run one agent in one world: many seeds at once, any number of episodes, in bounded memory.

The program is a ``scan`` over *blocks*. A block is a group of users of one round who are served the same plan, so they are
rolled out side by side; where every episode is a round, a block is one user. Seeds are a ``vmap`` inside the scan, so the
decision to replan is one branch for all of them. Blocks are run in segments: between segments the host records the
curve, reports progress, and may stop; the carry after a segment is all that is needed to go on.

Randomness is keyed by (seed, episode) and (seed, round), so results do not depend on how a run is cut into blocks or
segments, and ``run(a)`` followed by ``run(b)`` is ``run(a + b)``.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.learning import Agent, AgentState, Plan
from reticent.worlds import Episode, World


class Streams(NamedTuple):
    """Independent random streams of one seed: the users' behaviour, their own noise, the server's noise."""

    users: Array
    user_noise: Array
    round_noise: Array


def streams(seed: int | Array) -> Streams:
    """The three streams of a seed."""
    return Streams(*jax.random.split(jax.random.key(seed), 3))


def rollout(agent: Agent, world: World, plan: Plan, uniforms: Array) -> Episode:
    """One user's episode under ``plan``, from ``1 + 3H`` uniform draws: the start, then (action, transition, reward)."""
    draws = uniforms[1:].reshape(-1, 3)

    def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        index, draw = at
        action = agent.act(plan, index, state, draw[0])
        following, reward = world.step(index, state, action, draw[1:])
        return following, (state, action, reward)

    first = world.start(uniforms[0])
    last, (states, actions, rewards) = jax.lax.scan(step, first, (jnp.arange(draws.shape[0]), draws))
    return Episode(jnp.concatenate([states, last[None]]), actions, rewards)


def episode_uniforms(key: Array, episode: Array, horizon: int) -> Array:
    """The ``1 + 3H`` uniforms of one user: the same whoever asks, so that tests can replay a run."""
    return jax.random.uniform(jax.random.fold_in(key, episode), (1 + 3 * horizon,))


class Carry(NamedTuple):
    """Everything between two blocks; every leaf has a leading seed axis."""

    state: AgentState
    plan: Plan
    value: Array
    regret: Array


class Block(NamedTuple):
    """What the schedule says of a block: first user, number of users, whether its round ends, the round's size."""

    first: Array
    users: Array
    closes: Array
    round: Array
    round_users: Array


def blocks(agent: Agent, width: int) -> Block:
    """Cut the schedule's rounds into blocks of at most ``width`` users."""
    schedule = agent.schedule
    if schedule.sizes is None:
        index = np.arange(schedule.episodes)
        one = np.ones_like(index)
        closes = np.ones_like(index, dtype=bool)
        table = [index, one, closes, index, one]
    else:
        rows = []
        start = 0
        for number, size in enumerate(schedule.sizes):
            for offset in range(0, size, width):
                users = min(width, size - offset)
                rows.append((start + offset, users, offset + users == size, number, size))
            start += size
        table = [np.array(column) for column in zip(*rows, strict=True)]
    if not schedule.final_release:
        table[2][-1] = False
    return Block(*table)


def _advance_block(
    agent: Agent, world: World, keys: Streams, width: int, carry: Carry, block: Block
) -> tuple[Carry, Any]:
    horizon = world.model.horizon
    optimal = world.optimal_policy_value()

    def one_user(plan: Plan, key: Streams, lane: Array) -> Any:
        episode = rollout(agent, world, plan, episode_uniforms(key.users, block.first + lane, horizon))
        noise = agent.regularizer.simulate_user_noise(jax.random.fold_in(key.user_noise, block.first + lane))
        report = agent.report(plan, episode, noise)
        return jax.tree.map(lambda leaf: jnp.where(lane < block.users, leaf, 0), report)

    def one_seed(state: AgentState, plan: Plan, key: Streams) -> AgentState:
        reports = jax.vmap(one_user, in_axes=(None, None, 0))(plan, key, jnp.arange(width))
        return agent.absorb(state, jax.tree.map(lambda leaf: leaf.sum(axis=0), reports))

    def end_round(state: AgentState, plan: Plan, key: Streams) -> tuple[AgentState, Plan, Array]:
        noise = agent.regularizer.simulate_round_noise(jax.random.fold_in(key.round_noise, block.round))
        state = agent.close(state, plan, block.round_users, noise)
        plan = agent.plan(state)
        return state, plan, world.policy_value(plan.policy)

    regret = carry.regret + block.users * (optimal - carry.value)
    state = jax.vmap(one_seed)(carry.state, carry.plan, keys)
    state, plan, value = jax.lax.cond(
        block.closes,
        lambda: jax.vmap(end_round)(state, carry.plan, keys),
        lambda: (state, carry.plan, carry.value),
    )
    return Carry(state, plan, value, regret), (regret, carry.value)


@functools.partial(jax.jit, static_argnames=("width",), donate_argnames=("carry",))
def _advance(
    agent: Agent, world: World, keys: Streams, carry: Carry, segment: Block, width: int
) -> tuple[Carry, tuple[Array, Array]]:
    return jax.lax.scan(functools.partial(_advance_block, agent, world, keys, width), carry, segment)


@jax.jit
def _begin(agent: Agent, world: World, keys: Streams) -> Carry:
    def one(key: Streams) -> Carry:
        del key
        state = agent.init()
        plan = agent.plan(state)
        value = world.policy_value(plan.policy)
        return Carry(state, plan, value, jnp.zeros_like(value))

    return jax.vmap(one)(keys)


@dataclasses.dataclass(frozen=True)
class Curves:
    """What a simulation measured, for every seed. Simulation only: it uses the hidden truth.

    Attributes:
      seeds: the seeds, ``(n,)``.
      episodes: points of the thinned grid, ``(p,)``: the curve is given after this many episodes.
      regret: cumulative regret ``(n, p)``.
      value: value of the policy in force at that point, ``(n, p)``.
      tail_regret: regret of the last 5 % of the episodes, per episode, ``(n,)``: the final gap.
      seconds: wall-clock time after compilation, and ``compile_seconds`` before it.
      finished: False if the run was stopped early; the curve then ends where it stopped.
    """

    seeds: np.ndarray
    episodes: np.ndarray
    regret: np.ndarray
    value: np.ndarray
    tail_regret: np.ndarray
    seconds: float
    compile_seconds: float
    finished: bool
    carry: Carry


def grid_points(episodes: int, points: int = 400) -> np.ndarray:
    """Episode counts at which curves are stored: a linear and a logarithmic grid together, 1 and K included."""
    linear = np.linspace(1, episodes, points)
    logarithmic = np.geomspace(1, episodes, points)
    return np.unique(
        np.round(np.concatenate([linear, logarithmic, [0.5 * episodes, 0.95 * episodes]])).astype(np.int64).clip(1)
    )


def simulate(
    agent: Agent,
    world: World,
    seeds: Sequence[int],
    *,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    width: int = 256,
    segments: int = 40,
) -> Curves:
    """Run ``agent`` for its schedule's episodes in ``world``, all ``seeds`` side by side.

    ``progress`` is called with the number of episodes finished after each segment; ``should_stop`` is asked there.
    """
    schedule = agent.schedule
    width = 1 if schedule.sizes is None else min(width, max(schedule.sizes))
    table = blocks(agent, width)
    count = len(table.first)
    length = -(-count // min(segments, count))
    padding = -count % length
    # Padded blocks have no users and close nothing; they keep one compiled program for all segments.
    padded = Block(*(np.concatenate([column, np.zeros(padding, column.dtype)]) for column in table))
    keys = jax.vmap(streams)(jnp.asarray(np.asarray(seeds, dtype=np.uint32)))

    started = time.perf_counter()
    carry = _begin(agent, world, keys)
    first = Block(*(jnp.asarray(column[:length]) for column in padded))
    program = _advance.lower(agent, world, keys, carry, first, width=width).compile()
    compiled = time.perf_counter()

    grid = grid_points(schedule.episodes)
    done_users = np.cumsum(table.users)
    kept_episodes: list[np.ndarray] = []
    kept_regret: list[np.ndarray] = []
    kept_value: list[np.ndarray] = []
    previous_end, previous_regret = 0, np.zeros(len(seeds))
    finished = True
    for start in range(0, count, length):
        segment = Block(*(jnp.asarray(column[start : start + length]) for column in padded))
        carry, (regret, value) = program(agent, world, keys, carry, segment)
        stop = min(start + length, count)
        ends = np.concatenate([[previous_end], done_users[start:stop]])
        curve = np.concatenate([previous_regret[None], np.asarray(regret)[: stop - start]])
        inside = grid[(grid > ends[0]) & (grid <= ends[-1])]
        # Inside a block the policy does not change, so cumulative regret is linear there and interpolation is exact.
        upper = np.searchsorted(ends, inside, side="left")
        share = (inside - ends[upper - 1]) / (ends[upper] - ends[upper - 1])
        kept_episodes.append(inside)
        kept_regret.append(curve[upper - 1] + share[:, None] * (curve[upper] - curve[upper - 1]))
        kept_value.append(np.asarray(value)[upper - 1])
        previous_end, previous_regret = int(ends[-1]), curve[-1]
        if progress is not None:
            progress(previous_end)
        if should_stop is not None and stop < count and should_stop():
            finished = False
            break
    jax.block_until_ready(carry.regret)
    ended = time.perf_counter()

    points = np.concatenate(kept_episodes)
    regret_curve = np.concatenate(kept_regret).T
    cut = int(points[max(0, np.searchsorted(points, 0.95 * points[-1]) - 1)]) if len(points) > 1 else 0
    at_cut = regret_curve[:, np.searchsorted(points, cut)] if cut else np.zeros(len(seeds))
    return Curves(
        seeds=np.asarray(seeds),
        episodes=points,
        regret=regret_curve,
        value=np.concatenate(kept_value).T,
        tail_regret=(regret_curve[:, -1] - at_cut) / max(points[-1] - cut, 1),
        seconds=ended - compiled,
        compile_seconds=compiled - started,
        finished=finished,
        carry=carry,
    )
