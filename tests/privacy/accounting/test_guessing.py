# SPDX-License-Identifier: Apache-2.0
"""What a promise is worth against a guesser: the curve's identities, brute force, and monotonicity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.accounting.guessing import caught, caught_at_most, right_at_most, right_guesses

strengths = st.floats(1e-3, 8.0)
shares = st.floats(0.001, 0.999)


@given(strengths, shares)
def test_no_threshold_does_better_than_the_best_guess(mu: float, prior: float) -> None:
    """Every threshold test of N(0, 1) against N(μ, 1) is at most as good, and one of a fine grid is as good."""
    limits = np.linspace(-12.0, 12.0 + mu, 4001)
    right = prior * norm.sf(limits - mu) + (1 - prior) * norm.cdf(limits)
    assert right.max() <= right_guesses(mu, prior) + 1e-12
    assert max(right.max(), prior, 1 - prior) >= right_guesses(mu, prior) - 1e-4


@given(strengths, strengths, shares)
def test_more_strength_is_more_to_guess_from(one: float, other: float, share: float) -> None:
    low, high = sorted((one, other))
    assert right_guesses(low, share) <= right_guesses(high, share) + 1e-12
    assert caught(low, share) <= caught(high, share) + 1e-12
    assert share <= caught(low, share) + 1e-12


@given(strengths, shares, st.floats(1e-9, 0.1))
def test_the_curve_keeps_its_epsilon_promise(mu: float, alarms: float, delta: float) -> None:
    """1 − β ≤ e^ε α + δ at the ε that the accountant states for μ."""
    epsilon = epsilon_of(mu, delta)
    assert caught(mu, alarms) <= math.exp(min(epsilon, 700)) * alarms + delta + 1e-12


@given(st.floats(0.01, 20.0), st.floats(1e-9, 0.1))
def test_a_known_mechanism_gives_away_no_more_than_its_promise(epsilon: float, delta: float) -> None:
    assert 0.5 <= right_guesses(mu_of(epsilon, delta)) <= right_at_most(epsilon, delta) + 1e-12 <= 1 + 1e-12


@given(st.floats(0.01, 20.0), st.floats(1e-9, 0.1), shares)
def test_nor_lets_more_be_caught(epsilon: float, delta: float, alarms: float) -> None:
    assert caught(mu_of(epsilon, delta), alarms) <= caught_at_most(epsilon, delta, alarms) + 1e-12 <= 1 + 1e-12


@given(st.floats(0.01, 20.0), st.floats(1e-9, 0.1))
def test_the_best_guess_is_the_best_point_of_the_region(epsilon: float, delta: float) -> None:
    """With even odds he is right half of the time he accuses rightly plus half of the time he spares rightly."""
    corner = (1 - delta) / (1 + math.exp(epsilon))
    right = max(
        (1 - alarms + caught_at_most(epsilon, delta, alarms)) / 2 for alarms in (corner, *np.linspace(0.001, 0.999, 99))
    )
    assert right == pytest.approx(right_at_most(epsilon, delta), abs=1e-9)


def test_no_promise_is_too_weak_to_be_said() -> None:
    for epsilon in (650.0, 710.0, 1e4):
        assert right_at_most(epsilon, 1e-5) == 1.0
        assert caught_at_most(epsilon, 1e-5, 0.05) == 1.0


def test_nothing_released_tells_nothing() -> None:
    assert right_guesses(0.0, 0.3) == 0.7
    assert caught(0.0, 0.05) == pytest.approx(0.05)


def test_shares_outside_their_domain_are_refused() -> None:
    with pytest.raises(InvalidInput, match="prior is 1"):
        right_guesses(1.0, 1.0)
    with pytest.raises(InvalidInput, match="false_alarms is 0"):
        caught(1.0, 0.0)
