# SPDX-License-Identifier: Apache-2.0
"""Strangers at the gate: what they cost, what they see, and what a key is good for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from durable import episode
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from held_up import stopped
from running_service import running_service
from serving import ADMIN, APP, KEYS, READER, SHUFFLER, settings

from reticent.errors import InvalidInput
from reticent.service.config import Settings
from reticent.service.http import app as service
from reticent.service.http import rates
from reticent.service.http.app import create_app
from reticent.service.http.security import need_of
from reticent.service.keys import Keys
from reticent.service.processes import worker
from reticent.service.rounds.enrolment import issue

STRANGER = {"Authorization": "Bearer nobody's key"}


@contextlib.contextmanager
def serving(tmp_path: Path, **given: Any) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path, **given), begin=True)) as client:
        yield client


# -- keys before bodies -----------------------------------------------------------------------------------------------


def test_a_body_without_a_key_is_never_read(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        guarded, asked = client.app.build_middleware_stack(), 0  # type: ignore[attr-defined]

        async def receive() -> dict[str, Any]:
            nonlocal asked
            asked += 1
            return {"type": "http.request", "body": b"[[],[]]", "more_body": False}

        async def ask(headers: dict[str, str]) -> int:
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            scope = {
                "type": "http", "method": "POST", "path": "/v1/episodes", "raw_path": b"/v1/episodes", "query_string": b"",
                "headers": [(b"host", b"testserver"), (b"content-type", b"application/json"), *given],
                "client": ("1.2.3.4", 5), "server": ("testserver", 80), "scheme": "http", "http_version": "1.1",
                "root_path": "", "app": client.app,
            }  # fmt: skip
            await guarded(scope, receive, send)
            return int(sent[0]["status"])

        for headers in ({}, STRANGER, READER, SHUFFLER):
            assert client.portal.call(ask, headers) in (401, 403)  # type: ignore[union-attr]
        assert asked == 0
        assert client.portal.call(ask, APP) == 422  # type: ignore[union-attr]
        assert asked == 1


def test_fresh_keys_do_not_evade_the_rate_limit(tmp_path: Path) -> None:
    with serving(tmp_path, rate_limit=0.05) as client:  # a token every twenty seconds
        answers = [
            client.get("/v1/status", headers={"Authorization": f"Bearer made up {number}"}) for number in range(3)
        ]
        assert answers[-1].status_code == 429
        assert 15 <= int(answers[-1].headers["Retry-After"]) <= 20
        assert client.get("/v1/status", headers=APP).status_code == 200  # who has a key has a bucket of her own


def test_the_body_limit_is_the_models(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        large = json.dumps({"user": "x" * 20_000}).encode()
        assert client.post("/v1/episodes", content=large, headers=APP).status_code == 413
        longest = {"user": "\U0001f600" * 256, "episode": "0" * 32}
        assert client.post("/v1/episodes", json=longest, headers=APP).status_code == 201


def test_a_group_may_be_larger_and_counts_as_its_members(tmp_path: Path) -> None:
    users = [{"user": f"{number:0200}"} for number in range(128)]
    with serving(tmp_path, rate_limit=1) as client:
        assert client.post("/v1/groups/episodes", json={"users": users}, headers=APP).status_code == 200
        after = client.get("/v1/status", headers=APP)
        assert after.status_code == 429
        too_many = b" " * (256 * 20_000)
        assert client.post("/v1/groups/episodes", content=too_many, headers=ADMIN).status_code == 413
        assert client.post("/v1/episodes", content=b" " * 20_000, headers=ADMIN).status_code == 413


def test_what_proves_no_admission_counts_against_the_key(tmp_path: Path) -> None:
    """Else whoever has an app's key, which a phone does not keep, could send anything in users' names without a limit."""
    made_up = {"token": "made up", "step": 0, "state": 0}
    wrong: list[tuple[str, Any]] = [
        (f"/v1/episodes/{{}}/{kind}", body)
        for kind, body in (("actions", made_up), ("trajectory", {"token": "made up", **episode(0)}), ("empty", {}))
    ]
    wrong += [("/v1/groups/trajectories", {"trajectories": [{"episode": "0" * 32, "token": "a", **episode(0)}] * 4})]
    wrong += [("/v1/groups/trajectories", "no group"), ("/v1/groups/reports", {"reports": [None] * 4})]
    for number, (path, body) in enumerate(wrong):
        where = tmp_path / str(number)
        where.mkdir()
        with serving(where, rate_limit=2) as client, stopped():
            codes = [client.post(path.format(f"{n:032x}"), json=body, headers=APP).status_code for n in range(5)]
            assert codes[0] != 429, path
            assert codes[-1] == 429, path
            assert client.get("/v1/round", headers=APP).status_code == 429


def test_callers_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "CALLERS", 2)
    buckets = rates.Buckets(1.0)
    for caller in "abc":
        assert [buckets.take(caller, 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.take("c", 0.5) == 0.5
    assert buckets.take("b", 0.0) == 1.0
    assert buckets.take("a", 0.0) == 0.0  # seen longest ago


def test_an_episode_has_a_limit_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, rate_limit=2) as client, stopped():
        opened = [client.post("/v1/episodes", json={"user": user}, headers=APP).json() for user in ("ann", "bob")]

        def ask(one: dict[str, Any]) -> int:
            body = {"token": one["token"], "step": 0, "state": 0}
            return client.post(f"/v1/episodes/{one['episode']}/actions", json=body, headers=APP).status_code

        assert [ask(opened[0]) for _ in range(6)] == [200] * 4 + [429] * 2
        assert ask(opened[1]) == 200


# -- roles ------------------------------------------------------------------------------------------------------------

NEEDED = {
    "/v1/episodes": "serve", "/v1/episodes/{episode}/actions": "serve", "/v1/episodes/{episode}/trajectory": "serve",
    "/v1/episodes/{episode}/empty": "serve", "/v1/episodes/{episode}/report": "serve", "/v1/batches": "mix",
    "/v1/groups/episodes": "serve", "/v1/groups/trajectories": "serve", "/v1/groups/reports": "serve",
    "/v1/health": "nothing", "/v1/health/live": "nothing", "/v1/health/ready": "nothing", "/v1/transparency": "nothing",
    "/": "nothing", "/dashboard": "nothing", "/dashboard/{name}": "nothing",
    "/v1/admin/status": "operate", "/v1/admin/expire": "operate", "/v1/admin/finish": "operate",
    "/v1/admin/fallback": "operate", "/v1/admin/erase": "operate",
    "/v1/billboard": "read", "/v1/billboards/{version}": "read", "/v1/model": "read", "/v1/names": "read",
    "/v1/round": "read", "/v1/status": "read", "/v1/ledger": "read", "/v1/events": "read", "/metrics": "read",
    "/v1/diagnostics": "read", "/v1/diagnostics/{version}": "read", "/openapi.json": "read",
}  # fmt: skip
"""What each route needs. Whoever adds a route says it here."""


def test_every_route_needs_what_it_should(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        routes = {path for route in client.app.routes for path in _paths(route)}  # type: ignore[attr-defined]
    assert routes == set(NEEDED)
    assert {path: need_of(path) for path in routes} == NEEDED


def _paths(route: Any) -> list[str]:
    if isinstance(route, APIRoute):
        return [route.path]
    inner = getattr(route, "original_router", None) or getattr(route, "router", None)
    return [path for one in getattr(inner, "routes", []) for path in _paths(one)]


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/v1/status", "GET", (READER, APP, SHUFFLER, ADMIN)),
        ("/v1/episodes", "POST", (APP, ADMIN)),
        ("/v1/batches", "POST", (SHUFFLER,)),
        ("/v1/admin/expire", "POST", (ADMIN,)),
    ],
)
def test_a_role_is_good_for_its_own(tmp_path: Path, path: str, method: str, allowed: tuple[Any, ...]) -> None:
    with serving(tmp_path, public_reads=False) as client:
        for headers in (READER, APP, SHUFFLER, ADMIN):
            code = client.request(method, path, headers=headers).status_code
            assert (code == 403) == (headers not in allowed), (path, headers)
        for headers in ({}, STRANGER, {"Authorization": APP["Authorization"].replace("Bearer", "Basic")}):
            assert client.request(method, path, headers=headers).status_code == 401
        twice = [("Authorization", APP["Authorization"]), ("Authorization", ADMIN["Authorization"])]
        assert client.request(method, path, headers=twice).status_code == 401


def test_one_string_is_not_the_key_of_two_roles(tmp_path: Path) -> None:
    same = settings(tmp_path).with_secrets(admin_key=KEYS["app_key"])
    with pytest.raises(InvalidInput, match="a string of its own"):
        create_app(same)
    with pytest.raises(InvalidInput, match="a string of its own"):
        create_app(settings(tmp_path).with_secrets(app_key=settings(tmp_path).secret("user_secret")))
    assert not (tmp_path / "service.db").exists()


def test_a_shuffled_deployment_needs_a_shuffler(tmp_path: Path) -> None:
    agent, world = (
        "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20",
        "random-blend:states=4,actions=2,horizon=2,d=2",
    )
    chosen = Settings(world=world, agent=agent, episodes=12, database=f"sqlite:///{tmp_path}/service.db")
    kept = {name: KEYS[name] for name in ("app_key", "admin_key")}
    with pytest.raises(InvalidInput, match="RETICENT_SHUFFLER_KEY"):
        create_app(chosen.with_secrets(user_secret="a secret of the tests, long enough", **kept), begin=True)


def test_keys_rotate_without_a_restart(tmp_path: Path) -> None:
    file, now = tmp_path / "keys.yaml", [0.0]

    def write(*keys: str) -> None:
        content = json.dumps({"app": [hashlib.sha256(key.encode()).hexdigest() for key in keys]})
        (tmp_path / "new").write_text(content)
        os.replace(tmp_path / "new", file)
        now[0] += 2

    write("first")
    keys = Keys(settings(tmp_path, keys_file=file), clock=lambda: now[0])
    assert (keys.role_of("first"), keys.role_of("second")) == ("app", None)
    write("first", "second")
    assert (keys.role_of("first"), keys.role_of("second")) == ("app", "app")
    write("second")
    assert (keys.role_of("first"), keys.role_of("second")) == (None, "app")
    file.write_text("app: not a list")
    now[0] += 2
    assert keys.role_of("second") == "app"  # a broken file changes nothing, and is told
    assert not keys.current
    write(KEYS["admin_key"])
    assert (keys.role_of(KEYS["admin_key"]), keys.current) == ("admin", False)
    write("third")
    assert (keys.role_of("third"), keys.current) == ("app", True)


# -- development, proxies, names --------------------------------------------------------------------------------------


def test_development_keys_do_not_work_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("RETICENT_"):
            monkeypatch.delenv(variable)
    chosen = Settings(
        world="random-blend:states=4,actions=2,horizon=2,d=2", agent="private-linopt-vi", episodes=12,
        database=f"sqlite:///{tmp_path}/service.db", hosts=("testserver",),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="RETICENT_"):
        create_app(chosen)
    with pytest.warns(UserWarning, match="well-known"):
        app = create_app(chosen.for_development(), begin=True)
    admin = {"Authorization": "Bearer dev-admin-key"}
    with TestClient(app) as client:
        assert client.get("/v1/admin/status", headers=admin).status_code == 200
        for header in (
            "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Anything", "X-Real-IP",
            "CF-Connecting-IP", "True-Client-IP", "X-Client-IP",
        ):  # fmt: skip
            assert client.get("/v1/admin/status", headers={**admin, header: "10.0.0.1"}).status_code == 403


def test_workers_serve_what_the_command_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text("world: riverswim\n")
    monkeypatch.setenv(service.CONFIG, "")
    service.tell_workers(path, tmp_path, host="0.0.0.0", port=None, development=False)
    seen: list[Settings] = []
    monkeypatch.setattr(worker, "make_worker", lambda settings, home: seen.append(settings))
    monkeypatch.setattr(worker, "prepare_to_serve", lambda: None)
    worker.create_worker()
    assert (seen[0].host, seen[0].port, seen[0].open_reads, seen[0].development) == ("0.0.0.0", 8400, False, False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("testserver", 200),
        ("127.0.0.1:8400", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example", 400),
        ("", 400),
    ],
)
def test_a_name_that_is_not_ours_is_refused(tmp_path: Path, host: str, status: int) -> None:
    with serving(tmp_path) as client:
        assert client.get("/v1/health", headers={"Host": host}).status_code == status


# -- what answers say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("public_reads", [True, False])
def test_what_never_changes_is_kept_by_its_holder_and_nothing_else_is(tmp_path: Path, public_reads: bool) -> None:
    """Caches on the way keep an answer to a key only where everyone may read it without one."""
    with serving(tmp_path, public_reads=public_reads) as client:
        for path in ("/v1/billboards/0", "/v1/diagnostics/0"):
            kept = client.get(path, headers=READER).headers["cache-control"]
            assert kept == f"{'public' if public_reads else 'private'}, max-age=31536000, immutable"
        for path in ("/v1/status", "/v1/billboard", "/v1/ledger", "/v1/model", "/v1/names"):
            assert client.get(path, headers=READER).headers["cache-control"] == "no-store"
        if public_reads:
            assert client.get("/v1/billboards/0").headers["cache-control"].startswith("public")


def test_a_device_is_not_told_that_another_deployments_model_is_still_the_same(tmp_path: Path) -> None:
    """Two deployments of one model at one address, whose devices add different noise: epsilon 8, and then 1."""
    told: list[Any] = []
    for epsilon in (8, 1):
        agent = f"private-linopt-vi:trust=local,first=4,growth=1,epsilon={epsilon}"
        (where := tmp_path / str(epsilon)).mkdir()
        with serving(where, agent=agent, public_reads=True) as client:
            known = {"If-None-Match": told[-1].headers["etag"]} if told else {}
            told.append(client.get("/v1/model", headers=known))
            assert client.get("/v1/billboards/0", headers=known).status_code == 200
    assert [one.status_code for one in told] == [200, 200]
    assert told[0].json()["digest"] == told[1].json()["digest"]
    assert told[0].json()["report"]["noise_scale"] != told[1].json()["report"]["noise_scale"]
    assert told[0].json()["report"]["digest"] != told[1].json()["report"]["digest"]  # devices that have it already
    assert {one.headers["cache-control"] for one in told} == {"no-cache"}  # asked each time, by caches on the way too


@pytest.mark.parametrize("declared", ["9" * 5000, "9" * 20, "1, 2", "-1", "0x10"])
def test_a_length_that_is_no_number_is_malformed_with_or_without_a_key(
    tmp_path: Path, database: str, declared: str
) -> None:
    """Python refuses to read a number of 5 000 digits, which was an internal error."""
    with serving(tmp_path, public_reads=True, database=database, rollback_guard=tmp_path / "witness") as client:
        for headers in ({}, APP):
            answer = client.get("/v1/status", headers={**headers, "Content-Length": declared})
            assert answer.status_code == 400
            assert answer.json()["type"] == "urn:reticent:problem:invalid-input"


def test_the_names_of_unknown_fields_are_not_repeated(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        answer = client.post("/v1/episodes", json={"user": "ann", "<script>": 1}, headers=APP)
        assert answer.status_code == 422
        assert "script" not in answer.text


def test_the_root_address_leads_to_the_dashboard(tmp_path: Path) -> None:
    with serving(tmp_path, public_reads=False) as client:
        answer = client.get("/", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (307, "/dashboard")
        assert client.get("//v1/status").status_code == 401


def test_no_page_loads_scripts_of_strangers(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.get("/docs").status_code == 404
        assert "https://" not in client.get("/dashboard").text.replace("http://www.w3.org", "")


# -- enrolment --------------------------------------------------------------------------------------------------------


def test_nobody_is_admitted_without_the_backends_word(tmp_path: Path) -> None:
    backend, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = backend.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    later = time.time() + 60
    with serving(tmp_path, enrolment_key=public) as client:

        def come(user: str, token: str | None) -> int:
            return client.post("/v1/episodes", json={"user": user, "enrolment": token}, headers=APP).status_code

        genuine, longer = issue(backend, "ann", later), issue(backend, "ann", later + 1)
        for user, token in (
            ("ann", None), ("bob", genuine), ("ann", issue(other, "ann", later)), ("ann", issue(backend, "ann", 1.0)),
            ("ann", "x"), ("ann", genuine + "." + genuine),
            ("ann", longer.partition(".")[0] + "." + genuine.partition(".")[2]),
        ):  # fmt: skip
            assert come(user, token) == 403
        assert client.get("/v1/status").json()["admitted"] == 0
        assert come("ann", genuine) == 201
        assert client.get("/v1/status").json()["admitted"] == 1


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    world, where = "random-blend:states=4,actions=2,horizon=2,d=2", tmp_path_factory.mktemp("caps")
    with running_service(where, world=world, episodes=12, read_seconds=1.0, connections=8, rate_limit=0) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def answer_of(connection: socket.socket, patience: float) -> bytes:
    """What comes until the other side closes; TimeoutError if it does not."""
    connection.settimeout(patience)
    heard = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            heard += piece
    return heard


def test_headers_have_an_end(address: tuple[str, int]) -> None:
    """Whatever the kernels on both sides hold, which is some megabytes, the service takes no more."""
    with socket.create_connection(address) as connection:
        sent = 0
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n")
            while sent < 64 << 20:
                connection.sendall(b"X-Filler: " + b"a" * 16_000 + b"\r\n")
                sent += 16_012
        assert sent < 64 << 20
    with socket.create_connection(address) as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(b"a" * 16_000)  # a method that never ends
        assert answer_of(connection, 5.0)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")


def test_half_a_request_or_body_is_not_waited_for(address: tuple[str, int]) -> None:
    """All at once: each waits for the same second."""
    key = "the app's key of the tests, long enough"
    body = (
        f"POST /v1/episodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 50\r\n\r\n{{"
    )
    begun = [b"", b"GET /v1/hea", b"POST /v1/episodes HTTP/1.1\r\nHost: localhost\r\n", body.encode()]
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address)) for _ in begun]
        for connection, part in zip(connections, begun, strict=True):
            connection.sendall(part)
        for connection, part in zip(connections, begun, strict=True):
            assert answer_of(connection, 5.0).startswith(b"HTTP/1.1 408"), part


def test_new_connections_are_served_however_many_are_half_open(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(address)).sendall(b"GET /v1/he")
        connection = stack.enter_context(socket.create_connection(address))
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer_of(connection, 5.0).startswith(b"HTTP/1.1 200")
