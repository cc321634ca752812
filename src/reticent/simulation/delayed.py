# SPDX-License-Identifier: Apache-2.0
r"""Many users at once: a simulation in which reports arrive late, out of order, or never.

Time is counted in users admitted. User j plays the plan in force at admission, and the report is computed with
the value function of that plan. It then waits for :math:`D_j` further admissions and enters the round that is open then;
a report that would come after the last round is lost. Rounds end on admissions, as the schedule says, so a round may hold
more or fewer reports than it has users (``docs/delays.md``).

Delays do not depend on data here, so the round of arrival is known when the report is made. Reports are sums of numbers:
those of one arrival round wait *as one sum*, in a ring with a place for each round that a delay can reach. A delay of 0 is
:func:`reticent.simulation.simulate.simulate`, with the same users and the same noise.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.runtime import double_precision
from reticent.simulation.engine import Block, blocks
from reticent.simulation.rollout import AnyWorld, Streams, draw_sizes, episode_uniforms, rollout, streams
from reticent.simulation.simulate import grid_points

NEVER = 2**30
"""The delay of a report that is lost: longer than any run."""

OVERLOOKED = 1e-9
"""Share of geometric delays that are too long for the ring, and count as lost."""


class Delay(Protocol):
    """How long reports take, in users admitted meanwhile. Frozen: a delay is part of the compiled program."""

    @property
    def longest(self) -> int:
        """No report that arrives at all takes longer."""
        ...

    def draw(self, key: Array) -> Array:
        """One user's delay, or :data:`NEVER`."""
        ...


@dataclasses.dataclass(frozen=True)
class FixedDelay:
    """Every report arrives after exactly ``users`` further admissions."""

    users: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.users < NEVER:
            raise InvalidInput("delay in users", self.users, f"from 0 to {NEVER - 1}", "0 is the order of the paper")

    @property
    def longest(self) -> int:
        return self.users

    def draw(self, key: Array) -> Array:
        del key
        return jnp.asarray(self.users, jnp.int32)


@dataclasses.dataclass(frozen=True)
class GeometricDelay:
    """At every admission each waiting report arrives with the same chance; ``mean`` admissions on average."""

    mean: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.mean > 0):
            raise InvalidInput("mean delay", self.mean, "a finite number above 0", "use FixedDelay(0) for none")

    @property
    def longest(self) -> int:
        return math.ceil(math.log(OVERLOOKED) / self._log_stay)

    @property
    def _log_stay(self) -> float:
        return math.log(self.mean / (1 + self.mean))

    def draw(self, key: Array) -> Array:
        # Inversion: P(D >= n) = stay^n. 1 - u is never 0.
        delay = jnp.floor(jnp.log1p(-jax.random.uniform(key)) / self._log_stay)
        return jnp.where(delay <= self.longest, delay, NEVER).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Lost:
    """A report never arrives with this ``probability``, and is delayed by ``otherwise`` if it does."""

    probability: float
    otherwise: Delay = FixedDelay(0)

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise InvalidInput("probability of loss", self.probability, "in [0, 1]", "give the share that is lost")

    @property
    def longest(self) -> int:
        return self.otherwise.longest

    def draw(self, key: Array) -> Array:
        loss, delay = jax.random.split(key)
        return jnp.where(jax.random.uniform(loss) < self.probability, NEVER, self.otherwise.draw(delay))


@dataclasses.dataclass(frozen=True)
class DelayedCurves:
    """What a simulation with delays measured, for every seed. Simulation only: it uses the hidden truth.

    Attributes:
      seeds: the seeds, ``(n,)``.
      episodes: points of the thinned grid, ``(p,)``: the curve is given after this many users were admitted.
      regret: cumulative regret ``(n, p)``.
      value: value of the plan that the user at that point was served, ``(n, p)``.
      in_round, late, lost: how many reports entered the round that their user was served in, a later one, or none that
        was released; each ``(n,)``, with sum K.
    """

    seeds: np.ndarray
    episodes: np.ndarray
    regret: np.ndarray
    value: np.ndarray
    in_round: np.ndarray
    late: np.ndarray
    lost: np.ndarray


class DelayedCarry(NamedTuple):
    """Everything between two blocks; every leaf has a leading seed axis. ``waiting`` is the ring of sums of reports."""

    state: AgentState
    plan: AnyPlan
    value: Array
    regret: Array
    waiting: Any
    counts: Array


@double_precision
def simulate_delayed(
    agent: AnyLearner, world: AnyWorld, seeds: Sequence[int], delay: Delay, *, width: int = 256
) -> DelayedCurves:
    """Run ``agent`` for its schedule's users in ``world``, whose reports are delayed by ``delay``; all seeds at once.

    Up to ``width`` users of a round are rolled out side by side, which does not change the result.

    Raises:
      InvalidInput: ``width`` is not positive.
    """
    if width < 1:
        raise InvalidInput("width", width, "at least 1", "256 is a good choice")
    schedule = agent.schedule
    width = 1 if schedule.sizes is None else min(width, max(schedule.sizes))
    table = blocks(agent, width)
    keys = jax.vmap(streams)(jnp.asarray(np.asarray(seeds, dtype=np.uint32)))
    delay_keys = jax.vmap(_delay_stream)(jnp.asarray(np.asarray(seeds, dtype=np.uint32)))
    regret, value, counts = _run(
        agent, world, keys, delay_keys, Block(*map(jnp.asarray, table)), jnp.asarray(schedule.ends),
        delay=delay, width=width, ring=rounds_reached(schedule.ends, delay.longest),
    )  # fmt: skip
    ends = np.concatenate([[0], np.cumsum(table.users)])
    curve = np.concatenate([np.zeros((1, len(seeds))), np.asarray(regret)])
    grid = grid_points(schedule.episodes)
    # Inside a block the plan does not change, so cumulative regret is linear there and interpolation is exact.
    upper = np.searchsorted(ends, grid, side="left")
    share = (grid - ends[upper - 1]) / (ends[upper] - ends[upper - 1])
    thinned = curve[upper - 1] + share[:, None] * (curve[upper] - curve[upper - 1])
    in_round, late, lost = np.asarray(counts).T
    return DelayedCurves(np.asarray(seeds), grid, thinned.T, np.asarray(value)[upper - 1].T, in_round, late, lost)


def rounds_reached(ends: np.ndarray, longest: int) -> int:
    """How many rounds a report may arrive in, at most, counting its own: the size of the ring.

    >>> rounds_reached(np.array([10, 20, 40]), 5), rounds_reached(np.array([1, 2, 3, 4]), 2)
    (2, 3)
    """
    last_users = np.asarray(ends) - 1
    arrives = np.searchsorted(ends, np.minimum(last_users + longest, ends[-1] - 1), side="right")
    return int((arrives - np.arange(len(ends))).max()) + 1


def _delay_stream(seed: Array) -> Array:
    # Not 0, 1 or 2: folding these in may give the streams of users and noise.
    return jax.random.fold_in(jax.random.key(seed), 3)


@functools.partial(jax.jit, static_argnames=("delay", "width", "ring"))
def _run(
    agent: AnyLearner,
    world: AnyWorld,
    keys: Streams,
    delay_keys: Array,
    table: Block,
    ends: Array,
    *,
    delay: Delay,
    width: int,
    ring: int,
) -> tuple[Array, Array, Array]:
    """Regret after each block and value in it, ``(blocks, seeds)``, and the counts of reports ``(seeds, 3)``."""
    optimal = world.optimal_policy_value()
    aggregator = agent.aggregator
    sizes = draw_sizes(agent, world)
    released = agent.schedule.rounds if agent.schedule.final_release else agent.schedule.rounds - 1

    def begin(key: Streams) -> DelayedCarry:
        state = agent.init()
        plan = agent.plan(state)
        value = agent.plan_value(plan, world)
        first = _reports(key, plan, jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32))
        waiting = jax.tree.map(lambda leaf: jnp.zeros((ring, *leaf.shape[1:]), leaf.dtype), first)
        return DelayedCarry(state, plan, value, jnp.zeros_like(value), waiting, jnp.zeros(3, jnp.int32))

    def _reports(key: Streams, plan: AnyPlan, users: Array, places: Array) -> Any:
        def one(user: Array, place: Array) -> Any:
            uniforms = episode_uniforms(key.users, user, *sizes)
            noise = aggregator.simulate_user_noise(jax.random.fold_in(key.user_noise, user))
            served = agent.served(plan, place)
            return agent.report(served, rollout(agent, world, served, uniforms), noise)

        return jax.vmap(one)(users, places)

    def admit(block: Block, key: Streams, delay_key: Array, carry: DelayedCarry) -> DelayedCarry:
        """Serve the users of a block, and put each one's report where it will wait."""
        users = block.first + jnp.arange(width)
        present = jnp.arange(width) < block.users
        opens = block.first == ends[block.round] - block.round_users
        delays = jax.vmap(lambda user: delay.draw(jax.random.fold_in(delay_key, user)))(users)
        arrival = jnp.searchsorted(ends, users + delays, side="right")
        arrives = present & (arrival < released)
        reports = _reports(key, carry.plan, users, block.place + jnp.arange(width))
        # An index past the ring is dropped. The round before has been read: its place is emptied now and not then,
        # because a compiler that sees the ring written after it was read copies all of it for every user.
        place = jnp.where(arrives, arrival % ring, ring)
        read = jnp.where(opens, (block.round - 1) % ring, ring)
        waiting = jax.tree.map(
            lambda sums, leaf: sums.at[read].set(0, mode="drop").at[place].add(leaf, mode="drop"),
            carry.waiting,
            reports,
        )
        own = arrives & (arrival == block.round)
        counts = jnp.stack([own.sum(), (arrives & ~own).sum(), (present & ~arrives).sum()])
        regret = carry.regret + block.users * (optimal - carry.value)
        return carry._replace(waiting=waiting, regret=regret, counts=carry.counts + counts.astype(jnp.int32))

    def end_round(
        block: Block, key: Streams, state: AgentState, plan: AnyPlan, arrived: Any
    ) -> tuple[AgentState, AnyPlan, Array]:
        """Absorb what has arrived by now, release, and plan anew."""
        noise = aggregator.simulate_round_noise(jax.random.fold_in(key.round_noise, block.round))
        state = agent.close(agent.absorb(state, arrived), plan, block.round_users, noise)
        plan = agent.plan(state)
        return state, plan, agent.plan_value(plan, world)

    def step(carry: DelayedCarry, block: Block) -> tuple[DelayedCarry, tuple[Array, Array]]:
        value = carry.value
        carry = jax.vmap(functools.partial(admit, block))(keys, delay_keys, carry)
        arrived = jax.tree.map(lambda sums: sums[:, block.round % ring], carry.waiting)
        state, plan, value_after = jax.lax.cond(
            block.closes,
            lambda: jax.vmap(functools.partial(end_round, block))(keys, carry.state, carry.plan, arrived),
            lambda: (carry.state, carry.plan, carry.value),
        )
        carry = carry._replace(state=state, plan=plan, value=value_after)
        return carry, (carry.regret, value)

    carry, (regret, value) = jax.lax.scan(step, jax.vmap(begin)(keys), table)
    return regret, value, carry.counts
