# SPDX-License-Identifier: Apache-2.0
"""Several episodes brought into range at once: the same numbers as one by one, and refused if one of them would be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reticent_wire.errors import InvalidInput
from reticent_wire.trajectory import all_well_formed, well_formed


class Sizes(NamedTuple):
    horizon: int = 3
    states: int = 4
    actions: int = 2


class Sent(NamedTuple):
    states: Any
    actions: Any
    rewards: Any


SIZES = Sizes()
WORDS = st.integers(-(2**63), 2**63 - 1)


def numbers(kind: st.SearchStrategy[Any], length: int) -> st.SearchStrategy[Any]:
    """Mostly of the right length, sometimes of another, or no list at all."""
    return st.one_of(
        st.lists(kind, min_size=length, max_size=length),
        st.lists(kind, min_size=length, max_size=length),
        st.lists(kind, max_size=length + 1),
        st.sampled_from([None, "text", [[0] * length]]),
    )


EPISODES = st.lists(
    st.builds(Sent, numbers(WORDS, 4), numbers(WORDS, 3), numbers(st.floats(), 3)), min_size=1, max_size=4
)


@given(EPISODES)
def test_all_at_once_is_one_by_one(episodes: list[Sent]) -> None:
    places = list(range(len(episodes)))

    def one_by_one() -> list[Any]:
        return [well_formed(SIZES, *one, place) for one, place in zip(episodes, places, strict=True)]

    def outcome(make: Any) -> Any:
        try:
            return make()
        except InvalidInput:
            return None

    single, several = outcome(one_by_one), outcome(lambda: all_well_formed(SIZES, episodes, places))
    assert (single is None) == (several is None)
    for one, other in zip(single or [], several or [], strict=True):
        assert one.place == other.place
        for mine, yours in zip(one[:3], other[:3], strict=True):
            assert mine.dtype == yours.dtype
            np.testing.assert_array_equal(mine, yours)
