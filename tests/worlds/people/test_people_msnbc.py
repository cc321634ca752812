# SPDX-License-Identifier: Apache-2.0
"""MSNBC: the published facts, the decision problem, exact replay, and that there is something to learn."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds import make_world
from reticent.worlds.people import msnbc
from reticent.worlds.people.truth import table_of
from reticent.worlds.records import read_log

LEFT = msnbc.LEFT


@pytest.fixture(scope="module")
def sessions(published):
    published(msnbc.PUBLISHED)
    return msnbc.load_sessions()


def made_up(number, seed):
    """A few made-up readers ``(n, 4)`` without repeats."""
    random = np.random.default_rng(seed)
    pages = random.integers(LEFT, size=(number, 1))
    for _ in range(3):  # another section each time
        pages = np.append(pages, (pages[:, -1:] + random.integers(1, LEFT, size=(number, 1))) % LEFT, axis=1)
    pages[np.arange(4) >= random.integers(1, 5, size=(number, 1))] = LEFT
    return pages.astype(np.int8)


readers = st.builds(made_up, st.integers(2, 8), st.integers(0, 10_000))


def test_the_published_facts(sessions):
    assert len(sessions.starts) == 989_818
    pages = sessions.changes(5)
    assert (pages[:, 1] != LEFT).sum() == 388_434
    assert (pages[:, 0] == 0).sum() == 277_376
    assert pages[2].tolist() == [2, 1, 3, 1, 2, LEFT]  # 3 2 2 4 2 2 2 3 3, from 0 and without repeats
    again = (pages[:, 1:] == pages[:, :-1]) & (pages[:, 1:] != LEFT)
    assert not again.any()


def test_the_measured_values_of_the_same_population(sessions):
    """As in the data's README: the readers' own plan earns 0.268 hits, and chance 0.058, where all change section."""
    pages = sessions.changes(5)
    pages = pages[pages[:, 1] != LEFT]
    users = msnbc.recorded_users(pages)
    own = msnbc.empirical(pages)
    assert users.value(own.plan(5)[0]).value == pytest.approx(0.2656, abs=0.005)
    assert users.uniform_value().value == pytest.approx(0.058, abs=0.002)


@settings(max_examples=50, deadline=None)
@given(readers, st.integers(0, 10_000))
def test_replay_pays_once_for_a_right_suggestion(pages, seed):
    users = msnbc.recorded_users(pages)
    random = np.random.default_rng(seed)
    policy = random.integers(msnbc.CODING.actions, size=(3, msnbc.CODING.states))
    expected = []
    for row in pages:
        paid = 0.0
        for step in range(3):
            if row[step] == LEFT:
                break
            action = policy[step, row[step] + (LEFT if step else 0)]
            if action:
                paid = float(row[step + 1] == action - 1)
                break
        expected.append(paid)
    assert users.returns(policy).tolist() == expected


@pytest.mark.verify
@settings(max_examples=20, deadline=None)
@given(readers)
def test_replay_is_the_same_inside_a_compiled_program(pages):
    users = msnbc.recorded_users(pages)
    policy = np.random.default_rng(0).integers(msnbc.CODING.actions, size=(3, msnbc.CODING.states))

    def one(answers):
        def step(state, at):
            number, choices = at
            return users.respond(answers, number, state, choices[state])

        _, rewards = jax.lax.scan(step, users.first(answers), (np.arange(3), policy))
        return rewards.sum()

    compiled = jax.jit(jax.vmap(one))({key: jax.numpy.asarray(array) for key, array in users.answers.items()})
    np.testing.assert_array_equal(compiled, users.returns(policy))


@settings(max_examples=20, deadline=None)
@given(readers)
def test_the_decision_problem_of_a_chain(pages):
    kernel = msnbc.empirical(pages)
    table, over = table_of(kernel)[0], kernel.states - 1
    np.testing.assert_allclose(table.sum(axis=-1), 1)
    assert (table[over, :, over] == 1).all()
    moments = 2 * LEFT
    np.testing.assert_allclose(table[:moments, 0, :moments], table[moments:-1, 5, moments:-1])
    assert (table[:moments, 3, :moments] == 0).all(), "a suggestion is spent when it is made"
    rewards = kernel.rewards.reshape(kernel.states, -1)
    assert (rewards[:, 0] == 0).all()
    assert (rewards[moments:] == 0).all()
    np.testing.assert_allclose(rewards[:moments, 1:], table[:moments, 0, LEFT:moments])
    log = read_log(msnbc.pilot_log(pages), columns=msnbc.CHAIN)
    assert log.rows == (pages[:, :-1] != LEFT).sum()


@pytest.mark.verify
def test_a_blend_of_the_pilot_earns_most_of_what_there_is_to_earn(sessions):
    """The pilot's own plan is poor elsewhere; the blend next to the deployed readers closes nine tenths of the distance."""
    pilot, deployed = msnbc.populations(sessions)
    assert len(pilot) == 50_000
    assert len(deployed) == 712_442 - 5_000
    assert (deployed[:, 0] != 0).all()
    fitted = msnbc.fit_pilot(pilot, 4)
    users = msnbc.recorded_users(deployed)
    poor = users.value(msnbc.empirical(pilot).plan(5)[0]).value
    own = users.value(msnbc.empirical(deployed).plan(5)[0]).value
    blended = users.value(fitted.kernel.blended(msnbc.nearest_blend(fitted, deployed)).plan(5)[0]).value
    assert poor == pytest.approx(0.0295, abs=0.002)
    assert own == pytest.approx(0.0709, abs=0.002)
    assert blended >= poor + 0.9 * (own - poor)
    assert fitted.report.misfit.transition.estimate < 0.05
    assert fitted.names.actions[1] == "frontpage"
    assert fitted.names.states[0] == "suggestion left: yes, arrived: entered, page: frontpage"


@pytest.mark.verify
def test_the_registered_world(published):
    published(msnbc.PUBLISHED)
    world = make_world("msnbc:pilot=5000")
    assert (world.model.states, world.model.actions, world.model.horizon, world.model.d1) == (69, 18, 5, 4)
    assert world.optimal_value == pytest.approx(0.0747, abs=0.002)  # by the chain; its plan earns 0.0709 of the readers
    assert world.optimal_value > 3 * world.uniform_value


def test_populations_that_cannot_be_are_refused():
    few = msnbc.Sessions(np.zeros(3, np.int8), np.arange(3), np.arange(1, 4))
    with pytest.raises(InvalidInput, match="front_share is 0"):
        msnbc.populations(few, front_share=0)
    with pytest.raises(InvalidInput, match="pilot is 50000"):
        msnbc.populations(few)
