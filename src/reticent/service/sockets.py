"""Answers without delay: several workers share a listening socket, on which asyncio does not turn Nagle's algorithm off.

Headers and body are two writes; with Nagle's algorithm the second waits for the client's delayed acknowledgement of the
first, 40 ms on every request.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class PromptProtocol(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    """uvicorn's HTTP protocol on a connection that sends at once."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
