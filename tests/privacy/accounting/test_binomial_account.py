# SPDX-License-Identifier: Apache-2.0
"""Binomial noise: the theorem against exact losses, outcome by outcome."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reticent.errors import InvalidInput
from reticent.privacy.accounting.binomial import BinomialAccount, account_of
from reticent.privacy.accounting.gaussian import zcdp_epsilon


def exact_delta(coins: list[int], move: list[int], epsilon: float) -> float:
    """δ(ε) between Bin and Bin shifted, by enumerating every outcome of every coordinate: no theorem in it."""
    one, other = np.ones(1), np.ones(1)
    for count, step in zip(coins, move, strict=True):
        support = np.arange(-abs(step), count + abs(step) + 1)
        one = np.outer(one, binom.pmf(support, count, 0.5)).ravel()
        other = np.outer(other, binom.pmf(support - step, count, 0.5)).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


@st.composite
def releases(draw):
    size = draw(st.integers(1, 2))
    coins = draw(st.lists(st.integers(60, 700), min_size=size, max_size=size))
    return coins, [draw(st.integers(-6, 6)) for _ in coins]


@given(release=releases(), log_delta=st.floats(-5, -1.5))
@settings(max_examples=60, deadline=None)
def test_no_pair_of_neighbours_is_told_apart_better_than_the_account_says(release, log_delta) -> None:
    coins, move = release
    delta = 10**log_delta
    try:
        account = account_of(np.array(coins), np.abs(move), 0.1 * delta)
    except InvalidInput:
        return  # too few coins for this tail: refused, nothing is claimed
    mu = math.sqrt(sum(k * k / ((n + 1) / 4) for n, k in zip(coins, move, strict=True)))
    epsilon = account.epsilon_of(mu, delta)
    for sign in (1, -1):
        assert exact_delta(coins, [sign * k for k in move], epsilon) <= delta


def test_the_account_is_not_far_from_the_exact_loss() -> None:
    """Within 15% in ε at a fine grid, so a noise that is 15% too small would break the inequality above."""
    coins, move, delta = [1_000_000], [125], 1e-5
    account = account_of(np.array(coins), np.array(move), 0.1 * delta)
    epsilon = account.epsilon_of(move[0] / math.sqrt((coins[0] + 1) / 4), delta)
    assert exact_delta(coins, move, epsilon) <= delta < exact_delta(coins, move, 0.85 * epsilon)


@given(coins=st.integers(400, 10**9), shift=st.floats(0.5, 4), epsilon=st.floats(0.05, 8), log_delta=st.floats(-9, -2))
@settings(deadline=None)
def test_the_budget_is_used_up_and_never_exceeded(coins, shift, epsilon, log_delta) -> None:
    delta = 10**log_delta
    account = account_of(np.full(5, coins), np.full(5, shift), 0.1 * delta)
    mu = account.strength_of(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= account.epsilon_of(mu, delta) <= epsilon
    assert account_of(np.full(5, 2 * coins), np.full(5, shift), 0.1 * delta).slope < account.slope


def test_the_numbers_of_the_theorem() -> None:
    """By hand for one coordinate: 99 coins, a movement of 2 steps, and a tail that makes the bulk 18 steps of 50."""
    tail = 2 * math.exp(-2 * 16**2 / 99)
    account = account_of(np.array([99]), np.array([2.0]), tail)
    ratio = 18 / 50
    assert account.slope == pytest.approx(5 * 2 / 3 * ratio**3 / (1 - ratio**2), rel=1e-9)
    assert account.tail == tail
    assert account_of(np.array([[99] * 3]), np.full((1, 3), 2.0), 3 * tail).slope == pytest.approx(
        math.sqrt(3) * account.slope
    )
    expected = zcdp_epsilon(0.125, 2 * tail) + 0.5 * account.slope
    assert account.epsilon_of(0.5, 3 * tail) == pytest.approx(expected, rel=1e-12)


def test_too_few_coins_are_refused() -> None:
    with pytest.raises(InvalidInput, match="coins"):
        account_of(np.array([20]), np.array([1.0]), 1e-6)
    with pytest.raises(InvalidInput, match="coins"):
        account_of(np.array([10**6, 0]), np.array([1.0, 0.5]), 1e-6)  # half a step and no coin: just not covered


def test_no_movement_costs_nothing() -> None:
    assert BinomialAccount(1e-6, 0.1).epsilon_of(0.0, 1e-5) == 0.0
    strengths = [2.0**-k for k in range(8)]
    costs = [BinomialAccount(1e-6, 0.1).epsilon_of(mu, 1e-5) for mu in strengths]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] > 0


@pytest.mark.parametrize("slope", [1.0, 50.0, 1e4])
def test_the_budget_is_used_up_also_where_the_remainder_is_most_of_it(slope: float) -> None:
    account = BinomialAccount(1e-6, slope)
    assert account.epsilon_of(account.strength_of(1.0, 1e-5), 1e-5) == pytest.approx(1.0, rel=1e-9)
