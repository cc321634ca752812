# SPDX-License-Identifier: Apache-2.0
"""Kinds: belief by the formula, vectors whose mean is linear in the shares, what is released, and what it is worth."""

from __future__ import annotations

import functools

import audited
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.audit import Subject
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.privacy.guarantee import guarantee_of
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world
from reticent.worlds.kinds import KindsWorld, kind_means, kinds_world, random_kinds
from reticent_wire.clipping import clip_norm

WORLD = random_kinds(states=4, actions=3, horizon=4, kinds=3, apart=0.8, successors=3, seed=3)
USERS = 4000


@functools.cache
@double_precision
def published() -> tuple[KindsLearner, AgentState, Plan]:
    agent = make_agent("private-kinds:epsilon=4", WORLD.model, 1000)
    state = agent.init()
    return agent, state, jax.jit(agent.plan)(state)


@double_precision
def episodes(met: KindsWorld = WORLD) -> Episode:
    """Users of a world under the first plan."""
    agent, _, plan = published()

    def one(user: jax.Array) -> Episode:
        uniforms = episode_uniforms(jax.random.key(1), user, met.model.horizon, met.start_draws, met.step_draws)
        return rollout(agent, met, plan, uniforms)

    return jax.jit(jax.vmap(one))(jnp.arange(USERS))


def belief_by_hand(plan: Plan, episode: Episode, user: int, steps: int) -> np.ndarray:
    """b after so many steps, by Bayes' rule in plain products."""
    blend, weights = np.asarray(plan.extension.blend), np.asarray(plan.extension.shares).copy()
    rows, means = (
        np.concatenate([table, np.tensordot(blend, table, axes=1)[None]])
        for table in (np.asarray(WORLD.model.transition_features), np.asarray(kind_means(WORLD.model)))
    )
    states, actions, rewards = (np.asarray(part[user]) for part in episode)
    for h in range(steps):
        s, a, r, t = states[h], actions[h], rewards[h], states[h + 1]
        weights *= (means[:, s, a] if r == 1 else 1 - means[:, s, a]) * rows[:, s, a, t]
    return weights / weights.sum()


def test_a_user_acts_on_the_belief_of_bayes_rule() -> None:
    agent, _, plan = published()
    met = episodes()
    tables = np.concatenate([agent.tables, np.asarray(plan.extension.blend_table)[:, None]], axis=1)
    for user in range(40):
        for h in range(WORLD.model.horizon):
            scores = belief_by_hand(plan, met, user, h) @ tables[h, :, int(met.states[user, h])]
            assert scores[int(met.actions[user, h])] == pytest.approx(scores.max(), rel=1e-9)


@double_precision
def test_the_mean_of_clipped_vectors_is_linear_in_the_shares() -> None:
    """Users of any shares: |mean − T̄w| within 5 standard errors in every coordinate (a false alarm in 10⁵ runs)."""
    agent, _, plan = published()
    rule = plan.extension.rule
    for shares in ([0.2, 0.3, 0.5], [1.0, 0.0, 0.0]):
        met = episodes(kinds_world(WORLD.model, np.array(shares)))
        sent = np.asarray(clip_norm(jax.jit(jax.vmap(lambda one: agent.statistic(plan, one)))(met), 1.0, jnp))
        expected = np.asarray(rule.responses)[:, :-1] @ shares
        error = np.sqrt(sent.var(axis=0) / USERS + np.diag(np.asarray(rule.error)) * 4)
        assert (np.abs(sent.mean(axis=0) - expected) < 5 * error).all()
        assert np.linalg.norm(sent, axis=1).max() <= 1


@double_precision
def test_the_vector_is_the_formula_of_the_likelihoods() -> None:
    agent, _, plan = published()
    extension, met = plan.extension, episodes()
    for user in range(10):
        own = Episode(*(part[user] for part in met))
        ratio = belief_by_hand(plan, met, user, WORLD.model.horizon) / np.asarray(extension.shares)
        by_hand = ratio @ np.asarray(agent.coordinates.basis) @ np.asarray(extension.rule.whiten)
        np.testing.assert_allclose(
            agent.statistic(plan, own), by_hand / float(extension.rule.radius), rtol=1e-5, atol=1e-7
        )


@double_precision
def test_a_large_round_without_noise_finds_the_shares() -> None:
    agent = make_agent("kinds", WORLD.model, USERS)
    state = agent.init()
    plan = jax.jit(agent.plan)(state)
    sent = jax.vmap(lambda one: agent.report(plan, one))(episodes())
    closed = jax.jit(agent.close)(agent.absorb(state, sent.sum(axis=0)), plan, USERS)
    found = np.asarray(closed.past.blend)
    assert np.abs(found - np.asarray(WORLD.shares)).max() < 0.1


@double_precision
def test_earlier_releases_are_referred_to_the_remade_blend() -> None:
    """The same quadratic form at shares that make the same users: exactly where no user is of the blend, too."""
    agent, draw = published()[0], np.random.default_rng(5)
    root = draw.normal(size=(agent.dimension, agent.dimension))
    information, moment = root @ root.T, draw.normal(size=agent.dimension)
    before, after = draw.dirichlet(np.ones(3)), draw.dirichlet(np.ones(3))
    basis, centre = np.asarray(agent.coordinates.basis), np.asarray(agent.coordinates.centre)
    referred = [np.asarray(part) for part in agent._referred(information, moment, before - after)]

    def form(parts: list[np.ndarray], shares: np.ndarray) -> float:
        eta = basis.T @ (shares - centre)
        return float(parts[1] @ eta - eta @ parts[0] @ eta / 2)

    def moved(shares: np.ndarray) -> np.ndarray:
        return np.append(shares[:-1] + shares[-1] * (before - after), shares[-1])

    given, pure = [information, moment], np.array([0.2, 0.5, 0.3, 0.0])
    constant = form(given, pure) - form(referred, pure)
    for shares in draw.dirichlet(np.ones(4), 5):
        np.testing.assert_allclose(form(given, shares) - form(referred, moved(shares)), constant, rtol=1e-7)


@pytest.mark.parametrize("precision", [1.0, 4.0])
def test_the_prior_is_that_of_uniform_shares_and_a_blend_of_its_own(precision: float) -> None:
    """Against moments: among kinds those of Dirichlet(1), and the blend's share with its own variance."""
    agent = make_agent(f"kinds:prior={precision:g}", WORLD.model, 10)
    assert isinstance(agent, KindsLearner)
    basis = np.asarray(agent.coordinates.basis)
    covariance = basis @ np.linalg.inv(np.asarray(agent.prior)) @ basis.T
    assert covariance[-1, -1] == pytest.approx(0.25)
    contrast = np.array([1.0, -1.0, 0.0, 0.0])  # of two kinds' shares: twice the variance 1/d(d+1) of η
    assert contrast @ covariance @ contrast == pytest.approx(2 / (3 * 4 * precision))


def test_what_it_cannot_learn_is_refused() -> None:
    with pytest.raises(InvalidInput, match="as many of each, in pairs"):
        make_agent("kinds", make_world("random-blend:states=3,actions=2,horizon=2,d1=3,d2=2").model, 10)
    with pytest.raises(InvalidInput, match="stationary"):
        make_agent("kinds", make_world("random-blend:states=3,actions=2,horizon=2,d=2,per_step=true").model, 10)
    with pytest.raises(InvalidInput, match="3 nonnegative numbers of sum 1"):
        kinds_world(WORLD.model, np.array([0.5, 0.6, 0.1]))


def test_values_of_a_world_of_kinds() -> None:
    """Against plain loops over kinds and states."""
    rows, means = np.asarray(WORLD.model.transition_features), np.asarray(kind_means(WORLD.model))
    plan, shares = np.asarray(WORLD.blend_plan()), np.asarray(WORLD.shares)
    total, known = 0.0, 0.0
    for z in range(WORLD.kinds):
        value, best = np.zeros(WORLD.model.states), np.zeros(WORLD.model.states)
        for h in reversed(range(WORLD.model.horizon)):
            here = np.arange(WORLD.model.states)
            value = (means[z] + rows[z] @ value)[here, plan[h]]
            best = (means[z] + rows[z] @ best).max(axis=1)
        total += shares[z] * value.mean()
        known += shares[z] * best.mean()
    assert float(WORLD.policy_value(WORLD.blend_plan())) == pytest.approx(total, rel=1e-9)
    assert WORLD.optimal_value == pytest.approx(known, rel=1e-9)
    assert WORLD.uniform_value < total <= known


def test_the_promise_says_what_actions_tell_and_to_which_party() -> None:
    for trust in ("joint", "local", "shuffle"):
        promise = guarantee_of(make_agent(f"private-kinds:trust={trust}", WORLD.model, 500))
        assert promise is not None
        assert "tells about the user's whole past in the episode" in promise.sentence()
        assert ("choose and show the content on the device" in promise.sentence()) == (trust != "joint")
        assert any("data at rest" in line for line in promise.not_covered)
        assert promise.to_dict()["not_covered"] == list(promise.not_covered)


# -- the promise --------------------------------------------------------------------------------------------------------

KINDS = ["joint", "local", "shuffle", "joint,adjacency=zero-out"]


@functools.cache
def subject(kind: str) -> Subject:
    return Subject(make_agent(f"private-kinds:trust={kind},epsilon=2,first=0.5", WORLD.model, 12))


@pytest.mark.parametrize("kind", ["joint", pytest.param("local", marks=[pytest.mark.verify, pytest.mark.guard])])
def test_no_pair_of_users_is_farther_apart_than_promised(kind: str) -> None:
    audited.require_the_worst_pair_at_the_promise(subject(kind))


@pytest.mark.verify
@pytest.mark.guard
@pytest.mark.parametrize("kind", KINDS)
def test_releases_and_plans_replayed(kind: str) -> None:
    assert audited.findings_of_random_users(subject(kind)) == ()


@pytest.mark.verify
@pytest.mark.guard
def test_an_attack_proves_nearly_all_of_the_claim_and_no_more() -> None:
    found = audited.attacked(
        make_agent("private-kinds:epsilon=2,first=0.5", WORLD.model, 40), kinds_as_a_blend(), trials=4000
    )
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.7 * found.claimed_epsilon


def kinds_as_a_blend():
    """A world of the same model in which every step is drawn from the blend."""
    from reticent.worlds import world_from_parameters

    model = WORLD.model
    return world_from_parameters(model, np.asarray(WORLD.shares), np.asarray(WORLD.shares) * model.reward_total)


# -- what it is worth ---------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_personal_plans_beat_the_blends_and_privacy_costs_little() -> None:
    world = random_kinds(states=10, actions=4, horizon=10, kinds=4, apart=1.0, seed=11)
    blend, known = float(world.policy_value(world.blend_plan())), world.optimal_value
    closed = {}
    for spec in ("kinds", "private-kinds"):
        curves = simulate(make_agent(spec, world.model, 2000), world, [0, 1])
        closed[spec] = (float(np.asarray(curves.value)[:, -1].mean()) - blend) / (known - blend)
    assert closed["kinds"] > 0.5
    assert closed["private-kinds"] > 0.97 * closed["kinds"]


@pytest.mark.verify
def test_where_users_have_no_kind_hardly_anything_is_lost() -> None:
    world = random_kinds(states=10, actions=4, horizon=8, kinds=4, apart=0.5, seed=12, mixed=True)
    best = world.optimal_value
    curves = simulate(make_agent("private-kinds", world.model, 6000), world, [0, 1])
    assert float(np.asarray(curves.value)[:, -1].mean()) > 0.99 * best
