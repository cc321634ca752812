# SPDX-License-Identifier: Apache-2.0
"""Misspecified worlds: off the span by what they say, not by less whatever θ, and unknown to the learner."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from reticent.errors import InvalidInput
from reticent.worlds import make_world, misspecified, tabular
from reticent.worlds.transforms.misspecified import distance

SPECS = ["random-blend:states=6,actions=3", "random-blend:states=5,per_step=true", "large-blend:states=40,successors=4"]
world_of = functools.cache(make_world)
cases = st.tuples(
    st.sampled_from(SPECS), st.floats(0, 1), st.sampled_from(["adversarial", "random"]), st.integers(0, 1000)
)


def nearest_in_span(world) -> float:
    """min over θ of the largest total variation between the rows and ⟨ψ, θ⟩ at step 1, as a linear program.

    Unknowns: θ, the absolute deviation t of every entry, and their largest half-sum z.
    """
    features = np.asarray(world.model.transition_features)
    entries = features.shape[-1]
    flat, truth = scipy.sparse.csr_array(features.reshape(len(features), -1).T), np.asarray(world.rows[0]).ravel()
    rows = len(truth) // entries
    deviation, half_sum = (
        scipy.sparse.eye_array(len(truth)),
        scipy.sparse.kron(scipy.sparse.eye_array(rows), np.full((1, entries), 0.5)),
    )
    constraints = scipy.sparse.block_array(
        [[flat, -deviation, None], [-flat, -deviation, None], [None, half_sum, np.full((rows, 1), -1.0)]]
    )
    limits = np.concatenate([truth, -truth, np.zeros(rows)])
    objective = np.append(np.zeros(len(features) + len(truth)), 1.0)
    free, positive = [(None, None)] * len(features), [(0, None)] * (len(truth) + 1)
    solved = linprog(objective, A_ub=constraints.tocsr(), b_ub=limits, bounds=free + positive)
    assert solved.success
    return float(solved.fun)


@pytest.mark.verify
@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases)
def test_the_truth_is_a_world_that_far_away_and_no_further(case):
    spec, amount, kind, seed = case
    world = world_of(spec)
    moved = misspecified(world, amount, seed, kind=kind)
    rows = np.asarray(moved.rows)
    assert rows.min() >= 0
    np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
    assert moved.model is world.model
    np.testing.assert_array_equal(moved.reward_means, world.reward_means)
    off, rewards = distance(moved)
    assert off <= amount + 1e-12
    assert rewards <= 1e-12
    if amount <= 0.2:  # every row of these worlds has so much to move somewhere
        assert off == pytest.approx(amount, abs=1e-12)


@pytest.mark.parametrize("kind", ["adversarial", "random"])
@pytest.mark.parametrize(
    "spec", ["random-blend:states=8,actions=3", "mobile-health", "large-blend:states=40,successors=5"]
)
def test_no_other_parameter_explains_the_truth_better(spec, kind):
    world = world_of(spec)
    assert nearest_in_span(world) == pytest.approx(0, abs=1e-9)
    assert nearest_in_span(misspecified(world, 0.1, kind=kind)) >= 0.09


@pytest.mark.parametrize("spec", ["random-blend", "mobile-health"])
def test_an_adversary_does_more_harm_than_coins_and_more_the_further_it_goes(spec):
    world = world_of(spec)

    def lost(moved):
        return moved.optimal_value - float(moved.policy_value(world.optimal_choices))

    adversarial = [lost(misspecified(world, amount)) for amount in (0.0, 0.05, 0.1, 0.2)]
    random = [lost(misspecified(world, 0.2, seed, kind="random")) for seed in range(5)]
    assert adversarial[0] == pytest.approx(0, abs=1e-12)
    assert (np.diff(adversarial) > 0).all()
    assert adversarial[-1] > max(random)


def test_the_direction_is_that_of_the_optimal_values():
    """State 0 pays. By the model its first action stays more often; the truth makes both alike, and 1 a way out of 1."""
    chances = np.array([[[0.7, 0.3], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    world = tabular(chances, [[1.0, 1.0], [0.0, 0.0]], 3)
    moved = misspecified(world, 0.1)
    np.testing.assert_allclose(moved.rows[0, 0], [[0.6, 0.4], [0.6, 0.4]], atol=1e-12)
    np.testing.assert_allclose(moved.rows[0, 1], [[0.0, 1.0], [0.1, 0.9]], atol=1e-12)
    assert moved.transitions.shape == (3, 2, 2, 2)


def test_only_states_that_a_candidate_allows_are_reached():
    """From the source of the river one cannot be carried to its end, however wrong the model is."""
    world = world_of("riverswim:features=blend")
    possible = (np.asarray(world.model.transition_features) != 0).any(axis=0)
    moved = misspecified(world, 0.4)
    assert not np.asarray(moved.transitions)[:, ~possible].any()
    assert distance(moved)[0] == pytest.approx(0.4)


def test_rewards_may_be_off_as_well():
    world = world_of(SPECS[0])
    moved = misspecified(world, 0.0, reward_amount=0.07)
    np.testing.assert_allclose(distance(moved), [0.0, 0.07], atol=1e-12)
    best = np.asarray(world.optimal_action_values).mean(axis=0).argmax(axis=-1)
    change = np.take_along_axis(np.asarray(moved.reward_means - world.reward_means)[0], best[:, None], axis=-1)
    assert (change <= 0).all()
    means = np.asarray(misspecified(world, 0.1, reward_amount=1.0).reward_means)
    assert means.min() >= 0
    assert means.max() <= 1


def test_by_name():
    world = world_of("random-blend:misspecification=0.05")
    np.testing.assert_allclose(distance(world), [0.05, 0.0], atol=1e-12)
    np.testing.assert_array_equal(world.model.transition_features, world_of("random-blend").model.transition_features)
    assert world.name == "random-blend:misspecification=0.05"
    assert "off by 0.1 and 0.2" in misspecified(world_of("random-blend"), 0.1, reward_amount=0.2).name


@pytest.mark.parametrize(
    ("field", "given_"),
    [
        ("amount", {"amount": -0.1}),
        ("amount", {"amount": 1.1}),
        ("amount", {"amount": float("nan")}),
        ("reward_amount", {"amount": 0.1, "reward_amount": 2.0}),
        ("seed", {"amount": 0.1, "seed": -1}),
        ("kind", {"amount": 0.1, "kind": "kind"}),
    ],
)
def test_amounts_that_make_no_sense_are_refused(field, given_):
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        misspecified(world_of(SPECS[0]), **given_)
