# SPDX-License-Identifier: Apache-2.0
"""States with a history: what a service may publish of them, and that nothing a user sees stops an episode."""

from __future__ import annotations

from typing import Any

import pytest

from reticent_wire import InvalidInput
from reticent_wire.history import MOST_DEPTH, START, History

PAGES = {
    "depth": 2,
    "remembered": 2,
    "observations": ["left, a", "left, b", "spent, a", "spent, b"],
    "contexts": [[0], [1], [START, 0], [0, 1]],
}


def test_states_are_as_many_as_contexts_for_every_part_that_is_not_remembered() -> None:
    known = History.read(PAGES)
    assert known.states == 8
    assert known.to_dict() == PAGES
    found = [known.state(seen) for seen in ([0], [0, 1], [1], [2], [0, 3], [1, 3])]
    assert found == [2, 3, 1, 6, 7, 5]


def test_histories_of_every_depth_that_is_allowed_are_read() -> None:
    for depth in range(2, MOST_DEPTH + 1):
        assert History.read({**PAGES, "depth": depth}).states == 8
    shallow = {**PAGES, "depth": 1, "contexts": [[0], [1]]}
    assert History.read(shallow).states == 4


@pytest.mark.parametrize(
    ("odd", "nearest"),
    [
        (-1, 0), (None, 0), (float("nan"), 0), (4, 3), (10**30, 3), (float("inf"), 3), (float("-inf"), 0), (1.9, 1),
        ("x", 0),
    ],
)  # fmt: skip
def test_what_a_user_sees_stops_no_episode(odd: Any, nearest: int) -> None:
    """A refusal would: the service would see that nothing comes of this user."""
    known = History.read(PAGES)
    for before in ([], [0], [3, 1]):
        assert known.state([*before, odd]) == known.state([*before, nearest])
    assert known.state([odd, 1]) == known.state([nearest, 1])


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("depth", 0), ("depth", MOST_DEPTH + 1), ("depth", 2.0), ("depth", True), ("depth", 1),
        ("remembered", 0), ("remembered", 3), ("remembered", -2), ("remembered", "2"),
        ("observations", []), ("observations", ["a", "b", "c"]), ("observations", ["a", 3]), ("observations", [3, "a"]),
        ("contexts", [[0], [1], [1]]), ("contexts", [[0], [0, 1]]), ("contexts", [[0], [1], [2]]),
        ("contexts", [[0], [1], []]), ("contexts", [[0], [1], [0, 2]]), ("contexts", [[0], [1], [2, 0]]),
        ("contexts", [[0], [1], [-2, 0]]), ("contexts", [[0], [1], [START]]), ("contexts", [[0], [1], [0, START]]),
        ("contexts", [[0], [1], [0, 1, 0]]), ("contexts", [[0], [1], [0, 1.0]]), ("contexts", None),
    ],
)  # fmt: skip
def test_what_is_no_history_is_refused_before_a_user_is_served(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"history"):
        History.read({**PAGES, field: wrong})


@pytest.mark.parametrize("field", PAGES)
def test_a_missing_field_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=r"names\.history is something else"):
        History.read({name: value for name, value in PAGES.items() if name != field})
