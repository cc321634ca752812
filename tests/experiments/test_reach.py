# SPDX-License-Identifier: Apache-2.0
"""Users until the gap stays below a target, against its plain meaning."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent.experiments.reach import median_users_until, users_until
from reticent.reports.numbers import users_in_words

CURVES = hnp.arrays(
    float, st.tuples(st.integers(1, 5), st.integers(1, 8)), elements=st.sampled_from([0.0, 0.04, 0.05, 0.06, 1.0])
)


def plainly(episodes: np.ndarray, gap: np.ndarray) -> float:
    """The first point from which on all points are at or below 5 %."""
    return next((float(users) for at, users in enumerate(episodes) if (gap[at:] <= 0.05).all()), np.inf)


@settings(deadline=None, derandomize=True)
@given(CURVES)
def test_it_is_the_first_point_from_which_on_the_gap_stays_below(gap: np.ndarray) -> None:
    episodes = 10 * np.arange(1, gap.shape[1] + 1)
    assert users_until(episodes, gap).tolist() == [plainly(episodes, row) for row in gap]


@settings(deadline=None, derandomize=True)
@given(CURVES)
def test_at_least_half_of_the_seeds_are_there_after_the_median(gap: np.ndarray) -> None:
    episodes = 10 * np.arange(1, gap.shape[1] + 1)
    each = np.array([plainly(episodes, row) for row in gap])
    found = median_users_until(episodes, -gap, 0.0, 1.0)
    if found is None:
        assert np.isfinite(each).sum() <= len(each) / 2
    else:
        assert (each <= found).sum() > len(each) / 2
        assert (each < found).sum() <= len(each) / 2


def test_where_there_is_nothing_to_learn_there_is_no_number() -> None:
    assert median_users_until(np.array([1, 2]), np.ones((3, 2)), 1.0, 0.0) is None
    assert users_in_words(None) == "–"
    assert users_in_words(20_000.0) == "20,000"
