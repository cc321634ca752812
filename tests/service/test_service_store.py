# SPDX-License-Identifier: Apache-2.0
"""The store under stress: locks that cannot cross, connections that suffice, commits that last, answers of bounded size."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import deployment
from fastapi.testclient import TestClient
from serving import settings

from reticent.errors import InvalidInput
from reticent.service.http.app import create_app
from reticent.service.rounds import public_views
from reticent.service.store import records
from reticent.service.store.engine import Store


def test_finishing_does_not_deadlock_with_a_submission(postgres: str) -> None:
    """A submission holds its episode and wants the round, while the last round is ended."""
    service = deployment(postgres, episodes=4, inline=False)
    opened = [service.admit(f"user {user}") for user in range(4)]
    failures: list[BaseException] = []

    def finish() -> None:
        try:
            service.finish()
        except BaseException as problem:
            failures.append(problem)

    with service.store.write() as tx:
        records.episodes(tx, [opened[0].episode], lock=True)
        ending = threading.Thread(target=finish)
        ending.start()
        time.sleep(0.5)  # until it waits, if it does
        records.open_round(tx)
    ending.join(10)
    assert not ending.is_alive()
    assert not failures
    assert service.clock()[0].finished
    service.expire()
    with service.store.read() as tx:
        states = {row.state for row in tx.execute(sa.text("SELECT state FROM episodes"))}
    assert states <= {"open", "expired"}  # the one that was held meanwhile is refused whatever it says


def test_reports_that_come_while_it_ends_are_counted_or_refused(database: str) -> None:
    from reticent.service.rounds.refusals import Refusal

    service = deployment(database, "private-linopt-vi:first=16,growth=1,trust=local", 16, inline=False)
    whole = (service.mechanism.noise_scale > 0).astype(np.int64)
    opened = [service.admit(f"user {user}", uuid.uuid4().hex) for user in range(16)]
    gate, outcomes = threading.Barrier(17), []

    def report(one: Any) -> None:
        gate.wait()
        try:
            service.submit_report(one.token, one.episode, whole)
            outcomes.append("counted")
        except Refusal as refusal:
            outcomes.append(refusal.kind)

    crowd = [threading.Thread(target=report, args=(one,)) for one in opened]
    for thread in crowd:
        thread.start()
    gate.wait()
    service.finish()
    for thread in crowd:
        thread.join()
    service.advance()
    assert set(outcomes) <= {"counted", "round-over", "episode-expired"}
    assert len(outcomes) == 16
    with service.store.read() as tx:
        last = np.frombuffer(records.round_of(tx, 0).release, "<f8").reshape(whole.shape)
    np.testing.assert_array_equal(last, whole * outcomes.count("counted") * service.mechanism.grid)


def test_workers_together_stay_within_the_servers_connections(postgres: str) -> None:
    """The tests' server gives 300, of which three are reserved and five left alone."""
    for workers, wanted in ((1, 40), (4, 40), (60, 4)):
        store = Store(postgres, workers)
        assert store.engine.pool.size() + max(0, store.engine.pool.overflow()) == wanted  # type: ignore[attr-defined]
        assert workers * wanted <= 300 - 3 - 5
        store.close()
    with pytest.raises(InvalidInput, match="max_connections"):
        Store(postgres, 200)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(InvalidInput, match="unreachable") as refused:
        Store("postgresql+psycopg://reticent:hunter2@127.0.0.1:1/reticent?connect_timeout=2")
    assert "hunter2" not in str(refused.value)


def test_commits_wait_for_the_disk_whatever_the_server_says(postgres: str) -> None:
    for asked, wanted in (("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")):
        store = Store(f"{postgres}&options=-csynchronous_commit%3D{asked}")
        with store.write() as tx:
            assert tx.execute(sa.text("SHOW synchronous_commit")).scalar_one() == wanted
        store.close()


def test_the_ledger_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        whole = client.get("/v1/ledger").json()
        assert (whole["releases"], whole["next"], len(whole["entries"])) == (3, None, 3)
        first = client.get("/v1/ledger?limit=2").json()
        rest = client.get(f"/v1/ledger?limit=2&after={first['next']}").json()
        assert (first["next"], rest["next"]) == (2, None)
        assert first["entries"] + rest["entries"] == whole["entries"]
        assert client.get("/v1/ledger?after=99").json()["entries"] == []
        assert client.get("/v1/ledger?limit=1001").status_code == 422
        monkeypatch.setattr(public_views, "PAGE", 2)
        assert client.get("/v1/status").json()["round_ends"] == [4, 8]
