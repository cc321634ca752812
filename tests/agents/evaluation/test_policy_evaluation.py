# SPDX-License-Identifier: Apache-2.0
"""Private policy evaluation: smooth sensitivity by brute force over all neighbours, the noise's theorem, an audit."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from reticent.agents.evaluation.audit_hooks import play_evaluation
from reticent.agents.evaluation.policy_evaluation import evaluate_lsl, evaluate_lsw, make_evaluation, summarise
from reticent.agents.evaluation.smooth_sensitivity import dilation_delta, smooth_noise
from reticent.audit import lower_bounds
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import delta_of

PHI = np.array([[1.0, 0.3], [0.2, 0.8]])
BLOCKS = np.array([[1.0, 0.0], [0.6, 0.0], [0.0, 0.7], [0.0, 1.0]])
WEIGHTS = np.array([1.0, 0.5])


def plain_lsw(returns, features, weights):
    """Weighted least squares on mean returns, place by place."""
    means = [np.mean(column[~np.isnan(column)]) if (~np.isnan(column)).any() else 0.0 for column in returns.T]
    root = np.sqrt(weights)
    return np.linalg.lstsq(root[:, None] * features, root * means, rcond=None)[0]


def plain_lsl(returns, features, weights, ridge):
    """Least squares over every single visit, the ridge as additional rows."""
    rows, targets = [], []
    for trajectory in returns:
        for place, value in enumerate(trajectory):
            if not np.isnan(value):
                rows.append(np.sqrt(weights[place]) * features[place])
                targets.append(np.sqrt(weights[place]) * value)
    d = features.shape[1]
    rows += list(np.sqrt(ridge / 2) * np.eye(d))
    return np.linalg.lstsq(np.array(rows), np.array(targets + [0.0] * d), rcond=None)[0]


def any_set():
    """All trajectories over two places: either may be left out."""
    return [np.array(both) for both in itertools.product([np.nan, -1.0, 0.5, 1.0], repeat=2)]


def one_per_step():
    """All trajectories over two steps of two places each: at most one place per step, returns at the bounds."""
    of_a_step = [(np.nan, np.nan), *((v, np.nan) for v in (-1.0, 1.0)), *((np.nan, v) for v in (-1.0, 1.0))]
    return [np.array(first + second) for first, second in itertools.product(of_a_step, repeat=2)]


CASES = {
    "lsw, any set": (any_set, 3, PHI, WEIGHTS, None, None),
    "lsl, any set": (any_set, 3, PHI, WEIGHTS, 1.5, None),
    "lsw, one per step": (one_per_step, 2, BLOCKS, np.array([1.0, 0.5, 1.0, 2.0]), None, [0, 0, 1, 1]),
    "lsl, one per step": (one_per_step, 2, BLOCKS, np.array([1.0, 0.5, 1.0, 2.0]), 9.0, [0, 0, 1, 1]),
}


@functools.cache
def brute(case: str):
    """Every data set with its estimate by the plain reference, the library's S, and all pairs of neighbours."""
    trajectories, m, features, weights, ridge, groups = CASES[case]
    alphabet = trajectories()
    # ε = 6 makes β large enough that the smooth bound of m = 2 or 3 users is not simply the global one.
    problem = make_evaluation(features, weights, 1.0, m, 6.0, 1e-2, ridge=ridge, groups=groups)
    keys = list(itertools.combinations_with_replacement(range(len(alphabet)), m))
    tables = np.array([[alphabet[i] for i in key] for key in keys])
    reference = plain_lsw if ridge is None else functools.partial(plain_lsl, ridge=ridge)
    estimates = np.array([reference(table, features, weights) for table in tables])
    visits, sums = jax.vmap(lambda table: summarise(table, 1.0))(jnp.asarray(tables))
    smooth = np.asarray(jax.jit(jax.vmap(problem.smooth))(visits))
    index = {key: number for number, key in enumerate(keys)}
    left, right = [], []
    for key, number in index.items():
        for place in range(m):
            rest = key[:place] + key[place + 1 :]
            for other in range(len(alphabet)):
                left.append(number)
                right.append(index[tuple(sorted((*rest, other)))])
    return problem, estimates, (visits, sums), smooth, np.array(left), np.array(right)


@pytest.mark.parametrize("case", CASES)
def test_estimates_are_plain_least_squares(case):
    problem, estimates, (visits, sums), *_ = brute(case)
    np.testing.assert_allclose(jax.jit(jax.vmap(problem.estimate))(visits, sums), estimates, rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_no_neighbour_is_further_than_the_smooth_bound(case):
    _, estimates, _, smooth, left, right = brute(case)
    moved = np.linalg.norm(estimates[left] - estimates[right], axis=1)
    assert (moved <= smooth[left] * (1 + 1e-9)).all()
    assert moved.max() > 0.05 * smooth.max()  # it is a bound and not a wall


@pytest.mark.parametrize("case", CASES)
def test_the_bound_is_smooth_and_not_constant(case):
    problem, _, _, smooth, left, right = brute(case)
    ratio = smooth[left] / smooth[right]
    assert ratio.max() <= math.exp(float(problem.beta)) * (1 + 1e-9)
    assert smooth.max() > 1.05 * smooth.min()


@pytest.mark.parametrize("case", CASES)
def test_a_bound_without_its_distances_would_not_be_smooth(case):
    """B_0 alone, the local bound, changes faster than e^β between some neighbours: the maximum over k is needed."""
    problem, _, (visits, _), _, left, right = brute(case)
    local = np.asarray(jax.jit(jax.vmap(lambda v: problem.sensitivity(v)))(visits))
    assert (local[left] / local[right]).max() > math.exp(float(problem.beta)) or case.startswith("lsl")


# -- the noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("beta", "epsilon"), [(0.3, 0.1), (0.8, 0.5), (1.5, 0.2)])
def test_dilation_in_one_dimension_by_integration(beta, epsilon):
    wide = math.exp(beta)

    def gap(one, other):
        return quad(
            lambda x: max(norm.pdf(x, scale=one) - math.exp(epsilon) * norm.pdf(x, scale=other), 0), -40, 40,
            limit=800, points=[-wide, -1, 0, 1, wide],
        )[0]  # fmt: skip

    assert dilation_delta(beta, epsilon, 1) == pytest.approx(max(gap(1, wide), gap(wide, 1)), abs=1e-7)


@pytest.mark.parametrize("dimension", [1, 4, 40])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_the_noise_keeps_the_theorem_and_beats_the_lemma(dimension, epsilon):
    delta = 1e-5
    found = smooth_noise(epsilon, delta, dimension)
    slide, dilate = delta_of(1 / found.multiplier, epsilon / 2), dilation_delta(found.beta, epsilon / 2, dimension)
    assert slide + math.exp(epsilon / 2) * dilate <= delta * (1 + 1e-9)
    assert dilation_delta(1.01 * found.beta, epsilon / 2, dimension) > dilate
    assert found.multiplier < 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    assert found.beta > epsilon / (4 * (dimension + math.log(2 / delta)))


# -- the whole -----------------------------------------------------------------------------------------------------------


def chain_returns(rng, m):
    """A walk over three states that starts anywhere; first-visit returns are noisy and near known values."""
    returns = np.full((m, 3), np.nan)
    for row, first in zip(returns, rng.integers(0, 3, m), strict=True):
        row[first:] = np.clip(np.array([0.9, 0.3, -0.5])[first:] + rng.normal(scale=0.1, size=3 - first), -1, 1)
    return returns


@pytest.mark.verify
def test_many_users_are_evaluated_accurately():
    returns = chain_returns(np.random.default_rng(0), 20_000)
    key = jax.random.key(0)
    exact = np.array([0.9, 0.3, -0.5])
    lsw = evaluate_lsw(returns, np.eye(3), 1.0, 1.0, 1e-5, key)
    np.testing.assert_allclose(lsw, exact, atol=0.05)
    lsl = evaluate_lsl(returns, np.eye(3), 1.0, 1.0, 1e-5, key, ridge=10_000.0)
    visits = (~np.isnan(returns)).sum(axis=0)
    np.testing.assert_allclose(lsl, exact * visits / (visits + 5_000), atol=0.1)  # what the ridge leaves of them


@functools.cache
def evidence(factor):
    """LSW on few users, whose sensitivity is nearly the local one; the canary's return at one place is reversed."""
    returns = np.full((4, 1), np.nan)
    returns[0, 0] = 1.0
    other = returns.copy()
    other[0, 0] = -1.0
    problem = make_evaluation(np.ones((1, 1)), 1.0, 1.0, 4, 2.0, 1e-5)
    problem = dataclasses.replace(problem, multiplier=factor * problem.multiplier)
    scores = play_evaluation(problem, summarise(returns, 1.0), summarise(other, 1.0), 20_000, 3)
    return lower_bounds(scores.without, scores.present, 1e-5, 0.999, gaussian=False)


@pytest.mark.verify
def test_the_audit_is_consistent_and_finds_noise_that_is_ten_times_too_small():
    """A false alarm has probability 1e-3 by construction; the seed is fixed."""
    assert 0 < evidence(1.0).lower_bound.epsilon <= 2.0
    assert evidence(0.1).lower_bound.epsilon > 2.0
    assert list(evidence(1.0).bounds) == ["clopper-pearson"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("features", {"features": np.ones(3)}),
        ("features", {"features": np.ones((3, 2))}),
        ("weights", {"weights": 0.0}),
        ("bound", {"bound": -1.0}),
        ("trajectories", {"trajectories": 0}),
        ("ridge", {"ridge": 0.0}),
        ("groups", {"groups": [0, 2, 2]}),
        ("epsilon", {"epsilon": 0.0}),
    ],
)
def test_what_makes_no_sense_is_refused(field, wrong):
    given = {"features": np.eye(3), "weights": 1.0, "bound": 1.0, "trajectories": 5, "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InvalidInput, match=field):
        make_evaluation(**(given | wrong))
