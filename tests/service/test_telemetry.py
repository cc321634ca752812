# SPDX-License-Identifier: Apache-2.0
"""Spans: of every request one, with four names on a list, and nothing that leads to a user."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from durable import AGENT, SECRET, WORLD, episode
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from running_service import APP_KEY, running_service
from serving import ADMIN, APP, settings

from reticent.errors import MissingExtra
from reticent.service.http.app import create_app
from reticent.service.processes.telemetry import ATTRIBUTES, METHOD, REQUEST, ROUTE, STATUS
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent_client import Connection


class Collector:
    """A real server that takes what is sent by OTLP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        taken = self.bodies

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Taking)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def spans(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span for one in requests for of in one.resource_spans for scope in of.scope_spans for span in scope.spans
        ]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{made.server.server_address[1]}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    made.thread.start()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


@pytest.fixture
def traced(tmp_path: Path, collector: Collector) -> Iterator[tuple[TestClient, InMemorySpanExporter]]:
    with TestClient(create_app(settings(tmp_path, telemetry="otlp"), begin=True)) as client:
        kept = InMemorySpanExporter()
        client.app.state.tracing.add_span_processor(SimpleSpanProcessor(kept))  # type: ignore[attr-defined]
        yield client, kept


def plain(span: ReadableSpan) -> dict[str, Any]:
    return {"name": span.name, **(span.attributes or {})}


def test_spans_have_templates_and_statuses_and_nothing_else(traced: tuple[TestClient, InMemorySpanExporter]) -> None:
    client, kept = traced
    person = "ann of the secret name"
    opened = client.post("/v1/episodes", json={"user": person}, headers={**APP, "X-Request-ID": "open-1"}).json()
    body = {"token": opened["token"], **episode(0)}
    below = f"/v1/episodes/{opened['episode']}"
    calls = [
        lambda: client.post(f"{below}/actions", json={"token": opened["token"], "step": 0, "state": 1}, headers=APP),
        lambda: client.post(f"{below}/trajectory?who={person}", json=body, headers=APP),
        lambda: client.post(f"{below}/trajectory", json={**body, "more": person}, headers=APP),
        lambda: client.get("/v1/billboards/0", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "baggage": "u=ann"}),
        lambda: client.get(f"/users/{person}"),
        lambda: client.get(f"/v1/episodes/{person}/visits", headers=APP),
        lambda: client.request("ANN", "/v1/status"),
        lambda: client.post("/v1/admin/erase", json={"user": person}, headers=ADMIN),
        lambda: client.post("/v1/admin/erase", json={"user": person}),
        lambda: client.get("/v1/status", headers={"host": "elsewhere.example"}),
    ]  # fmt: skip
    statuses = [call().status_code for call in calls]
    spans = kept.get_finished_spans()
    assert [(one["name"], one[STATUS]) for one in map(plain, spans)] == [
        ("POST /v1/episodes", 201),
        ("POST /v1/episodes/{episode}/actions", 200),
        ("POST /v1/episodes/{episode}/trajectory", 200),
        ("POST /v1/episodes/{episode}/trajectory", 422),
        ("GET /v1/billboards/{version}", 200),
        ("GET unmatched", 404),
        ("GET unmatched", 404),
        ("_OTHER /v1/status", 405),
        ("POST /v1/admin/erase", 200),
        ("POST /v1/admin/erase", 401),
        ("GET /v1/status", 400),
    ]
    assert [plain(one)[STATUS] for one in spans][1:] == statuses
    for span in spans:
        assert set(span.attributes or ()) == ATTRIBUTES
        assert plain(span)["name"] == f"{plain(span)[METHOD]} {plain(span)[ROUTE]}"
        assert (span.parent, span.kind, len(span.events), len(span.links)) == (None, SpanKind.SERVER, 0, 0)
        assert f"{span.context.trace_id:032x}" != "a" * 32
    assert plain(spans[0])[REQUEST] == "open-1"
    said = " ".join(span.to_json() for span in spans)
    for secret in ("ann", opened["episode"], opened["token"], Secrets(SECRET).name(person), "testclient", "127.0.0.1"):
        assert secret not in said


def test_a_fault_is_a_status_without_its_message(traced: tuple[TestClient, InMemorySpanExporter]) -> None:
    client, kept = traced
    opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    with client.app.state.deployment.store.write() as tx:  # type: ignore[attr-defined]
        records.set_total(tx, 0, records.round_of(tx, 0).total[:-1])
    body = {"token": opened["token"], **episode(0)}
    assert client.post(f"/v1/episodes/{opened['episode']}/trajectory", json=body, headers=APP).status_code == 503
    (failed,) = [span for span in kept.get_finished_spans() if plain(span)[STATUS] == 503]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, None)
    assert len(failed.events) == 0


def test_a_running_service_sends_them_by_otlp(tmp_path: Path, collector: Collector) -> None:
    given = {"world": WORLD, "agent": AGENT, "episodes": 12, "rate_limit": 0, "telemetry": "otlp"}
    with running_service(tmp_path, **given) as url, contextlib.closing(Connection(url, APP_KEY)) as app:
        opened = app.post("/v1/episodes", {"user": "ann of the secret name"})
        sent = {"token": opened["token"], **episode(0)}
        app.post(f"/v1/episodes/{opened['episode']}/trajectory", sent)
    spans = collector.spans  # sent when the service ended, at the latest
    assert {"POST /v1/episodes", "POST /v1/episodes/{episode}/trajectory"} <= {span.name for span in spans}
    assert all({one.key for one in span.attributes} == ATTRIBUTES for span in spans)
    for secret in ("ann of", opened["episode"], json.dumps(sent["rewards"][0])):
        assert not any(secret.encode() in body for body in collector.bodies)


def test_they_are_off_by_default_and_need_their_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        assert client.app.state.tracing is None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match=r"reticent\[telemetry\]"):
        create_app(settings(tmp_path, telemetry="otlp"))


@pytest.mark.parametrize("chosen", ["off", "otlp"])
def test_the_framework_sends_nothing_of_its_own(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """Asked to by the environment, it would: paths with ids, and what is wrong with a body, message and all."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    with TestClient(create_app(settings(tmp_path, telemetry=chosen), begin=True), headers=APP) as client:
        identity = "c" * 32
        client.post("/v1/episodes", json={"user": "ann", "episode": identity})
        client.post("/v1/episodes", json={"user": "ann", "episode": "no id"})
        client.get(f"/v1/episodes/{identity}")
    assert all(identity.encode() not in body and b"fastapi" not in body.lower() for body in collector.bodies)
    assert len(collector.spans) == (0 if chosen == "off" else 3)
