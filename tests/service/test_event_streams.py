# SPDX-License-Identifier: Apache-2.0
"""Event streams on real sockets: however many a reader opens, users get through and the store is looked at once."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from durable import deployment, episode
from running_service import listening
from serving import APP, KEYS, settings

from reticent.service.http import event_streams

CONNECTIONS = 32
"""Of the worker; eight of them may be streams, two of them of one caller."""


@pytest.fixture
def service(tmp_path: Path, database: str) -> Iterator[tuple[str, int]]:
    chosen = settings(tmp_path, database=database, connections=CONNECTIONS, rollback_guard=tmp_path / "witness")
    with listening(chosen) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def stream(address: tuple[str, int], key: str | None) -> socket.socket:
    """A connection that has asked for events, and takes what comes for as long as the caller likes."""
    connection = socket.create_connection(address, timeout=10)
    named = f"Authorization: Bearer {key}\r\n" if key else ""
    connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{named}\r\n".encode())
    return connection


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


def comes_through(address: tuple[str, int], user: str) -> int:
    """The status of an admission on a new connection."""
    line = http.client.HTTPConnection(*address, timeout=10)
    try:
        line.request("POST", "/v1/episodes", json.dumps({"user": user}), {**APP, "Content-Type": "application/json"})
        return line.getresponse().status
    finally:
        line.close()


@pytest.mark.parametrize("key", [KEYS["reader_key"], None])
def test_users_get_through_however_many_streams_a_reader_opens(service: tuple[str, int], key: str | None) -> None:
    """More than three times the worker's connections, with a key or, where reads are public, without one."""
    with contextlib.ExitStack() as stack:
        opened = []
        for number in range(100):
            opened.append(stack.enter_context(stream(service, key)))
            if number % 25 == 24:
                assert comes_through(service, f"user {number}") == 201
        assert opened[-1].recv(4096).startswith(b"HTTP/1.1 200")  # the newest is served
        assert sum(map(is_open, opened)) <= CONNECTIONS // event_streams.SHARE**2


def test_one_readers_streams_do_not_end_anothers(service: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(stream(service, KEYS["reader_key"]))
        assert kept.recv(4096).startswith(b"HTTP/1.1 200")
        for _ in range(40):
            stack.enter_context(stream(service, KEYS["shuffler_key"]))
        newest = stack.enter_context(stream(service, KEYS["shuffler_key"]))
        assert newest.recv(4096).startswith(b"HTTP/1.1 200")
        assert is_open(kept)


def test_a_stream_gives_way_to_a_user_where_connections_are_short(service: tuple[str, int]) -> None:
    """Connections that are half-open and streams fill the worker; the admission is answered, and nothing refused."""
    with contextlib.ExitStack() as stack:
        for key in (KEYS["reader_key"], KEYS["shuffler_key"], KEYS["admin_key"], None):
            for _ in range(2):
                stack.enter_context(stream(service, key))
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(service)).sendall(b"GET /v1/he")
        assert comes_through(service, "ann") == 201


def test_a_client_that_does_not_take_its_answer_gives_way(tmp_path: Path) -> None:
    """Each asks for a model of some megabytes and reads none of it: its answer would never be complete."""
    world = "random-blend:states=120,actions=3,horizon=2,d=3"
    with listening(settings(tmp_path, world=world, connections=8)) as url, contextlib.ExitStack() as stack:
        host, _, port = url.removeprefix("http://").partition(":")
        for _ in range(8):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            stack.enter_context(connection).sendall(b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.settimeout(10)
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        time.sleep(0.2)
        assert comes_through((host, int(port)), "ann") == 201


def test_all_streams_share_one_look_at_the_store(service: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    looks, status = [0], event_streams.public_views.status

    def counted(*given: Any) -> Any:
        looks[0] += 1
        return status(*given)

    monkeypatch.setattr(event_streams.public_views, "status", counted)
    monkeypatch.setattr(event_streams, "POLL", 30.0)
    with contextlib.ExitStack() as stack:
        for key in (KEYS["reader_key"], KEYS["shuffler_key"], KEYS["admin_key"], None):
            connection = stack.enter_context(stream(service, key))
            heard = b""
            while b"event: status" not in heard:
                heard += connection.recv(4096)
    assert looks[0] == 1


# -- what readers get, without sockets ------------------------------------------------------------------------------------


async def _next(stream: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(stream), 20)


def _kinds(events: list[str]) -> list[str]:
    return [event.splitlines()[0] for event in events]


def test_a_later_reader_gets_the_status_of_now_and_all_get_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "POLL", 0.01)
    made = deployment(tmp_path)

    async def read() -> None:
        streams = event_streams.EventStreams(made, None, 1000)
        first, second = streams.follow("a"), streams.follow("b")
        opening = await _next(first)
        assert await _next(second) == opening
        assert _kinds([opening]) == ["event: status"]
        for user in range(5):  # the fifth opens the second round
            opened = made.admit(f"user {user}")
            made.submit_trajectory(opened.token, opened.episode, **episode(user))
        seen: list[list[str]] = [[], []]
        for mine, stream in zip(seen, (first, second), strict=True):
            while "event: release" not in _kinds(mine):
                mine.append(await _next(stream))
        assert seen[0] == seen[1]
        assert [event.splitlines()[1] for event in seen[0]] == [f"id: {1 + n}" for n in range(len(seen[0]))]
        await first.aclose()
        assert streams._watching is not None  # the other one still reads
        await second.aclose()
        assert streams._watching is None
        again = streams.follow("a")
        assert _kinds([await _next(again)]) == ["event: status"]
        await again.aclose()

    asyncio.run(read())


def test_silent_streams_show_signs_of_life_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "POLL", 0.01)
    monkeypatch.setattr(event_streams, "KEEP_ALIVE", 0.3)
    made = deployment(tmp_path)

    async def read() -> None:
        stream = event_streams.EventStreams(made, None, 1000).follow("a")
        await _next(stream)
        since = time.monotonic()
        assert await _next(stream) == ": keep-alive\n\n"
        assert time.monotonic() - since > 0.25
        await stream.aclose()

    asyncio.run(read())


def test_a_reader_who_is_too_far_behind_is_let_go(tmp_path: Path) -> None:
    ended = []
    follower = event_streams._Follower("a", lambda: ended.append(True))
    follower.send(["event"] * event_streams.BEHIND)
    assert not ended
    assert event_streams.BEHIND == 256  # documented; memory of a worker is bounded by it
    follower.send(["one more"])
    assert ended
    assert follower.events.get_nowait() is None
    assert follower.events.empty()


@pytest.mark.parametrize(
    ("connections", "in_all", "of_one"), [(1, 1, 1), (4, 1, 1), (24, 6, 1), (32, 8, 2), (64, 16, 4)]
)
def test_how_many_streams_there_are_at_most(tmp_path: Path, connections: int, in_all: int, of_one: int) -> None:
    made = deployment(tmp_path)

    async def crowd() -> None:
        streams = event_streams.EventStreams(made, None, connections)

        def come(caller: str) -> None:
            streams._make_room(caller)
            streams._followers[event_streams._Follower(caller, lambda: None)] = None

        for _ in range(of_one + 2):
            come("greedy")
        assert len(streams._followers) == of_one
        for number in range(in_all + 2):
            come(f"caller {number}")
        assert len(streams._followers) == in_all

    asyncio.run(crowd())
