# SPDX-License-Identifier: Apache-2.0
"""Reports that arrive late or never: the theorem by brute force on every counter, and what happens without its premises."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents.linear_mixture.calibration import Regression, calibrate_exact, calibrate_paper
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.statistics import Observation
from reticent.errors import InvalidInput
from reticent.privacy.counters import BltCounter, EpochCounter, ToeplitzCounter, TreeCounter
from reticent.privacy.late_reports import late_report_ratio
from reticent.privacy.sensitivity import joint_sensitivity
from reticent.privacy.trust import JOINT
from reticent.worlds.registry import make_world

ROUNDS = 11
COUNTERS = [
    TreeCounter(ROUNDS),
    TreeCounter(ROUNDS, "reduced"),
    ToeplitzCounter(ROUNDS),
    BltCounter(ROUNDS),
    EpochCounter(tuple(1 + (7 * i) % 5 for i in range(ROUNDS))),
]
by_name = pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
few = settings(max_examples=200, deadline=None, derandomize=True)


def strategy(counter) -> np.ndarray:
    """C, (noises per round · rounds, rounds), from the definitions in the counters' docstrings."""
    n = counter.rounds
    lags = np.arange(n)[:, None] - np.arange(n)[None, :]
    if counter.name == "epochs":
        return np.eye(n)
    if counter.name == "tree":  # the largest dyadic block that ends at round t
        return np.array([[float(t - (t & -t) < i <= t) for i in range(1, n + 1)] for t in range(1, n + 1)])
    if counter.name == "tree-reduced":  # at every level, the block that ends at round t if there is one
        blocks = [(t, 2**level) for t in range(1, n + 1) for level in range(counter.levels)]
        return np.array([[float(t % size == 0 and t - size < i <= t) for i in range(1, n + 1)] for t, size in blocks])
    if counter.name == "toeplitz":
        coefficients = [math.comb(2 * j, j) / 4**j for j in range(n)]
    else:
        decays, weights = counter.parameters
        coefficients = [1.0] + [
            sum(w * th ** (j - 1) for th, w in zip(decays, weights, strict=True)) for j in range(1, n)
        ]
    matrix = np.where(lags >= 0, np.array(coefficients)[np.maximum(lags, 0)], 0.0)
    return matrix if counter.name == "toeplitz" else matrix / np.linalg.norm(matrix, axis=0)


@by_name
def test_strategies_are_the_counters_own_and_have_no_negative_entry(counter) -> None:
    """Releases are a function of Cx + z: noise that cancels Cx leaves nothing. Hence inner products are not negative."""
    matrix = strategy(counter)
    assert (matrix >= 0).all()
    assert np.linalg.norm(matrix, axis=0).max() <= counter.sensitivity * (1 + 1e-12)
    items = jnp.eye(ROUNDS)
    noise = jnp.asarray(-matrix.reshape(ROUNDS, *counter.noise_shape_prefix, ROUNDS))

    def one_round(state, drawn):
        state = counter.close(state, *drawn)
        return state, counter.release(state)

    _, releases = jax.lax.scan(one_round, counter.init((ROUNDS,), items.dtype), (items, noise))
    np.testing.assert_allclose(releases, 0, atol=1e-12)


def drawn_items(seed: int, dimension: int, bound: float, target: float, weight: float, nonnegative: bool) -> np.ndarray:
    """Items [xxᵀ, w·vx] as vectors: at random, and at the corners where sensitivities are attained."""
    draw = np.random.default_rng(seed)
    axes = np.eye(dimension)[: min(dimension, 2)]
    features = np.concatenate([axes, draw.normal(size=(12, dimension))])
    features = bound * features / np.linalg.norm(features, axis=1, keepdims=True)
    features[-4:] *= draw.random((4, 1))
    targets = np.concatenate([np.full(8, target), draw.uniform(-target, target, len(features) - 8)])
    if nonnegative:
        features, targets = abs(features), abs(targets)
    else:
        features, targets = np.concatenate([features, features]), np.concatenate([targets, -targets])
    grams = (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    return np.concatenate([grams, weight * targets[:, None] * features], axis=1)


def largest_shift(matrix: np.ndarray, items: np.ndarray) -> float:
    """max ‖c_b ⊗ y − c_a ⊗ x‖ over all rounds and items, never arriving included; nothing but the definition."""
    columns = np.concatenate([matrix, np.zeros((len(matrix), 1))], axis=1).T
    placed = np.einsum("ar,ni->anri", columns, items).reshape(len(columns) * len(items), -1)
    return max(float(np.linalg.norm(placed - one, axis=1).max()) for one in placed)


@by_name
def test_wherever_and_whenever_a_report_arrives_it_moves_no_more_than_stated(counter) -> None:
    matrix = strategy(counter)
    cases = itertools.product((1, 2, 3), (0.3, 1.0, 3.0), (False, True))
    for seed, (dimension, weight, nonnegative) in enumerate(cases):
        bound, target = 1.3, 0.8
        items = drawn_items(seed, dimension, bound, target, weight, nonnegative)
        stated = joint_sensitivity(bound, target, weight, "replace", nonnegative=nonnegative)
        assert largest_shift(matrix, items) <= counter.sensitivity * stated * (1 + 1e-9)


def test_the_bound_is_attained() -> None:
    """Equal features in two different epochs cost √2 times zeroing out: with nonnegative features, all that is stated."""
    items = drawn_items(0, 2, 1.0, 1.0, 1.0, nonnegative=True)
    stated = joint_sensitivity(1.0, 1.0, 1.0, "replace", nonnegative=True)
    assert largest_shift(np.eye(2), items[:1]) == pytest.approx(stated, rel=1e-12)


def test_a_sensitivity_for_users_in_order_alone_would_be_broken() -> None:
    """One nonnegative number in [0, 1]: two users are at most 1 apart, but one in two rounds moves the releases by √2."""
    number, in_order = np.ones((1, 1)), 1.0
    moved = largest_shift(np.eye(3), number)
    assert moved > 1.4 * in_order
    assert moved <= in_order * late_report_ratio(in_order, 1.0) * (1 + 1e-12)


def test_a_strategy_with_negative_inner_products_would_break_it() -> None:
    matrix = np.array([[1.0, 0.0], [-1.0, 1.0]])
    items = np.array([[1.0, 0.0], [0.0, 1.0]])
    stated = np.linalg.norm(matrix, axis=0).max() * math.sqrt(2)
    assert largest_shift(matrix, items) > 1.1 * stated


@few
@given(
    bound=st.floats(0.1, 50),
    target=st.floats(0.1, 50),
    weight=st.floats(1e-3, 1e3),
    nonnegative=st.booleans(),
)
def test_the_sensitivities_in_use_need_no_more_noise(
    bound: float, target: float, weight: float, nonnegative: bool
) -> None:
    replace = joint_sensitivity(bound, target, weight, "replace", nonnegative=nonnegative)
    assert late_report_ratio(replace, joint_sensitivity(bound, target, weight, "zero-out")) == 1.0


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize("deployment", [False, True])
def test_calibrations_state_the_ratio(adjacency, deployment: bool) -> None:
    steps = np.array([1.0, 2.0, 0.0])
    promise = {"trust": JOINT, "adjacency": adjacency, "epsilon": 1.0, "delta": 1e-5}
    for nonnegative, share in itertools.product((False, True), (0.1, 1.0, 2.0, 4.0)):
        regressions = (
            Regression("transition", 3, steps, np.maximum(steps, 1), scale=np.ones(3)),
            Regression("reward", 1, np.ones(3), np.ones(3), scale=np.ones(3), nonnegative=nonnegative),
        )
        found = calibrate_exact(
            regressions, TreeCounter(20), **promise, moment_share=share, deployment=deployment
        )  # fmt: skip
        assert found.late_report_ratio == 1.0
    assert calibrate_paper(regressions, TreeCounter(20), **promise).late_report_ratio == 1.0


@pytest.mark.parametrize("options", [{"first": 2, "growth": 1.5}, {"counter": "tree"}], ids=["epochs", "tree"])
def test_a_calibrated_agent_keeps_its_mu(options) -> None:
    """The real privatizer's reports over its real noise: no two users in any two rounds are more than μ apart."""
    model = make_world("random-blend:states=5,actions=2,horizon=2,d=2").model
    agent = make_private(model, 8, "value-iteration", PrivateOptions(contrasts=False, **options))
    draw = np.random.default_rng(3)
    reports = []
    for sign in (1, 1, -1, -1):  # far outside the bounds: clipping takes them to the extremes
        corner = Observation(
            sign * np.where(draw.random((2, 2)) < 0.5, 9.0, 0.0), sign * np.full(2, 9.0),
            np.where(draw.random((2, 2)) < 0.5, 9.0, 0.0), np.full(2, 9.0),
        )  # fmt: skip
        reports.append(np.asarray(agent.aggregator.report(Observation(*map(jnp.asarray, corner)), None)))
    scale = np.asarray(agent.aggregator.noise_scale)
    items = np.where(scale > 0, np.array(reports) / np.where(scale > 0, scale, 1), 0).reshape(len(reports), -1)
    mu = agent.promise.mu
    moved = largest_shift(strategy(agent.aggregator.counter), items)
    assert 0.3 * mu < moved <= mu * (1 + 1e-9)


def test_the_ratio_is_by_how_much_root_two_of_one_exceeds_two_apart() -> None:
    for ratio in (1.0001, 1.1, math.sqrt(2), 7.0):
        assert late_report_ratio(0.5 * math.sqrt(2) / ratio, 0.5) == pytest.approx(ratio, rel=1e-12)
    for less in (1.0 + 1e-15, 1.0, 0.5):
        assert late_report_ratio(0.5 * math.sqrt(2) / less, 0.5) == 1.0
    assert late_report_ratio(0.5, 0.5, "zero-out") == 1.0  # one of the two is nothing anyway


@pytest.mark.parametrize("numbers", [(1.0, 0.0), (-1.0, 1.0), (0.0, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_numbers_that_are_no_sensitivities_are_refused(numbers) -> None:
    with pytest.raises(InvalidInput, match="sensitivity"):
        late_report_ratio(*numbers)
