# SPDX-License-Identifier: Apache-2.0
"""A fast path to the routes that every user takes: a well-formed request is read, answered and written without detours.

A web framework looks at a request from many sides before a route sees it, which costs more than the route
(docs/measurements/service.md). Here the body is read by the route's own schema and the route is called. There is one
routing table, the framework's: path, schema, handler and status of a success are read from its routes. What is not plainly
well-formed (another path, method or kind of content, a body that the schema refuses) goes the framework's way, body and
all, and gets its answer; so there is one place that says what is wrong with a request.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.errors import ReticentError
from reticent.service.http import members, problems, rates, schemas
from reticent.service.http.episodes import RequestHandlers
from reticent_wire.limits import LARGEST_GROUP

EPISODE = re.compile(r"(/v1/episodes/)([0-9a-f]{32})(/[a-z]+)")
"""A path with an episode's id in it; ``{episode}`` stands for that in a route's template."""

JSON = (b"content-type", b"application/json")

TOKEN = re.compile(rb'"token"\s*:\s*"([A-Za-z0-9_.-]{1,512})"')
"""A token in a body, also in one that no schema reads."""


class Direct(NamedTuple):
    """A route that can be called without the framework: its handler takes a body, the handlers and at most an id."""

    schema: type[BaseModel]
    handler: Callable[..., Awaitable[BaseModel]]
    status: int


def direct_routes(routers: Iterable[APIRouter]) -> dict[str, Direct]:
    """The routes of the framework that take :class:`RequestHandlers`, by the template of their path."""
    found = {}
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute) and inspect.iscoroutinefunction(route.endpoint):
            taken = typing.get_type_hints(route.endpoint)
            if taken.get("handlers") is RequestHandlers and set(taken) <= {"body", "handlers", "episode", "return"}:
                found[route.path] = Direct(taken["body"], route.endpoint, route.status_code or 200)
    return found


class FastPath:
    """An ASGI middleware; see the module docstring."""

    def __init__(self, app: ASGIApp, *, handlers: RequestHandlers, routers: Iterable[APIRouter]) -> None:
        self._app, self._handlers, self._routes = app, handlers, direct_routes(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._route(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        (schema, handler, status), given = found
        body = await _body(receive)
        if body is None:  # the caller has gone
            return
        read = _read(schema, body)
        try:
            if read is None:
                await self._app(scope, _again(body, receive), send)
            else:
                await self._answer(handler, status, {"body": read, **given}, (scope, receive, send))
        finally:
            if rates.owing() and self._is_of_users(body, given.get("episode")):
                rates.prove()

    async def _answer(
        self,
        handler: Callable[..., Awaitable[BaseModel]],
        status: int,
        given: dict[str, Any],
        asgi: tuple[Scope, Receive, Send],
    ) -> None:
        """Call a route and write its answer."""
        scope, receive, send = asgi
        try:
            answer = await handler(handlers=self._handlers, **given)
        except Exception as error:
            problem = problems.answer_to(error)
            if problem is None:
                raise
            await problem(scope, receive, send)
            return
        content = answer.__pydantic_serializer__.to_json(answer)
        headers = [(b"content-length", b"%d" % len(content)), JSON]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _is_of_users(self, body: bytes, episode: str | None) -> bool:
        """Whether a body has a genuine token: of the episode in the path or, in a group, of any."""
        for token in tokens(body):
            with contextlib.suppress(ReticentError):
                found = self._handlers.deployment.secrets.read(token)
                if episode in (None, found.episode):
                    return True
        return False

    def _route(self, scope: Scope) -> tuple[Direct, dict[str, str]] | None:
        """Which route a request takes, and the id in its path; None if the framework is to tell."""
        if not _is_json(scope["headers"]):
            return None
        path, given = scope["path"], {}
        named = EPISODE.fullmatch(path)
        if "{" in path:  # a template is no path
            return None
        if named is not None:
            path, given = f"{named[1]}{{episode}}{named[3]}", {"episode": named[2]}
        route = self._routes.get(path)
        return None if route is None else (route, given)


def _read(schema: type[BaseModel], body: bytes) -> BaseModel | None:
    """The body as its route's schema reads it; None if it is refused. A group's members are read one by one."""
    if issubclass(schema, schemas.OpenAll | schemas.Trajectories | schemas.Reports):
        return schema.apart(body)
    try:
        return members.read(schema, body)
    except ValidationError:
        return None


def tokens(body: bytes) -> Iterator[str]:
    """What may be tokens in a body of whatever form, as many as a group may have."""
    for found in itertools.islice(TOKEN.finditer(body), LARGEST_GROUP):
        yield found[1].decode("ascii")


def _is_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the content is JSON, as the framework tells it: parameters and kinds such as ``problem+json`` included."""
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
            return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))
    return False


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if it does not come."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A channel that gives the body once more, and then what comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        whole: dict[str, Any] = {"type": "http.request", "body": body, "more_body": False}
        return whole

    return again
