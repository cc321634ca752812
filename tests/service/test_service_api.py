# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface: what it answers, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from durable import MODEL, episode, open_sum
from fastapi.testclient import TestClient
from serving import ADMIN, APP, settings

from reticent.service.http.app import create_app
from reticent_wire import arrays


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path), begin=True)) as found:
        yield found


def open_episode(client: TestClient, user: str) -> dict:
    answer = client.post("/v1/episodes", json={"user": user, "episode": uuid.uuid4().hex}, headers=APP)
    assert answer.status_code == 201, answer.text
    return answer.json()


def submit(client: TestClient, opened: dict, body: dict) -> dict:
    path = f"/v1/episodes/{opened['episode']}/trajectory"
    answer = client.post(path, json={"token": opened["token"], **body}, headers=APP)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_users_act_submit_and_move_the_version(client: TestClient) -> None:
    first = client.get("/v1/billboard").json()
    policy = arrays.from_json("policy", first["policy"], dtype="<i4", shape=(MODEL.horizon, MODEL.states))
    for user in range(5):
        opened = open_episode(client, f"user {user}")
        if user < 4:
            path = f"/v1/episodes/{opened['episode']}/actions"
            action = client.post(path, json={"token": opened["token"], "step": 1, "state": 2}, headers=APP).json()
            assert action == {"action": int(policy[1, 2]), "probability": 1.0, "version": 0}
        receipt = submit(client, opened, episode(user))
        assert receipt == {"episode": opened["episode"], "status": "counted", "version": opened["version"]}
        assert submit(client, opened, episode(user + 100)) == receipt
    status = client.get("/v1/status").json()
    assert (status["version"], status["admitted"], status["served_version"]) == (1, 5, 1)
    ledger = client.get("/v1/ledger").json()
    assert [entry["released"] for entry in ledger["entries"]] == [True, False, False]
    assert ledger["entries"][-1]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    for path in ("/v1/billboard", "/v1/billboards/0", "/v1/model"):
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert len({client.get(f"/v1/billboards/{version}").headers["etag"] for version in (0, 1)}) == 2
    assert client.get("/v1/billboards/0").json() == first
    assert client.get("/v1/billboards/2").status_code == 404
    model = client.get("/v1/model").json()
    assert model["digest"] == first["model"]
    assert model["report"]["digest"] == open_episode(client, "user 0")["rules"]
    shape = (MODEL.d1, MODEL.states, MODEL.actions, MODEL.states)
    features = arrays.from_json("", model["transition_features"], dtype="<f8", shape=shape)
    np.testing.assert_array_equal(features, MODEL.transition_features)
    assert "reticent_admitted_users 5.0" in client.get("/metrics").text
    hidden = client.get("/v1/admin/status", headers=ADMIN).json()
    assert (hidden["open_episodes"], hidden["sealed_rounds_waiting"]) == (0, 0)
    assert client.get("/v1/health").json() == {"status": "ok", "version": 1, "problems": []}


def test_a_repeated_opening_gets_the_same_answer_and_a_returning_user_is_served_only(client: TestClient) -> None:
    opened = open_episode(client, "ann")
    again = client.post("/v1/episodes", json={"user": "ann", "episode": opened["episode"]}, headers=APP)
    assert again.json() == opened
    stolen = client.post("/v1/episodes", json={"user": "bob", "episode": opened["episode"]}, headers=APP)
    assert (stolen.status_code, stolen.json()["type"]) == (409, "urn:reticent:problem:episode-taken")
    later = open_episode(client, "ann")
    assert (later["learning"], later["reason"]) == (False, "user-already-counted")
    path = f"/v1/episodes/{later['episode']}/trajectory"
    refused = client.post(path, json={"token": later["token"], **episode(0)}, headers=APP)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:reticent:problem:not-learning")
    assert client.get("/v1/status").json()["admitted"] == 1


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/admin/status", {}, 401),
        ("/v1/admin/status", APP, 403),
        ("/v1/admin/status", ADMIN, 200),
        ("/v1/status", {}, 200),
        ("/v1/nothing", APP, 404),
    ],
)
def test_keys_open_what_they_should(client: TestClient, path: str, headers: dict, status: int) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status


def test_a_key_is_needed_to_read_where_reads_are_not_public(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path, public_reads=False), begin=True)) as client:
        for path in ("/v1/status", "/v1/billboard", "/v1/model", "/v1/ledger", "/metrics", "/openapi.json"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers=APP).status_code == 200
        assert client.get("/v1/health").status_code == 200


def test_bodies_and_callers_are_limited(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path, body_limit=2048), begin=True)) as client:
        large = json.dumps({"user": "x" * 4000}).encode()
        assert client.post("/v1/episodes", content=large, headers=APP).status_code == 413
        pieces = (large[at : at + 500] for at in range(0, len(large), 500))
        assert client.post("/v1/episodes", content=pieces, headers=APP).status_code == 413
    with TestClient(create_app(settings(tmp_path, rate_limit=0.05))) as client:
        codes = [client.get("/v1/health").status_code for _ in range(3)]
        assert codes == [200, 429, 429]  # a token every twenty seconds


def test_the_stream_tells_the_status_at_once(tmp_path: Path) -> None:
    import asyncio

    from reticent.service.http.app import make_deployment
    from reticent.service.http.event_streams import EventStreams

    deployment = make_deployment(settings(tmp_path), begin=True)

    async def first() -> str:
        stream = EventStreams(deployment, None, 8).follow("a reader")
        try:
            return await anext(stream)
        finally:
            await stream.aclose()

    told = asyncio.run(first())
    deployment.store.close()
    assert told.startswith("event: status\nid: 0\ndata: {")
    assert json.loads(told.partition("\ndata: ")[2])["admitted"] == 0


def test_one_user_through_two_app_keys_counts_once(tmp_path: Path) -> None:
    """Who a user is does not depend on which app says so: one tombstone, one place, one contribution."""
    second = "another app's key of the tests, long enough"
    chosen = settings(tmp_path, app_key_sha256=[hashlib.sha256(second.encode()).hexdigest()])
    with TestClient(create_app(chosen, begin=True)) as client:
        service = client.app.state.deployment  # type: ignore[attr-defined]
        opened = []
        for headers in (APP, {"Authorization": f"Bearer {second}"}, ADMIN):
            answer = client.post("/v1/episodes", json={"user": "ann"}, headers=headers)
            assert answer.status_code == 201, answer.text
            opened.append((answer.json(), headers))
        assert [(one["learning"], one["reason"]) for one, _ in opened] == [
            (True, None), (False, "user-already-counted"), (False, "user-already-counted"),
        ]  # fmt: skip
        first, _ = opened[0]
        added = []
        for _, headers in opened:  # the same episode through either key is one, too
            path = f"/v1/episodes/{first['episode']}/trajectory"
            sent = client.post(path, json={"token": first["token"], **episode(0)}, headers=headers)
            assert sent.json()["status"] == "counted"
            added.append(open_sum(service))
        assert added[0].any()
        np.testing.assert_array_equal(added[0], added[-1])
        assert client.get("/v1/status").json()["admitted"] == 1
