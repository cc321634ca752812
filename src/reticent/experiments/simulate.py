"""Run one agent in one world: many seeds at once, any number of episodes, in bounded memory.

The program is a ``scan`` over *blocks*. A block is a group of users of one round who are served the same plan, so they are
rolled out side by side; where every episode is a round, a block is one user. Seeds are a ``vmap`` inside the scan, so the
decision to replan is one branch for all of them. Blocks are run in segments: between segments the host records the
curve, reports progress, and may stop; the carry after a segment is all that is needed to go on.

Randomness is keyed by (seed, episode) and (seed, round), so results do not depend on how a run is cut into blocks or
segments, and ``run(a)`` followed by ``run(b)`` is ``run(a + b)``. Between blocks this holds bit for bit
(``resume``, ``from_episode``, ``until_episode``), because every part of a run uses the same compiled program.
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

from reticent.errors import InvalidInput
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

    first: Any
    users: Any
    closes: Any
    round: Any
    round_users: Any


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


_PROGRAMS: dict[Any, Any] = {}
"""Compiled programs of this process. (A lowered and compiled program is not in ``jit``'s own cache.)"""


def _program(arguments: tuple[Any, ...], width: int) -> Any:
    """The compiled segment for arguments of these shapes: compiled apart from its first run, so that both can be timed."""
    leaves, structure = jax.tree.flatten(arguments)
    key = (structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves), width)
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= 64:
            _PROGRAMS.pop(next(iter(_PROGRAMS)))
        _PROGRAMS[key] = _advance.lower(*arguments, width=width).compile()
    return _PROGRAMS[key]


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
      carry: all that is needed to go on, and ``position``, the number of episodes behind it.
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
    position: int

    def then(self, later: Curves) -> Curves:
        """The curves of this part and of the part that was resumed from it, as one run would have measured them."""
        points = np.concatenate([self.episodes, later.episodes])
        regret = np.concatenate([self.regret, later.regret], axis=1)
        return dataclasses.replace(
            later,
            episodes=points,
            regret=regret,
            value=np.concatenate([self.value, later.value], axis=1),
            tail_regret=_tail_regret(points, regret),
            seconds=self.seconds + later.seconds,
            compile_seconds=self.compile_seconds + later.compile_seconds,
        )


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
    resume: Carry | None = None,
    from_episode: int = 0,
    until_episode: int | None = None,
) -> Curves:
    """Run ``agent`` for its schedule's episodes in ``world``, all ``seeds`` side by side.

    ``progress`` is called with the number of episodes finished after each segment; ``should_stop`` is asked there.

    A part of the run: ``resume`` and ``from_episode`` are the ``carry`` and ``position`` of an earlier part with the
    same seeds and ``width``, and ``until_episode`` ends this one at the first end of a block that is not before it.

    Raises:
      InvalidInput: the episodes do not name a part that there is.
    """
    schedule = agent.schedule
    width = 1 if schedule.sizes is None else min(width, max(schedule.sizes))
    table = blocks(agent, width)
    done_users = np.cumsum(table.users)
    begin, count = _part(done_users, resume, from_episode, until_episode)
    length = -(-len(done_users) // min(segments, len(done_users)))
    # Padded blocks have no users and close nothing; they keep one compiled program for all segments of all parts.
    padded = Block(*(np.concatenate([column[:count], np.zeros(length, column.dtype)]) for column in table))
    keys = jax.vmap(streams)(jnp.asarray(np.asarray(seeds, dtype=np.uint32)))

    started = time.perf_counter()
    # A carry that was handed in is copied, because the program takes the memory of its own over.
    carry = _begin(agent, world, keys) if resume is None else jax.tree.map(jnp.array, resume)
    first = Block(*(jnp.asarray(column[begin : begin + length]) for column in padded))
    program = _program((agent, world, keys, carry, first), width)
    compiled = time.perf_counter()

    grid = grid_points(schedule.episodes)
    kept_episodes: list[np.ndarray] = []
    kept_regret: list[np.ndarray] = []
    kept_value: list[np.ndarray] = []
    previous_end, previous_regret = from_episode, np.array(carry.regret)
    finished = count == len(done_users)
    for start in range(begin, count, length):
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
    return Curves(
        seeds=np.asarray(seeds),
        episodes=points,
        regret=regret_curve,
        value=np.concatenate(kept_value).T,
        tail_regret=_tail_regret(points, regret_curve),
        seconds=ended - compiled,
        compile_seconds=compiled - started,
        finished=finished,
        carry=carry,
        position=previous_end,
    )


def _part(ends: np.ndarray, resume: Carry | None, from_episode: int, until_episode: int | None) -> tuple[int, int]:
    """The blocks of the part from ``from_episode`` to ``until_episode``: the first one, and the one after the last."""
    episodes = int(ends[-1])
    if (resume is None) != (from_episode == 0):
        given = "given" if resume is not None else "missing"
        raise InvalidInput(
            "resume", given, "given exactly if from_episode is above 0", "pass the earlier part's carry and position"
        )
    begin = int(np.searchsorted(ends, from_episode)) + 1 if from_episode else 0
    if from_episode and (not 0 < from_episode < episodes or ends[begin - 1] != from_episode):
        raise InvalidInput(
            "from_episode", from_episode, f"the end of a block before episode {episodes}", "use the part's position"
        )
    until = episodes if until_episode is None else until_episode
    if not from_episode < until <= episodes:
        raise InvalidInput(
            "until_episode", until, f"above {from_episode} and at most {episodes}", "end the part within the schedule"
        )
    return begin, int(np.searchsorted(ends, until)) + 1


def _tail_regret(points: np.ndarray, regret: np.ndarray) -> np.ndarray:
    """Regret per episode over the last 5 % of the episodes, from curves ``(n, p)`` at ``points``; NaN without any."""
    if not len(points):
        return np.full(len(regret), np.nan)
    last = np.searchsorted(points, round(0.95 * points[-1]), side="right") - 1
    cut = int(points[max(0, last)]) if len(points) > 1 else 0
    at_cut = regret[:, np.searchsorted(points, cut)] if cut else np.zeros(len(regret))
    return np.asarray((regret[:, -1] - at_cut) / max(points[-1] - cut, 1))
