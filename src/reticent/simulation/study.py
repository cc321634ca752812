# SPDX-License-Identifier: Apache-2.0
"""A study: the same people every day, each with their own blend, all of whose decisions are kept for the analysis.

A round is a day, so it holds one contribution of each person. The agent is any whose rounds have as many users as there
are people (``first=1e9,growth=1,largest=N`` of the score learners); what it is told and what it releases are those of every
simulation. People differ: their blends are given, and what they do follows from those. Raw decisions are kept in this
program, as a study's server does in the joint model; what leaves is the learner's releases and one of
:mod:`reticent.inference`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.inference import Contrast, Decisions
from reticent.learning.learner import AgentState, AnyLearner
from reticent.learning.plan import AnyPlan
from reticent.learning.promise import NoPromise
from reticent.runtime import double_precision
from reticent.simulation.rollout import Streams, episode_uniforms, rollout, streams
from reticent.worlds import Episode, World
from reticent.worlds.world import checked_truth


class Population(NamedTuple):
    """People of one model.

    Attributes:
      world: that of the mean blend. cumulative, reward_means, rows: each person's own, with a leading axis of people.
    """

    world: World
    rows: Array
    cumulative: Array
    reward_means: Array

    @property
    def people(self) -> int:
        return len(self.rows)

    def live_in(self, rows: Array, cumulative: Array, reward_means: Array) -> World:
        """The world of one of them."""
        return dataclasses.replace(self.world, rows=rows, cumulative=cumulative, reward_means=reward_means)

    @double_precision
    def mean_value(self, policy: np.ndarray) -> float:
        """The expected return of a day under ``policy`` ``(H, S, A)``, on average over people."""

        def one(*own: Array) -> Array:
            return self.live_in(*own).policy_value(jnp.asarray(policy))

        return float(jax.jit(jax.vmap(one))(self.rows, self.cumulative, self.reward_means).mean())


@double_precision
def people_around(world: World, people: int, alike: float, seed: int) -> Population:
    """People whose blends are drawn from a Dirichlet distribution around that of ``world``: the nearer, the more ``alike``.

    Transitions and rewards of a person blend with the same weights, as those of recorded people do.

    Raises:
      InvalidInput: the model is no blend in which the two go together.
    """
    model = world.model
    weights = np.asarray(world.transition_theta)[0]
    totals = np.asarray(world.reward_theta)[0]
    scale = totals.sum()
    if not model.sums_to_one or model.d1 != model.d2 or np.abs(totals - scale * weights).max() > 1e-9 * scale:
        raise InvalidInput("world", world.name, "one whose rewards blend as its transitions do", "use heartsteps")
    drawn = np.random.default_rng(seed).dirichlet(alike * weights, people)
    rows = np.einsum("nd,dsak->nsak", drawn, np.asarray(model.transition_features))
    means = np.einsum("nd,dsa->nsa", scale * drawn, np.asarray(model.reward_features))
    truth = checked_truth(rows, means)  # people in the place of steps
    return Population(world, *(truth[field][:, None] for field in ("rows", "cumulative", "reward_means")))


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """What happened, of which only releases leave.

    Attributes:
      decisions: of every person over all days, ``(N, days · H)``.
      values: what a day's plan was worth to people on average, ``(days,)``; by the hidden truth, for simulation.
    """

    decisions: Decisions
    values: np.ndarray


@double_precision
def live(agent: AnyLearner, population: Population, seed: int, noise: Callable[[int], Any] | None = None) -> Study:
    """All days of the agent's schedule, each person once a day.

    ``noise`` gives that of a round by its 0-based number, such as a deployment's; by default it is simulated by ``seed``.

    Raises:
      InvalidInput: a round is not a day of all people.
    """
    sizes = agent.schedule.round_sizes
    if (sizes != population.people).any():
        raise InvalidInput(
            "schedule", f"rounds of {sizes.min()} to {sizes.max()}", f"{population.people} in every one",
            "first=1e9,growth=1,largest=N makes a round of every day",
        )  # fmt: skip
    # A promise is no reason to compile another program.
    agent = dataclasses.replace(agent, name="", promise=NoPromise())
    keys = streams(seed)
    state = agent.init()
    plan = _first_plan(agent, state)
    days, values = [], []
    for number in range(len(sizes)):
        state, seen, value = _day(agent, population, state, plan, keys.users, jnp.asarray(number))
        days.append(jax.tree.map(np.asarray, seen))
        values.append(float(value))
        if number < agent.schedule.releases:
            drawn = _simulated(agent, keys, number) if noise is None else noise(number)
            state, plan = _night(agent, state, plan, jnp.asarray(population.people), drawn)
    decisions = Decisions(*(np.concatenate(column, axis=1) for column in zip(*days, strict=True)))
    return Study(decisions, np.array(values))


def true_effects(contrast: Contrast, study: Study, population: Population) -> np.ndarray:
    """The effects averaged over the decisions that counted, by group: what an estimate is about. Uses the hidden truth."""
    means = np.asarray(population.reward_means)[:, 0]
    gains = means[..., contrast.treatment] - means[..., contrast.control]
    seen = study.decisions
    group = contrast.groups[np.arange(seen.states.shape[1]), seen.states]
    counted = (seen.actions == contrast.treatment) | (seen.actions == contrast.control)
    here = gains[np.arange(len(gains))[:, None], seen.states]
    members = [(group == number) & counted for number in range(contrast.size)]
    return np.array([here[member].mean() if member.any() else np.nan for member in members])


@jax.jit
def _day(
    agent: AnyLearner, population: Population, state: AgentState, plan: AnyPlan, key: Array, number: Array
) -> tuple[AgentState, tuple[Array, ...], Array]:
    """All people's day under one plan: the state with their reports, what they did, and what the plan is worth to them."""
    shared = agent.for_many(plan)
    people, horizon = population.people, population.world.model.horizon

    def one(place: Array, *own: Array) -> tuple[Any, tuple[Array, ...], Array]:
        world, served = population.live_in(*own), agent.served(shared, place)
        played: Episode = rollout(agent, world, served, episode_uniforms(key, number * people + place, horizon))
        chances = agent.action_probabilities(served)[jnp.arange(horizon), played.states[:-1]]  # type: ignore[attr-defined]
        noted = (played.states[:-1], played.actions, played.rewards, chances)
        return agent.report(served, played, None), noted, agent.plan_value(plan, world)

    reports, seen, values = jax.vmap(one)(
        jnp.arange(people), population.rows, population.cumulative, population.reward_means
    )
    summed = jax.tree.map(lambda leaf: leaf.sum(axis=0), reports)
    return agent.absorb(state, summed), seen, values.mean()


@jax.jit
def _first_plan(agent: AnyLearner, state: AgentState) -> AnyPlan:
    return agent.plan(state)


@jax.jit
def _night(
    agent: AnyLearner, state: AgentState, plan: AnyPlan, people: Array, noise: Any
) -> tuple[AgentState, AnyPlan]:
    closed = agent.close(state, plan, people, noise)
    return closed, agent.plan(closed)


def _simulated(agent: AnyLearner, keys: Streams, number: int) -> Any:
    return agent.aggregator.simulate_round_noise(jax.random.fold_in(keys.round_noise, number))
