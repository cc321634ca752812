# SPDX-License-Identifier: Apache-2.0
"""Event streams on real sockets: however many a reader opens, users get through and the store is looked at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
