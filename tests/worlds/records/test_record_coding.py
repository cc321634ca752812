# SPDX-License-Identifier: Apache-2.0
"""State and action codings: a round trip for every state, names for people, refusal of what is unknown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds.records.coding import Bins, Categories, Coding, sorted_values, text_of

words = st.text(alphabet="abcdefgh ", min_size=1, max_size=6).map(str.strip).filter(bool)
categories = st.lists(words, min_size=1, max_size=4, unique=True).map(tuple)
cuts = st.lists(st.integers(-50, 50), min_size=1, max_size=4, unique=True).map(
    lambda found: tuple(map(float, sorted(found)))
)


@st.composite
def codings(draw):
    parts = []
    for number in range(draw(st.integers(1, 3))):
        column = f"column {number}"
        kind = draw(st.booleans())
        parts.append(Categories(column, draw(categories)) if kind else Bins(column, draw(cuts)))
    low = draw(st.floats(-5, 5))
    return Coding(tuple(parts), Categories("action", draw(categories)), draw(st.booleans()), (low, low + 2))


@given(codings())
def test_a_coding_survives_json(coding):
    assert Coding.from_dict(json.loads(json.dumps(coding.to_dict()))) == coding


@given(codings())
def test_every_state_has_codes_and_a_name_of_its_own(coding):
    states = np.arange(coding.moments)
    np.testing.assert_array_equal(coding.join(coding.split(states)), states)
    assert len(coding.state_names) == coding.states == coding.moments + coding.over
    assert len(coding.action_names) == coding.actions


@given(codings(), st.data())
def test_recorded_values_find_the_state_with_their_name(coding, data):
    values, labels = {}, []
    for part in coding.parts:
        code = data.draw(st.integers(0, part.size - 1))
        if isinstance(part, Categories):
            values[part.column] = part.values[code]
        else:
            edges = (part.cuts[0] - 1, *part.cuts)
            values[part.column] = edges[code]
        plain = len(coding.parts) == 1 or isinstance(part, Bins)
        labels.append(part.labels[code] if plain else f"{part.column}: {part.labels[code]}")
    state = int(coding.state_of(**values))
    assert coding.state_names[state] == ", ".join(labels)


def test_bins_are_closed_below():
    bins = Bins("steps", (10.0, 100.0))
    assert bins.encode([9.9, 10, 99.9, 100, np.nan]).tolist() == [0, 1, 1, 2, -1]
    assert bins.labels == ("steps < 10", "10 ≤ steps < 100", "steps ≥ 100")


def test_values_are_read_as_people_write_them():
    flags = Categories("send", ("true", "false"))
    assert flags.encode(np.array([True, False])).tolist() == [0, 1]
    assert flags.encode(np.array(["true", True, "maybe"], dtype=object)).tolist() == [0, 0, -1]
    assert Categories("arm", ("1", "2")).encode(np.array([2.0, 1.0])).tolist() == [1, 0]
    assert text_of(np.float64(2.5)) == "2.5"
    assert sorted_values(["10", "b", "9", "a"]) == ("9", "10", "a", "b")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categories("mood", ()), "categories of 'mood'"),
        (lambda: Categories("mood", ("low", "low")), "all different"),
        (lambda: Bins("steps", (3.0, 1.0)), "cut points of 'steps'.*rising"),
        (lambda: Bins("steps", ()), "cut points of 'steps'"),
        (lambda: Coding((), Categories("a", ("x",))), "state columns"),
        (lambda: Coding((Bins("s", (1.0,)),), Categories("a", ("x",)), False, (1.0, 1.0)), "reward_range"),
    ],
)
def test_codings_that_make_no_sense_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_an_unknown_value_is_named():
    coding = Coding((Categories("mood", ("low", "high")),), Categories("a", ("x",)))
    with pytest.raises(InvalidInput, match="state column 'mood' is odd, but must be one of low, high"):
        coding.state_of(mood="odd")
    with pytest.raises(InvalidInput, match="'mood' is missing"):
        coding.state_of(other="low")
