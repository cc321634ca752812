# SPDX-License-Identifier: Apache-2.0
"""EM: the objective never falls, candidates are distributions, order does not matter, planted kinds are found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_logs import kinds_of_people, recorded

from reticent.worlds.records import Columns, read_log
from reticent.worlds.records.kernel import kernel_of
from reticent.worlds.records.mixture import FEW_DISTINCT, best_blend, fit_mixture
from reticent.worlds.records.statistics import outcomes_of, pooled, statistics_of


def prepared(table, group=None):
    log = read_log(table, columns=Columns(group=group))
    outcomes = outcomes_of(log)
    return log, outcomes, statistics_of(log, outcomes)


logs = st.builds(
    lambda users, seed, steps: recorded(users, [0.5, 0.3, 0.2], seed=seed, steps=steps, groups=np.eye(3)),
    st.integers(2, 40), st.integers(0, 10_000), st.integers(1, 6),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(logs, st.integers(1, 4), st.sampled_from([0.1, 1.0, 20.0]), st.booleans())
def test_no_step_of_em_lowers_the_objective_and_rows_are_distributions(table, d, smoothing, grouped):
    log, outcomes, statistics = prepared(table, "clinic")
    groups = len(log.group_names) if grouped else 0
    mixture = fit_mixture(statistics, d, smoothing=smoothing, starts=2, seed=0, groups=groups)
    steps = np.diff(mixture.objective)
    assert (steps >= -1e-9 * np.abs(mixture.objective[1:]) - 1e-9).all()
    assert mixture.shares.sum() == pytest.approx(1)
    assert (np.diff(mixture.shares) <= 1e-12).all()
    sums = np.stack(
        [np.bincount(outcomes.row, weights=column)[np.unique(outcomes.row)] for column in mixture.probabilities.T]
    )
    np.testing.assert_allclose(sums, 1, atol=1e-9)
    kernel = kernel_of(mixture, outcomes, statistics.totals)
    of_pairs = np.stack([np.bincount(kernel.pair, weights=column) for column in kernel.chances.T])
    assert of_pairs.shape[1] == kernel.states * kernel.actions
    np.testing.assert_allclose(of_pairs, 1, atol=1e-12)
    assert kernel.rewards.min() >= 0
    assert kernel.rewards.max() <= 1


@settings(max_examples=15, deadline=None)
@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_users_does_not_matter(table, random):
    names = sorted(set(table["user"]))
    other = random.sample(names, len(names))
    renamed = table.with_columns(user=table["user"].replace(dict(zip(names, other, strict=True))))
    results = []
    for each in (table, renamed):
        _, _, statistics = prepared(each)
        results.append(fit_mixture(statistics, 2, smoothing=1.0, starts=2, seed=3))
    np.testing.assert_allclose(results[0].probabilities, results[1].probabilities, atol=1e-6)
    np.testing.assert_allclose(results[0].shares, results[1].shares, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(logs)
def test_the_prior_is_a_distribution_over_what_was_seen(table):
    _, outcomes, statistics = prepared(table)
    prior = pooled(statistics.totals, outcomes)
    sums = np.bincount(outcomes.row, weights=prior)[np.unique(outcomes.row)]
    np.testing.assert_allclose(sums, 1, atol=1e-12)
    assert statistics.users == len(set(table["user"]))


def nearest(kernel, truth):
    """The least mean total variation between candidates and kinds, over the ways to match them, and the match."""
    kinds, states, actions, _ = truth.shape
    tables = np.zeros((kinds, states * actions, states))
    tables[:, kernel.pair, kernel.following] = kernel.chances.T
    apart = np.abs(tables[:, None] - truth.reshape(1, kinds, states * actions, states)).sum(axis=-1).mean(axis=-1) / 2
    best = min(itertools.permutations(range(kinds)), key=lambda order: sum(apart[i, j] for i, j in enumerate(order)))
    return max(apart[i, j] for i, j in enumerate(best)), best


def test_planted_kinds_are_found_by_users():
    truth, rewards = kinds_of_people()
    _, outcomes, statistics = prepared(recorded(6000, [0.5, 0.3, 0.2], steps=12))
    mixture = fit_mixture(statistics, 3, smoothing=1.0, starts=8, seed=0)
    kernel = kernel_of(mixture, outcomes, statistics.totals)
    distance, order = nearest(kernel, truth)
    assert distance < 0.08
    np.testing.assert_allclose(mixture.shares, np.array([0.5, 0.3, 0.2])[list(order)], atol=0.03)
    assert np.abs(kernel.rewards.T - rewards.reshape(3, -1)[list(order)]).mean() < 0.05


def test_planted_kinds_are_found_by_groups():
    truth, _ = kinds_of_people()
    groups = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.4, 0.3, 0.3]])
    log, outcomes, statistics = prepared(recorded(6000, [0.5, 0.3, 0.2], groups=groups), "clinic")
    mixture = fit_mixture(statistics, 3, smoothing=1.0, starts=8, seed=0, groups=len(log.group_names))
    kernel = kernel_of(mixture, outcomes, statistics.totals)
    # Candidates of groups are known up to the choice of corners: each group's own blend is what must be right.
    tables = np.zeros((3, kernel.states * kernel.actions, kernel.states))
    tables[:, kernel.pair, kernel.following] = kernel.chances.T
    blends = np.einsum("gd,dpn->gpn", mixture.group_weights, tables)
    wanted = np.einsum("gk,kpn->gpn", groups, truth.reshape(3, -1, kernel.states))
    assert np.abs(blends - wanted).sum(axis=-1).mean() / 2 < 0.06


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_the_best_blend_is_the_planted_one(d, seed):
    random = np.random.default_rng(seed)
    chances = random.dirichlet(np.full(12, 0.3), size=d).T
    weights = random.dirichlet(np.ones(d))
    counts = 1e5 * (chances @ weights)
    measured = best_blend(chances, counts, steps=20_000)
    best = counts @ np.log(chances @ weights)
    assert counts @ np.log(chances @ measured) >= best - 1e-4 * counts.sum() * 1e-1
    assert measured.sum() == pytest.approx(1)


def test_many_distinct_users_are_counted_in_parts_and_sampled_for_em(monkeypatch):
    """Parts change nothing; candidates of a sample are those of all, up to its error."""
    people = kinds_of_people()
    log, outcomes, statistics = prepared(recorded(14_000, [0.5, 0.3, 0.2], people=people))
    assert len(statistics.weight) > FEW_DISTINCT
    monkeypatch.setattr("reticent.worlds.records.statistics.PART", 999)
    parted = statistics_of(log, outcomes)
    np.testing.assert_array_equal(parted.totals, statistics.totals)
    np.testing.assert_array_equal(parted.weight, statistics.weight)
    mixture = fit_mixture(statistics, 3, smoothing=1.0, starts=4, seed=0)
    np.testing.assert_allclose(mixture.shares, [0.5, 0.3, 0.2], atol=0.03)
