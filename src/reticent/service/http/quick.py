# SPDX-License-Identifier: Apache-2.0
"""A short way to the routes that every user takes: a well-formed request is read, answered and written without detours.

A web framework looks at a request from many sides before a route sees it, which costs more than the route. Here the body
is read by the route's own schema and the route is called. Whatever is not plainly well-formed (another path, method or kind
of content, a body that the schema refuses) goes the framework's way, body and all, and gets its answer; so there is one
place that says what is wrong with a request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.service.http import episodes, groups, problems, schemas

Route = tuple[type[BaseModel], Callable[..., Awaitable[BaseModel]]]

BY_PATH: dict[str, tuple[Route, int]] = {
    "/v1/episodes": ((schemas.Open, episodes.open_episode), 201),
    "/v1/groups/episodes": ((schemas.OpenAll, groups.open_all), 200),
    "/v1/groups/trajectories": ((schemas.Trajectories, groups.submit_trajectories), 200),
    "/v1/groups/reports": ((schemas.Reports, groups.submit_reports), 200),
}
"""With the status of a success."""

OF_EPISODE: dict[str, Route] = {
    "actions": (schemas.Act, episodes.act),
    "trajectory": (schemas.Trajectory, episodes.submit_trajectory),
    "empty": (schemas.Empty, episodes.submit_empty),
    "report": (schemas.Report, episodes.submit_report),
}
"""By the last part of the path."""

EPISODE = re.compile(r"/v1/episodes/([0-9a-f]{32})/([a-z]+)")
JSON = (b"content-type", b"application/json")


class Quick:
    """An ASGI middleware; see the module docstring."""

    def __init__(self, app: ASGIApp, *, handlers: episodes.RequestHandlers) -> None:
        self._app, self._handlers = app, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _route(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        (schema, route), given, status = found
        body = await _body(receive)
        if body is None:  # whoever asked has gone
            return
        read = _read(schema, body)
        if read is None:
            await self._app(scope, _again(body, receive), send)
            return
        try:
            answer = await route(body=read, handlers=self._handlers, **given)
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


def _read(schema: type[BaseModel], body: bytes) -> BaseModel | None:
    """The body as its route's schema reads it; None if it is refused. A group's members are read one by one."""
    if issubclass(schema, schemas.OpenAll | schemas.Trajectories | schemas.Reports):
        return schema.apart(body)
    try:
        return schema.model_validate_json(body)
    except ValidationError:
        return None


def _is_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the content is JSON, as the framework tells it: parameters and kinds such as ``problem+json`` included."""
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
            return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))
    return False


def _route(scope: Scope) -> tuple[Route, dict[str, str], int] | None:
    """Which route a request takes, what its path says, and the status of a success; None if the framework is to tell."""
    path = scope["path"]
    if not _is_json(scope["headers"]):
        return None
    if path in BY_PATH:
        route, status = BY_PATH[path]
        return route, {}, status
    found = EPISODE.fullmatch(path)
    named = None if found is None else OF_EPISODE.get(found[2])
    return None if named is None or found is None else (named, {"episode": found[1]}, 200)


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
