# SPDX-License-Identifier: Apache-2.0
"""Rewards as contrasts, and rewards that are known: the same rewards, less to release, and clips that hold."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent.agents import make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, plan_privacy
from reticent.agents.linear_mixture.reward_coordinates import reward_coordinates, sum_zero_basis
from reticent.agents.linear_mixture.statistics import Observation
from reticent.audit import Subject
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import realised_strengths, report_of
from reticent.worlds import World, make_world

H, D1, D2 = 3, 3, 3
KNOWN = "hard-instance:horizon=3,d=3"


@functools.cache
def the_world(d2: int = D2, seed: int = 0) -> World:
    return make_world(f"random-blend:states=4,actions=3,horizon={H},d1={D1},d2={d2},seed={seed}")


@functools.cache
def private(spec: str = "", world: str | None = None) -> LinOptLearner:
    model = (the_world() if world is None else make_world(world)).model
    agent = make_agent(f"private-linopt-vi:first=4,growth=1.5{spec}", model, 24)
    assert isinstance(agent, LinOptLearner)
    return agent


@settings(deadline=None, derandomize=True, max_examples=12)
@given(st.integers(2, 5), st.integers(0, 30))
def test_rewards_are_what_they_were(d2: int, seed: int) -> None:
    world = the_world(d2, seed)
    found = reward_coordinates(world.model, None)
    assert found is not None
    assert found.size == d2 - 1
    away = np.asarray(world.reward_theta)[0] - np.asarray(found.centre)
    eta = np.linalg.pinv(np.asarray(found.basis)) @ away
    x, baseline = np.asarray(found.features(world.model)), np.asarray(found.baseline(world.model))
    np.testing.assert_allclose(
        baseline + np.einsum("k,ksa->sa", eta, x), np.asarray(world.mean_rewards)[0], rtol=0, atol=1e-12
    )
    assert np.linalg.norm(x, axis=0).max() == pytest.approx(1.0)
    assert np.linalg.norm(eta) <= found.theta_bound * (1 + 1e-9)
    # Whatever is paid, what is left of it is within the clip: nobody honest is clipped.
    assert found.bounds.low <= (0 - baseline).min() + 1e-12
    assert found.bounds.high >= (1 - baseline).max() - 1e-12
    assert found.bounds.reach <= 1


@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_the_basis_is_orthonormal_and_sums_to_zero(dimension: int) -> None:
    basis = sum_zero_basis(dimension)
    np.testing.assert_allclose(basis.T @ basis, np.eye(dimension - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-14)


def test_what_is_not_declared_is_not_used() -> None:
    undeclared = make_world("riverswim:states=3,horizon=5").model
    assert undeclared.reward_total is None
    assert reward_coordinates(undeclared, None) is None
    with pytest.raises(InvalidInput, match=r"contrasts is True.*reward_total"):
        reward_coordinates(undeclared, contrasts=True)
    for options in ({"contrasts": False}, {"calibration": "paper"}):
        plan = plan_privacy(the_world().model, 24, "value-iteration", PrivateOptions(**options))
        assert plan.rewards is None
        assert plan.d2 == D2


def test_one_table_is_a_known_reward() -> None:
    found = reward_coordinates(the_world(1).model, None)
    assert found is not None
    assert found.bounds.bound == 0
    np.testing.assert_allclose(found.baseline(the_world(1).model), the_world(1).mean_rewards[0], atol=1e-12)


# -- nothing is spent on rewards that are known --------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local", "shuffle"])
def test_known_rewards_cost_nothing(trust: str) -> None:
    spec = f",trust={trust},epsilon=4"
    ours, paper = private(spec, KNOWN), private(spec + ",contrasts=false", KNOWN)
    assert ours.theory is not None
    assert paper.theory is not None
    calibration, before = ours.theory.privacy.calibration, paper.theory.privacy.calibration
    assert (calibration.reward.gram_sigma == 0).all()
    assert (calibration.reward.moment_sigma == 0).all()
    active = before.transition.gram_sigma > 0
    assert (calibration.transition.gram_sigma[active] < before.transition.gram_sigma[active]).all()
    assert 0.9 * 4 < calibration.epsilon_spent <= 4 * (1 + 1e-6)
    # ... and the plan knows them: without any data the goal is worth going to.
    model = ours.model
    values = ours.plan(ours.init(), action_values=True).action_values
    np.testing.assert_allclose(values[-1], model.known_rewards, atol=1e-12)
    seen = Observation(*(jnp.full_like(leaf, 7.0) for leaf in ours.audit_hooks().nothing()))
    rewards = ours.aggregator.unpack(report_of(ours.aggregator, seen))
    assert not np.asarray(rewards.reward_gram).any()
    assert not np.asarray(rewards.reward_moment).any()


# -- the clip and the promise --------------------------------------------------------------------------------------------

ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64), st.sampled_from([1e300, -1e300, 5e-324, 1.0]))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    hnp.arrays(float, (H, D1), elements=ANY), hnp.arrays(float, H, elements=ANY),
    hnp.arrays(float, (H, D2 - 1), elements=ANY), hnp.arrays(float, H, elements=ANY),
)  # fmt: skip
def test_whatever_comes_in_contrasts_are_within_their_bounds(phi, targets, contrasts, rewards) -> None:
    agent = private()
    one, bounds = agent.aggregator, agent.rewards.bounds
    seen = one.clip(Observation(*map(jnp.asarray, (phi, targets, contrasts, rewards))))
    assert all(np.isfinite(leaf).all() for leaf in seen)
    assert (np.linalg.norm(seen.reward_features, axis=-1) <= bounds.bound * (1 + 1e-12)).all()
    assert (np.asarray(seen.rewards) >= bounds.low).all()
    assert (np.asarray(seen.rewards) <= bounds.high).all()


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["", ",adjacency=zero-out", ",trust=local", ",counter=tree", ",moment_share=2.0"])
def test_no_pair_of_users_exceeds_the_promise_and_one_attains_it(spec: str) -> None:
    agent = private(spec)
    hooks, promised = agent.audit_hooks(), guarantee_of(agent).promised_strength
    pairs = [*hooks.worst_cases(8, 0), *hooks.random_pairs(16, 0)]
    strengths = realised_strengths(agent.aggregator, pairs) * Subject(agent).exposure
    assert strengths.max() <= promised * (1 + 1e-9)
    assert strengths.max() >= 0.99 * promised


def test_the_reward_clip_is_what_the_promise_rests_on() -> None:
    """The same pairs against an aggregator that forgets it move farther than is declared."""
    agent = private()
    hooks, promised = agent.audit_hooks(), guarantee_of(agent).promised_strength
    assert not agent.aggregator.nonnegative_rewards
    pairs = hooks.hostile()
    for field, value in (("reward_bound", 10.0), ("reward_high", 10.0)):
        broken = dataclasses.replace(agent.aggregator, **{field: jnp.full(H, value)})
        assert np.nanmax(realised_strengths(broken, pairs)) > 1.5 * promised
