"""Whatever is sent, the answer is a 4xx problem and the database stays as it was."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from durable import MODEL, episode
from reticent.service.app import create_app
from reticent.service.storage.tables import METADATA
from serving import ADMIN, APP, settings

JUNK: list[Any] = [
    None, True, -1, 2**31, 10**400, 0.5, 1e308, float("nan"), float("inf"), -float("inf"), "", "\ud800", "é" * 600,
    [], [[]], [None], {}, {"a": 1}, [0] * 40, ["0"], [float("nan")] * 8, [1.0000001] * 8, [-1e-9] * 8,
]  # fmt: skip
ELEMENTS: list[Any] = [None, True, -1, 2**31, 10**400, float("nan"), float("inf"), -1e-300, 1.5, "0", "", [], {}]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path))) as found:
        yield found


def contents(client: TestClient) -> str:
    """A hash of every row of every table."""
    digest = hashlib.sha256()
    with client.app.state.deployment.store.read() as tx:
        for table in METADATA.sorted_tables:
            digest.update(repr(sorted(tx.execute(sa.select(table)).all(), key=repr)).encode())
    return digest.hexdigest()


def spoilt(draw: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """The body with one thing wrong."""
    field = draw.choice(sorted(body))
    kind = draw.choice(["missing", "unknown", "replaced", "element", "longer", "shorter"])
    if kind == "missing":
        return {key: value for key, value in body.items() if key != field}
    if kind == "unknown":
        return {**body, f"{field}x": 1}
    if kind == "replaced" or not isinstance(body[field], list):
        return {**body, field: draw.choice(JUNK)}
    values = list(body[field])
    if kind == "element":
        values[draw.randrange(len(values))] = draw.choice(ELEMENTS)
    return {**body, field: values + values[:1] if kind == "longer" else values[:-1] if kind == "shorter" else values}


def attack(client: TestClient, count: int) -> None:
    draw = random.Random(5)
    opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    identity, token = opened["episode"], opened["token"]
    before = contents(client)
    targets = [
        (f"/v1/episodes/{identity}/trajectory", {"token": token, **episode(0)}),
        (f"/v1/episodes/{identity}/actions", {"token": token, "step": 0, "state": 0}),
        (f"/v1/episodes/{identity}/report", {"token": token, "report": {"dtype": "<i8", "shape": [1], "data": ""}}),
        ("/v1/episodes", {"user": "bob", "episode": identity}),
    ]
    for number in range(count):
        path, body = targets[number % len(targets)]
        wrong = spoilt(draw, body)
        if path == "/v1/episodes":
            wrong["episode"] = wrong.get("episode") or identity  # bob's request would be right without ann's id
        content = json.dumps(wrong).encode()
        if number % 7 == 0:
            content = content[: draw.randrange(len(content) - 1)]
        if number % 11 == 0:
            content = bytes(draw.randrange(256) for _ in range(40))
        answer = client.post(path, content=content, headers={**APP, "Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (path, content, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "Traceback" not in answer.text
    assert contents(client) == before


def test_malformed_requests_change_nothing(client: TestClient) -> None:
    attack(client, 600)


@pytest.mark.verify
def test_ten_thousand_malformed_requests_change_nothing(client: TestClient) -> None:
    attack(client, 10_000)


def test_forged_and_foreign_tokens_are_refused(client: TestClient) -> None:
    ann = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    bob = client.post("/v1/episodes", json={"user": "bob"}, headers=APP).json()
    before = contents(client)
    payload, mark = ann["token"].split(".")
    for token, status in (
        (bob["token"], 404),
        (f"{payload}.{mark[:-2]}", 422),
        (f"{payload}A.{mark}", 422),
        (payload, 422),
        ("..", 422),
    ):
        path = f"/v1/episodes/{ann['episode']}/trajectory"
        answer = client.post(path, json={"token": token, **episode(0)}, headers=APP)
        assert answer.status_code == status
    assert contents(client) == before


def test_schemathesis_finds_no_server_error(client: TestClient) -> None:
    _fuzz(client, 15)


@pytest.mark.verify
def test_schemathesis_finds_no_server_error_in_many_examples(client: TestClient) -> None:
    _fuzz(client, 300)


def _fuzz(client: TestClient, examples: int) -> None:
    """Requests of every operation, as the document allows them and as it does not."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 14
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            _fuzz_operation(client, operation.as_strategy(generation_mode=mode), examples)


def _fuzz_operation(client: TestClient, strategy: Any, examples: int) -> None:
    import hypothesis

    @hypothesis.settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=strategy)
    def check(case: Any) -> None:
        answer = client.request(**_request(case, ADMIN if case.path.startswith("/v1/admin") else APP))
        # Whatever is sent, it is the sender's error.
        assert answer.status_code < 500

    try:
        check()
    except hypothesis.errors.Unsatisfiable:  # an operation without parameters cannot be asked for wrongly
        assert strategy is not None


def _request(case: Any, headers: dict[str, str]) -> dict[str, Any]:
    import urllib.parse

    path = case.path
    for name, value in (case.path_parameters or {}).items():
        path = path.replace("{" + name + "}", urllib.parse.quote(str(value), safe=""))
    body = {}
    if type(case.body).__name__ != "NotSet":
        body["content"] = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
    query = {key: str(value) for key, value in (case.query or {}).items()}
    return {
        "method": case.method, "url": path, "params": query,
        "headers": {**headers, "Content-Type": "application/json"}, **body,
    }  # fmt: skip


def test_the_model_is_small_enough_for_these_tests() -> None:
    assert MODEL.horizon == 8  # JUNK has lists of that length
