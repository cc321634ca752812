# SPDX-License-Identifier: Apache-2.0
"""Health tells the truth within two seconds: about a store that is full, locked or frozen, catching up and warming up."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from durable import deployment, episode
from fastapi.testclient import TestClient
from serving import APP, settings
from temporary_postgres import server_processes, temporary_postgres

from reticent.service import mechanism
from reticent.service.http import readiness
from reticent.service.http.app import create_app
from reticent.service.processes import micro_batching
from reticent.service.processes.micro_batching import MicroBatcher
from reticent.service.processes.scheduler import Scheduler
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import tables
from reticent.service.store.engine import WRITES, Store

TRUTH = 2.0
"""Seconds within which health is told."""


@contextlib.contextmanager
def serving(where: Path, database: str) -> Iterator[TestClient]:
    chosen = settings(where, database=database, planning="background", rollback_guard=where / "witness")
    with TestClient(create_app(chosen, begin=True), raise_server_exceptions=False) as client:
        until(client, 200, 60.0)
        yield client


def health(client: TestClient) -> int:
    began = time.monotonic()
    status = client.get("/v1/health/ready").status_code
    assert time.monotonic() - began < TRUTH
    assert client.get("/v1/health/live").status_code == 200
    return int(status)


def until(client: TestClient, status: int, seconds: float = TRUTH) -> None:
    """Health says so within this time, and every answer on the way comes in time."""
    end = time.monotonic() + seconds
    while health(client) != status:
        assert time.monotonic() < end
        time.sleep(0.05)


def admission(client: TestClient, user: str) -> int:
    return int(client.post("/v1/episodes", json={"user": user}, headers=APP).status_code)


def test_a_store_without_room_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path, f"sqlite:///{tmp_path}/service.db") as client:
        engine = client.app.state.deployment.store.engine  # type: ignore[attr-defined]

        def full(connection: Any, _: Any) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")

        sa.event.listen(engine, "connect", full)
        engine.dispose()
        with contextlib.suppress(sa.exc.OperationalError):
            for number in range(1000, 2000):  # pages that probes have left free
                with client.app.state.deployment.store.write() as tx:  # type: ignore[attr-defined]
                    tx.execute(sa.insert(tables.BILLBOARDS).values(version=number, content=bytes(4096)))
        until(client, 503)
        sa.event.remove(engine, "connect", full)
        engine.dispose()
        until(client, 200)
        assert admission(client, "ann") == 201


def test_a_server_without_room_is_not_ready(tmp_path: Path) -> None:
    """No file of PostgreSQL may grow past what a segment of its log has, which is a full disk for tables only."""
    with temporary_postgres(largest_file=16 << 20) as url, serving(tmp_path, url) as client:
        store = client.app.state.deployment.store  # type: ignore[attr-defined]

        def fill(number: int) -> None:
            with store.write() as tx:
                tx.execute(sa.insert(tables.BILLBOARDS).values(version=1000 + number, content=os.urandom(1 << 18)))

        with pytest.raises(sa.exc.DBAPIError, match="File too large"):
            collections.deque(map(fill, range(100)))
        until(client, 503)
        with store.write() as tx:
            tx.execute(sa.delete(tables.BILLBOARDS).where(tables.BILLBOARDS.c.version >= 1000))
        with store.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM billboards"))
        until(client, 200)
        assert admission(client, "ann") == 201


def test_a_server_that_takes_no_writes_is_not_ready(tmp_path: Path, postgres: str) -> None:
    """As a standby after a failover, or a server whose operator has stopped writes."""
    with serving(tmp_path, postgres) as client:
        _let_write(postgres, False)
        try:
            until(client, 503, 5.0)
            assert admission(client, "ann") == 503
        finally:
            _let_write(postgres, True)
        until(client, 200, 5.0)
        assert admission(client, "ann") == 201


def _let_write(url: str, allowed: bool) -> None:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        told = connection.execution_options(isolation_level="AUTOCOMMIT")
        told.execute(sa.text(f"ALTER SYSTEM SET default_transaction_read_only = {'off' if allowed else 'on'}"))
        told.execute(sa.text("SELECT pg_reload_conf()"))
    engine.dispose()


@pytest.mark.parametrize("held", ["rounds", pytest.param("deployment", marks=pytest.mark.verify)])
def test_a_forgotten_transaction_is_not_waited_for(tmp_path: Path, database: str, held: str) -> None:
    """It holds the row of admissions or of submissions; they were answered after 25 s, and health said that all is well."""
    with serving(tmp_path, database) as client:
        store = Store(database)
        with store.engine.connect() as forgotten:
            marked = forgotten.execution_options(**{WRITES: True})
            marked.execute(sa.text(f"SELECT * FROM {held}{'' if store.embedded else ' FOR UPDATE'}"))
            until(client, 503)
            began = time.monotonic()
            if held == "deployment":
                assert admission(client, "ann") == 503
            assert time.monotonic() - began < micro_batching.DEADLINE + 1
        store.close()
        until(client, 200)
        assert admission(client, "ann") == 201


def test_a_frozen_database_does_not_freeze_health(tmp_path: Path) -> None:
    with temporary_postgres() as url, serving(tmp_path, url) as client:
        frozen = server_processes(url)
        for process in frozen:
            os.kill(process, signal.SIGSTOP)
        try:
            until(client, 503)
            assert health(client) == 503
        finally:
            for process in frozen:
                os.kill(process, signal.SIGCONT)
        until(client, 200, 10.0)
        assert admission(client, "ann") == 201


def test_a_probe_leaves_nothing_behind(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH", 0.01)
    with serving(tmp_path, database) as client:
        store = client.app.state.deployment.store  # type: ignore[attr-defined]
        assert health(client) == health(client) == 200
        with store.read() as tx:
            assert tx.execute(sa.select(tables.BILLBOARDS.c.version)).scalars().all() == [0]


# -- micro-batching -----------------------------------------------------------------------------------------------------


def test_who_has_waited_long_enough_is_told_and_newcomers_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batching, "DEADLINE", 0.3)
    monkeypatch.setattr(micro_batching, "STALLED", 0.1)
    frozen = threading.Event()

    def work(items: Any) -> list[Any]:
        frozen.wait(10)
        return list(items)

    async def crowd() -> None:
        batcher: MicroBatcher[int, int] = MicroBatcher(work, linger=0.0)
        first = asyncio.ensure_future(batcher.join(1))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        with pytest.raises(Refusal, match="longer than it should"):
            await batcher.join(2)
        assert time.monotonic() - began < 0.1
        with pytest.raises(Refusal, match="longer than it should"):
            await first
        frozen.set()
        await asyncio.sleep(0.1)
        assert await batcher.join(3) == 3
        batcher.close()

    asyncio.run(crowd())


def test_a_group_with_too_few_answers_does_not_end_the_thread() -> None:
    short = [True]

    def work(items: Any) -> list[Any]:
        return [] if short.pop() else list(items)

    async def ask() -> None:
        batcher: MicroBatcher[int, int] = MicroBatcher(work, linger=0.0)
        with pytest.raises(RuntimeError, match="0 answers to 1"):
            await asyncio.wait_for(batcher.join(1), 5)
        short.append(False)
        assert await asyncio.wait_for(batcher.join(2), 5) == 2
        batcher.close()

    asyncio.run(ask())


def test_a_group_that_cannot_be_told_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first caller's event loop ends between the transaction and the answer; the next group gets its own."""
    tell = micro_batching._tell
    ended = [True]

    def telling(*given: Any) -> None:
        if ended and ended.pop():
            raise RuntimeError("Event loop is closed")
        tell(*given)

    monkeypatch.setattr(micro_batching, "_tell", telling)

    async def ask() -> None:
        batcher: MicroBatcher[int, int] = MicroBatcher(list, linger=0.0)
        gone = asyncio.ensure_future(batcher.join(1))
        await asyncio.sleep(0.1)
        gone.cancel()
        assert await asyncio.wait_for(batcher.join(2), 5) == 2
        batcher.close()

    asyncio.run(ask())
    assert "a group could not be answered: RuntimeError" in caplog.text


# -- catching up, and warming up ------------------------------------------------------------------------------------------


def test_a_released_round_clears_a_failure_before_all_have_been_caught_up(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage rounds wait; each that is released shows that rounds are ended again."""
    service = deployment(database, inline=False)
    scheduler = Scheduler(service)
    assert scheduler.problem is not None
    assert "compiled" in scheduler.problem
    scheduler.once()
    assert scheduler.problem is None
    broken = [True]

    def failing_once() -> int:
        if broken:
            raise OSError("the store is away")
        return service.planner.releases.advance()

    monkeypatch.setattr(service, "advance", failing_once)
    scheduler._guarded(scheduler.once)
    assert scheduler.problem is not None
    broken.clear()
    for user in range(9):
        opened = service.admit(f"user {user}")
        service.submit_trajectory(opened.token, opened.episode, **episode(user))
    seen: list[str | None] = []
    release = service.planner.releases._release

    def watched(number: int) -> None:
        seen.append(scheduler.problem)
        release(number)

    monkeypatch.setattr(service.planner.releases, "_release", watched)
    scheduler._guarded(scheduler.once)
    assert len(seen) == 2
    assert seen[0] is not None
    assert seen[1] is None


@pytest.mark.parametrize("options", [",residual=off", pytest.param("", marks=pytest.mark.verify)])
def test_ready_means_that_the_next_release_compiles_nothing(database: str, options: str) -> None:
    """Also where users came faster than plans were made, so that a round was served the plan of one before."""
    programs = (mechanism._close, mechanism._refer, mechanism._plan)
    for program in programs:
        program.clear_cache()
    service = deployment(database, f"private-score-vi:epsilon=1{options}", 400, inline=False)
    service.warm_up()
    compiled = [program._cache_size() for program in programs]
    assert min(compiled) > 0
    with service.store.read() as tx:
        assert tx.execute(sa.select(tables.DEPLOYMENT.c.served_version)).scalar_one() == 0
    for user in range(100):  # three rounds
        opened = service.admit(f"user {user}")
        service.submit_trajectory(opened.token, opened.episode, **episode(user))
    assert service.advance() > 1
    assert [program._cache_size() for program in programs] == compiled


def test_a_look_probes_the_store_now_and_then_and_says_what_is_wrong_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[threading.Thread] = []
    monkeypatch.setattr(readiness.records, "probe", lambda *_: probes.append(threading.current_thread()))
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        service = client.app.state.readiness  # type: ignore[attr-defined]
        looks = [asyncio.run(service.ask()) for _ in range(5)]
        assert len(probes) == 1  # good for a while: health that is asked often is no load
        assert probes[0].daemon  # a store that hangs does not keep the process from ending
        assert not any(look.problems for look in looks)
        service._keys.current = False
        assert asyncio.run(service.ask()).problems == ["the keys file cannot be read; the keys before it are in use"]


# -- clocks ---------------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_ahead_for_a_while_expires_nothing(tmp_path: Path, database: str) -> None:
    """Nine days for 35 seconds; one that stays there is believed after an hour, and small corrections at once."""
    wall, steady = [1_000.0], [50.0]

    def pass_time(seconds: float) -> None:
        wall[0] += seconds
        steady[0] += seconds

    service = deployment(
        database, inline=False, ticket_lifetime=86_400.0, now=lambda: wall[0], steady=lambda: steady[0]
    )
    opened = [service.admit(user) for user in ("ann", "bob", "eve")]
    wall[0] += 9 * 86_400
    for _ in range(7):
        assert service.expire() == 0
        pass_time(5)
    service.submit_trajectory(opened[0].token, opened[0].episode, **episode(0))  # while it is ahead
    wall[0] -= 9 * 86_400
    assert service.expire() == 0
    service.submit_trajectory(opened[1].token, opened[1].episode, **episode(1))
    wall[0] += 30
    assert service.context.expiry_time() == wall[0]
    pass_time(86_500)
    assert service.expire() == 1  # the third, whose day is over
    wall[0] += 9 * 86_400
    service.context.expiry_time()
    pass_time(3_601)
    assert service.context.expiry_time() == wall[0]
