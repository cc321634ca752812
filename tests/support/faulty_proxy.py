# SPDX-License-Identifier: Apache-2.0
"""A proxy between client and service that writes down every byte the client sends, and breaks what it is told to break."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

LOSE_REQUEST, LOSE_ANSWER, CLOSE_AFTERWARDS = "lose request", "lose answer", "close afterwards"


@dataclasses.dataclass(frozen=True)
class Sent:
    """One request as it came in: every byte of it, and its parts."""

    raw: bytes
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


class Proxy(socketserver.ThreadingTCPServer):
    """``faults`` are taken one per request, first to last; a request without one is passed on.

    A fault is one of the words above, or ``(status, headers, body)`` to answer with in the service's place.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = urllib.parse.urlsplit(service).netloc
        self.sent: list[Sent] = []
        self.faults: list[Any] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def posts(self, end: str = "") -> list[Sent]:
        """The POST requests whose path ends so."""
        return [request for request in self.sent if request.method == "POST" and request.path.endswith(end)]


class Handler(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        self.server.connections += 1
        with contextlib.suppress(ConnectionError):
            while self.one_request():
                pass

    def one_request(self) -> bool:
        """Read, record, break or pass on one request; whether the connection goes on."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return False
            head += line
        first, *lines = head.decode().strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        body = self.rfile.read(int(headers.get("Content-Length", 0)))
        self.server.sent.append(Sent(head + body, method, path, headers, body))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == LOSE_REQUEST:
            return False
        if isinstance(fault, tuple):
            self.answer(*fault)
            return True
        connection = http.client.HTTPConnection(self.server.upstream, timeout=30)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            status, given, content = answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()
        if fault == LOSE_ANSWER:
            return False
        kept = {key: value for key, value in given.items() if key.lower() in ("content-type", "retry-after")}
        self.answer(status, kept, content)
        return fault != CLOSE_AFTERWARDS

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} As-Told", *(f"{key}: {value}" for key, value in headers.items())]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self.wfile.write("\r\n".join(lines).encode() + body)


@contextlib.contextmanager
def proxied(service: str) -> Iterator[Proxy]:
    """A proxy in front of ``service`` for the time of the block."""
    proxy = Proxy(service)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(10)
