# SPDX-License-Identifier: Apache-2.0
"""Factors: belief by Bayes' rule in another form, what a mean vector says, what is released, what it is worth."""

from __future__ import annotations

import functools

import audited
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.factors.learner import FactorsLearner
from reticent.agents.factors.rule import response
from reticent.audit import Subject
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.privacy.guarantee import guarantee_of
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, World, make_world, world_from_parameters
from reticent.worlds.tastes import random_tastes, taste_world
from reticent_wire.clipping import clip_norm

WORLD = random_tastes(items=9, factors=3, horizon=5, strength=0.25, seed=3)
PILOT, SHIFTED, OTHER = (0.0, 0.0, 0.0), (0.6, -0.5, 0.2), (-0.2, 0.5, 0.4)
"""Means of tastes among the users who are met."""

USERS = 4000


@functools.cache
@double_precision
def published() -> tuple[FactorsLearner, AgentState, Plan]:
    agent = make_agent("private-factors:epsilon=4", WORLD.model, 1000)
    state = agent.init()
    moved = state._replace(past=state.past._replace(mean=jnp.array([0.3, 0.1, -0.2])))
    return agent, moved, jax.jit(agent.plan)(moved)


@functools.cache
@double_precision
def episodes(mean: tuple[float, ...]) -> Episode:
    """Users whose tastes have this mean, under the published plan."""
    agent, _, plan = published()
    met = taste_world(WORLD.model, mean)

    def one(user: jax.Array) -> Episode:
        uniforms = episode_uniforms(jax.random.key(1), user, met.model.horizon, met.start_draws, met.step_draws)
        return rollout(agent, met, plan, uniforms)

    return jax.jit(jax.vmap(one))(jnp.arange(USERS))


def belief_by_hand(mean: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The posterior mean of f, all rewards at once, by the normal equations: not the recursion of the device."""
    model = WORLD.model
    load, noise = np.asarray(model.loadings)[actions], np.asarray(model.noise)[actions]
    rest = rewards - np.asarray(model.intercepts)[actions]
    return np.linalg.solve(np.eye(3) + load.T @ (load / noise[:, None]), mean + load.T @ (rest / noise))


def test_a_user_is_shown_the_best_item_not_shown_yet_by_bayes_rule() -> None:
    _, _, plan = published()
    met, mean = episodes(PILOT), np.asarray(plan.extension.mean)
    actions, rewards = np.asarray(met.actions), np.asarray(met.rewards)
    personal = set()
    for user in range(40):
        for h in range(WORLD.model.horizon):
            known = belief_by_hand(mean, actions[user, :h], rewards[user, :h])
            score = np.asarray(WORLD.model.intercepts) + np.asarray(WORLD.model.loadings) @ known
            score[actions[user, :h]] = -np.inf
            assert score[actions[user, h]] == pytest.approx(score.max(), rel=1e-9)
        assert len(set(actions[user])) == WORLD.model.horizon
        personal.add(tuple(sorted(actions[user])))
    assert len(personal) > 5


def test_a_bonus_prefers_items_that_tell_more() -> None:
    agent = make_agent("factors:bonus=50", WORLD.model, 100)
    with jax.enable_x64(True):
        shown = agent.act_from(published()[2], agent.empty_memory(published()[2]), 0, 0, 0.0)
    assert int(shown) == np.linalg.norm(np.asarray(WORLD.model.loadings), axis=1).argmax()


@double_precision
def test_the_vector_is_the_formula_of_the_posterior_mean() -> None:
    agent, _, plan = published()
    extension, met = plan.extension, episodes(PILOT)
    mean = np.asarray(extension.mean)
    for user in range(10):
        own = Episode(*(part[user] for part in met))
        known = belief_by_hand(mean, np.asarray(own.actions), np.asarray(own.rewards))
        by_hand = (known - mean) @ np.asarray(extension.rule.whiten) / float(extension.rule.radius)
        np.testing.assert_allclose(agent.statistic(plan, own), by_hand, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("true", [PILOT, SHIFTED, OTHER])
@double_precision
def test_the_mean_of_clipped_vectors_is_that_of_other_frequencies(true: tuple[float, ...]) -> None:
    """Users of any mean: |mean − g(δ)| within 5 standard errors in every coordinate (a false alarm in 10⁵ runs)."""
    agent, _, plan = published()
    extension = plan.extension
    sent = np.asarray(clip_norm(jax.jit(jax.vmap(lambda one: agent.statistic(plan, one)))(episodes(true)), 1.0, jnp))
    found = response(extension.rule, jnp.asarray(true) - extension.mean, jnp.zeros(()), jnp.asarray(float(USERS)))
    error = np.sqrt(np.diag(np.asarray(found.covariance)))
    assert (np.abs(sent.mean(axis=0) - np.asarray(found.mean)) < 5 * error).all()
    assert np.linalg.norm(sent, axis=1).max() <= 1
    # The clip bites: without it the test would say nothing about it.
    assert (np.linalg.norm(sent, axis=1) > 0.999).mean() > 0.03


@double_precision
def test_the_slope_is_that_of_the_mean() -> None:
    rule, nothing, users = published()[2].extension.rule, jnp.zeros(()), jnp.asarray(100.0)
    at = jnp.array([0.2, -0.1, 0.3])
    slope = jax.jacfwd(lambda shift: response(rule, shift, nothing, users).mean)(at)
    np.testing.assert_allclose(response(rule, at, nothing, users).slope, slope, rtol=1e-8, atol=1e-10)


@double_precision
def test_a_large_round_without_noise_finds_the_mean() -> None:
    _, state, plan = published()
    plain = make_agent("factors:prior=5", WORLD.model, USERS)
    begin = plain.init()._replace(past=plain.init().past._replace(mean=state.past.mean))
    sent = jax.vmap(lambda one: plain.report(plan, one))(episodes(SHIFTED))
    closed = jax.jit(plain.close)(plain.absorb(begin, sent.sum(axis=0)), plan, USERS)
    # Standard errors of the mean of 4 000 vectors, each known up to the scatter of five rewards.
    spread = np.sqrt(np.diag(np.linalg.inv(np.asarray(closed.past.precision))))
    assert (np.abs(np.asarray(closed.past.mean) - np.asarray(SHIFTED)) < 5 * spread).all()
    assert spread.max() < 0.1
    assert np.abs(np.asarray(state.past.mean) - np.asarray(SHIFTED)).max() > 5 * spread.max()


@double_precision
def test_noise_is_part_of_the_precision() -> None:
    """The same sum with more noise on it moves the mean less, and is trusted less."""
    agent, state, plan = published()
    louder = make_agent("private-factors:epsilon=0.2", WORLD.model, 1000)
    sent = jax.vmap(lambda one: agent.aggregator.report(agent.statistic(plan, one), None))(episodes(SHIFTED))
    found = [
        one.close(one.absorb(one.init()._replace(past=state.past), sent[:50].sum(axis=0)), plan, 50, jnp.zeros((1, 3)))
        for one in (agent, louder)
    ]
    trusted, less = (np.linalg.eigvalsh(np.asarray(one.past.precision)) for one in found)
    assert (trusted > less).all()
    moved, little = (np.linalg.norm(np.asarray(one.past.mean)) for one in found)
    assert little < moved


def test_what_it_cannot_learn_is_refused() -> None:
    other = make_world("random-blend:states=3,actions=2,horizon=2").model
    with pytest.raises(InvalidInput, match="a TasteModel: items with public loadings"):
        make_agent("private-factors", other, 10)
    for option in ("prior=0", "growth=0.5", "bonus=-1", "first=0"):
        with pytest.raises(InvalidInput, match=option.partition("=")[0]):
            make_agent(f"factors:{option}", WORLD.model, 10)


def test_the_promise_says_what_items_tell_and_to_which_party() -> None:
    for trust in ("joint", "local", "shuffle"):
        promise = guarantee_of(make_agent(f"private-factors:trust={trust}", WORLD.model, 500))
        assert promise is not None
        assert "tells about the user's whole past in the episode" in promise.sentence()
        assert ("choose and show the content on the device" in promise.sentence()) == (trust != "joint")
        assert any("data at rest" in line for line in promise.not_covered)


def test_returning_users_are_charged_for_all_their_visits() -> None:
    once, often = (
        make_agent(f"private-factors:contributions={visits}", WORLD.model, 500).aggregator.noise_scale[0, 0]
        for visits in (1, 4)
    )
    assert float(often) == pytest.approx(2 * float(once), rel=1e-9)


# -- the promise --------------------------------------------------------------------------------------------------------

TRUSTS = ["joint", "local", "shuffle", "joint,adjacency=zero-out"]


@functools.cache
def subject(trust: str) -> Subject:
    return Subject(make_agent(f"private-factors:trust={trust},epsilon=2,first=0.5", WORLD.model, 12))


@pytest.mark.parametrize("trust", ["joint", pytest.param("local", marks=[pytest.mark.verify, pytest.mark.guard])])
def test_no_pair_of_users_is_farther_apart_than_promised(trust: str) -> None:
    audited.require_the_worst_pair_at_the_promise(subject(trust))


@pytest.mark.verify
@pytest.mark.guard
@pytest.mark.parametrize("trust", TRUSTS)
def test_releases_and_plans_replayed(trust: str) -> None:
    assert audited.findings_of_random_users(subject(trust)) == ()


@pytest.mark.verify
@pytest.mark.guard
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more() -> None:
    found = audited.attacked(
        make_agent("private-factors:epsilon=2,first=0.5", WORLD.model, 40), average_users(), trials=4000
    )
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.7 * found.claimed_epsilon


def average_users() -> World:
    """A world of the same model in which every user has the mean taste."""
    model = WORLD.model
    theta = model.reward_scale * np.append(1.0, np.zeros(model.factors))
    return world_from_parameters(model, [1.0], theta)


# -- what it is worth ---------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_personal_lists_beat_the_best_list_and_a_shifted_mean_is_learned() -> None:
    world = random_tastes(items=30, factors=3, horizon=8, strength=0.2, shift=1.5, seed=11)
    listed = float(world.policy_value(world.best_list()))
    value = {}
    for spec in ("factors", "private-factors"):
        curves = simulate(make_agent(spec, world.model, 2000), world, [0, 1])
        value[spec] = np.asarray(curves.value).mean(axis=0)
    first, last, private = value["factors"][0], value["factors"][-1], value["private-factors"][-1]
    assert last > 1.01 * listed
    assert last > 1.01 * first
    assert private - first > 0.9 * (last - first)
