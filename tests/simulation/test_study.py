# SPDX-License-Identifier: Apache-2.0
"""A study of people who come every day: what they do is theirs, what is logged is true, and effects are found."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.inference import Contrast, contributions, estimate, plan_effects
from reticent.simulation.study import Population, Study, live, people_around, true_effects
from reticent.worlds import World, make_world, world_from_parameters

PEOPLE, DAYS, FLOOR = 120, 6, 0.2
ROUNDS = f"floor={FLOOR},first=1e9,growth=1,largest={PEOPLE},bonus=0"


@pytest.fixture(scope="module")
def world() -> World:
    """A blend whose rewards go with its transitions."""
    model = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
    assert model.reward_total is not None
    weights = np.array([0.3, 0.7])
    return world_from_parameters(model, weights, model.reward_total * weights, name="study")


@pytest.fixture(scope="module")
def people(world: World) -> Population:
    return people_around(world, PEOPLE, 3.0, 0)


@pytest.fixture(scope="module")
def lived(world: World, people: Population) -> Study:
    agent = make_agent(f"private-score-vi:epsilon=8,contributions={DAYS},{ROUNDS}", world.model, PEOPLE * DAYS)
    return live(agent, people, 1)


@pytest.mark.verify
def test_what_is_logged_is_what_was_done(lived: Study, world: World, people: Population) -> None:
    seen = lived.decisions
    assert seen.states.shape == (PEOPLE, DAYS * world.model.horizon)
    assert seen.probabilities.min() >= FLOOR - 1e-12
    np.testing.assert_allclose(seen.probabilities.sum(axis=-1), 1.0)
    taken = np.take_along_axis(seen.probabilities, seen.actions[..., None], -1)[..., 0]
    # 1/p of what was taken has the mean A, and a variance of at most A/floor a decision: five standard deviations.
    count = taken.size
    assert abs((1 / taken).mean() - world.model.actions) < 5 * np.sqrt(world.model.actions / FLOOR / count)
    assert lived.values[0] == pytest.approx(people.mean_value(np.asarray(world.uniform_policy)))
    assert lived.values.shape == (DAYS,)


@pytest.mark.verify
def test_effects_without_noise_are_near_the_truth(lived: Study, people: Population, world: World) -> None:
    """Within five of their standard deviations, of which an interval has two."""
    question = Contrast(np.zeros((world.model.horizon, world.model.states), int), FLOOR).over_days(DAYS)
    found = estimate(plan_effects(question, PEOPLE, epsilon=None), contributions(question, lived.decisions).sum(axis=0))
    truth = true_effects(question, lived, people)
    assert np.abs(found.estimate - truth).max() < 5 * found.deviation.max()
    assert found.decisions == pytest.approx(PEOPLE * DAYS * world.model.horizon)


def test_people_differ_around_the_population(people: Population, world: World) -> None:
    """Means of 120 draws of variance w(1−w)/4 in each weight: within five standard errors."""
    rows = np.asarray(people.rows)[:, 0]
    assert rows.std(axis=0).max() > 0.01
    spread = np.abs(np.diff(np.asarray(world.model.transition_features), axis=0)).max()
    assert np.abs(rows.mean(axis=0) - np.asarray(world.rows)[0]).max() < 5 * np.sqrt(0.21 / 4 / PEOPLE) * spread


def test_what_is_no_study_is_refused(world: World, people: Population) -> None:
    agent = make_agent(f"private-score-vi:{ROUNDS}", world.model, PEOPLE * DAYS + 1)
    with pytest.raises(InvalidInput, match="in every one"):
        live(agent, people, 0)
    with pytest.raises(InvalidInput, match="blend as its transitions do"):
        people_around(make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=3"), 2, 1.0, 0)
