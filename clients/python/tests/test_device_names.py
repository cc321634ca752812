# SPDX-License-Identifier: Apache-2.0
"""Names of states and actions on a device."""

from __future__ import annotations

import pytest

from reticent_client import InvalidInput, Names

PUBLISHED = {"states": ["tired", "fresh"], "actions": ["rest", "nudge"]}


def test_labels_are_those_that_were_published() -> None:
    names = Names.read(PUBLISHED)
    assert (names.state(0), names.action(1), names.state_of("fresh")) == ("tired", "nudge", 1)
    for index in (-1, 2):
        with pytest.raises(InvalidInput, match="from 0 to 1"):
            names.action(index)


def test_a_label_that_there_is_not_is_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="one of tired, fresh") as refused:
        Names.read(PUBLISHED).state_of("hungry")
    assert "hungry" not in str(refused.value)


def test_numbers_where_nobody_has_named_them() -> None:
    names = Names.read({"states": None, "actions": None})
    assert (names.state(3), names.action(2)) == ("state 3", "action 2")
    with pytest.raises(InvalidInput, match="the model has no names"):
        names.state_of("fresh")


@pytest.mark.parametrize("states", ["tired", [1, 2], {"0": "tired"}])
def test_other_things_are_no_labels(states: object) -> None:
    with pytest.raises(InvalidInput, match=r"names\.states is something else"):
        Names.read({"states": states, "actions": None})
