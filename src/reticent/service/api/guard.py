"""The gate in front of every route: body limit, rate limit, and no stack trace on the way out."""

from __future__ import annotations

import collections
import hashlib
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.service.api.problems import internal, problem

LOG = logging.getLogger("reticent.service")
CALLERS = 10_000
"""Callers whose buckets are remembered; the longest unseen one is forgotten first."""


class Buckets:
    """A token bucket per caller: ``rate`` per second, and twice as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, max(1.0, 2 * rate)
        self._levels: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def take(self, caller: str, now: float) -> float:
        """Seconds that the caller has to wait; 0 if it may go on."""
        if self._rate <= 0:
            return 0.0
        level, at = self._levels.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        waits = 0.0 if level >= 1 else (1 - level) / self._rate
        self._levels[caller] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > CALLERS:
            self._levels.popitem(last=False)
        return waits


class TooLarge(Exception):
    """A body that exceeds the limit while it is being read."""


class Guard:
    """An ASGI middleware; see the module docstring."""

    def __init__(self, app: ASGIApp, body_limit: int, rate_limit: float) -> None:
        self._app, self._body_limit, self._buckets = app, body_limit, Buckets(rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {key: value for key, value in scope["headers"] if key in (b"content-length", b"authorization")}
        waits = self._buckets.take(_caller(scope, headers), time.monotonic())
        if waits:
            wanted = {"Retry-After": str(max(1, round(waits)))}
            await problem("too-many-requests", 429, "slow down", wanted)(scope, receive, send)
            return
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._body_limit:
            await self._refuse(scope, receive, send)
            return
        taken, started = 0, False

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._body_limit:
                raise TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if taken > self._body_limit and not started:
                return  # whatever the framework says of the broken body, the answer is that it was too large
            started = True
            await send(message)

        try:
            await self._app(scope, limited, noted)
        except TooLarge:
            pass
        except Exception as error:  # the message might quote data, so only its type is logged
            LOG.error("a request failed with %s", type(error).__name__)
            if not started and taken <= self._body_limit:
                await internal()(scope, receive, send)
        if not started and taken > self._body_limit:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await problem("too-large", 413, f"a body may have {self._body_limit} bytes")(scope, receive, send)


def _caller(scope: Scope, headers: dict[bytes, Any]) -> str:
    """Who is asking: the key if there is one (hashed, so that no key is kept), else the address."""
    key = headers.get(b"authorization")
    if key:
        return hashlib.sha256(key).hexdigest()
    return str((scope.get("client") or ("?",))[0])
