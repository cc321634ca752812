# SPDX-License-Identifier: Apache-2.0
"""The fast path has no routing table of its own, and answers as the framework does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving import APP, settings

from reticent.service.http import episodes, fast_path, groups, operation, public_routes, schemas
from reticent.service.http.app import create_app

EXPECTED = {
    "/v1/episodes": (schemas.Open, 201),
    "/v1/episodes/{episode}/actions": (schemas.Act, 200),
    "/v1/episodes/{episode}/trajectory": (schemas.Trajectory, 200),
    "/v1/episodes/{episode}/empty": (schemas.Empty, 200),
    "/v1/episodes/{episode}/report": (schemas.Report, 200),
    "/v1/groups/episodes": (schemas.OpenAll, 200),
    "/v1/groups/trajectories": (schemas.Trajectories, 200),
    "/v1/groups/reports": (schemas.Reports, 200),
}
"""What every user's requests are; batches and the admin's routes are few and go the framework's way."""


def test_the_routes_are_the_frameworks() -> None:
    routers = (episodes.router, groups.router, public_routes.router, operation.router)
    found = fast_path.direct_routes(routers)
    assert {path: (route.schema, route.status) for path, route in found.items()} == EXPECTED


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path), begin=True), headers=APP, base_url="http://127.0.0.1") as opened:
        yield opened


def asked(client: TestClient, episode: str) -> list[tuple[int, Any]]:
    """One episode, a retry of its end, what is malformed, and a template in the place of a path."""
    opened = client.post("/v1/episodes", json={"user": "ann", "episode": episode})
    token, path = opened.json().get("token"), f"/v1/episodes/{episode}"
    ended = [client.post(f"{path}/empty", json={"token": token}) for _ in range(2)]
    wrong = [
        client.post(f"{path}/empty", json={"token": token, "more": 1}),
        client.post(f"{path}/nothing", json={}),
        client.post(f"{path[:-1]}/empty", json={"token": token}),
        client.post("/v1/episodes/{episode}/empty", json={"token": token}),
    ]
    acted = client.post(f"{path}/actions", json={"token": token, "step": 0, "state": 0})
    answers = [opened, *ended, acted, *wrong]
    varying = ("token", "expires_at")
    return [
        (answer.status_code, {key: value for key, value in answer.json().items() if key not in varying})
        for answer in answers
    ]


def test_it_answers_as_the_framework_does(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = asked(client, "0" * 32)
    monkeypatch.setattr(fast_path, "direct_routes", lambda routers: {})
    (tmp_path / "plain").mkdir()
    with TestClient(
        create_app(settings(tmp_path / "plain"), begin=True), headers=APP, base_url="http://127.0.0.1"
    ) as plain:
        assert asked(plain, "0" * 32) == quick
    assert [status for status, _ in quick] == [201, 200, 200, 200, 422, 404, 422, 422]
