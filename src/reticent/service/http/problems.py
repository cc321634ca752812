# SPDX-License-Identifier: Apache-2.0
"""Errors as RFC 9457 problem documents: a type for programs, a sentence for people, never a stack trace."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from reticent.errors import InvalidInput
from reticent.service.http.members import place_of
from reticent.service.http.schemas import Problem
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged

LOG = logging.getLogger("reticent.service")
MEDIA = "application/problem+json"

KINDS = {
    400: "invalid-input", 401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method-not-allowed",
    413: "too-large", 422: "invalid-input", 429: "too-many-requests",
}  # fmt: skip
"""What a bare HTTP status is called."""


def problem(kind: str, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """The response for one problem."""
    return JSONResponse(_content(kind, status, detail, **more), status, headers, MEDIA)


def _content(kind: str, status: int, detail: str, **more: Any) -> dict[str, Any]:
    return {
        "type": f"urn:reticent:problem:{kind}",
        "title": kind.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        **{key: value for key, value in more.items() if value is not None},
    }


def of_member(error: Exception) -> Problem:
    """The problem that one member of a group has, where the others' requests go on.

    Raises:
      Exception: ``error`` itself, if it is not about this member.
    """
    if isinstance(error, InvalidInput) and not isinstance(error, Damaged):
        return Problem(**_content("invalid-input", 422, str(error), **_told(error)))
    if isinstance(error, Refusal):
        return Problem(**_content(error.kind, error.status, str(error)))
    raise error


def _told(error: InvalidInput) -> dict[str, Any]:
    return {"field": error.field, "bound": error.bound, "remedy": error.remedy}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route in the OpenAPI document, for these statuses and those that every route has."""
    answer = {"model": Problem, "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    always = (400, 401, 413, 422, 429, 503)
    return {status: {**answer, "description": KINDS.get(status, "refused")} for status in sorted({*always, *statuses})}


def answer_to(error: Exception) -> JSONResponse | None:
    """The answer to a request that ended in ``error``; None if it was not foreseen."""
    if isinstance(error, Damaged):
        # No request is at fault, and nothing of it may be lost: it can be sent again when the store is mended.
        LOG.critical("stored content does not open: %s", error.bound)
        return unavailable()
    if isinstance(error, InvalidInput):
        return problem("invalid-input", 422, str(error), **_told(error))
    if isinstance(error, Refusal):
        return problem(error.kind, error.status, str(error))
    if isinstance(error, DBAPIError | PoolTimeout):
        LOG.error("the store failed with %s", type(error).__name__)
        return unavailable()
    return None


def install(app: FastAPI) -> None:
    """Turn every error that a handler can raise into a problem."""

    @app.exception_handler(InvalidInput)
    @app.exception_handler(Refusal)
    @app.exception_handler(DBAPIError)
    @app.exception_handler(PoolTimeout)
    async def foreseen(_: Request, error: Exception) -> JSONResponse:
        answer = answer_to(error)
        assert answer is not None
        return answer

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        # The input is not repeated: it may be a user's data, or a number that JSON cannot say.
        first = error.errors()[0]
        body, *inside = first["loc"]
        field, bound = place_of({**first, "loc": inside}, str(body))
        return problem("invalid-input", 422, f"{field}: {bound}", field=field, bound=bound)

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        kind = KINDS.get(error.status_code, "invalid-input" if error.status_code < 500 else "internal")
        return problem(kind, error.status_code, str(error.detail), dict(error.headers or {}))


def unavailable() -> JSONResponse:
    return problem("unavailable", 503, "the store cannot be reached now; try again", {"Retry-After": "1"})


def internal() -> JSONResponse:
    return problem("internal", 500, "something went wrong here; nothing was counted unless a receipt says so")
