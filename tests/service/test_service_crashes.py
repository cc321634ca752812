# SPDX-License-Identifier: Apache-2.0
"""``kill -9`` under load: what was acknowledged is there once, and no noise is drawn again."""

from __future__ import annotations

import pytest


@pytest.mark.verify
def test_nothing_is_lost_redrawn_or_counted_twice(database: str) -> None:
    """Short: joint on SQLite, local on PostgreSQL; the long version has every pair."""
    from service_crashes import crash

    trust = "joint" if database.startswith("sqlite") else "local"
    found = crash(database, trust, kills=2, lull=0.3)
    assert found["wrong"] == []
    assert found["acknowledged"] > 0


@pytest.mark.verify
@pytest.mark.parametrize(("victim", "trust"), [("planner", "joint"), ("workers", "local")])
def test_one_process_is_killed_and_the_others_go_on(postgres: str, victim: str, trust: str) -> None:
    """Rounds that a dead planner left are released by the next one; what a dead worker acknowledged is there once."""
    from service_crashes import crash

    found = crash(postgres, trust, kills=2, lull=0.3, victim=victim)
    assert found["wrong"] == []
    assert found["acknowledged"] > 0
    assert found["releases"] > 0


@pytest.mark.verify
def test_the_database_is_killed_and_started_again(postgres: str) -> None:
    """Users are told to come again meanwhile; what was acknowledged was on the disk."""
    from service_crashes import crash

    found = crash(postgres, "local", kills=2, lull=0.3, victim="database")
    assert found["wrong"] == []
    assert found["acknowledged"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_twenty_kills_of_the_database(postgres: str, trust: str) -> None:
    from service_crashes import crash

    found = crash(postgres, trust, kills=10, seed=1, victim="database")
    assert found["wrong"] == []
    assert found["acknowledged"] > 100


@pytest.mark.soak
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_hundred_kills(database: str, trust: str) -> None:
    from service_crashes import crash

    found = crash(database, trust, kills=50, seed=1)
    assert found["wrong"] == []
    assert found["acknowledged"] > 500
    assert found["releases"] > 10
