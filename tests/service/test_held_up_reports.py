# SPDX-License-Identifier: Apache-2.0
"""No user's report or silence holds up another's, on the way to the service or in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from held_up import MALFORMED, gathered, limited, micro_batched, stopped, with_others
from serving import APP, settings

from reticent.service.http.app import create_app
from reticent.service.http.rates import Buckets


@pytest.mark.parametrize("reports", [True, False])
def test_in_which_round_a_gathered_report_counts_does_not_depend_on_another_users(database: str, reports: bool) -> None:
    """The round ends before the tick, whoever else reports: what was sent counts in the next one."""
    first, second = gathered(database, reports)
    assert not any(first)
    assert any(second)


@pytest.mark.parametrize("together", [False, True])
def test_how_long_a_report_waits_in_the_service_does_not_depend_on_another_users(
    tmp_path: Path, together: bool
) -> None:
    stories = []
    for name, reports in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        stories.append(micro_batched(tmp_path / name, reports, together=together))
    assert stories[0] == stories[1]
    assert [len(waits) for waits in stories[0]] == ([1, 2] if together else [0, 0])
    assert all(0 < wait <= 0.01 for waits in stories[0] for wait in waits)


@pytest.mark.parametrize(("local", "group"), [(False, False), (False, True), (True, False), (True, True)])
def test_what_a_user_asks_for_turns_no_other_user_away(tmp_path: Path, database: str, local: bool, group: bool) -> None:
    """The users of an app share its key, and so the limit of its requests."""
    assert limited(tmp_path, reports=True, local=local, group=group, database=database) == [200, 200]


@pytest.mark.parametrize("malformed", MALFORMED)
@pytest.mark.parametrize(("local", "group"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_user_whose_reports_have_another_form_turns_no_other_user_away(
    tmp_path: Path, local: bool, group: bool, malformed: str
) -> None:
    """Such as one who left early, of whom the app's server sends what there is: their token is genuine all the same."""
    assert limited(tmp_path, reports=True, local=local, group=group, malformed=malformed) == [200, 200]


def test_what_proves_no_admission_still_counts_against_the_key(tmp_path: Path) -> None:
    """A token of another episode, or one that is made up, whatever the form of the body is."""
    service = create_app(settings(tmp_path, rate_limit=4.0, rollback_guard=tmp_path / "guard"), begin=True)
    with TestClient(service, headers=APP) as client, stopped():
        opened = client.post("/v1/episodes", json={"user": "ann"}).json()
        for token in (opened["token"], opened["token"][:-1]):
            for _ in range(4):
                client.post(f"/v1/episodes/{'f' * 32}/trajectory", json={"token": token, "rewards": "often"})
        assert client.get("/v1/round").status_code == 429


def test_a_report_that_comes_with_another_users_is_let_in_as_one_that_comes_alone(tmp_path: Path) -> None:
    """A backend that groups what comes within a moment: whether another user reports decides by which way it goes."""
    told = []
    for name, reports in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        told.append(with_others(tmp_path / name, reports))
    assert told[0] == told[1] == ["urn:reticent:problem:too-many-requests", 429, "slow down"]


def test_a_bucket_fills_at_its_rate() -> None:
    bucket = Buckets(4.0)
    assert [bucket.take("app", 10.0) for _ in range(9)] == [0.0] * 8 + [0.25]
    assert [bucket.take("app", 11.0) for _ in range(5)] == [0.0] * 4 + [0.25]
    assert bucket.take("another", 11.0) == 0.0
    assert bucket.take("app", 1000.0) == 0.0
    assert bucket.wait("app", 1000.0) == 0.0
    assert [bucket.take("app", 1000.0) for _ in range(8)] == [0.0] * 7 + [0.25]
