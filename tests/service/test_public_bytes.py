# SPDX-License-Identifier: Apache-2.0
"""What the world can read does not move when one admitted user's episode comes, byte for byte, until a release does.

Whether she came back, when, and with what is hers. So every public answer is read, an episode is submitted (or not, or
late, or twice, or wrong), and all of it is read again under a clock that stands still.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from durable import AGENT, MODEL, episode
from fastapi.testclient import TestClient
from serving import ADMIN, APP, settings

from reticent.service.http.app import create_app
from reticent.service.http.event_streams import EventStreams
from reticent_wire import arrays

READ = (
    "/v1/billboard", "/v1/billboards/0", "/v1/model", "/v1/names", "/v1/round",
    "/v1/status", "/v1/ledger", "/v1/health", "/v1/health/live", "/v1/health/ready", "/v1/diagnostics",
    "/v1/diagnostics/0", "/metrics", "/openapi.json", "/v1/transparency", "/", "/dashboard", "/dashboard/dashboard.js",
)  # fmt: skip
"""An address of every public route; the stream of events is read apart."""

ARRAY = {"dtype", "shape", "data"}
FIELDS: dict[str, set[str]] = {
    "/v1/status": {
        "version", "served_version", "admitted", "episodes", "rounds", "releases", "round_ends", "open_round",
        "lost_rounds", "restores", "recorded",
        "canaries", "learning", "halted", "fallback", "control_share", "control_version", "device_acts",
        "finished", "trust", "agent", "world", "method", "counter", "contributions", "pan_private", "epsilon", "delta",
        "epsilon_spent", "promise", "not_covered",
    },
    "/v1/ledger": {
        "epsilon", "delta", "adjacency", "trust", "contributions", "pan_private", "noise_factor", "releases",
        "next", "entries", "shares",
    },
    "/v1/health": {"status", "version", "problems"},
    "/v1/transparency": {"deployment", "public_key", "head", "entries", "next"},
    "/v1/diagnostics": {"version", "users", "signal", "value", "fit"},
    "/v1/billboard": {
        "version", "method", "horizon", "states", "actions", "floor", "form", "policy", "report", "values",
        "final", "model",
    },
    "/v1/names": {"states", "actions", "history"},
    "/v1/round": {"round", "reference"},
    "/v1/model": {
        "digest", "horizon", "states", "actions", "d1", "d2", "trust", "transition_features", "successors",
        "reward_features", "initial", "report",
    },
}  # fmt: skip
"""Everything that may be published. Whoever adds a field says here that it does not depend on one user's data."""

METRICS = {
    "reticent_admitted_users", "reticent_horizon_users", "reticent_policy_version", "reticent_releases_planned",
    "reticent_epsilon_spent", "reticent_epsilon_promised", "reticent_delta", "reticent_learning", "reticent_finished",
    "reticent_info", "reticent_lost_rounds",
}  # fmt: skip


@pytest.fixture(params=["joint", "local"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    agent = AGENT if request.param == "joint" else f"{AGENT},trust=local"
    with TestClient(create_app(settings(tmp_path, agent=agent), begin=True)) as opened:
        context = opened.app.state.deployment.context  # type: ignore[attr-defined]
        context.now = context.expiry_time = lambda: 1_000_000.0
        yield opened


def everything(client: TestClient) -> dict[str, Any]:
    """Every public answer: status, headers and bytes; and what the stream of events says first."""
    answers: dict[str, Any] = {}
    for path in READ:
        answer = client.get(path, headers={"X-Request-ID": "the-same"})  # a random one is made up otherwise
        assert answer.status_code == 200, path
        answers[path] = (answer.status_code, sorted(answer.headers.items()), answer.content)

    async def first() -> str:
        stream = EventStreams(client.app.state.deployment, "a world", 8).follow("a reader")  # type: ignore[attr-defined]
        try:
            return await anext(stream)
        finally:
            await stream.aclose()

    answers["/v1/events"] = asyncio.run(first())
    return answers


def admit(client: TestClient, user: int) -> dict[str, Any]:
    return client.post("/v1/episodes", json={"user": f"user {user}"}, headers=APP).json()


def body(client: TestClient, opened: dict[str, Any], seed: int) -> tuple[str, dict[str, Any]]:
    """What she sends: her episode, or in the local model a report."""
    mechanism = client.app.state.deployment.mechanism  # type: ignore[attr-defined]
    path = f"/v1/episodes/{opened['episode']}"
    if mechanism.wire == "trajectory":
        return f"{path}/trajectory", {"token": opened["token"], **episode(seed)}
    report = np.random.default_rng(seed).integers(-1000, 1000, mechanism.noise_scale.shape)
    report = np.clip(report, -mechanism.report_limit, mechanism.report_limit)
    return f"{path}/report", {"token": opened["token"], "report": arrays.to_json(report)}


def send(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    path, content = body(client, opened, seed)
    assert client.post(path, json=content, headers=APP).status_code == 200


def send_twice(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    send(client, opened, seed)
    send(client, opened, seed + 1)


def send_nonsense(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    path, content = body(client, opened, seed)
    assert client.post(path, json={**content, "more": 1}, headers=APP).status_code == 422
    assert client.post(path, content=b"{", headers=APP).status_code == 422


def act_and_leave(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    place = {"token": opened["token"], "step": 0, "state": seed % MODEL.states}
    assert client.post(f"/v1/episodes/{opened['episode']}/actions", json=place, headers=APP).status_code == 200


def come_too_late(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    deployment = client.app.state.deployment  # type: ignore[attr-defined]
    stands, deployment.context.expiry_time = deployment.context.expiry_time, lambda: 1e12
    path, content = body(client, opened, seed)
    assert client.post(path, json=content, headers=APP).status_code == 410
    assert deployment.expire() >= 1
    deployment.context.expiry_time = stands


def be_erased(client: TestClient, opened: dict[str, Any], seed: int) -> None:
    """Having come back (an odd user) or not; what she sends afterwards counts nothing."""
    if seed % 2:
        send(client, opened, seed)
    answer = client.post("/v1/admin/erase", json={"user": f"user {seed}"}, headers=ADMIN)
    assert (answer.status_code, answer.json()["episodes"]) == (200, 1)
    path, content = body(client, opened, seed)
    assert client.post(path, json=content, headers=APP).status_code == 200


WAYS = (send, send_twice, send_nonsense, act_and_leave, come_too_late, be_erased)


@pytest.mark.parametrize("way", WAYS)
def test_every_public_byte_is_the_same_until_a_release(client: TestClient, way: Callable[..., None]) -> None:
    """In the first round, in the middle of the second, and for the last user of a round, who does not end it."""
    for user in range(8):
        opened = admit(client, user)
        watched = user in (0, 3, 6, 7)
        before = everything(client) if watched else {}
        way(client, opened, user)
        after = everything(client) if watched else {}
        assert [path for path in before if before[path] != after[path]] == []
    # The check can see: the admission that ends a round changes what is published.
    before = everything(client)
    admit(client, 8)
    after = everything(client)
    assert before["/v1/billboard"] != after["/v1/billboard"]
    assert before["/v1/status"] != after["/v1/status"]


def test_nothing_is_published_that_is_not_on_the_list(client: TestClient) -> None:
    for user in range(5):
        send(client, admit(client, user), user)
    for path, allowed in FIELDS.items():
        assert client.get(path).json().keys() == allowed, path
    entry, share = (client.get("/v1/ledger").json()[name][0] for name in ("entries", "shares"))
    assert entry.keys() == {"round", "episode", "mu_squared", "epsilon", "remaining", "released", "digest"}
    assert share.keys() == {"name", "step", "sensitivity", "sigma"}
    assert all(array.keys() == ARRAY for array in client.get("/v1/billboard").json()["report"].values())
    assert client.get("/v1/model").json()["report"].keys() == {
        "form", "grid", "noise_scale", "feature_bound", "target_low", "target_high", "reward_bound", "reward_low",
        "reward_high", "reward_basis", "reward_centre", "nonnegative_rewards", "shuffle", "limit", "digest",
    }  # fmt: skip
    names = set(re.findall(r"^# TYPE (\S+) ", client.get("/metrics").text, re.MULTILINE))
    assert names == METRICS
    said = json.loads(everything(client)["/v1/events"].partition("\ndata: ")[2])
    assert said.keys() == FIELDS["/v1/status"]


def test_every_public_route_is_read(client: TestClient) -> None:
    """Of all GET routes but the admin's; a new one must be added to the list above."""
    patterns = [
        re.sub(r"\{[^}]*\}", "[^/]+", route.path)
        for route in _flat(client.app.routes)  # type: ignore[attr-defined]
        if "GET" in (route.methods or ()) and "/admin/" not in route.path
    ]
    assert len(patterns) > 10
    for pattern in patterns:
        assert any(re.fullmatch(pattern, path) for path in (*READ, "/v1/events")), pattern


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes, and those of included routers."""
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None:
            yield from _flat(inner.routes)
        else:
            yield route
