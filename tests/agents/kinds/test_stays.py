# SPDX-License-Identifier: Apache-2.0
"""Stays: several visits on one belief, one report, one clip; what it moves, what it is on average, and what it is worth."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.audit import Subject, audit, realised_mu, replay, seen_as
from reticent.errors import InvalidInput
from reticent.learning.capabilities import rebase_plan, visits_of
from reticent.learning.learner import AnyLearner
from reticent.learning.plan import Plan
from reticent.privacy.guarantee import guarantee_of
from reticent.runtime import double_precision
from reticent.simulation.rollout import draw_sizes, episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world, world_from_parameters
from reticent.worlds.episode import as_stay, by_visit
from reticent.worlds.kinds import KindsWorld, kind_means, kinds_world, random_kinds
from reticent_wire.clipping import clip_norm

VISITS = 3
USERS = 4000
WORLD = random_kinds(states=4, actions=3, horizon=3, kinds=3, apart=0.8, successors=3, seed=3)
BLEND = make_world("random-blend:states=4,actions=2,horizon=3,d=3,seed=5")


@functools.cache
@double_precision
def published(visits: int = VISITS) -> tuple[KindsLearner, Plan]:
    agent = make_agent(f"private-kinds:epsilon=4,visits={visits}", WORLD.model, 1000)
    return agent, jax.jit(agent.plan)(agent.init())


@double_precision
def stays(agent: AnyLearner, plan: Plan, met: KindsWorld = WORLD, users: int = USERS) -> Episode:
    """Users of a world, each with all visits of a stay."""
    sizes = draw_sizes(agent, met)
    key = jax.random.key(1)
    one = lambda user: rollout(agent, met, agent.served(plan, user), episode_uniforms(key, user, *sizes))  # noqa: E731
    return jax.jit(jax.vmap(one))(jnp.arange(users))


@double_precision
def sent_by(agent: AnyLearner, plan: Plan, met: Episode) -> np.ndarray:
    seen = jax.jit(jax.vmap(lambda one: agent.statistic(plan, one)))(met)
    return np.asarray(clip_norm(seen, 1.0, jnp))


def weights_by_hand(plan: Plan, stay: Episode, steps: int) -> np.ndarray:
    """w_z times the likelihood of the first steps of a stay ``(V, H)``, by Bayes' rule in plain products."""
    blend, weights = np.asarray(plan.extension.blend), np.asarray(plan.extension.shares).copy()
    rows, means = (
        np.concatenate([table, np.tensordot(blend, table, axes=1)[None]])
        for table in (np.asarray(WORLD.model.transition_features), np.asarray(kind_means(WORLD.model)))
    )
    for count in range(steps):
        v, h = divmod(count, WORLD.model.horizon)
        s, a, r, t = stay.states[v, h], stay.actions[v, h], stay.rewards[v, h], stay.states[v, h + 1]
        weights *= (means[:, s, a] if r == 1 else 1 - means[:, s, a]) * rows[:, s, a, t]
    return weights


# -- what a stay is -----------------------------------------------------------------------------------------------------


def test_a_stay_is_its_visits_one_after_another() -> None:
    agent, plan = published()
    met = stays(agent, plan, users=5)
    horizon = WORLD.model.horizon
    assert [field.shape for field in met] == [(5, VISITS * (horizon + 1)), (5, VISITS * horizon), (5, VISITS * horizon)]
    for field, again in zip(met, as_stay(by_visit(met, VISITS)), strict=True):
        np.testing.assert_array_equal(field, again)


def test_every_visit_acts_on_the_belief_of_all_visits_before_it() -> None:
    agent, plan = published()
    met = stays(agent, plan, users=30)
    tables = np.concatenate([agent.tables, np.asarray(plan.extension.blend_table)[:, None]], axis=1)
    for user in range(30):
        own = Episode(*(np.asarray(field[user]) for field in by_visit(met, VISITS)))
        for count in range(VISITS * WORLD.model.horizon):
            v, h = divmod(count, WORLD.model.horizon)
            weights = weights_by_hand(plan, own, count)
            scores = weights / weights.sum() @ tables[h, :, int(own.states[v, h])]
            assert scores[int(own.actions[v, h])] == pytest.approx(scores.max(), rel=1e-9)


@double_precision
def test_the_report_is_of_the_likelihood_of_all_visits() -> None:
    agent, plan = published()
    extension, met = plan.extension, stays(agent, plan, users=10)
    for user in range(10):
        stay = Episode(*(field[user] for field in met))
        own = Episode(*(np.asarray(field) for field in by_visit(stay, VISITS)))
        weights = weights_by_hand(plan, own, VISITS * WORLD.model.horizon)
        ratio = weights / weights.sum() / np.asarray(extension.shares)
        by_hand = ratio @ np.asarray(agent.coordinates.basis) @ np.asarray(extension.rule.whiten)
        found = agent.statistic(plan, stay)
        np.testing.assert_allclose(found, by_hand / float(extension.rule.radius), rtol=1e-5, atol=1e-6)


def test_a_user_keeps_their_kind_from_visit_to_visit() -> None:
    """Kinds that always pay and never pay: within a stay all rewards are alike."""
    from reticent.worlds.models.blend import blend

    rows, means = np.full((2, 2, 2, 2), 0.5), np.stack([np.zeros((2, 2)), np.ones((2, 2))])
    shares = np.array([0.5, 0.5])
    made = blend(rows, means, shares, shares, 2, initial=np.full(2, 0.5), name="all-or-nothing")
    agent = make_agent("kinds:visits=4", made.model, 40)
    paid = np.asarray(stays(agent, jax.jit(agent.plan)(agent.init()), kinds_world(made.model, shares), 40).rewards)
    assert set(paid.mean(axis=1)) == {0.0, 1.0}


def test_numbers_of_visits_that_are_none_are_refused() -> None:
    for visits in ("0", "-1", "20000"):
        with pytest.raises(InvalidInput, match="visits"):
            make_agent(f"kinds:visits={visits}", WORLD.model, 10)
        with pytest.raises(InvalidInput, match="visits"):
            make_agent(f"score-vi:visits={visits}", BLEND.model, 10)
    with pytest.raises(InvalidInput, match="residual"):
        make_agent("private-score-vi:visits=2,residual=on", BLEND.model, 10)
    assert visits_of(make_agent("ucrl-vtr", BLEND.model, 10)) == 1


# -- what a report is on average ----------------------------------------------------------------------------------------


@double_precision
def test_the_mean_of_stays_is_linear_in_the_shares() -> None:
    """Stays of users of any shares: |mean − T̄w| within 5 standard errors in every coordinate."""
    agent, plan = published()
    rule = plan.extension.rule
    for shares in ([0.2, 0.3, 0.5], [0.0, 1.0, 0.0]):
        sent = sent_by(agent, plan, stays(agent, plan, kinds_world(WORLD.model, np.array(shares))))
        expected = np.asarray(rule.responses)[:, :-1] @ shares
        error = np.sqrt(sent.var(axis=0) / USERS + np.diag(np.asarray(rule.error)) * 4)
        assert (np.abs(sent.mean(axis=0) - expected) < 5 * error).all()


@double_precision
def test_stays_that_were_served_an_earlier_version_have_the_mean_of_what_they_did() -> None:
    """A stay begins under one version and is counted under a later one: the rebased rule foretells its mean."""
    agent, first = published()
    state = agent.absorb(agent.init(), jnp.ones((1, agent.dimension)) * 20)
    later = jax.jit(agent.plan)(jax.jit(agent.close)(state, first, 30, jnp.zeros((1, agent.dimension))))
    assert not np.allclose(later.extension.shares, first.extension.shares)
    rebased = jax.jit(lambda old, new: rebase_plan(agent, old, new, 30))(first, later)
    shares = np.array([0.2, 0.3, 0.5])
    sent = sent_by(agent, later, stays(agent, first, kinds_world(WORLD.model, shares)))
    expected = np.asarray(rebased.extension.rule.responses)[:, :-1] @ shares
    error = np.sqrt(sent.var(axis=0) / USERS + np.diag(np.asarray(rebased.extension.rule.error)) * 4)
    assert (np.abs(sent.mean(axis=0) - expected) < 5 * error).all()


@double_precision
def test_users_who_do_otherwise_move_the_mean_by_at_most_twice_their_share() -> None:
    """A tenth of the users are of no kind at all and see the worst: the mean is off by no more than 2φ."""
    agent, plan = published()
    sent = sent_by(agent, plan, stays(agent, plan))
    strange = sent.copy()
    direction = sent.mean(axis=0)
    strange[: USERS // 10] = -direction / np.linalg.norm(direction)
    assert np.linalg.norm(strange.mean(axis=0) - sent.mean(axis=0)) <= 2 * 0.1


@double_precision
def test_score_vectors_of_a_stay_are_the_sum_of_its_visits_and_have_its_moments() -> None:
    """Score-VI: the sum of the visits' vectors; whitened by the moments of a stay, its mean squared length is about D."""
    agent = make_agent(f"private-score-vi:visits={VISITS}", BLEND.model, 5000)
    once = make_agent("private-score-vi:residual=off", BLEND.model, 5000)
    plan = jax.jit(agent.plan)(agent.init())
    key, sizes = jax.random.key(2), draw_sizes(agent, BLEND)
    served = agent.served(plan, 0)
    one = lambda user: rollout(agent, BLEND, served, episode_uniforms(key, user, *sizes))  # noqa: E731
    met = jax.jit(jax.vmap(one))(jnp.arange(USERS))
    vectors = np.asarray(jax.jit(jax.vmap(lambda stay: agent.statistic(served, stay)))(met))
    alone = jax.jit(jax.vmap(jax.vmap(lambda visit: once.statistic(served, visit))))(by_visit(met, VISITS))
    np.testing.assert_allclose(vectors, np.asarray(alone).sum(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(agent.first_moments.jacobian, VISITS * once.first_moments.jacobian, rtol=1e-12)
    np.testing.assert_allclose(agent.first_moments.spread, VISITS * once.first_moments.spread, rtol=1e-12)
    length = ((vectors * float(plan.extension.reference.radius)) ** 2).sum(axis=1).mean()
    assert 0.5 * agent.dimension < length < 1.5 * agent.dimension


# -- the promise --------------------------------------------------------------------------------------------------------


def subject(kind: str = "joint", name: str = "private-kinds") -> Subject:
    model = WORLD.model if name == "private-kinds" else BLEND.model
    return Subject(make_agent(f"{name}:trust={kind},epsilon=2,first=0.5,visits={VISITS}", model, 12))


@double_precision
def test_replacing_a_whole_stay_moves_one_rounds_sum_by_two_at_most() -> None:
    """Stays of any kind, real and impossible: the contribution is in the unit ball, so that two are at most 2 apart."""
    draw = np.random.default_rng(0)
    for name, model in (("private-kinds", WORLD.model), ("private-score-vi", BLEND.model)):
        agent = make_agent(f"{name}:visits={VISITS}", model, 100)
        plan = agent.served(jax.jit(agent.plan)(agent.init()), 0)
        steps = VISITS * model.horizon
        met = Episode(
            jnp.asarray(draw.integers(model.states, size=(500, steps + VISITS))),
            jnp.asarray(draw.integers(model.actions, size=(500, steps))),
            jnp.asarray(draw.random((500, steps)).round()),
        )
        reports = np.asarray(jax.jit(jax.vmap(lambda stay: agent.report(plan, stay, None)))(met))[:, 0]  # noqa: B023
        assert np.linalg.norm(reports, axis=1).max() <= 1 + 1e-12
        apart = np.linalg.norm(reports[:, None] - reports[None], axis=-1).max()
        assert 0.5 < apart <= 2 + 1e-12


@pytest.mark.parametrize("name", ["private-kinds", "private-score-vi"])
def test_the_noise_is_that_of_one_visit_and_the_worst_pair_is_at_the_promised_distance(name: str) -> None:
    one = subject(name=name)
    promised = guarantee_of(one.agent).promised_strength
    strengths = [realised_mu(one, pair) for pair in one.neighbours.worst_cases(2, 0)]
    assert 0.99 * promised < max(strengths) <= promised * (1 + 1e-9)
    model = WORLD.model if name == "private-kinds" else BLEND.model
    blend_alone = "" if name == "private-kinds" else ",residual=off"
    once = make_agent(f"{name}:epsilon=2,first=0.5{blend_alone}", model, 12)
    np.testing.assert_array_equal(one.agent.aggregator.noise_scale, once.aggregator.noise_scale)


@pytest.mark.verify
@pytest.mark.guard
@pytest.mark.parametrize("kind", ["joint", "local", "shuffle"])
def test_releases_and_plans_of_stays_replayed(kind: str) -> None:
    one = subject(kind)
    users = [seen_as(pair.canary) for pair in one.neighbours.random_pairs(12, 1)]
    found = replay(one, users, 3, seen_as(one.neighbours.random_pairs(1, 5)[0].canary))
    assert not found.findings


@pytest.mark.verify
@pytest.mark.guard
def test_an_attack_on_a_stay_proves_nearly_all_of_the_claim_and_no_more() -> None:
    model = WORLD.model
    blend = world_from_parameters(model, np.asarray(WORLD.shares), np.asarray(WORLD.shares) * model.reward_total)
    one = Subject(make_agent(f"private-kinds:epsilon=2,first=0.5,visits={VISITS}", model, 40))
    found = audit(one, blend, trials=4000)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon > 0.7 * found.claimed_epsilon


def test_the_promise_is_about_the_person() -> None:
    for name, model in (("private-kinds", WORLD.model), ("private-score-vi", BLEND.model)):
        for trust in ("joint", "local", "shuffle"):
            stay = guarantee_of(make_agent(f"{name}:trust={trust},visits=42", model, 500))
            once = guarantee_of(make_agent(f"{name}:trust={trust}", model, 500))
            assert "comes up to 42 times and reports once: the promise is about the person" in stay.sentence()
            assert "about the person" not in once.sentence()
            assert stay.promised_strength == once.promised_strength
    assert "whole past in the stay" in guarantee_of(published()[0]).sentence()


# -- what it is worth ---------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_one_report_of_a_stay_knows_the_shares_better_than_one_of_a_visit() -> None:
    world = random_kinds(states=6, actions=3, horizon=4, kinds=3, apart=0.5, seed=8)
    errors = {}
    for visits in (1, 20):
        agent = make_agent(f"private-kinds:visits={visits}", world.model, 300)
        shares = np.asarray(simulate(agent, world, range(12)).carry.state.past.shares)
        learned = shares[:, :-1] + shares[:, -1:] / 3
        errors[visits] = np.sqrt(((learned - np.asarray(world.shares)) ** 2).mean())
    assert errors[20] < 0.6 * errors[1]


@pytest.mark.verify
def test_a_stay_of_score_vectors_learns_as_from_more_users() -> None:
    regret = {}
    for visits in (1, 16):
        agent = make_agent(f"private-score-vi:residual=off,visits={visits}", BLEND.model, 400)
        regret[visits] = simulate(agent, BLEND, range(12)).regret[:, -1].mean()
    assert regret[16] < regret[1]
