# SPDX-License-Identifier: Apache-2.0
"""Connections that answer at once, and that no stranger can keep for long.

Several workers share a listening socket, on which asyncio does not turn Nagle's algorithm off: headers and body are two
writes, and with it the second would wait for the client's delayed acknowledgement of the first, 40 ms on every request.

The parser underneath bounds neither headers nor time. Here a request's headers have a size, the whole request a time in
which to arrive, and a worker a number of connections: when there are more, the one that has been idle or half-open for
longest goes. A request that is being answered is not cut off, unless its answer is a stream, which never ends.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import socket
import time

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reticent.errors import InvalidInput

LIMITS = "limits"
"""Where the application's lifespan leaves the limits for its connections."""

STREAMING, ABORT = "streaming", "abort"
"""In a request's state: whether its answer is a stream; what closes its connection at once."""

CHUNKING = 8
"""Bytes on the wire per byte of a body, at most: a chunk of one byte takes six."""


def require_free(host: str, port: int) -> None:
    """Raise if nothing can listen there, before anything is begun.

    Raises:
      InvalidInput: the host has no such address, the port is taken, or this user may not have it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except PermissionError:
        raise InvalidInput("port", port, "one that this user may listen on", "choose one above 1023") from None
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            remedy = "end the program that listens there, or choose another --port"
            raise InvalidInput("port", port, f"free on {host}", remedy) from None
        raise InvalidInput("host", host, "an address of this machine", "0.0.0.0 is all of them") from None


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one worker bears: bytes of headers and of a body, seconds for a request to arrive, open connections."""

    header_bytes: int = 32_768
    body_bytes: int = 1 << 20
    read_seconds: float = 10.0
    connections: int = 1000


class PromptProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol within limits, on a connection that sends at once."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._limits: Limits = self.app_state.get(LIMITS, Limits())
        self._taken, self._in_headers, self._since = 0, True, time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        super().data_received(data)
        limits = self._limits
        allowed = limits.header_bytes + (0 if self._in_headers else CHUNKING * limits.body_bytes)
        if self._taken > allowed and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][ABORT] = self.transport.abort
        self._await_request()

    def on_headers_complete(self) -> None:
        if sum(len(key) + len(text) for key, text in self.headers) > self._limits.header_bytes:
            raise ValueError("headers too long")  # the parser makes a 400 of it and closes
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_waiting()
        self._taken, self._in_headers = 0, True
        super().on_message_complete()

    def _await_request(self) -> None:
        """Give a request its time, unless one has it already."""
        if self._timer is None:
            self._since = time.monotonic()
            self._timer = self.loop.call_later(self._limits.read_seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._since = time.monotonic()

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        """Close the connection, with a word if no answer has begun."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()

    @property
    def _answering(self) -> bool:
        """Whether a whole request has come and its answer, which is no stream, has not been written."""
        if self._timer is not None or self.cycle is None or self.cycle.response_complete:
            return False
        return not self.cycle.scope["state"].get(STREAMING, False)

    def _make_room(self) -> None:
        """Let the connection go that has waited longest, if there are too many."""
        if len(self.connections) <= self._limits.connections:
            return
        waiting = [one for one in self.connections if isinstance(one, PromptProtocol) and not one._answering]
        oldest = min(waiting, key=lambda one: one._since, default=self)
        oldest.transport.abort()
