# SPDX-License-Identifier: Apache-2.0
"""The public schedule of rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import few

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule, endless_sizes, fitted_sizes, geometric_sizes


@few
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30), final=st.booleans())
def test_rounds_tile_the_episodes(sizes: list[int], final: bool) -> None:
    schedule = Schedule(sum(sizes), tuple(sizes), final)
    assert schedule.rounds == len(sizes)
    assert schedule.ends[-1] == schedule.episodes
    np.testing.assert_array_equal(np.diff(schedule.ends, prepend=0), sizes)
    # The last round's sums are released only if that was announced; calibration needs at least one release.
    assert schedule.releases == max(1, len(sizes) - (not final))


@few
@given(episodes=st.integers(1, 500), final=st.booleans())
def test_without_sizes_every_episode_is_a_round(episodes: int, final: bool) -> None:
    schedule, spelled = Schedule(episodes, None, final), Schedule(episodes, (1,) * episodes, final)
    assert (schedule.rounds, schedule.releases) == (spelled.rounds, spelled.releases)
    np.testing.assert_array_equal(schedule.round_sizes, spelled.round_sizes)
    np.testing.assert_array_equal(schedule.ends, spelled.ends)


@pytest.mark.parametrize(
    ("episodes", "sizes"), [(0, None), (-3, None), (10, (5, 4)), (10, (10, 1)), (10, (11, -1)), (10, (10, 0)), (1, ())]
)
def test_impossible_schedules_are_refused(episodes: int, sizes: tuple[int, ...] | None) -> None:
    with pytest.raises(InvalidInput):
        Schedule(episodes, sizes)


@pytest.mark.parametrize("episodes", [137, 10**4, 10**6, 10**7])
@pytest.mark.parametrize("growth", [1.5, 2.0])
def test_whoever_does_not_know_the_end_serves_the_same_plans_but_for_the_last_round(
    episodes: int, growth: float
) -> None:
    known, endless = geometric_sizes(episodes, 20, growth), endless_sizes(episodes, 20, growth)
    assert sum(endless) == episodes
    assert endless[: len(known) - 1] == known[:-1]
    assert len(endless) - len(known) <= 1  # what known K adds to its last round may be a round of its own


def test_more_users_begin_with_the_rounds_of_fewer() -> None:
    fewer, more = endless_sizes(5_000, 30, 1.5, 700), endless_sizes(50_000, 30, 1.5, 700)
    assert more[: len(fewer) - 1] == fewer[:-1]
    assert max(more) == 700
    with pytest.raises(InvalidInput, match="largest"):
        endless_sizes(10, 1, 2.0, 0)


@few
@given(episodes=st.integers(1, 10**7), first=st.integers(1, 10**4), growth=st.floats(1.05, 1e308))
def test_fitted_rounds_cover_all_users_and_none_is_far_larger_than_the_one_before(
    episodes: int, first: int, growth: float
) -> None:
    sizes, planned = fitted_sizes(episodes, first, growth), geometric_sizes(episodes, first, growth)
    assert sum(sizes) == episodes
    assert min(sizes) >= 1
    assert list(sizes) == sorted(sizes)
    assert len(planned) <= len(sizes) <= len(planned) + 1
    if sizes != planned:
        # Every size is within one user of what is planned, and what is planned grows by no more than ``growth``.
        assert all(after - 1 <= growth * (size + 1) for size, after in itertools.pairwise(sizes))
        assert abs(sizes[0] - first) <= 1


def test_fitted_rounds_by_hand() -> None:
    assert fitted_sizes(70, 10, 2.0) == (10, 20, 40)
    assert fitted_sizes(75, 10, 1.0) == (10,) * 6 + (15,)
    assert fitted_sizes(1000, 1, 1e308) == (1, 999)
    known, fitted = geometric_sizes(20_000, 26, 1.5), fitted_sizes(20_000, 26, 1.5)
    assert known[-1] == 9_933  # half of all users, with a plan of the other half
    assert fitted[-1] == 6_542
    assert len(fitted) == len(known) + 1
