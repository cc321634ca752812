# SPDX-License-Identifier: Apache-2.0
"""Who is a control: as many as were said, evenly spaced, by public numbers alone."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.learning.control import Control, ControlPlaces
from reticent.learning.schedule import Schedule
from reticent.runtime import double_precision

SIZES = st.lists(st.integers(1, 200), min_size=1, max_size=8)
SHARES = st.floats(0.001, 0.999)


def controls(control: Control, schedule: Schedule, number: int, identity: str) -> list[int]:
    places = control.places(schedule, number, identity)
    return [place for place in range(int(schedule.round_sizes[number])) if places.has(place)]


@settings(deadline=None, max_examples=200)
@given(sizes=SIZES, share=SHARES, identity=st.text("0123456789abcdef", min_size=1, max_size=32))
def test_the_number_of_controls_is_exact_and_they_are_evenly_spaced(
    sizes: list[int], share: float, identity: str
) -> None:
    control, schedule, met = Control(share), Schedule(sum(sizes), tuple(sizes)), 0
    for number, size in enumerate(sizes):
        places, found = control.places(schedule, number, identity), controls(control, schedule, number, identity)
        assert len(found) == places.controls == places.before(size)
        assert abs(len(found) - Fraction(repr(share)) * size) < 1
        assert [places.before(place) for place in range(size + 1)] == [
            sum(one < place for one in found) for place in range(size + 1)
        ]
        if len(found) > 1:
            gaps = np.diff([*found, found[0] + size])
            assert set(gaps.tolist()) <= {size // len(found), math.ceil(size / len(found))}
        met += len(found)
        assert found == controls(Control(share), Schedule(sum(sizes), tuple(sizes)), number, identity)
        assert met == math.floor(Fraction(repr(share)) * sum(sizes[: number + 1]))


@settings(deadline=None, max_examples=50)
@given(size=st.integers(1, 60), data=st.data())
def test_every_place_is_a_control_equally_often(size: int, data: st.DataObject) -> None:
    """Over all beginnings, each place m times of n: the probability m/n that an analysis divides by."""
    chosen = data.draw(st.integers(0, size))
    times = [sum(ControlPlaces(size, chosen, offset).has(place) for offset in range(size)) for place in range(size)]
    assert times == [chosen] * size


def test_where_they_begin_differs_by_round_and_deployment_and_follows_from_their_names() -> None:
    schedule, control = Schedule(4000, (1000,) * 4), Control(0.2)
    begins = {control.places(schedule, number, name).offset for number in range(4) for name in ("one", "two")}
    assert len(begins) > 1
    drawn = hashlib.sha256(b"reticent control one 3").digest()
    assert control.places(schedule, 3, "one") == (1000, 200, int.from_bytes(drawn, "big") % 1000)


def test_a_share_is_taken_as_it_is_written() -> None:
    """0.29 · 100 is 28.999… in floating point."""
    assert Control(0.29).places(Schedule(100, (100,)), 0, "x").controls == 29
    every_fifth = [Control(0.2).places(Schedule(20), number, "x").controls for number in range(20)]
    assert every_fifth == ([0] * 4 + [1]) * 4


@double_precision
def test_compiled_programs_count_alike() -> None:
    places = Control(0.37).places(Schedule(10**9, (10**9,)), 0, "many")
    compiled = ControlPlaces(*(jnp.asarray(one, jnp.int64) for one in places))
    for place in (0, 1, 12_345, 999_999_999, 10**9):
        assert int(compiled.before(jnp.asarray(place, jnp.int64))) == places.before(place)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_shares_that_leave_one_group_are_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match=r"control\.share"):
        Control(share)


@pytest.mark.parametrize(("share", "users"), [(0.01, 50), (0.2, 1), (0.999, 1)])
def test_a_deployment_in_which_one_group_has_nobody_is_refused(share: float, users: int) -> None:
    with pytest.raises(InvalidInput, match="some controls and some others"):
        Control(share).require_both_groups(users)
    Control(0.2).require_both_groups(5)
