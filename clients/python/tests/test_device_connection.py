# SPDX-License-Identifier: Apache-2.0
"""Requests that may be repeated are; refusals are final; nothing is said in the clear. Against a small HTTP server."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_service import listening

from reticent_client import Client, Connection, InvalidInput, ServiceError, Unreachable
from reticent_client.connection import is_loopback


@contextlib.contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A server that gives these answers one after another, the last one for ever; and what it was sent."""
    left, sent = list(answers), []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent.append((self.command, self.path, body))
            status, headers, content = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with listening(Handler) as url:
        yield url, sent


def test_what_may_pass_is_tried_again_and_the_same_bytes_are_sent() -> None:
    busy = (503, {}, b"{}")
    with answering(busy, busy, (200, {}, b'{"fine": true}')) as (url, sent):
        connection = Connection(url, "key")
        assert connection.post("/v1/x", {"a": 1}) == {"fine": True}
        assert sent == [("POST", "/v1/x", b'{"a":1}')] * 3
        connection.close()


def test_the_services_own_pause_is_kept() -> None:
    with answering((429, {"Retry-After": "1"}, b"{}"), (200, {}, b"{}")) as (url, sent):
        connection, start = Connection(url, None), time.monotonic()
        connection.get("/v1/x")
        assert time.monotonic() - start >= 1.0
        assert len(sent) == 2
        connection.close()


def test_a_refusal_is_final_and_reads_well() -> None:
    problem = {
        "type": "urn:reticent:problem:invalid-input", "title": "Invalid input", "detail": "x is wrong", "field": "x",
        "bound": "right", "remedy": "correct it",
    }  # fmt: skip
    with answering((422, {}, json.dumps(problem).encode())) as (url, sent):
        connection = Connection(url, None)
        with pytest.raises(ServiceError) as refused:
            connection.get("/v1/x")
        assert (refused.value.status, refused.value.name, refused.value.field) == (422, "invalid-input", "x")
        assert str(refused.value) == "Invalid input: x is wrong; must be right; correct it (HTTP 422)"
        assert len(sent) == 1
        connection.close()


def test_waiting_ends_at_the_deadline() -> None:
    with answering((503, {}, b"no json")) as (url, sent):
        connection = Connection(url, None, deadline=0.4)
        with pytest.raises(ServiceError, match="HTTP 503 without an explanation"):
            connection.get("/v1/x")
        assert len(sent) > 1
        connection.close()
    gone = Connection(url, None, deadline=0.3)
    with pytest.raises(Unreachable, match="repeating a request is safe"):
        gone.get("/v1/x")


def test_a_page_that_is_no_service_is_said_to_be_none() -> None:
    with answering((200, {}, b"<html>")) as (url, _):
        connection = Connection(url, None)
        with pytest.raises(ServiceError, match="not a JSON object"):
            connection.get("/")
        connection.close()


@pytest.mark.parametrize(
    "url", ["http://example.org", "http://192.0.2.1:8400", "ftp://127.0.0.1", "127.0.0.1:8400", "", "http://[::2]:1"]
)
def test_keys_are_not_sent_in_the_clear(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        Client(url, "key")


def test_loopback_is_this_machine() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "192.0.2.1", "example.org")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{"act": "cloud"}, {"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": 1.0}, {"deadline": 0}, {"timeout": -1}],
)
def test_settings_outside_their_domain_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        Client("http://127.0.0.1:1", "key", **options)
    assert refused.value.field in options


@pytest.mark.parametrize("trust", ["joint", "shuffle", "2050"])
def test_a_service_of_another_trust_model_is_told_no_name(trust: str) -> None:
    with answering((200, {}, json.dumps({"trust": trust}).encode())) as (url, sent):
        with Client(url, "key", trust="local") as client, pytest.raises(InvalidInput, match="as demanded"):
            client.episode("ann").open()
        with Client(url, "key") as client, pytest.raises((InvalidInput, KeyError)):
            client.episode("ann").open()
        assert not any(b"ann" in body for _, _, body in sent if trust != "joint")


def test_numpy_is_all_it_takes() -> None:
    code = (
        "import sys, reticent_client, reticent_wire.promise; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    if loaded.returncode:  # not installed, as in a checkout whose path is in PYTHONPATH
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    strangers = {name for name in loaded.stdout.split() if not name.startswith("_")}
    assert strangers <= {
        "numpy",
        "reticent_client",
        "reticent_wire",
        "sitecustomize",
        "usercustomize",
        "distutils-precedence",
    }
