# SPDX-License-Identifier: Apache-2.0
"""Epochs: the weights are the best ones, and the schedule covers every user once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.learning.schedule import geometric_sizes
from reticent.privacy.counters import EpochCounter

SIZES = st.lists(st.integers(1, 10**6), min_size=1, max_size=12).map(tuple)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(sizes=SIZES, seed=st.integers(0, 2**32 - 1))
def test_no_other_weights_have_a_better_signal_to_noise_ratio(sizes, seed):
    counter = EpochCounter(sizes)
    ours = counter.effective_users()[-1] / counter.release_std()[-1]
    for weights in np.random.default_rng(seed).exponential(size=(20, len(sizes))):
        assert weights @ np.array(sizes) / np.linalg.norm(weights) <= ours * (1 + 1e-12)
    assert ours == pytest.approx(np.linalg.norm(sizes))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(episodes=st.integers(1, 10**7), first=st.integers(1, 10**5), growth=st.floats(1.05, 10))
def test_schedule_covers_all_users_and_never_shrinks(episodes, first, growth):
    sizes = geometric_sizes(episodes, first, growth)
    assert sum(sizes) == episodes
    assert all(a <= b for a, b in itertools.pairwise(sizes))
    assert sizes[0] == min(first, episodes) or len(sizes) == 1
    for k, size in enumerate(sizes[:-1]):
        assert size == pytest.approx(first * growth**k, abs=0.51, rel=1e-9)
    EpochCounter(sizes)


def test_schedules_by_hand():
    assert geometric_sizes(70, 10, 2.0) == (10, 20, 40)
    assert geometric_sizes(71, 10, 2.0) == (10, 20, 41)
    assert geometric_sizes(7, 10, 2.0) == (7,)
    assert geometric_sizes(10, 3, 1.0) == (3, 3, 4)
    assert geometric_sizes(1000, 1, 1e308) == (1, 999)


def test_numbers_by_hand():
    counter = EpochCounter((2, 1, 4))
    np.testing.assert_allclose(counter.release_std() ** 2, [1, 1.25, 1 + 0.25 + 0.0625])
    np.testing.assert_allclose(counter.effective_users(), [2, 2.5, 4 + 0.25 + 1])
    np.testing.assert_array_equal(counter.weights(), [2, 1, 4])
    assert counter.rounds == 3


@pytest.mark.parametrize("sizes", [(), [1, 2], (1, 0), (1, -2), (1, 2.5), (True,)])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(InvalidInput, match="sizes"):
        EpochCounter(sizes)


@pytest.mark.parametrize(
    ("episodes", "first", "growth", "field"),
    [(0, 1, 2.0, "episodes"), (10, 0, 2.0, "first"), (10, 1, 0.5, "growth"), (10, 1, float("inf"), "growth")],
)
def test_bad_schedules_are_refused(episodes, first, growth, field):
    with pytest.raises(InvalidInput, match=field):
        geometric_sizes(episodes, first, growth)
