# SPDX-License-Identifier: Apache-2.0
"""Optional traces for operators: one OpenTelemetry span per request, of which kind it was and how it ended, and no more.

A span says the method, the *template* of the route, the status and the request's id. It never has an address, a query, a
header, a body or an id out of a path, and it is a root of its own: what callers say of their traces is not read, since it
could lead to a user. An allow-list (:data:`ATTRIBUTES`) is all that is ever set, and no exception is recorded.

What spans do tell is *when* a user came back, as an access log would, and that is a user's secret: they are for the
operator's own collector, like the admin's numbers, and are off unless a setting asks for them. Nothing published depends
on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import reticent
from reticent.extras import require
from reticent.service.processes.logs import HEADER

if TYPE_CHECKING:  # an extra of its own, imported where it is asked for
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

METHOD, ROUTE, STATUS, REQUEST = (
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "reticent.request_id",
)
ATTRIBUTES = frozenset({METHOD, ROUTE, STATUS, REQUEST})
"""All that a span may say. A name is added only if it leads to no user."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER, NOWHERE = "_OTHER", "unmatched"
"""In place of a method or a path that is the caller's own text."""


def otlp_tracing() -> TracerProvider:
    """Spans sent by OTLP over HTTP, where the standard variables say (``OTEL_EXPORTER_OTLP_ENDPOINT`` and the others).

    Raises:
      MissingExtra: the packages are not installed.
    """
    trace = require("opentelemetry.sdk.trace", "telemetry")
    resources = require("opentelemetry.sdk.resources", "telemetry")
    batches = require("opentelemetry.sdk.trace.export", "telemetry")
    otlp = require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "telemetry")
    about = resources.Resource.create({"service.name": "reticent", "service.version": reticent.__version__})
    provider: TracerProvider = trace.TracerProvider(resource=about)
    provider.add_span_processor(batches.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


class Traced:
    """An ASGI middleware in front of all others; see the module docstring."""

    def __init__(self, app: ASGIApp, *, provider: TracerProvider, routes: Iterable[BaseRoute]) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._app, self._routes = app, [route for route in routes if isinstance(route, Route)]
        self._tracer: Tracer = provider.get_tracer("reticent.service")
        self._alone, self._kind, self._failed = Context(), SpanKind.SERVER, Status(StatusCode.ERROR)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else OTHER
        template = self._template(scope["path"], method)
        span = self._tracer.start_span(
            f"{method} {template}", self._alone, self._kind, {METHOD: method, ROUTE: template}, record_exception=False
        )

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(span, message)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            span.end()

    def _note(self, span: Span, answer: Message) -> None:
        span.set_attribute(STATUS, int(answer["status"]))
        for name, value in answer.get("headers", ()):
            if name == HEADER:
                span.set_attribute(REQUEST, value.decode("latin-1"))
        if answer["status"] >= 500:
            span.set_status(self._failed)

    def _template(self, path: str, method: str) -> str:
        """The route that a path is of, as it is declared: ids in it are not repeated."""
        fitting: list[Any] = [route for route in self._routes if route.path_regex.match(path)]
        fitting.sort(key=lambda route: method not in (route.methods or ()))
        return str(fitting[0].path) if fitting else NOWHERE
