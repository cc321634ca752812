# SPDX-License-Identifier: Apache-2.0
"""Any agent meets recorded people, in rounds as it would meet users; noise is simulated.

Exact records (:class:`~reticent.worlds.people.recorded.RecordedUsers`) are met side by side, many of a round and several
orders at once. Records that must be accepted first (:class:`~reticent.replay.logs.RandomisedUsers`) are
met one after another, because who is accepted decides on the place of the next; orders go side by side.

The deployed agent with real noise meets them in :mod:`reticent.replay.deployed`; this is for those that cannot be
deployed, such as a learner without privacy, and for many orders of the same people.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.learning.capabilities import act_from, empty_memory, remember
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.replay.logs import RandomisedUsers, Replayable
from reticent.runtime import double_precision
from reticent.simulation.rollout import Streams, streams
from reticent.worlds import Episode
from reticent.worlds.people.recorded import RecordedUsers

WIDTH = 2_048
"""Most users who are met side by side."""

MOST_NUMBERS = 2**24
"""Most numbers in the reports of those who are met side by side: tables of counts are long."""


@double_precision
def meet_recorded(
    agent: AnyLearner,
    users: Replayable,
    orders: Sequence[np.ndarray],
    *,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[np.ndarray]:
    """The returns of those that ``agent`` met, in the order in which it did, for each of ``orders``.

    An order lists indices of users; the agent meets them until its schedule or the order ends. Of randomised records only
    those are met that are accepted. ``progress`` is told how many records of the first order are behind.
    """
    if isinstance(users, RecordedUsers):
        return _exact(agent, users, orders, seed, progress)
    return _randomised(agent, users, orders, seed, progress)


# -- exact records --------------------------------------------------------------------------------------------------------


def _exact(
    agent: AnyLearner,
    users: RecordedUsers,
    orders: Sequence[np.ndarray],
    seed: int,
    progress: Callable[[int], None] | None,
) -> list[np.ndarray]:
    count = min(agent.schedule.episodes, *(len(order) for order in orders))
    table = np.stack([order[:count] for order in orders])
    keys = jax.vmap(streams)(jnp.asarray(seed + np.arange(len(orders)), jnp.uint32))
    state, plan = _begin(agent, len(orders))
    longest = max(MOST_NUMBERS // (len(orders) * _report_size(agent, plan, users.horizon)), 1)
    width = min(WIDTH, int(max(agent.schedule.round_sizes)), longest)
    kept: list[np.ndarray] = []
    met = 0
    for number, size in enumerate(agent.schedule.round_sizes):
        inside = 0
        while inside < size and met < count:
            width_now = min(width, int(size) - inside, count - met)
            # The last users of a round are filled up with ones who are there already, so that all are one program.
            chosen = table[:, met + np.minimum(np.arange(width), width_now - 1)]
            answers = {key: jnp.asarray(column[chosen]) for key, column in users.answers.items()}
            state, returns = _meet_many(
                agent, users.first, users.respond, users.horizon, state, plan, answers, keys,
                jnp.asarray(met), jnp.asarray(inside), jnp.asarray(width_now),
            )  # fmt: skip
            kept.append(np.asarray(returns)[:, :width_now])
            met, inside = met + width_now, inside + width_now
            if progress is not None:
                progress(met)
        if met >= count or number >= agent.schedule.releases:
            break
        state, plan = _end_round(agent, state, plan, keys, jnp.asarray(int(size)), jnp.asarray(number))
    return list(np.concatenate(kept, axis=1))


def _begin(agent: AnyLearner, batch: int) -> tuple[AgentState, AnyPlan]:
    """State and plan before the first user, for every order."""

    def one(_: Array) -> tuple[AgentState, AnyPlan]:
        state = agent.init()
        return state, agent.plan(state)

    both: tuple[AgentState, AnyPlan] = jax.jit(jax.vmap(one))(jnp.arange(batch))
    return both


def _report_size(agent: AnyLearner, plans: AnyPlan, horizon: int) -> int:
    """How many numbers one user reports."""

    def report(plan: AnyPlan) -> Any:
        steps = jnp.zeros(horizon, jnp.int32)
        episode = Episode(jnp.zeros(horizon + 1, jnp.int32), steps, steps.astype(agent.model.reward_features.dtype))
        noise = agent.aggregator.simulate_user_noise(jax.random.key(0))
        return agent.report(agent.served(agent.for_many(plan), jnp.asarray(0)), episode, noise)

    shapes = jax.eval_shape(report, jax.tree.map(lambda leaf: leaf[0], plans))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


@functools.partial(jax.jit, static_argnames=("first", "respond", "horizon"))
def _meet_many(
    agent: AnyLearner,
    first: Any,
    respond: Any,
    horizon: int,
    states: AgentState,
    plans: AnyPlan,
    answers: dict[str, Array],
    keys: Streams,
    met: Array,
    inside: Array,
    count: Array,
) -> tuple[AgentState, Array]:
    """Some users of a round in every order: the state with their reports, and their returns."""

    def lane(state: AgentState, plan: AnyPlan, own: dict[str, Array], key: Streams) -> tuple[AgentState, Array]:
        shared = agent.for_many(plan)
        width = len(next(iter(own.values())))
        places = jnp.arange(width)

        def one(person: dict[str, Array], place: Array) -> tuple[Any, Array]:
            served = agent.served(shared, inside + place)
            draws = jax.random.uniform(jax.random.fold_in(key.users, met + place), (horizon,))
            noise = agent.aggregator.simulate_user_noise(jax.random.fold_in(key.user_noise, met + place))

            def step(carried: tuple[Array, Any], both: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array, Array]]:
                (at, memory), (index, draw) = carried, both
                action = act_from(agent, served, memory, index, at, draw)
                following, reward = respond(person, index, at, action)
                following = following.astype(at.dtype)
                memory = remember(agent, served, memory, at, action, jnp.clip(reward, 0.0, 1.0), following)
                return (following, memory), (at, action, reward)

            begun = jnp.asarray(first(person)), empty_memory(agent, served)
            (last, _), (visited, actions, rewards) = jax.lax.scan(step, begun, (jnp.arange(horizon), draws))
            episode = Episode(jnp.concatenate([visited, last[None]]), actions, rewards)
            return agent.report(served, episode, noise), rewards.sum()

        reports, returns = jax.vmap(one)(own, places)
        present = places < count
        summed = jax.tree.map(lambda leaf: jnp.tensordot(present.astype(leaf.dtype), leaf, axes=1), reports)
        return agent.absorb(state, summed), returns

    both: tuple[AgentState, Array] = jax.vmap(lane)(states, plans, answers, keys)
    return both


@jax.jit
def _end_round(
    agent: AnyLearner, states: AgentState, plans: AnyPlan, keys: Streams, users: Array, number: Array
) -> tuple[AgentState, AnyPlan]:
    """The next round's state and plan, in every order."""

    def lane(state: AgentState, plan: AnyPlan, key: Streams) -> tuple[AgentState, AnyPlan]:
        noise = agent.aggregator.simulate_round_noise(jax.random.fold_in(key.round_noise, number))
        closed = agent.close(state, plan, users, noise)
        return closed, agent.plan(closed)

    both: tuple[AgentState, AnyPlan] = jax.vmap(lane)(states, plans, keys)
    return both


# -- records that must be accepted --------------------------------------------------------------------------------------


WIDTHS = (16, 128, WIDTH)
"""How many records are looked at in one go: each is a program of its own, and a short round would waste a wide one."""


def _randomised(
    agent: AnyLearner,
    users: RandomisedUsers,
    orders: Sequence[np.ndarray],
    seed: int,
    progress: Callable[[int], None] | None,
) -> list[np.ndarray]:
    batch, lengths = len(orders), np.array([len(order) for order in orders])
    keys = jax.vmap(streams)(jnp.asarray(seed + np.arange(batch), jnp.uint32))
    state, plan = _begin(agent, batch)
    columns = (users.states, users.actions, users.rewards, users.coins, users.free)
    likely = 1 / users.probabilities[~users.free].min(initial=1.0) ** users.horizon  # records for one who is met
    kept: list[list[np.ndarray]] = [[] for _ in orders]
    behind = np.zeros(batch, np.int64)
    for number, size in enumerate(agent.schedule.round_sizes):
        place = np.zeros(batch, np.int64)
        # Orders come to the end of a round after different numbers of records; who is there waits for the others.
        while (open_lanes := (place < size) & (behind < lengths)).any():
            least = likely * np.where(open_lanes, size - place, 0).max()
            width = next((width for width in WIDTHS if width >= least), WIDTH)
            ahead = behind[:, None] + np.arange(width)
            chosen = np.stack(
                [order[np.minimum(row, len(order) - 1)] for order, row in zip(orders, ahead, strict=True)]
            )
            records = (*(column[chosen] for column in columns), ahead < lengths[:, None], ahead)
            state, (returns, taken, seen) = _meet_one_by_one(
                agent, state, plan, tuple(map(jnp.asarray, records)), keys, jnp.asarray(place), jnp.asarray(int(size))
            )
            accepted = np.asarray(taken)
            for lane, own in enumerate(kept):
                own.append(np.asarray(returns)[lane, accepted[lane]])
            place += accepted.sum(axis=1)
            behind += np.asarray(seen).sum(axis=1)
            if progress is not None:
                progress(int(behind[0]))
        if (behind >= lengths).all() or number >= agent.schedule.releases:
            break
        state, plan = _end_round(agent, state, plan, keys, jnp.asarray(int(size)), jnp.asarray(number))
    return [np.concatenate(own) if own else np.zeros(0) for own in kept]


def _choices(agent: AnyLearner, served: AnyPlan, recorded: Episode, draws: Array) -> Array:
    """What a device would choose at every step of a record, remembering the record so far, ``(H,)``."""

    def step(memory: Any, at: tuple[Array, ...]) -> tuple[Any, Array]:
        index, here, action, reward, there, draw = at
        chosen = act_from(agent, served, memory, index, here, draw)
        return remember(agent, served, memory, here, action, jnp.clip(reward, 0.0, 1.0), there), chosen

    states, actions, rewards = recorded
    steps = jnp.arange(actions.shape[0]), states[:-1], actions, rewards, states[1:], draws
    return jax.lax.scan(step, empty_memory(agent, served), steps)[1]


@jax.jit
def _meet_one_by_one(
    agent: AnyLearner,
    states: AgentState,
    plans: AnyPlan,
    records: tuple[Array, ...],
    keys: Streams,
    places: Array,
    size: Array,
) -> tuple[AgentState, tuple[Array, Array, Array]]:
    """Records in order until the round is full, in every order: the state, and of each record its return, whether it was
    met and whether it was looked at."""
    horizon = records[1].shape[2]

    def lane(state: AgentState, plan: AnyPlan, own: tuple[Array, ...], key: Streams, place: Array) -> Any:
        shared = agent.for_many(plan)

        def one(carry: tuple[AgentState, Array], record: tuple[Array, ...]) -> tuple[Any, tuple[Array, Array, Array]]:
            before, at = carry
            visited, actions, rewards, coins, free, fresh, number = record
            served = agent.served(shared, at)
            draws = jax.random.uniform(jax.random.fold_in(key.users, number), (2, horizon))
            chosen = _choices(agent, served, Episode(visited, actions, rewards), draws[0])
            seen = fresh & (at < size)
            taken = seen & ((chosen == actions) | free).all() & (draws[1] < coins).all()
            noise = agent.aggregator.simulate_user_noise(jax.random.fold_in(key.user_noise, number))
            report = agent.report(served, Episode(visited, chosen, rewards), noise)
            counted = jax.tree.map(lambda leaf: jnp.where(taken, leaf, jnp.zeros_like(leaf)), report)
            return (agent.absorb(before, counted), at + taken), (rewards.sum(), taken, seen)

        (after, _), told = jax.lax.scan(one, (state, place), own)
        return after, told

    both: tuple[AgentState, tuple[Array, Array, Array]] = jax.vmap(lane)(states, plans, records, keys, places)
    return both
