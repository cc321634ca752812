# SPDX-License-Identifier: Apache-2.0
"""The gate in front of every route, before anything of a request's body is read: name, key, rate, size.

A stranger costs one hash. Callers without a valid key share the bucket of their address, whatever they call themselves;
a caller with one has a bucket of its own, out of which what an app's users do takes nothing
(:mod:`reticent.service.http.rates`). Answers to a key are for its holder: no cache on the way may keep
them. Every answer has its
request's id, and whatever goes wrong inside, no stack trace gets out.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import time
from collections.abc import Iterable

from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.service.http.problems import internal, problem
from reticent.service.http.rates import Rates, settle
from reticent.service.http.security import ALLOWED, need_of
from reticent.service.keys import Keys
from reticent.service.processes.logs import HEADER, REQUEST, request_id

LOG = logging.getLogger("reticent.service")
FORWARDED = (
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip", b"cf-connecting-ip",
    b"cf-ray", b"fastly-client-ip", b"x-envoy-external-address", b"x-amzn-trace-id", b"x-cloud-trace-context",
)  # fmt: skip
FORWARDED_BY_NAME = b"x-forwarded-"
"""Headers by which a proxy gives itself away: those, and all that begin so. One that adds no header cannot be told."""

READ = frozenset({b"host", b"authorization", b"content-length", HEADER, *FORWARDED})
CALLER = "reticent.caller"
"""Where a request's scope says whose it is: a key's hash, or the address of a caller without one."""

IMMUTABLE = "immutable"
GROUPS = "/v1/groups/"
"""Where bodies are of many users, and larger."""

DIGITS = 19
"""Of a Content-Length, at most: Python refuses to read thousands, and no body is that long."""

CLOSE = {"Connection": "close"}
"""Of an answer to a request whose body was not read."""


class TooLarge(Exception):
    """A body that exceeds the limit while it is being read."""


class Guard:
    """An ASGI middleware; see the module docstring.

    Args:
      keys: who has which role. hosts: names that the service goes by. open_reads: whether reading needs no key.
      development: whether well-known keys are in use, which must not be reached through a proxy.
      body_limit, group_limit: bytes of a body, of one user's request and of a group's.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        hosts: Iterable[str],
        open_reads: bool,
        development: bool,
        body_limit: int,
        group_limit: int,
        rate_limit: float,
    ) -> None:
        self._app, self._rates = app, Rates(rate_limit)
        self._body_limit, self._group_limit = body_limit, group_limit
        self._keys, self._open_reads, self._development = keys, open_reads, development
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            if name in READ or name.startswith(FORWARDED_BY_NAME):
                headers.setdefault(name, []).append(value)
        identity = request_id(headers.get(HEADER, []))
        known = (HEADER, identity.encode("ascii"))
        before = REQUEST.set(identity)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), known]
            await send(message)

        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await refusal(scope, receive, named)
                return
            try:
                await self._limited(scope, receive, named, private=b"authorization" in headers)
            finally:
                settle(time.monotonic())
        finally:
            REQUEST.reset(before)

    # -- before the body ----------------------------------------------------------------------------------------------

    def _refusal(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> JSONResponse | None:
        """Why this request goes no further; None if it does."""
        if not self._is_host(headers.get(b"host", [])):
            return problem("unknown-host", 400, "the Host header names another service; see the setting hosts", CLOSE)
        if self._development and any(name in FORWARDED or name.startswith(FORWARDED_BY_NAME) for name in headers):
            return problem("forbidden", 403, "development keys are not served through a proxy; leave --dev out", CLOSE)
        key = _bearer(headers.get(b"authorization", []))
        role = None if key is None else self._keys.role_of(key)
        address = str((scope.get("client") or ("?",))[0])
        caller = f"address {address}" if role is None or key is None else hashlib.sha256(key.encode()).hexdigest()
        scope[CALLER] = caller
        waits = self._rates.take(caller, scope["path"], role in ALLOWED["serve"], time.monotonic())
        if waits:
            return problem("too-many-requests", 429, "slow down", {"Retry-After": str(max(1, round(waits))), **CLOSE})
        need = need_of(scope["path"])
        if need != "nothing" and not (need == "read" and self._open_reads):
            if role is None:
                wanted = {"WWW-Authenticate": "Bearer", **CLOSE}
                return problem("unauthorized", 401, "send a valid key as 'Authorization: Bearer <key>'", wanted)
            if role not in ALLOWED[need]:
                roles = " or ".join(sorted(ALLOWED[need]))
                return problem("forbidden", 403, f"this needs the key of another role: {roles}", CLOSE)
        declared = headers.get(b"content-length", [b"0"])
        limit = self._limit(scope["path"])
        if len(declared) > 1 or not declared[0].isdigit() or len(declared[0]) > DIGITS:
            return problem("invalid-input", 400, f"Content-Length: one number of at most {DIGITS} digits", CLOSE)
        if int(declared[0]) > limit:
            return _too_large(limit)
        return None

    def _limit(self, path: str) -> int:
        """Bytes that a body may have."""
        return self._group_limit if path.startswith(GROUPS) else self._body_limit

    def _is_host(self, given: list[bytes]) -> bool:
        """Whether a request is meant for this service. To be misled, a browser needs a name: addresses are all right."""
        if len(given) != 1:
            return False
        name = given[0].decode("latin-1").lower()
        name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
        if name == "localhost" or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _for_its_holder(self, control: str) -> str:
        """How long an answer to a key may be kept: what never changes (``immutable``), by its holder; where reading needs
        no key, also by caches on the way. Everything else, not at all."""
        if IMMUTABLE not in control:
            return "no-store"
        return control if self._open_reads else control.replace("public", "private")

    # -- the body, and the answer -------------------------------------------------------------------------------------

    async def _limited(self, scope: Scope, receive: Receive, send: Send, *, private: bool) -> None:
        taken, started, limit = 0, False, self._limit(scope["path"])

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if taken > limit and not started:
                return  # whatever the framework says of the broken body, the answer is that it was too large
            if message["type"] == "http.response.start" and private:
                kept = MutableHeaders(scope=message)
                kept["Cache-Control"] = self._for_its_holder(kept.get("Cache-Control", ""))
            started = True
            await send(message)

        try:
            await self._app(scope, limited, noted)
        except (TooLarge, ClientDisconnect):
            pass
        except Exception as error:  # the message might quote data, so only its type is logged
            LOG.error("a request failed with %s", type(error).__name__)
            if not started and taken <= limit:
                await internal()(scope, receive, send)
        if not started and taken > limit:
            await _too_large(limit)(scope, receive, send)


def _too_large(limit: int) -> JSONResponse:
    return problem("too-large", 413, f"a body may have {limit} bytes", CLOSE)


def _bearer(given: list[bytes]) -> str | None:
    """The key of an Authorization header; None if there is none, or more than one."""
    if len(given) != 1:
        return None
    scheme, _, key = given[0].decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None
