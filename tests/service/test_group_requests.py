# SPDX-License-Identifier: Apache-2.0
"""Many users in one request: each is answered as if she had come alone, and nobody stands in another's way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from durable import MODEL, episode
from fastapi.testclient import TestClient
from serving import APP, settings
from sqlalchemy.exc import OperationalError

from reticent.service.http.app import create_app
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.enrolment import issue
from reticent.service.store import records
from reticent_wire import arrays

LOCAL = "private-linopt-po:first=4,growth=1,trust=local"


@contextlib.contextmanager
def serving(where: Path, **given: Any) -> Iterator[TestClient]:
    where.mkdir(exist_ok=True)
    app = create_app(settings(where, planning="background", **given), begin=True)
    with TestClient(app, headers=APP) as client:
        yield client


def service_of(client: TestClient) -> Deployment:
    found: Deployment = client.app.state.deployment  # type: ignore[attr-defined]
    return found


def together(client: TestClient, kind: str, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    field, answered = {"episodes": ("users", "opened")}.get(kind, (kind, "receipts"))
    answer = client.post(f"/v1/groups/{kind}", json={field: members})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()[answered]
    return found


def come(client: TestClient, count: int) -> list[dict[str, Any]]:
    return together(client, "episodes", [{"user": f"user {n}", "episode": f"{n:032x}"} for n in range(count)])


def sums(client: TestClient) -> dict[int, np.ndarray]:
    service = service_of(client)
    with service.store.read() as tx:
        rows = records.unreleased(tx)
    return {row.number: service._total(row.number, row.total) for row in rows}


def played(opened: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"episode": one["episode"], "token": one["token"], **episode(number)}
        for number, one in enumerate(opened)
        if one["learning"]
    ]


def test_a_group_gets_what_its_members_get_by_themselves(tmp_path: Path) -> None:
    with serving(tmp_path / "alone") as client:
        bodies = [{"user": f"user {n}", "episode": f"{n:032x}"} for n in range(3)]
        alone = [client.post("/v1/episodes", json=body).json() for body in bodies]
        for member in played(alone):
            identity = member.pop("episode")
            assert client.post(f"/v1/episodes/{identity}/trajectory", json=member).status_code == 200
        expected = sums(client)
    with serving(tmp_path / "together") as client:
        opened = come(client, 3)
        receipts = together(client, "trajectories", played(opened))
        found = sums(client)
    bound = ("token", "expires_at")  # to the deployment, and to the moment
    assert [{k: v for k, v in one.items() if k not in bound} for one in opened] == [
        {k: v for k, v in one.items() if k not in bound} for one in alone
    ]
    assert receipts == [{"episode": f"{n:032x}", "status": "counted", "version": 0} for n in range(3)]
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[0].any()


def test_members_are_refused_by_themselves(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        come(client, 1)
        opened = together(
            client, "episodes",
            [{"user": "thief", "episode": "0" * 32}, {"user": "bob", "episode": "b" * 32}, {"user": "user 0"}],
        )  # fmt: skip
        assert (opened[0]["type"], opened[0]["status"]) == ("urn:reticent:problem:episode-taken", 409)
        assert opened[1]["learning"]
        assert opened[2]["reason"] == "user-already-counted"
        good = played([opened[1]])[0]
        bad = [
            {**good, "token": good["token"][:-2] + "AA"},
            {**good, "episode": "c" * 32},
            {**good, "states": good["states"][:-1]},
            {**good, "token": opened[2]["token"], "episode": opened[2]["episode"]},
        ]
        answers = together(client, "trajectories", [bad[0], good, *bad[1:]])
        kinds = [one.get("type", one["status"]).removeprefix("urn:reticent:problem:") for one in answers]
        assert kinds == ["invalid-input", "counted", "unknown-episode", "invalid-input", "not-learning"]
        assert (answers[0]["field"], answers[3]["field"]) == ("token", "states.shape")
        assert sums(client)[0].any()


def test_what_a_member_did_shows_in_nobodys_answer(tmp_path: Path) -> None:
    """Neighbouring groups: one member's values are ordinary, or out of every range. All answers are the same bytes."""
    answers = []
    for name, states, rewards in (("ordinary", 0, 0.5), ("hostile", -(2**63), 1e300)):
        with serving(tmp_path / name) as client:
            members = played(come(client, 3))
            members[1]["states"] = [states] * (MODEL.horizon + 1)
            members[1]["actions"] = [2**63 - 1 if states else 0] * MODEL.horizon
            members[1]["rewards"] = [rewards] * MODEL.horizon
            answers.append(together(client, "trajectories", members))
    assert answers[0] == answers[1]
    assert {one["status"] for one in answers[0]} == {"counted"}


def test_a_group_that_is_sent_again_counts_once_and_shares_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, episodes=64) as client:
        made: list[str] = []
        for name in ("count_admissions", "mark_counted"):  # once in every transaction of its kind
            real = getattr(records, name)
            monkeypatch.setattr(records, name, lambda *given, n=name, r=real: (made.append(n), r(*given))[1])
        opened = come(client, 40)
        members = played(opened)
        first = together(client, "trajectories", members)
        assert made == ["count_admissions", "mark_counted"]
        before = sums(client)
        assert come(client, 40) == opened  # tokens and all
        assert together(client, "trajectories", members + members[:2]) == first + first[:2]
        after = sums(client)
        assert {number: total.tolist() for number, total in before.items() if number in after} == {
            number: total.tolist() for number, total in after.items()
        }
        assert service_of(client).clock()[0].admitted == 40


def test_reports_of_the_local_model(tmp_path: Path) -> None:
    with serving(tmp_path, agent=LOCAL) as client:
        opened = come(client, 3)
        one_each = (service_of(client).configuration.noise_scale > 0).astype(np.int64)
        members = [
            {
                "episode": one["episode"],
                "token": one["token"],
                "report": arrays.to_json(one_each * 10**n),
            }
            for n, one in enumerate(opened)
        ]
        members[1]["report"] = arrays.to_json(np.ones((1, 1), np.int64))
        receipts = together(client, "reports", members)
        assert [one["status"] for one in receipts] == ["counted", 422, "counted"]
        np.testing.assert_array_equal(sums(client)[0], one_each * 101)
        refused = together(client, "trajectories", played(opened))
        assert {one["type"] for one in refused} == {"urn:reticent:problem:wrong-trust"}


def test_only_whom_the_backend_vouches_for_is_admitted(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    with serving(tmp_path, enrolment_key=key.public_key().public_bytes_raw().hex()) as client:
        word = {"enrolment": issue(key, "ann", 1e12)}
        opened = together(client, "episodes", [{"user": "bob"}, {"user": "ann", **word}, {"user": "eve", **word}])
        assert [one.get("status") for one in opened] == [403, None, 403]
        assert opened[1]["learning"]
        assert service_of(client).clock()[0].admitted == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("episodes", {"users": []}),
        ("episodes", {"users": [{"user": f"user {n}"} for n in range(257)]}),
        ("episodes", {"users": [{"user": "ann"}, {"user": 1}]}),
        ("trajectories", {"trajectories": [{"episode": "0" * 32, "token": "x"}]}),
        ("reports", {"reports": [], "more": 1}),
    ],
)
def test_a_malformed_group_changes_nothing(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    with serving(tmp_path) as client:
        for kind in ("application/json", "application/json; charset=utf-8"):  # the short way, and the framework's
            answer = client.post(f"/v1/groups/{path}", json=body, headers={"Content-Type": kind})
            assert answer.status_code == 422
            assert answer.json()["field"]
        assert service_of(client).clock()[0].admitted == 0


def test_a_store_that_fails_is_the_whole_groups_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as client:

        def broken(*_: Any, **__: Any) -> None:
            raise OperationalError("a statement", {}, Exception("the disk is full"))

        with monkeypatch.context() as patch:
            patch.setattr(records, "count_users", broken)
            answer = client.post("/v1/groups/episodes", json={"users": [{"user": "ann"}, {"user": "bob"}]})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert [one["learning"] for one in come(client, 2)] == [True, True]
