# SPDX-License-Identifier: Apache-2.0
"""Two plans in one round: the moments are the mixture of both, and a learner that takes all for one plan's users is off."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score import replicas
from reticent.agents.score.dynamic_programming import Statistic, forward_pass, forward_pass_uniform
from reticent.agents.score.estimates import estimate_of
from reticent.agents.score.learner import ScoreLearner
from reticent.agents.score.mixed_policies import mix_policies
from reticent.agents.score.posterior import summarize
from reticent.learning.control import ControlPlaces
from reticent.learning.learner import AgentState
from reticent.learning.plan import ControlGroup, Plan
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds.registry import make_world

WORLD = make_world("random-blend:states=6,actions=4,horizon=5,d=3")
MODEL = WORLD.model
USERS = 30_000
PLACES = ControlPlaces(USERS, USERS // 2, 1)


class Mixed:
    """A second round, half of whose users are served the first plan: its sum without noise, and three ways to end it."""

    def __init__(self, spec: str) -> None:
        self.agent = make_agent(spec, MODEL, 10 * USERS)
        assert isinstance(self.agent, ScoreLearner)
        self.start = self.agent.init()
        self.first = self.agent.plan(self.start)
        self.state = self._after_first()
        self.second = self.agent.plan(self.state)
        self.total = self._total(self.second, PLACES, 7)

    def _total(self, reference: Plan, places: ControlPlaces, seed: int) -> Any:
        """The sum of what a round's users send, each by her own place; nothing of it knows of mixed_policies."""
        agent, first = self.agent, self.first

        def one(place: Any) -> Any:
            control = places.before(place + 1) > places.before(place)
            plan = jax.tree.map(lambda old, new: jnp.where(control, old, new), first, reference)
            uniforms = episode_uniforms(jax.random.key(seed), place, MODEL.horizon)
            episode = rollout(agent, WORLD, agent.served(plan, place), uniforms)
            return agent.report(agent.served(reference, place), episode)

        return jax.jit(lambda: jax.lax.map(one, jnp.arange(places.size), batch_size=5_000).sum(axis=0))()

    def _after_first(self) -> AgentState:
        size = int(self.agent.schedule.round_sizes[0])
        nobody = ControlPlaces(size, 0, 0)
        return self.closed(self.start, self.first, self._total(self.first, nobody, 3), size)

    def closed(self, state: AgentState, plan: Plan, total: Any, users: int = USERS) -> AgentState:
        noise = None if not self.agent.clipped else jnp.zeros_like(self.agent.aggregator.noise_scale)
        return jax.jit(lambda: self.agent.close(self.agent.absorb(state, total), plan, users, noise))()

    def error(self, plan: Plan) -> float:
        """How far the posterior mean of transitions and rewards is from the truth if the second round alone is learned
        from, with ``plan``."""
        fresh = self.state._replace(past=self.start.past)
        posteriors = self.closed(fresh, plan, self.total).past
        agent = self.agent
        found = np.concatenate(
            [
                np.ravel(summarize(coordinates, posterior).mean - coordinates.eta(truth))
                for coordinates, posterior, truth in (
                    (agent.coordinates, posteriors.transitions, WORLD.transition_theta[: agent.groups]),
                    (agent.reward_coordinates, posteriors.rewards, WORLD.reward_theta[: agent.groups]),
                )
            ]
        )
        return float(np.abs(found).max())

    def referred(self, control: ControlGroup | None) -> Plan:
        return jax.jit(lambda: self.agent.rebase_plan(self.second, self.second, USERS, control))()


@functools.cache
@double_precision
def mixed(spec: str) -> Mixed:
    return Mixed(spec)


@pytest.mark.verify
@double_precision
def test_told_of_the_control_share_the_learner_finds_the_truth() -> None:
    """Without noise and clip. The mutants take all users for the others' kind, or for controls."""
    case = mixed("score-vi")
    told = case.error(case.referred(ControlGroup(case.first, PLACES)))
    assert told < 0.02
    assert case.error(case.second) > 5 * told
    assert case.error(case.referred(ControlGroup(case.first, ControlPlaces(USERS, USERS, 0)))) > 5 * told


@pytest.mark.verify
@pytest.mark.parametrize("options", ["", ",score=likelihood", ",floor=0.05"])
@double_precision
def test_so_it_does_where_vectors_are_clipped(options: str) -> None:
    case = mixed(f"private-score-vi:epsilon=20,clip=0.4,free=0.01{options}")
    plan = case.referred(ControlGroup(case.first, PLACES))
    told, ignoring = case.error(plan), case.error(case.second)
    assert told < 0.06
    assert ignoring > 3 * told


@pytest.mark.verify
@double_precision
def test_replicas_are_of_the_same_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """What clipping does to users of both kinds, if the estimate were the truth, is what it does to their replicas."""
    case = mixed("private-score-vi:epsilon=20,clip=0.4,free=0.01")
    agent, plan = case.agent, case.referred(ControlGroup(case.first, PLACES))
    monkeypatch.setattr(replicas, "REPLICAS", 20_000)
    blocks = ((agent.moving_groups, agent.coordinates.size), (agent.groups, agent.reward_coordinates.size))

    def attenuation(plan: Plan, seed: int) -> np.ndarray:
        effect = replicas._clip_effect.__wrapped__(agent, plan, jax.random.key(seed), blocks)
        return np.concatenate([np.ravel(effect.transitions), np.ravel(effect.rewards)])

    # The estimate's own world, in which everybody acts by her place: nothing of this knows of mixed_policies.
    walk = replicas._walk(agent, estimate_of(agent, plan.extension))

    def one(place: Any) -> Any:
        control = PLACES.before(place + 1) > PLACES.before(place)
        served = jax.tree.map(lambda old, new: jnp.where(control, old, new), case.first, case.second)
        key = jax.random.fold_in(jax.random.key(11), place)
        return agent.statistic(
            agent.served(case.second, place), replicas._replica(agent, agent.served(served, place), walk, key)
        )

    vectors = jax.lax.map(jax.jit(one), jnp.arange(USERS), batch_size=5_000)
    kept = jnp.minimum(1.0, 1.0 / jnp.linalg.norm(vectors, axis=1))
    parts, start = [], 0
    for count, size in blocks:
        own = vectors[:, start : start + count * size].reshape(USERS, count, size)
        start += count * size
        parts.append(np.ravel(replicas._of_blocks(own, jnp.full(USERS, 1 / USERS), kept)[0]))
    wanted = np.concatenate(parts)
    told, ignoring = (np.abs(attenuation(given, 5) - wanted).max() for given in (plan, case.second))
    assert told < 0.02
    assert ignoring > 3 * told


@functools.cache
@double_precision
def two_plans() -> tuple[ScoreLearner, Plan, Plan]:
    """An agent, its first plan, and one that a later round might have."""
    agent = make_agent("score-vi", MODEL, 1000)
    assert isinstance(agent, ScoreLearner)
    first = jax.jit(lambda: agent.plan(agent.init()))()
    extension = first.extension._replace(
        curious=(first.extension.curious + 1) % MODEL.actions, hoped=first.extension.hoped[:, ::-1],
        at_random=jnp.asarray(False),
    )  # fmt: skip
    return agent, first, first._replace(policy=(first.policy + 2) % MODEL.actions, extension=extension)


def with_explorers(plan: Plan, number: int) -> Plan:
    return plan._replace(extension=plan.extension._replace(explorers=jnp.asarray(number)))


@pytest.mark.parametrize(
    ("places", "exploring", "hopeful"),
    [(ControlPlaces(50, 20, 7), 11, 30), (ControlPlaces(50, 33, 0), 30, 11), (ControlPlaces(8, 3, 5), 100, 100)],
)
@double_precision
def test_the_policies_of_a_round_are_counted_place_by_place(
    places: ControlPlaces, exploring: int, hopeful: int
) -> None:
    _, first, second = two_plans()
    served, reference = (with_explorers(second, number) for number in (exploring, hopeful))
    mixed_policies = mix_policies(served, reference, places.size, ControlGroup(with_explorers(first, 4), places))
    counted = np.zeros(8)
    for place in range(places.size):
        own, explorers = (4, 4) if places.has(place) else (0, exploring)
        counted[own + 2 * (place >= explorers) + (place >= hopeful)] += 1
    np.testing.assert_allclose(np.asarray(mixed_policies.share) * places.size, counted, atol=1e-9)
    assert mixed_policies.at_random.tolist() == [False] * 4 + [True, True, False, False]
    assert mixed_policies.hopeful.tolist() == [True, False] * 4
    for part, choices in enumerate((second.extension.curious, second.policy, first.extension.curious, first.policy)):
        np.testing.assert_array_equal(mixed_policies.choices[2 * part], choices)
        np.testing.assert_array_equal(mixed_policies.choices[2 * part + 1], choices)


@double_precision
def test_moments_are_the_mixture_of_the_policies() -> None:
    agent, first, second = two_plans()
    served, control = with_explorers(second, 10), with_explorers(first, 10)
    places = ControlPlaces(100, 40, 3)
    mixture = agent.rebase_plan(served, served, 100, ControlGroup(control, places)).extension.moments
    estimate, hoped = estimate_of(agent, served.extension), served.extension.hoped
    statistic = Statistic(agent.coordinates, agent.contrasts, served.extension.reference.theta)
    exploring, exploiting, controls = (
        forward_pass(MODEL, statistic, estimate, choices, values, agent.score)
        for choices, values in ((served.extension.curious, hoped), (served.policy, served.values),
                                (control.policy, served.values))
    )  # fmt: skip
    random = forward_pass_uniform(MODEL, statistic, estimate, hoped, agent.score)
    early = places.before(10)
    numbers = early, 40 - early, 10 - early, 50 + early
    wanted = jax.tree.map(
        lambda *parts: sum(n * part for n, part in zip(numbers, parts, strict=True)) / 100,
        random, controls, exploring, exploiting,
    )  # fmt: skip
    for mine, theirs in zip(mixture, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-13)
