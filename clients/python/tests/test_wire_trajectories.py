# SPDX-License-Identifier: Apache-2.0
"""Episodes brought into range: any number is a value and is clipped; several at once are what each is by itself."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent_wire.errors import InvalidInput
from reticent_wire.trajectory import each_well_formed, number_of, well_formed


class Sizes(NamedTuple):
    horizon: int = 3
    states: int = 4
    actions: int = 2
    visits: int = 1


class Sent(NamedTuple):
    states: Any
    actions: Any
    rewards: Any


SIZES = Sizes()
WORDS = st.one_of(st.integers(-(2**65), 2**65), st.none(), st.floats())


def numbers(kind: st.SearchStrategy[Any], length: int) -> st.SearchStrategy[Any]:
    """Mostly of the right length, sometimes of another, or no list at all."""
    return st.one_of(
        st.lists(kind, min_size=length, max_size=length),
        st.lists(kind, min_size=length, max_size=length),
        st.lists(kind, max_size=length + 1),
        st.sampled_from([None, "text", [[0] * length]]),
    )


EPISODES = st.lists(
    st.builds(Sent, numbers(WORDS, 4), numbers(WORDS, 3), numbers(st.one_of(st.floats(), st.integers(), st.none()), 3)),
    min_size=1,
    max_size=4,
)


@given(EPISODES)
def test_each_of_several_is_what_it_is_by_itself(episodes: list[Sent]) -> None:
    """Also beside malformed ones: a wrong form is the problem of its own episode."""
    places = list(range(len(episodes)))
    for one, place, found in zip(episodes, places, each_well_formed(SIZES, episodes, places), strict=True):
        if isinstance(found, InvalidInput):
            with pytest.raises(InvalidInput, match=re.escape(str(found))):
                well_formed(SIZES, *one, place)
            continue
        alone = well_formed(SIZES, *one, place)
        assert found.place == place
        for mine, yours in zip(alone[:3], found[:3], strict=True):
            assert mine.dtype == yours.dtype
            np.testing.assert_array_equal(mine, yours)


@pytest.mark.parametrize(
    ("value", "index"),
    [
        (2**63, 3), (2**64, 3), (10**400, 3), (-(10**400), 0), (1e300, 3), (-1e300, 0), (2.0, 2), (math.inf, 3),
        (-math.inf, 0), (math.nan, 0), (None, 0), (np.int64(2), 2), (np.uint64(2**64 - 1), 3), (1.5, 1), (2.99, 2),
        (-0.5, 0), (3.5, 3), (True, 1), (False, 0), (np.True_, 1),
    ],
)  # fmt: skip
def test_any_number_is_clipped_to_an_index(value: Any, index: int) -> None:
    for states in ([value, 1, 0, 2], [value, -1, 0, 2]):
        found = well_formed(SIZES, states, [value] * 3, [0.5] * 3)
        assert found.states.tolist() == [index, max(states[1], 0), 0, 2]
        assert found.actions.tolist() == [min(index, 1)] * 3


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        (None, 0.0), (10**400, 1.0), (-(10**400), 0.0), (2**64, 1.0), (math.nan, 0.0), (-math.inf, 0.0), (True, 1.0),
        (False, 0.0), (np.True_, 1.0),
    ],
)  # fmt: skip
def test_any_number_is_clipped_to_a_reward(value: Any, reward: float) -> None:
    assert well_formed(SIZES, [0] * 4, [0] * 3, [value, 0.5, 1]).rewards.tolist() == [reward, 0.5, 1.0]
    assert well_formed(SIZES, [0] * 4, [0] * 3, [value] * 3).rewards.tolist() == [reward] * 3


def test_what_a_user_did_does_not_decide_what_kind_of_numbers_there_are() -> None:
    """An app that sends `clicked && 0.5`, or a state that it did not round: some users' numbers are all of one kind."""
    for rewards in ([False] * 3, [True] * 3, [False, 0.5, True], [None] * 3, [None, True, 1]):
        for states in ([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], [0.5, 1.5, 2.5, 3.5], [True, False, True, True], [None] * 4):
            found = well_formed(SIZES, states, [bool(n % 2) for n in range(3)], rewards)
            assert found.states.tolist() == [int(state or 0) for state in states]
            assert found.actions.tolist() == [0, 1, 0]
            assert found.rewards.tolist() == [float(reward or 0) for reward in rewards]
    for odd in (np.float32(2.5), np.float16(2.5), Fraction(5, 2), Fraction(10**400), np.uint8(2), np.float32("nan")):
        found = well_formed(
            SIZES, [odd, 1, 0, 2], [1, odd, 0], [0.5, odd, 1]
        )  # such as of an environment's own numbers
        missing = math.isnan(number_of(odd))
        assert found.states.tolist() == [0 if missing else min(int(odd), SIZES.states - 1), 1, 0, 2]
        assert found.rewards.tolist() == [0.5, 0.0 if missing else 1.0, 1.0]


@pytest.mark.parametrize("value", ["0", [], {}, [[[]]], 0.5j])
def test_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="states"):
        well_formed(SIZES, [value, 1, 0, 2], [0] * 3, [0.5] * 3)
    with pytest.raises(InvalidInput, match="states"):
        well_formed(SIZES, [value] * 4, [0] * 3, [0.5] * 3)
