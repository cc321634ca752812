# SPDX-License-Identifier: Apache-2.0
"""What the service writes down of itself: one line per event, as JSON or for people, with the request that it belongs to.

There are no access logs: when a user came back is their secret. What is logged are faults and what happens to the
deployment, by kind and never by value. A request's id is the caller's own (``X-Request-ID``) or drawn, comes back with
every answer, and is in the log where something failed. It should name a request, not a user.
"""

from __future__ import annotations

import contextvars
import json
import logging
import random
import re
import time
from typing import Any, Literal

REQUEST: contextvars.ContextVar[str | None] = contextvars.ContextVar("request", default=None)
"""The id of the request that is being answered."""

HEADER = b"x-request-id"
FRESH = random.Random()
"""Ids need not be secret. The system's own random numbers would cost a turn of the interpreter for each request."""

MOST_LINES, WINDOW, KINDS = 20, 60.0, 1000
"""Lines of a kind in so many seconds, at most; kinds that are remembered."""

ACCEPTED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def request_id(given: list[bytes]) -> str:
    """The id of a request with these headers of that name: its own, if it is short and plain, or a fresh one."""
    if len(given) == 1 and ACCEPTED.fullmatch(given[0]):
        return given[0].decode("ascii")
    return f"{FRESH.getrandbits(128):032x}"


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, request."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        if (request := REQUEST.get()) is not None:
            line["request"] = request
        if record.exc_info is not None and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__  # its message might quote data
        return json.dumps(line, ensure_ascii=True)


class PlainLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        request = REQUEST.get()
        kind = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] is not None else ""
        return f"{record.levelname.lower()}: {record.getMessage()}{kind}{f' [request {request}]' if request else ''}"


class FewOfAKind(logging.Filter):
    """Lets through at most :data:`MOST_LINES` lines of a kind in :data:`WINDOW` seconds, and then says how many were not.

    A kind is a logger, a level and a message before its values are put in: a stranger who sends malformed requests
    fills no disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, record.levelno, str(record.msg)), time.monotonic()
        since, lines = self._seen.get(kind, (now, 0))
        left_out = 0
        if now - since > WINDOW:
            left_out, since, lines = max(0, lines - MOST_LINES), now, 0
        if len(self._seen) > KINDS:
            self._seen.clear()
        self._seen[kind] = (since, lines + 1)
        if left_out:
            record.msg = f"{record.msg} ({left_out} more of these were not logged)"
        return lines < MOST_LINES


def configuration(form: Literal["plain", "json"]) -> dict[str, Any]:
    """How logging is to be set up, for :func:`logging.config.dictConfig` and for every worker."""
    lines = {"plain": PlainLines, "json": JsonLines}[form]
    own = {"handlers": ["stderr"], "level": "WARNING", "propagate": False}
    return {
        "version": 1, "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"{lines.__module__}.{lines.__name__}"}},
        "filters": {"few": {"()": f"{FewOfAKind.__module__}.{FewOfAKind.__name__}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["few"]}},
        "loggers": dict.fromkeys(("reticent.service", "uvicorn", "uvicorn.error"), own),
    }  # fmt: skip
