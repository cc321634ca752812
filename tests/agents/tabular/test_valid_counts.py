# SPDX-License-Identifier: Apache-2.0
"""Valid counts: nonnegative, sums that agree, no change where none is needed, and the least change where one is."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from reticent.agents.tabular.counts import Counts
from reticent.agents.tabular.valid_counts import make_valid, project_to_total

numbers = st.floats(-1e4, 1e4, allow_nan=False, width=32)
# Few shapes, so that what is compiled is compiled once.
SIZES = st.sampled_from([1, 2, 5])
project = jax.jit(project_to_total)
repair = jax.jit(make_valid)


@settings(max_examples=100, deadline=None)
@given(SIZES.flatmap(lambda n: hnp.arrays(float, (3, n), elements=numbers)), st.floats(0, 1e4, width=32))
def test_the_projection_is_valid(values: np.ndarray, total: float) -> None:
    found = np.asarray(project(values, np.full(3, total)))
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=-1), total, rtol=1e-9, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(SIZES.flatmap(lambda n: hnp.arrays(np.int64, (3, n), elements=st.integers(0, 10**6))))
def test_what_is_valid_stays_as_it_is(counts: np.ndarray) -> None:
    values = counts.astype(float)
    np.testing.assert_array_equal(project(values, values.sum(axis=-1)), values)
    again = repair(Counts(values.sum(axis=-1), values, values[..., 0]))
    np.testing.assert_array_equal(again.transitions, values)
    np.testing.assert_array_equal(again.rewards, values[..., 0])


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(float, 5, elements=st.floats(-50, 50, width=32)), st.floats(0.5, 100, width=32))
def test_no_repair_has_a_smaller_largest_change(values: np.ndarray, total: float) -> None:
    """Against Qiao and Wang's linear program: minimise t subject to |x − n̂| ≤ t, x ≥ 0 and Σx = n."""
    size, column = len(values), np.ones((len(values), 1))
    found = np.asarray(project(values, np.asarray(total)))
    least = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.vstack([np.hstack([np.eye(size), -column]), np.hstack([-np.eye(size), -column])]),
        b_ub=np.concatenate([values, -values]),
        A_eq=np.append(np.ones(size), 0.0)[None],
        b_eq=[total],
    )
    assert np.abs(found - values).max() <= least.fun + 1e-6 * (1 + abs(least.fun))


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(float, (2, 3, 2), elements=numbers),
    hnp.arrays(float, (2, 3, 2, 3), elements=numbers),
    hnp.arrays(float, (2, 3, 2), elements=numbers),
)
def test_all_three_tables_agree(visits: np.ndarray, transitions: np.ndarray, rewards: np.ndarray) -> None:
    found = repair(Counts(visits, transitions, rewards))
    assert all(np.asarray(table).min() >= 0 for table in found)
    np.testing.assert_allclose(found.transitions.sum(axis=-1), found.visits, rtol=1e-9, atol=1e-7)
    assert (np.asarray(found.rewards) <= np.asarray(found.visits)).all()
