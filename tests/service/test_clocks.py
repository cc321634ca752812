# SPDX-License-Identifier: Apache-2.0
"""The two clocks of a deployment, to the second: what episodes expire by, and what ends the last round."""

from __future__ import annotations

from pathlib import Path

import pytest
from durable import deployment

from reticent.service.rounds.close import TICK
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.steady_time import LASTING, SMALL, SteadyTime
from reticent.service.store import records


class Clocks:
    """A wall clock and a steady one; time passes on both, and the wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def passes(self, seconds: float) -> None:
        self.wall, self.steady = self.wall + seconds, self.steady + seconds

    def set_by(self, seconds: float) -> None:
        self.wall += seconds

    def steady_time(self) -> SteadyTime:
        return SteadyTime(lambda: self.wall, lambda: self.steady)


def test_a_minute_and_an_hour() -> None:
    assert (SMALL, LASTING) == (60.0, 3600.0)


@pytest.mark.parametrize("ahead", [SMALL, -SMALL, 1.0])
def test_a_clock_is_corrected_by_a_minute_at_once(ahead: float) -> None:
    clocks = Clocks()
    now = clocks.steady_time()
    assert now() == clocks.wall
    clocks.passes(7.0)
    clocks.set_by(ahead)
    assert now() == clocks.wall


@pytest.mark.parametrize("ahead", [SMALL + 0.5, -SMALL - 0.5, 9 * 86_400.0])
def test_a_jump_is_believed_when_it_has_lasted_for_an_hour(ahead: float) -> None:
    clocks = Clocks()
    now = clocks.steady_time()
    now()
    clocks.set_by(ahead)
    assert now() == clocks.wall - ahead
    clocks.passes(LASTING - 0.5)
    assert now() == clocks.wall - ahead
    clocks.passes(0.5)
    assert now() == clocks.wall
    clocks.passes(3.0)
    assert now() == clocks.wall


@pytest.mark.parametrize("further", [1000.0, -500.0])
def test_a_jump_that_goes_on_or_comes_back_begins_anew(further: float) -> None:
    clocks = Clocks()
    now = clocks.steady_time()
    now()
    clocks.set_by(1000.0)
    now()
    clocks.passes(LASTING - 1)
    clocks.set_by(further)  # elsewhere by now: another jump
    assert now() == clocks.wall - 1000.0 - further
    clocks.passes(2.0)
    assert now() == clocks.wall - 1000.0 - further
    clocks.set_by(-1000.0 - further)
    assert now() == clocks.wall
    clocks.set_by(1000.0)
    assert now() == clocks.wall - 1000.0
    clocks.passes(LASTING - 1)
    assert now() == clocks.wall - 1000.0  # an hour from the second time on
    clocks.set_by(SMALL)  # a small correction on top is the same jump
    clocks.passes(1.0)
    assert now() == clocks.wall


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def waiting(where: Path, clocks: Clocks, finish_after: float = 1000.0) -> Deployment:
    """A deployment of one round, all of whose users have come."""
    service = deployment(
        where,
        episodes=4,
        finish_after=finish_after,
        inline=False,
        now=lambda: clocks.wall,
        steady=lambda: clocks.steady,
    )
    for user in range(4):
        service.admit(f"user {user}")
    return service


def waited(service: Deployment) -> float:
    return float(service.clock()[0].waited)


def test_the_last_round_waits_for_so_long_and_no_longer(tmp_path: Path, clocks: Clocks) -> None:
    service = waiting(tmp_path, clocks)
    clocks.passes(500.0)
    assert not service.is_due()  # the first look: from here on
    assert waited(service) == 0.0
    for _ in range(9):
        clocks.passes(100.0)
        assert not service.is_due()
    clocks.passes(100.0)
    assert service.is_due()
    assert waited(service) == 1000.0
    assert service.is_due()
    with service.store.read() as tx:
        assert records.open_episodes(tx) == 4
    service.finish()
    assert not service.is_due()
    with service.store.read() as tx:
        assert records.open_episodes(tx) == 0  # none of them is waited for any more


def test_time_before_the_last_user_has_come_does_not_count(tmp_path: Path, clocks: Clocks) -> None:
    service = deployment(
        tmp_path, episodes=4, finish_after=1000.0, inline=False, now=lambda: clocks.wall, steady=lambda: clocks.steady
    )
    for user in range(3):
        service.admit(f"user {user}")
        assert not service.is_due()
        clocks.passes(5000.0)
    assert not service.is_due()
    service.admit("user 3")
    clocks.passes(20.0)
    assert not service.is_due()
    clocks.passes(999.0)
    assert not service.is_due()
    clocks.passes(TICK)
    assert service.is_due()


def test_looks_in_quick_succession_write_nothing_and_lose_nothing(tmp_path: Path, clocks: Clocks) -> None:
    service = waiting(tmp_path, clocks)
    service.is_due()
    noted = service.clock()[0].ticked_at
    clocks.passes(TICK - 0.5)
    assert not service.is_due()
    assert (service.clock()[0].ticked_at, waited(service)) == (noted, 0.0)
    clocks.passes(0.5)
    service.is_due()
    assert (service.clock()[0].ticked_at, waited(service)) == (noted + TICK, TICK)


def test_a_short_wait_is_looked_at_more_often(tmp_path: Path, clocks: Clocks) -> None:
    service = waiting(tmp_path, clocks, finish_after=10.0)
    service.is_due()
    clocks.passes(0.95)
    service.is_due()
    assert waited(service) == 0.0
    clocks.passes(0.05)
    service.is_due()
    assert waited(service) == pytest.approx(1.0)


def test_a_clock_that_is_set_adds_no_time(tmp_path: Path, clocks: Clocks) -> None:
    service = waiting(tmp_path, clocks)
    service.is_due()
    clocks.passes(20.0)
    clocks.set_by(1e6)
    service.is_due()
    assert waited(service) == 20.0  # as much as this process has lived
    clocks.passes(20.0)
    clocks.set_by(-2e6)
    service.is_due()
    assert waited(service) == 20.0  # nothing, and nothing is taken back
    clocks.passes(20.0)
    service.is_due()
    assert waited(service) == 40.0
    clocks.passes(20.0)
    clocks.set_by(1e6)
    service.is_due()
    assert waited(service) == 60.0


def test_another_process_counts_what_has_passed_once(tmp_path: Path, clocks: Clocks) -> None:
    service = waiting(tmp_path, clocks)
    service.is_due()
    other = deployment(
        tmp_path, episodes=4, finish_after=1000.0, inline=False, now=lambda: clocks.wall, steady=lambda: clocks.steady
    )
    clocks.passes(100.0)
    service.is_due()
    other.is_due()
    assert waited(other) == 100.0


def test_overdue_episodes_expire_and_no_others(tmp_path: Path, clocks: Clocks) -> None:
    service = deployment(
        tmp_path, episodes=4, ticket_lifetime=60.0, inline=False, now=lambda: clocks.wall, steady=lambda: clocks.steady
    )
    service.admit("early")
    clocks.passes(30.0)
    service.admit("late")
    clocks.passes(30.0)
    assert service.expire() == 0  # to the second
    clocks.passes(1.0)
    assert service.expire() == 1
    clocks.passes(30.0)
    assert service.expire() == 1
    assert service.expire() == 0
