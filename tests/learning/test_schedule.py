# SPDX-License-Identifier: Apache-2.0
"""The public schedule of rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import few

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule, endless_sizes, geometric_sizes


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
