# SPDX-License-Identifier: Apache-2.0
"""Whatever is malformed, the answer is a 4xx problem and the database stays as it was; a user's values are clipped."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from durable import MODEL, episode, open_sum
from fastapi.testclient import TestClient
from serving import ADMIN, APP, settings

from reticent.service.http.app import create_app
from reticent.service.store.tables import METADATA

JUNK: list[Any] = [
    None, True, -1, 2**31, 10**400, 0.5, 1e308, float("nan"), float("inf"), -float("inf"), "", "\ud800", "é" * 600,
    [], [[]], [None], {}, {"a": 1}, [0] * 40, ["0"], [float("nan")] * 8, [1.0000001] * 8, [-1e-9] * 8,
]  # fmt: skip
ELEMENTS: list[Any] = [None, True, -1, 2**31, 10**400, float("nan"), float("inf"), -1e-300, 1.5, "0", "", [], {}]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path), begin=True)) as found:
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


def has_public_form(body: dict[str, Any]) -> bool:
    """Whether a trajectory has the lengths and kinds of numbers of one, whatever its values are."""
    lengths = {"states": MODEL.horizon + 1, "actions": MODEL.horizon, "rewards": MODEL.horizon}
    if body.keys() != {"token", *lengths} or not isinstance(body["token"], str):
        return False
    for field, length in lengths.items():
        values = body[field]
        if not isinstance(values, list) or len(values) != length:
            return False
        if not all(is_number(value) for value in values):
            return False
    return True


def is_number(value: Any) -> bool:
    """Whether JSON says a number or a truth value, or null where a program has one that JSON cannot say."""
    return value is None or isinstance(value, int | float)


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
        while wrong.get("token") == token and (
            (path.endswith("/trajectory") and has_public_form(wrong))
            or (path.endswith("/actions") and wrong.keys() == body.keys() and is_number(wrong["state"]))
        ):
            wrong = spoilt(draw, body)  # her values may be anything: see below
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


@pytest.mark.parametrize(
    ("field", "value", "taken_for"),
    [
        ("rewards", 1.5, 1.0),
        ("rewards", -1e-9, 0.0),
        ("rewards", 1e308, 1.0),
        ("rewards", 7, 1.0),
        ("rewards", float("nan"), 0.0),
        ("rewards", float("inf"), 1.0),
        ("rewards", -float("inf"), 0.0),
        ("states", -1, 0),
        ("states", MODEL.states, MODEL.states - 1),
        ("rewards", None, 0.0),
        ("rewards", 10**400, 1.0),
        ("rewards", "long", 1.0),
        ("states", "long", MODEL.states - 1),
        ("states", 2**63 - 1, MODEL.states - 1),
        ("states", 2**63, MODEL.states - 1),
        ("states", -(10**400), 0),
        ("states", 1e300, MODEL.states - 1),
        ("states", None, 0),
        ("actions", float("nan"), 0),
        ("actions", -(2**63), 0),
        ("actions", 2**31, MODEL.actions - 1),
    ],
)
def test_values_out_of_range_are_clipped_and_count(client: TestClient, field: str, value: Any, taken_for: Any) -> None:
    """A refusal that depends on her data would be a release: her place would go to another."""
    service = client.app.state.deployment  # type: ignore[attr-defined]
    sums = []
    for user, instead in (("ann", value), ("bob", taken_for)):
        opened = client.post("/v1/episodes", json={"user": user}, headers=APP).json()
        body = {"token": opened["token"], **episode(0)}
        body[field] = [instead, *body[field][1:]]
        before = open_sum(service)
        content = json.dumps(body).replace('"long"', "9" * 5000).encode()
        path = f"/v1/episodes/{opened['episode']}/trajectory"
        answer = client.post(path, content=content, headers={**APP, "Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["status"]) == (200, "counted"), answer.text
        sums.append(open_sum(service) - before)
    assert sums[0].any()
    np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize(
    ("state", "taken_for"),
    [
        (-1, 0), (-(2**63), 0), (-(10**400), 0), (float("nan"), 0), (None, 0), (MODEL.states, -1), (2**31, -1),
        (2**63, -1), (10**400, -1), (1e300, -1), (float("inf"), -1), ("long", -1),
    ],
)  # fmt: skip
def test_a_state_out_of_range_is_answered_as_the_nearest_one(client: TestClient, state: Any, taken_for: int) -> None:
    """Where a user is, is theirs: the same status, body and headers as in a state that exists."""
    opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    answers = []
    for given in (state, taken_for % MODEL.states):
        for kind in ("application/json", "application/json; charset=utf-8"):
            content = json.dumps({"token": opened["token"], "step": 1, "state": given})
            content = content.replace('"long"', "9" * 5000)
            headers = {**APP, "Content-Type": kind, "X-Request-ID": "one"}
            answer = client.post(f"/v1/episodes/{opened['episode']}/actions", content=content.encode(), headers=headers)
            answers.append((answer.status_code, answer.content, sorted(answer.headers.items())))
    assert answers[0][0] == 200
    assert answers.count(answers[0]) == 4


def test_an_empty_contribution_counts_and_adds_nothing(client: TestClient) -> None:
    service = client.app.state.deployment  # type: ignore[attr-defined]
    opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    before, path = open_sum(service), f"/v1/episodes/{opened['episode']}"
    answer = client.post(f"{path}/empty", json={"token": opened["token"]}, headers=APP)
    assert answer.json() == {"episode": opened["episode"], "status": "counted", "version": 0}
    again = client.post(f"{path}/trajectory", json={"token": opened["token"], **episode(0)}, headers=APP)
    assert again.json() == answer.json()  # she was counted, once
    np.testing.assert_array_equal(open_sum(service), before)


def test_no_answer_quotes_a_users_values(client: TestClient) -> None:
    opened = client.post("/v1/episodes", json={"user": "ann"}, headers=APP).json()
    token, path = opened["token"], f"/v1/episodes/{opened['episode']}"
    marked = {"token": token, **episode(0)}
    attempts = [
        ("actions", {"token": token, "step": 0, "state": [31337.5]}),
        ("actions", {"token": token, "step": 31337, "state": 0}),
        ("actions", {"token": token, "step": 0, "state": "31337"}),
        ("trajectory", {**marked, "states": [31337]}),
        ("trajectory", {**marked, "rewards": [0.31337] * (MODEL.horizon + 1)}),
        ("trajectory", {**marked, "rewards": ["0.31337"] * MODEL.horizon}),
        ("trajectory", {**marked, "actions": ["31337.5"] * MODEL.horizon}),
    ]
    for name, body in attempts:
        answer = client.post(f"{path}/{name}", json=body, headers=APP)
        assert 400 <= answer.status_code < 500
        assert "31337" not in answer.text


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


@pytest.mark.verify
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
