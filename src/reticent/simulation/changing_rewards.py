# SPDX-License-Identifier: Apache-2.0
r"""A simulation in which rewards change and are announced after each episode; regret is against the best fixed policy.

Users, noise and rounds are those of :func:`reticent.simulation.simulate.simulate`: with a stream of one table, and every
user a round, the result is the same. After n episodes

.. math:: R_n=n\max_\pi V^\pi(\bar r_n)-\sum_{k\le n}V^{\pi^k}(r_k),\qquad \bar r_n=\frac1n\sum_{k\le n}r_k,

exactly: both terms are solved with the true dynamics, and the policy in hindsight is the best for *these* n episodes. It
may be negative, for a learner that follows what changes slowly does better than any fixed policy.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.changing_rewards import play, require_known_rewards
from reticent.agents.linear_mixture.frame import LinOptPlan
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.simulation.engine import Block, blocks
from reticent.simulation.rollout import Streams, episode_uniforms, rollout, streams
from reticent.simulation.simulate import grid_points
from reticent.worlds.transforms.changing_rewards import RewardStream

Expects = Literal["last", "mean"]
"""What value iteration plans for: the table that was announced last, or the mean of all (follow the leader)."""


@dataclasses.dataclass(frozen=True)
class ChangingCurves:
    """What a simulation with changing rewards measured, for every seed. Simulation only: it uses the hidden truth.

    Attributes:
      seeds: the seeds, ``(n,)``.
      episodes: points of the thinned grid, ``(p,)``: the curves are given after this many episodes.
      regret: ``best − earned``, ``(n, p)``.
      earned: sum of what each policy is worth under its episode's table, ``(n, p)``.
      best: what the best fixed policy for the episodes so far would have earned in them, ``(n, p)``.
      shares: mean weight of each public table over the run, ``(n, m)``.
      state: the learner's state after the last episode, every leaf with a leading seed axis.
    """

    seeds: np.ndarray
    episodes: np.ndarray
    regret: np.ndarray
    earned: np.ndarray
    best: np.ndarray
    shares: np.ndarray
    state: AgentState


class Announcement(NamedTuple):
    """An episode's table ``(S, A)``, its weights ``(m,)``, and what the policy in force is worth under it."""

    table: Array
    weights: Array
    value: Array


class Carry(NamedTuple):
    """Everything between two episodes; every leaf has a leading seed axis. ``expected`` is a table."""

    state: AgentState
    expected: Array
    earned: Array
    weights: Array


@double_precision
def simulate_changing_rewards(
    agent: LinOptLearner, stream: RewardStream, seeds: Sequence[int], *, expects: Expects = "last"
) -> ChangingCurves:
    """Run ``agent`` for its schedule's episodes through ``stream``, all seeds at once.

    The agent is one of :func:`~reticent.agents.linear_mixture.changing_rewards.for_changing_rewards` for the model of
    the stream's world. ``expects`` is what value iteration plans for; policy optimization expects nothing.

    Raises:
      InvalidInput: the agent steps ahead, regresses rewards, or is for another model.
    """
    require_known_rewards(agent)
    if agent.ahead and agent.method == "policy-optimization":
        raise InvalidInput("agent", agent.name, "one that steps after its episodes", "use for_changing_rewards(agent)")
    if agent.model is not stream.world.model:
        raise InvalidInput("agent.model", "another one", "the stream's", "make the agent for stream.world.model")
    table = blocks(agent, 1)
    keys = jax.vmap(streams)(jnp.asarray(np.asarray(seeds, dtype=np.uint32)))
    grid = grid_points(agent.schedule.episodes)
    state, earned, weights, best = _run(
        agent, stream, keys, Block(*map(jnp.asarray, table)), jnp.asarray(grid), expects=expects
    )
    earned, best, weights = (np.moveaxis(np.asarray(curve), 0, 1) for curve in (earned, best, weights))
    return ChangingCurves(np.asarray(seeds), grid, best - earned, earned, best, weights[:, -1] / grid[-1], state)


@functools.partial(jax.jit, static_argnames="expects")
def _run(
    agent: LinOptLearner, stream: RewardStream, keys: Streams, table: Block, grid: Array, *, expects: Expects
) -> tuple[AgentState, Array, Array, Array]:
    """The last state, and at the points of the grid what was earned, the tables' total weights, and the best."""
    aggregator, world = agent.aggregator, stream.world
    sizes = world.model.horizon, world.start_draws, world.step_draws

    def begin(key: Streams) -> Carry:
        del key
        nothing = jnp.zeros((), stream.tables.dtype)
        return Carry(agent.init(), world.reward_means[0], nothing, jnp.zeros(len(stream.tables), nothing.dtype))

    def episode(block: Block, key: Streams, carry: Carry) -> tuple[Carry, Plan[LinOptPlan]]:
        """Publish, play, announce and report; the mirror step and the end of a round are still to come."""

        def nature(policy: Array) -> Announcement:
            values = stream.values(policy)
            weights = stream.weights(block.first, values)
            return Announcement(stream.table(weights), weights, weights @ values)

        plan, said = play(agent, carry.state, carry.expected, nature)
        uniforms = episode_uniforms(key.users, block.first, *sizes)
        noise = aggregator.simulate_user_noise(jax.random.fold_in(key.user_noise, block.first))
        served = agent.served(plan, block.place)
        report = agent.report(served, rollout(agent, stream.paying(said.table), served, uniforms), noise)
        weights = carry.weights + said.weights
        expected = said.table if expects == "last" else stream.table(weights / weights.sum())
        return Carry(agent.absorb(carry.state, report), expected, carry.earned + said.value, weights), plan

    def end_round(block: Block, key: Streams, state: AgentState, plan: Plan[LinOptPlan]) -> AgentState:
        noise = aggregator.simulate_round_noise(jax.random.fold_in(key.round_noise, block.round))
        return agent.close(state, plan, 1, noise)

    def step(carry: Carry, block: Block) -> tuple[Carry, tuple[Array, Array]]:
        carry, plan = jax.vmap(functools.partial(episode, block))(keys, carry)
        # Every episode is stepped along once: by the end of its round if it ends one.
        state = jax.lax.cond(
            block.closes,
            lambda: jax.vmap(functools.partial(end_round, block))(keys, carry.state, plan),
            lambda: jax.vmap(lambda state, plan: agent.improve(state, plan, 1))(carry.state, plan),
        )
        carry = carry._replace(state=state)
        return carry, (carry.earned, carry.weights)

    carry, (earned, weights) = jax.lax.scan(step, jax.vmap(begin)(keys), table)
    earned, weights = earned[grid - 1], weights[grid - 1]
    best = jax.vmap(lambda sums, users: users * jax.vmap(stream.best_value)(sums / users))(weights, grid)
    return carry.state, earned, weights, best
