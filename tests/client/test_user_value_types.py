# SPDX-License-Identifier: Apache-2.0
"""A user's value has a type on which nothing can branch and which nothing can make a text of: by mypy, and when run."""

from __future__ import annotations

import json
import logging
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_leaks import refused_and_planted

from reticent_wire.boundary import REFUSED, Clipped, DataEscapes, Raw, Released

PLANTED = Path(__file__).with_name("planted_type_leaks.py")


def test_mypy_refuses_every_planted_leak_and_nothing_else(tmp_path: Path) -> None:
    """With the configuration that ``make lint`` uses; one run for all."""
    found, wanted, told = refused_and_planted(PLANTED, tmp_path)
    assert len(wanted) >= 25
    assert found == wanted, told


@pytest.mark.parametrize("held", [Raw, Clipped])
@pytest.mark.parametrize(
    "use",
    [
        bool, str, int, float, len, list, hash, operator.index, operator.not_, np.asarray, json.dumps, pickle.dumps,
        lambda value: f"{value}", lambda value: f"{value:.2f}",
        lambda value: "{}".format(value), lambda value: "%s" % value,  # noqa: UP031, UP032
        lambda value: value == 0.5, lambda value: value != value, lambda value: value < 1, lambda value: value >= 1,
        lambda value: value in (1, 2), lambda value: 0.5 in value, lambda value: value + 1, lambda value: 1 - value,
        lambda value: {value: 1}, lambda value: {value}, lambda value: value in {1},
        lambda value: 1 if value else 0, lambda value: value and 1, lambda value: value[0],
    ],
)  # fmt: skip
def test_at_run_time_every_implicit_use_is_refused_without_saying_the_value(held: Any, use: Any) -> None:
    said = set()
    for value in (0.5, 0.0, 7125.0):
        with pytest.raises(TypeError) as refused:
            use(held(value))
        said.add(str(refused.value))
    assert len(said) == 1
    assert "7125" not in said.pop()


def test_a_list_of_them_may_be_shown(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("a device").warning("states %s", [Raw(3), Clipped(4)])
    assert caplog.messages == ["states [<Raw: not shown>, <Clipped: not shown>]"]
    assert not hasattr(Raw(3), "value")
    assert Released(3).value == 3


def test_there_is_one_way_on_from_each() -> None:
    clipped = Raw.all_of([Raw(7.5), Raw(-1.0)]).clip(lambda values: [min(max(value, 0.0), 1.0) for value in values])
    assert isinstance(clipped, Clipped)
    assert clipped.on_device(list) == [1.0, 0.0]
    both = Clipped.all_of([Clipped(1), Clipped(2)]).within(sum)
    assert isinstance(both, Clipped)
    assert both.release(lambda value: value + 0.5).value == 3.5


def test_what_is_refused_is_refused_by_one_error() -> None:
    for name in REFUSED:
        with pytest.raises(DataEscapes, match=rf"a Raw value of a user has no {name}; clip it"):
            getattr(Raw, name)(Raw(1))
