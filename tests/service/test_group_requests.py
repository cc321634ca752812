# SPDX-License-Identifier: Apache-2.0
"""Many users in one request: each is answered as if she had come alone, and nobody stands in another's way."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from durable import MODEL, episode
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from serving import APP, settings
from sqlalchemy.exc import OperationalError

from reticent.service.http import members
from reticent.service.http.app import create_app
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.enrolment import issue
from reticent.service.rounds.submit import Sent
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
    return {row.number: service.context.total(row.number, row.total)._value for row in rows}


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


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


VALUES: dict[str, dict[str, str]] = {
    "a reward that is null": {"rewards": "[null" + ", 0.5" * 7 + "]"},
    "a reward that is NaN": {"rewards": "[NaN" + ", 0.5" * 7 + "]"},
    "a reward of a million digits' exponent": {"rewards": "[1e1000000" + ", 0.5" * 7 + "]"},
    "a reward of 400 digits": {"rewards": "[1" + "0" * 400 + ", 0.5" * 7 + "]"},
    "a reward of 5000 digits": {"rewards": "[" + "9" * 5000 + ", 0." + "3" * 5000 + ", 0.5" * 6 + "]"},
    "a state of 5000 digits": {"states": "[-1" + "0" * 5000 + ", 1" * 8 + "]"},
    "a state of 64 bits": {"states": "[9223372036854775808" + ", 1" * 8 + "]"},
    "a state of 65 bits": {"states": "[-36893488147419103232" + ", 1" * 8 + "]"},
    "a state as JavaScript writes a large one": {"states": "[1e+21" + ", 1" * 8 + "]"},
    "an action that is null": {"actions": "[null" + ", 1" * 7 + "]"},
    "a state with a fraction": {"states": "[0.5" + ", 1" * 8 + "]"},
    "rewards that are all truth values": {"rewards": "[false" + ", true" * 7 + "]"},
}
"""Numbers, whatever they are: clipped, and counted."""

FORMS: dict[str, dict[str, str]] = {
    "an empty episode": {"states": "[]", "actions": "[]", "rewards": "[]"},
    "a short episode": {"rewards": "[0.5]"},
    "text for a state": {"states": '["]}"' + ", 1" * 8 + "]"},
    "a list for a reward": {"rewards": "[[]" + ", 0.5" * 7 + "]"},
    "an object for all states": {"states": '{"a": [1, {"b": 2}]}'},
    "nested too deeply": {"states": deep(5000)},
    "a field more": {"more": '"it is \\"this\\", [and that}"'},
    "half of a character": {"token": '"\\ud800"'},
    "a number for the token": {"token": "7"},
    "an episode that is none": {"episode": '"x"'},
}
"""Other forms: her own problem, and nobody else's."""


def beyond(digits: str) -> int:
    """A whole number, also one that Python refuses to read."""
    return int(digits[:500])


MEMBERS = {"nothing": "null", "a number": "1e999", "text": '",{[]"', "a list": "[1, [2]]", "no fields": "{}"}


def written(member: dict[str, Any], changed: dict[str, str]) -> str:
    """A member as JSON, some of whose values are written as they are given."""
    fields = {key: json.dumps(value) for key, value in member.items()} | changed
    return "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in fields.items()) + "}"


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_the_form_of_a_member_is_the_members_own_problem(tmp_path: Path, database: str, kind: str) -> None:
    """Neighbouring groups that differ by one member's form: the others' answers are the same bytes, and all are counted."""
    cases = [*VALUES.items(), *FORMS.items(), *MEMBERS.items()]
    chosen = {"agent": "private-linopt-vi:first=200,growth=1", "episodes": 200, "rate_limit": 0}
    with serving(tmp_path, database=database, rollback_guard=tmp_path / "witness", **chosen) as client:
        service, honest = service_of(client), []
        users = played(come(client, 3 * len(cases)))
        for number, (name, changed) in enumerate(cases):
            ann, bob, eve = users[3 * number : 3 * number + 3]
            hers = changed if isinstance(changed, str) else written(bob, changed)
            body = f'{{"trajectories": [{json.dumps(ann)},{hers} , {json.dumps(eve)}]}}'
            headers = {"Content-Type": kind, "X-Request-ID": "one"}
            answer = client.post("/v1/groups/trajectories", content=body.encode(), headers=headers)
            assert answer.status_code == 200, (name, answer.text)
            first, second, third = answer.json()["receipts"]
            counted = {"status": "counted", "version": 0}
            assert (first, third) == ({"episode": ann["episode"], **counted}, {"episode": eve["episode"], **counted}), (
                name
            )
            assert second["status"] == ("counted" if name in VALUES else 422), (name, second)
            honest += [ann, eve, *([json.loads(hers, parse_int=beyond)] if name in VALUES else [])]
        board = service.billboard(0)
        formed = [
            service.configuration.played(Sent(one["states"], one["actions"], one["rewards"]), None) for one in honest
        ]
        expected = service.configuration.exact_contributions(board, formed).sum(axis=0)
        np.testing.assert_array_equal(sums(client)[0], expected)


@pytest.mark.parametrize("path", ["episodes", "reports"])
def test_members_of_other_groups_are_read_one_by_one_too(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, agent=LOCAL) as client:
        one_each = (service_of(client).configuration.noise_scale > 0).astype(np.int64)
        good: dict[str, Any] = {"user": "ann"}
        if path == "reports":
            opened = come(client, 1)[0]
            good = {"episode": opened["episode"], "token": opened["token"], "report": arrays.to_json(one_each)}
        field, answered = ("users", "opened") if path == "episodes" else ("reports", "receipts")
        bad = ["null", '{"user": 1}', "{}", deep(3000), '{"user": "%s"}' % ("x" * 300), '{"report": 1e400}']
        body = '{{"{}": [{}]}}'.format(field, ",".join([*bad, json.dumps(good)]))
        answer = client.post(f"/v1/groups/{path}", content=body, headers={"Content-Type": "application/json"})
        *refused, last = answer.json()[answered]
        assert answer.status_code == 200
        assert [one["status"] for one in refused] == [422] * len(bad)
        assert "type" not in last
        assert "xxx" not in answer.text


def test_a_member_may_be_there_twice_and_a_malformed_one_first(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        (member,) = played(come(client, 1))
        before = sums(client)[0]
        wrong = {**member, "states": []}
        answers = together(client, "trajectories", [wrong, member, wrong, member])
        assert [one["status"] for one in answers] == [422, "counted", 422, "counted"]
        once = sums(client)[0] - before
        together(client, "trajectories", [member] * 3)
        np.testing.assert_array_equal(sums(client)[0] - before, once)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a": []}', []), (b' { "a" : [ ] } ', []), (b'{"a": [1, 2]}', [b"1", b"2"]),
        (b'{"a": [{"b": [1, 2]}, "x,]"]}', [b'{"b": [1, 2]}', b'"x,]"']),
        (b'{"a": ["\\\\", "\\"]"]}', [b'"\\\\"', b'"\\"]"']), (b'{"a": ["\xff"]}', [b'"\xff"']),
        (b'{"b": []}', None), (b"[]", None), (b'{"a": [1]', None), (b'{"a": [1]} x', None), (b'{"a": ["x]}', None),
        (b'{"a": [1}}', None), (b'{"a": [1], "b": 2}', None), (b"", None),
    ],
)  # fmt: skip
def test_where_members_are_cut(body: bytes, found: list[bytes] | None) -> None:
    cut = members.cut(body, "a")
    assert (cut if cut is None else [one.strip() for one in cut]) == found


@given(
    st.lists(
        st.recursive(
            st.none() | st.text() | st.floats() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
        )
    )
)
def test_whatever_a_serialiser_writes_is_cut_where_members_end(several: list[Any]) -> None:
    for ascii_only in (True, False):
        body = json.dumps({"a": several}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        cut = members.cut(body, "a")
        assert cut is not None
        assert [repr(json.loads(one.decode("utf-8", "surrogatepass"))) for one in cut] == [repr(one) for one in several]


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
        ("episodes", {"users": {"user": "ann"}}),
        ("episodes", [{"user": "ann"}]),
        ("trajectories", {"reports": [{}]}),
        ("reports", {"reports": [{}], "more": 1}),
    ],
)
def test_a_malformed_group_changes_nothing(tmp_path: Path, path: str, body: Any) -> None:
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
