# SPDX-License-Identifier: Apache-2.0
"""How a schedule is cut into blocks, and what is read off a thinned curve."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.learning.schedule import Schedule
from reticent.simulation.engine import blocks
from reticent.simulation.simulate import _tail_regret, grid_points

few = settings(max_examples=60, deadline=None, derandomize=True)
sizes_of = st.one_of(
    st.lists(st.integers(1, 40), min_size=1, max_size=12).map(tuple),
    st.integers(1, 60).map(lambda episodes: (None, episodes)),
)


@few
@given(sizes=sizes_of, width=st.integers(1, 50), final=st.booleans())
def test_every_user_is_served_once_and_rounds_close_at_their_end(
    sizes: tuple[int | None, ...], width: int, final: bool
) -> None:
    alone = sizes[0] is None
    schedule = Schedule(sizes[1], None, final) if alone else Schedule(sum(sizes), sizes, final)
    table = blocks(SimpleNamespace(schedule=schedule), 1 if alone else width)

    served = [
        user for first, users in zip(table.first, table.users, strict=True) for user in range(first, first + users)
    ]
    assert served == list(range(schedule.episodes))
    assert table.users.min() >= 1
    assert table.users.max() <= (1 if alone else width)

    round_of_user = np.repeat(np.arange(schedule.rounds), schedule.round_sizes)
    starts = schedule.ends - schedule.round_sizes
    for first, users, closes, number, size, place in zip(*table, strict=True):
        assert place == first - starts[number]
        inside = round_of_user[first : first + users]
        assert (inside == number).all()
        assert size == schedule.round_sizes[number]
        last = number == schedule.rounds - 1
        assert closes == (first + users == schedule.ends[number] and (final or not last))
    # Without a final release the last round is played and nothing of it is learned.
    assert table.closes.sum() == schedule.rounds - (not final)


@pytest.mark.parametrize("episodes", [1, 2, 19, 20, 100, 1000, 20_000, 123_457])
def test_the_grid_holds_the_points_that_results_speak_of(episodes: int) -> None:
    grid = grid_points(episodes)
    assert (np.diff(grid) > 0).all()
    assert {1, max(1, round(episodes / 2)), max(1, round(0.95 * episodes)), episodes} <= set(grid.tolist())
    assert len(grid) <= 802


@pytest.mark.parametrize("episodes", [20, 100, 1000, 20_000])
def test_the_final_gap_is_that_of_the_last_twentieth(episodes: int) -> None:
    gaps = np.random.default_rng(0).uniform(size=(3, episodes))
    regret = np.cumsum(gaps, axis=1)
    points = grid_points(episodes)
    expected = gaps[:, round(0.95 * episodes) :].mean(axis=1)
    np.testing.assert_allclose(_tail_regret(points, regret[:, points - 1]), expected, rtol=1e-9)
