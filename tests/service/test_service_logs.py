# SPDX-License-Identifier: Apache-2.0
"""Lines of the log: one JSON object each, with the request's id and without anybody's data."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from pathlib import Path

import pytest
from durable import episode
from fastapi.testclient import TestClient
from serving import APP, settings

from reticent.errors import InvalidInput
from reticent.service.config import from_environment
from reticent.service.http.app import create_app
from reticent.service.processes import logs
from reticent.service.processes.logs import JsonLines, PlainLines, configuration
from reticent.service.store import records


def test_every_answer_has_its_requests_id(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        assert client.get("/v1/status", headers={"X-Request-ID": "call-17"}).headers["x-request-id"] == "call-17"
        assert client.get("/v1/nowhere", headers={"X-Request-ID": "a.b_c"}).headers["x-request-id"] == "a.b_c"
        assert len(client.get("/v1/status").headers["x-request-id"]) == 32
        for strange in ("x" * 65, "two words", "line\tbreak", '"quoted"'):
            refused = client.post("/v1/episodes", headers={"X-Request-ID": strange})
            assert refused.status_code == 401
            assert len(refused.headers["x-request-id"]) == 32


def test_a_fault_is_one_line_with_the_requests_id_and_no_data(tmp_path: Path) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("reticent.service")
    log.addHandler(handler)
    try:
        with TestClient(create_app(settings(tmp_path), begin=True)) as client:
            service = client.app.state.deployment  # type: ignore[attr-defined]
            opened = client.post("/v1/episodes", json={"user": "ann of the secret name"}, headers=APP).json()
            with service.store.write() as tx:
                records.set_total(tx, 0, records.round_of(tx, 0).total[:-1])
            answer = client.post(
                f"/v1/episodes/{opened['episode']}/trajectory",
                json={"token": opened["token"], **episode(0)}, headers={**APP, "X-Request-ID": "broken-1"},
            )  # fmt: skip
            assert answer.status_code == 503
    finally:
        log.removeHandler(handler)
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines() if "does not open" in text]
    assert (line["request"], line["level"], line["logger"]) == ("broken-1", "critical", "reticent.service")
    assert line["time"].endswith("Z")
    assert "ann" not in lines.getvalue()


def test_the_configuration_is_one_that_logging_accepts(capfd: pytest.CaptureFixture[str]) -> None:
    loggers = {name: logging.getLogger(name) for name in ("reticent.service", "uvicorn", "uvicorn.error")}
    before = {name: (one.handlers[:], one.level, one.propagate) for name, one in loggers.items()}
    try:
        logging.config.dictConfig(configuration("json"))
        try:
            raise ValueError("a user's reward of 0.25")
        except ValueError:
            loggers["reticent.service"].exception("it failed")
        loggers["reticent.service"].info("too quiet to be heard")
        said = json.loads(capfd.readouterr().err)
        assert (said["message"], said["error"]) == ("it failed", "ValueError")
    finally:
        for name, (handlers, level, propagate) in before.items():
            loggers[name].handlers, loggers[name].level, loggers[name].propagate = handlers, level, propagate
            loggers[name].setLevel(level)
    record = logging.LogRecord("reticent.service", logging.ERROR, "", 0, "the store failed with %s", ("X",), None)
    assert PlainLines().format(record) == "error: the store failed with X"


def test_a_stranger_who_sends_nonsense_fills_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kind of line so many are logged in a minute, and then how many were not; other kinds are not kept back."""
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    few = logs.FewOfAKind()

    def logged(message: str, *values: object) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, message, values, None)
        return record.getMessage() if few.filter(record) else None

    heard = [logged("Invalid request %s", number) for number in range(1000)]
    assert sum(line is not None for line in heard) == logs.MOST_LINES
    assert logged("the store failed") == "the store failed"
    now[0] += logs.WINDOW + 1
    assert (
        logged("Invalid request %s", 7) == f"Invalid request 7 ({1000 - logs.MOST_LINES} more of these were not logged)"
    )
    assert logged("Invalid request %s", 8) == "Invalid request 8"
    assert "few" in configuration("json")["handlers"]["stderr"]["filters"]


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("a key\n")
    assert from_environment("RETICENT_APP_KEY", {"RETICENT_APP_KEY_FILE": str(file)}) == "a key"
    assert from_environment("RETICENT_APP_KEY", {"RETICENT_APP_KEY": "plain"}) == "plain"
    assert from_environment("RETICENT_APP_KEY", {}) is None
    with pytest.raises(InvalidInput, match="set once"):
        from_environment("RETICENT_APP_KEY", {"RETICENT_APP_KEY": "plain", "RETICENT_APP_KEY_FILE": str(file)})
    with pytest.raises(InvalidInput, match="readable"):
        from_environment("RETICENT_APP_KEY", {"RETICENT_APP_KEY_FILE": str(tmp_path / "missing")})
