# SPDX-License-Identifier: Apache-2.0
"""A floor under action probabilities: what is logged is what is done, and moments are those of the mixed policy."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score.dynamic_programming import (
    Estimate,
    Statistic,
    forward_pass,
    forward_pass_uniform,
    plan_backward,
)
from reticent.agents.score.learner import ScoreLearner
from reticent.errors import InvalidInput
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.worlds.registry import make_world

WORLD = make_world("random-blend:states=4,actions=2,horizon=3,d=2")
MODEL = WORLD.model


@functools.cache
def first_plan(floor: float) -> tuple[ScoreLearner, Plan]:
    """The agent, and the plan of its first round."""
    agent = agent_with(floor)
    return agent, jax.jit(lambda: agent.plan(agent.init()))()


def agent_with(floor: float) -> ScoreLearner:
    agent = make_agent(f"private-score-vi:floor={floor}", MODEL, 2000)
    assert isinstance(agent, ScoreLearner)
    return agent


@pytest.mark.verify
@double_precision
def test_actions_have_the_probabilities_that_are_logged() -> None:
    agent, plan = first_plan(0.2)
    later = plan._replace(extension=plan.extension._replace(at_random=jnp.asarray(False), explorers=jnp.asarray(5)))
    grid = (jnp.arange(1000) + 0.5) / 1000
    for served in (plan, agent.served(plan, 0), agent.served(later, 0), agent.served(later, 7)):
        stated = np.asarray(agent.action_probabilities(served))
        assert stated.min() >= 0.2 - 1e-12
        assert stated.max() <= 0.8 + 1e-12
        np.testing.assert_allclose(stated.sum(axis=-1), 1.0)
        taken = np.asarray(jax.vmap(lambda uniform, served=served: agent.act(served, 1, 2, uniform))(grid))
        np.testing.assert_allclose(np.bincount(taken, minlength=2) / 1000, stated[1, 2], atol=2e-3)


@double_precision
def test_without_a_floor_nothing_is_random_after_the_first_round() -> None:
    agent, plan = first_plan(0.0)
    later = agent.served(plan._replace(extension=plan.extension._replace(at_random=jnp.asarray(False))), 3)
    assert set(np.unique(agent.action_probabilities(later))) == {0.0, 1.0}


@pytest.mark.verify
@double_precision
def test_moments_are_those_of_the_mixed_policy() -> None:
    """By the truth as the estimate, the model's value of the floored plan is the world's; at 1/A it is acting at random."""
    agent = agent_with(0.15)
    theta = WORLD.transition_theta[:1]
    estimate = Estimate(theta, WORLD.reward_means[:1], MODEL.initial)
    statistic = Statistic(agent.coordinates, agent.contrasts, theta)
    choices, values, _ = plan_backward(MODEL, estimate, None, True, 0.15)
    mixed = forward_pass(MODEL, statistic, estimate, choices, values, "values", 0.15)
    probabilities = 0.15 + 0.7 * jax.nn.one_hot(choices, 2)
    assert float(mixed.value) == pytest.approx(float(WORLD.policy_value(probabilities)), rel=1e-9)
    assert float(MODEL.initial @ values[0]) == pytest.approx(float(mixed.value), rel=1e-9)
    half = forward_pass(MODEL, statistic, estimate, choices, values, "values", 0.5)
    for own, random in zip(half, forward_pass_uniform(MODEL, statistic, estimate, values, "values"), strict=True):
        np.testing.assert_allclose(own, random, atol=1e-12)
    # Between the two ends: the Jacobian of one step is an average over actions.
    plain = forward_pass(MODEL, statistic, estimate, choices, values, "values")
    np.testing.assert_allclose(mixed.jacobian[0], 0.7 * plain.jacobian[0] + 0.3 * half.jacobian[0], atol=1e-12)


@double_precision
def test_the_value_of_a_floored_plan_is_that_of_what_is_served() -> None:
    agent, plan = first_plan(0.2)
    later = plan._replace(extension=plan.extension._replace(at_random=jnp.asarray(False), share=jnp.asarray(0.0)))
    expected = WORLD.policy_value(agent.action_probabilities(later))
    assert float(agent.plan_value(later, WORLD)) == pytest.approx(float(expected))


def test_floors_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInput, match="1/2"):
        agent_with(0.6)


@double_precision
def test_noise_does_not_depend_on_the_floor() -> None:
    with_floor, without = agent_with(0.2), agent_with(0.0)
    assert float(with_floor.noise_scale) == float(without.noise_scale)
    assert dataclasses.asdict(with_floor.schedule) == dataclasses.asdict(without.schedule)
