# SPDX-License-Identifier: Apache-2.0
"""Effects of a treatment: the moments that identify them, the bounds that protect users, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.inference import Contrast, Decisions, contributions, estimate, plan_effects, release, total_guarantee
from reticent.learning.control import Control
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.noise import SecureNoise
from reticent.simulation import micro_study

QUESTION = micro_study.contrast(0.1)
USERS, STUDIES = 400, 1000


@pytest.fixture(scope="module")
def sums() -> np.ndarray:
    """Of 1 000 studies of 400 people each, in four rounds; seeds that no choice was made on."""
    return np.concatenate([micro_study.play(0.1, 100, USERS // 4, 4, 500 + seed) for seed in range(STUDIES // 100)])


@pytest.mark.parametrize("epsilon", [None, 10.0, 3.0, 1.0])
def test_intervals_cover(sums: np.ndarray, epsilon: float | None) -> None:
    """At least 94 % of 95 % intervals over 1 000 studies; 3 000 intervals of right ones fall below that once in 170."""
    plan = plan_effects(QUESTION, USERS, epsilon=epsilon)
    draw = np.random.default_rng(7)
    noisy = sums + draw.normal(size=sums.shape) * plan.scales
    found = estimate(plan, noisy)
    covered = (found.low <= micro_study.EFFECTS) & (found.high >= micro_study.EFFECTS)
    assert covered.mean() >= 0.94
    assert covered.mean(axis=0).min() >= 0.93
    if epsilon is None:  # and they are not wide for nothing
        assert covered.mean() <= 0.965
        assert found.deviation.mean() < 0.07


def test_without_the_noise_in_them_intervals_do_not_cover(sums: np.ndarray) -> None:
    plan = plan_effects(QUESTION, USERS, epsilon=1.0)
    noisy = sums + np.random.default_rng(7).normal(size=sums.shape) * plan.scales
    silent = estimate(plan_effects(QUESTION, USERS, epsilon=None), noisy)
    covered = (silent.low <= micro_study.EFFECTS) & (silent.high >= micro_study.EFFECTS)
    assert covered.mean() < 0.7


def test_the_estimate_is_unbiased_whatever_policy_baseline_and_guess_are(sums: np.ndarray) -> None:
    """Means over 1 000 studies, within four standard errors: false about once in 5 000."""
    found = estimate(plan_effects(QUESTION, USERS, epsilon=None), sums)
    error = (found.estimate - micro_study.EFFECTS).mean(axis=0) / (found.estimate.std(axis=0) / math.sqrt(STUDIES))
    assert np.abs(error).max() < 4
    assert found.estimate.std(axis=0) == pytest.approx(found.deviation.mean(axis=0), rel=0.1)


def anything(draw: np.random.Generator, users: int) -> Decisions:
    """Decisions that mostly cannot be."""
    shape = (users, micro_study.HORIZON)
    hostile = draw.choice([0.0, 1.0, -3.0, 1e300, np.nan, np.inf], shape)
    chances = draw.choice([0.1, 0.9, 0.0, 1e-9, -1.0, np.nan], (*shape, 2))
    return Decisions(draw.integers(-2, 9, shape), draw.integers(-1, 4, shape), hostile, chances)


@given(st.integers(0, 10**6), st.sampled_from(["replace", "zero-out"]))
@settings(max_examples=60, deadline=None)
def test_no_two_users_are_farther_apart_than_declared(seed: int, adjacency: str) -> None:
    draw = np.random.default_rng(seed)
    plan = plan_effects(QUESTION, USERS, epsilon=1.0, adjacency=adjacency)
    users = contributions(QUESTION, anything(draw, 2))
    other = users[1] if adjacency == "replace" else np.zeros_like(users[1])
    assert np.isfinite(users).all()
    assert plan.guarantee is not None
    for group in plan.guarantee.groups:
        assert np.linalg.norm((users[0] - other)[group.columns]) <= group.sensitivity * (1 + 1e-9)
    assert np.linalg.norm((users[0] - other) / plan.scales) <= mu_of(1.0, 1e-5) * (1 + 1e-9)


def test_the_bounds_are_attained_and_honest_users_are_not_clipped() -> None:
    ones = np.ones((1, micro_study.HORIZON), int)
    rare = np.broadcast_to([0.9, 0.1], (1, micro_study.HORIZON, 2))
    extreme = contributions(QUESTION, Decisions(0 * ones, ones, 1.0 * ones, rare))
    np.testing.assert_allclose(extreme[0, [0, 3, 6]], 1.0)


def test_it_is_charged_as_a_release_of_its_own_and_adds_to_the_study() -> None:
    plan = plan_effects(QUESTION, USERS, epsilon=1.0)
    assert plan.guarantee is not None
    assert plan.guarantee.spent == pytest.approx(1.0, rel=1e-6)
    assert plan.guarantee.ledger.entries()[0].episode == USERS
    both = total_guarantee([plan.guarantee, plan.guarantee], 1e-5)
    assert both == pytest.approx(epsilon_of(math.sqrt(2) * mu_of(1.0, 1e-5), 1e-5))
    assert 1.0 < both < 2.0


def test_a_deployment_releases_integers_of_a_grid() -> None:
    plan = plan_effects(QUESTION, 10, epsilon=1.0, deployment=True)
    users = contributions(QUESTION, anything(np.random.default_rng(0), 10))
    released = release(plan, users, SecureNoise())
    np.testing.assert_array_equal(released / plan.grid, np.rint(released / plan.grid))
    assert plan.guarantee is not None
    assert plan.guarantee.spent <= 1.0 + 1e-6
    with pytest.raises(InvalidInput, match="deployment"):
        release(plan_effects(QUESTION, 10, epsilon=1.0), users, SecureNoise())


def test_groups_that_nobody_was_in_have_no_estimate() -> None:
    plan = plan_effects(QUESTION, USERS, epsilon=1.0)
    found = estimate(plan, np.zeros(9))
    assert np.isinf(found.high - found.low).all()


def test_what_cannot_be_asked_is_refused() -> None:
    for wrong in ({"floor": 0.0}, {"floor": 0.6}, {"target": 1.0}, {"treatment": 0}, {"baseline": 2.0}):
        with pytest.raises(InvalidInput):
            Contrast(micro_study.GROUPS, **{"floor": 0.1, **wrong})


def test_the_two_groups_of_an_ab_share_are_compared_as_two_actions() -> None:
    """One decision a person, her group, whose chance her round's places say; intervals at four standard errors."""
    schedule, control, draw = Schedule(9000, (1000, 3000, 5000)), Control(0.2), np.random.default_rng(5)
    rounds = [control.places(schedule, number, "a deployment") for number in (1, 2)]  # in the first all act alike
    chances = np.concatenate([np.full(one.size, one.controls / one.size) for one in rounds])
    controls = np.concatenate([[one.has(place) for place in range(one.size)] for one in rounds])
    outcomes = np.clip(draw.normal(np.where(controls, 0.45, 0.6), 0.1), 0, 1)
    seen = Decisions(
        np.zeros((8000, 1), int), (~controls)[:, None].astype(int), outcomes[:, None],
        np.stack([chances, 1 - chances], axis=-1)[:, None],
    )  # fmt: skip
    question = Contrast(np.zeros((1, 1), int), floor=float(np.minimum(chances, 1 - chances).min()))
    for epsilon, width in ((None, 0.02), (1.0, 0.06)):
        plan = plan_effects(question, 8000, epsilon=epsilon)
        found = estimate(plan, release(plan, contributions(question, seen), draw), confidence=0.99994)
        assert found.low[0] <= 0.15 <= found.high[0]
        assert found.high[0] - found.low[0] < 2 * width
