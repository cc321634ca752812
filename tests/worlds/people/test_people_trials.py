# SPDX-License-Identifier: Apache-2.0
"""Jester, Hillstrom and HeartSteps: the published facts, and what there is to learn in each."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import make_world
from reticent.worlds.people import heartsteps, hillstrom, jester


def constant(horizon, states, action):
    return np.full((horizon, states), action)


# -- Jester --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people(published):
    published(jester.PUBLISHED)
    return jester.audience(jester.load_ratings())


def test_jester_facts(people):
    assert people.deployed.shape == (1473, 100)
    assert len(people.pilot) == 5000 - 1473
    assert people.deployed.min() >= 0
    assert people.deployed.max() <= 1
    assert sorted(people.groups.ravel()) == sorted(set(people.groups.ravel()))


def test_jester_replay_tells_each_joke_once(people):
    users = jester.recorded_users(people)
    ratings = people.deployed[:, people.groups[2]]
    np.testing.assert_allclose(users.returns(constant(6, 19, 2)), ratings.sum(axis=1))
    policy = np.random.default_rng(0).integers(6, size=(6, 19))

    def one(answers):
        def step(state, at):
            number, choices = at
            return users.respond(answers, number, state, choices[state])

        return jax.lax.scan(step, users.first(answers), (np.arange(6), policy))[1].sum()

    compiled = jax.jit(jax.vmap(one))({"ratings": jax.numpy.asarray(users.answers["ratings"])})
    np.testing.assert_allclose(compiled, users.returns(policy))


@pytest.mark.verify
def test_jester_learning_does_not_pay(people):
    """The pilot's plan is as good among those who rated all as their own: nothing is left to learn."""
    fitted = jester.fit_pilot(people, 3)
    users = jester.recorded_users(people)
    pilot = users.value(fitted.kernel.blended(fitted.shares).plan(6)[0])
    own = users.value(users.own_model(passes=20, seed=1).kernel.plan(6)[0])
    assert abs(pilot.value - own.value) < 2 * pilot.error
    assert pilot.value > users.uniform_value().value + 4 * pilot.error
    world = make_world("jester")
    assert (world.model.states, world.model.actions, world.model.horizon) == (19, 6, 6)


# -- Hillstrom -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def customers(published):
    published(hillstrom.PUBLISHED)
    return hillstrom.load_customers()


def test_hillstrom_facts(customers):
    assert customers.height == 64_000
    everybody = hillstrom.recorded(hillstrom.log_of(customers))
    uniform = everybody.value(np.full((1, 6, 3), 1 / 3))
    assert uniform.value == pytest.approx(0.1468, abs=1e-3)
    best = everybody.value(constant(1, 6, 1))
    assert best.value == pytest.approx(0.1828, abs=0.002)


def test_hillstrom_pilots_send_the_wrong_mail(customers):
    pilot, deployed = hillstrom.customers(customers)
    assert (pilot.height, deployed.height) == (28_734, 35_266)
    rates, number = hillstrom.visit_rates(pilot)
    favourite = int(((rates * number).sum(axis=0) / number.sum(axis=0)).argmax())
    assert hillstrom.ARMS[favourite] == "Womens E-Mail"
    records = hillstrom.recorded(deployed)
    assert records.value(constant(1, 6, favourite)).value == pytest.approx(0.136, abs=0.003)
    assert records.value(constant(1, 6, 1)).value == pytest.approx(0.196, abs=0.003)
    world = make_world("hillstrom")
    assert world.optimal_value == pytest.approx(0.1956, abs=1e-3)
    assert (world.model.d1, world.model.d2, world.model.horizon) == (1, 3, 1)


# -- HeartSteps ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decisions(published):
    published(heartsteps.PUBLISHED)
    return heartsteps.load_decisions()


def test_heartsteps_facts(decisions):
    assert decisions.height == 8_274
    assert decisions["available"].sum() == 6_590
    assert decisions["person"].n_unique() == 37
    chosen = decisions.filter(decisions["available"])
    for action, mean in (("move", 2.907), ("none", 2.728)):
        steps = chosen.filter(chosen["suggestion"] == action)["steps after"].to_numpy()
        assert np.log(steps + 0.5).mean() == pytest.approx(mean, abs=0.001)


def test_heartsteps_days_are_whole(decisions):
    log = heartsteps.days_log(decisions)
    assert log.height == 5 * log["day"].n_unique() == 8_080
    records = heartsteps.recorded(log)
    assert records.states.shape == (1_616, 5)
    assert ((records.actions == 0) | records.allowed).all()
    assert records.rewards.min() + 1e-12 > 0
    assert records.rewards.max() <= 1


def test_heartsteps_candidates_leave_the_unavailable_alone(decisions):
    fitted = heartsteps.fit_people(heartsteps.days_log(decisions), 3)
    assert fitted.group_weights.shape == (37, 3)
    features = np.asarray(fitted.model.transition_features)
    away = [place for place, name in enumerate(fitted.names.states) if name.startswith("available: no")]
    assert len(away) == 6
    for action in (1, 2):
        np.testing.assert_allclose(features[:, away, action], features[:, away, 0])
    assert all("available: no" in pair for pair in fitted.report.untried)


@pytest.mark.verify
def test_heartsteps_populations_differ(published):
    published(heartsteps.PUBLISHED)
    first, second = (make_world("heartsteps", population=number) for number in (0, 1))
    np.testing.assert_array_equal(first.model.transition_features, second.model.transition_features)
    assert not np.allclose(first.transition_theta, second.transition_theta)
    assert first.optimal_value > first.uniform_value
    with pytest.raises(InvalidInput, match="population is -1"):
        make_world("heartsteps:population=-1")
