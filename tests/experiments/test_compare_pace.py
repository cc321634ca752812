# SPDX-License-Identifier: Apache-2.0
"""A comparison that is to end in time: who is tried, who is left out, and what is said of it."""

from __future__ import annotations

import pytest

from reticent.experiments.compare import compare
from reticent.experiments.compare.field import Contestant, gather
from reticent.experiments.compare.pace import Pace, in_order, pace_of, who_fits
from reticent.worlds import make_world

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
SOME = ["ucbvi", "ucrl-vtr", "private-score-vi", "score-vi", "lsvi-ucb"]


class Clock:
    """Time passes only where a trial takes some."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def contestants() -> list[Contestant]:
    return gather(make_world(WORLD).model, 64, (1.0,), 1e-5, agents=SOME, trusts=["none", "joint"])[0]


def choose(
    contestants: list[Contestant], paces: dict[str, Pace], seconds: float
) -> tuple[list[str], dict[str, str], list[str]]:
    clock, said = Clock(), []

    def measure(one: Contestant) -> Pace:
        clock.now += paces[one.name].trial
        return paces[one.name]

    chosen, left_out = who_fits(contestants, measure, seconds, clock, said.append)
    return [one.name for one in chosen], {one.name.split(" ")[0]: one.reason for one in left_out}, said


def test_the_default_and_its_yardstick_come_first(contestants) -> None:
    assert [one.name for one in in_order(contestants)] == [
        "private-score-vi",
        "score-vi",
        "ucrl-vtr",
        "ucbvi",
        "lsvi-ucb",
    ]


def test_who_is_too_slow_says_what_it_would_take(contestants) -> None:
    paces = {name: Pace(1.0, 2.0) for name in SOME} | {"ucrl-vtr": Pace(1.0, 4000.0)}
    chosen, left_out, said = choose(contestants, paces, 60.0)
    assert chosen == ["private-score-vi", "score-vi", "ucbvi", "lsvi-ucb"]
    assert left_out == {"ucrl-vtr": "would take about 1 h 06 min here; --all runs it"}
    assert len(said) == len(SOME)


def test_nobody_is_tried_for_whom_no_time_is_left_but_the_default_always_is(contestants) -> None:
    chosen, left_out, _ = choose(contestants, {name: Pace(40.0, 1.0) for name in SOME}, 30.0)
    assert chosen == ["private-score-vi", "score-vi"]
    assert set(left_out) == {"ucrl-vtr", "ucbvi", "lsvi-ucb"}
    assert all("not tried" in reason for reason in left_out.values())


def test_what_is_promised_is_kept_within_the_time(contestants) -> None:
    """Trials and runs together never exceed it where the pace is true and nobody must be run."""
    paces = {name: Pace(3.0, 9.0) for name in SOME}
    for seconds in (30.0, 40.0, 50.0, 100.0):
        chosen, left_out, _ = choose(contestants, paces, seconds)
        tried = len(chosen) + sum("would take" in reason for reason in left_out.values())
        assert 3.0 * tried + 9.0 * len(chosen) <= seconds


@pytest.mark.verify
def test_a_trial_foretells_the_whole(contestants) -> None:
    one = next(one for one in contestants if one.name == "ucbvi")
    pace = pace_of(one, make_world(WORLD), 64, 2)
    assert 0 < pace.whole < 60
    assert pace.trial > 0


@pytest.mark.verify
def test_a_comparison_in_no_time_still_has_its_two_yardsticks() -> None:
    found = compare(WORLD, (1.0,), trusts=["joint", "none"], episodes=64, seeds=1, seconds=0.5)
    assert {one.contestant.name for one in found.standings} >= {"private-score-vi", "score-vi"}
    assert found.left_out
    assert found.to_dict()["left_out"][0]["reason"].endswith("--all runs it")
