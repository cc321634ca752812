# SPDX-License-Identifier: Apache-2.0
"""What operators type: backup, restore, migrate, and everything below ``reticent deployments``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from durable import AGENT, SECRET, WORLD, episode
from fastapi.testclient import TestClient
from running_service import ADMIN_KEY, APP_KEY, running_service
from serving import ADMIN, APP, KEYS, READER, settings
from typer.testing import CliRunner

from reticent.cli import app
from reticent.service.config import read_settings
from reticent.service.http.app import create_app, make_deployment
from reticent.service.rounds.deployment import Deployment
from reticent_client import Connection


def call(*line: object) -> str:
    done = CliRunner().invoke(app, [str(part) for part in line])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def refused(*line: object) -> str:
    done = CliRunner().invoke(app, [str(part) for part in line])
    assert done.exit_code != 0
    return f"{done.output} {done.exception}"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment that was begun, and its secrets in the environment and in a file."""
    secret = tmp_path / "user_secret"
    secret.write_text(f"{SECRET}\n")
    monkeypatch.setenv("RETICENT_USER_SECRET_FILE", str(secret))
    monkeypatch.setenv("RETICENT_APP_KEY", KEYS["app_key"])
    monkeypatch.setenv("RETICENT_ADMIN_KEY", KEYS["admin_key"])
    monkeypatch.setenv("RETICENT_CACHE", "off")
    path = tmp_path / "deployment.yaml"
    content = {
        "world": WORLD, "agent": AGENT, "episodes": 12, "planning": "inline",
        "database": f"sqlite:///{tmp_path}/service.db",
    }  # fmt: skip
    path.write_text(json.dumps(content))
    assert "rollback guard" in call("init", "--config", path)
    return path


@pytest.fixture
def opened(config: Path) -> Iterator[Deployment]:
    made = make_deployment(read_settings(config))
    yield made
    made.store.close()


def serve(service: Deployment, users: range) -> None:
    for user in users:
        came = service.admit(f"user {user}")
        service.submit_trajectory(came.token, came.episode, **episode(user))


def test_a_store_is_backed_up_listed_and_put_back(config: Path, opened: Deployment, tmp_path: Path) -> None:
    serve(opened, range(6))
    said = json.loads(call("backup", "--config", config, "--out", tmp_path / "copy", "--json"))
    assert (said["releases"], said["admitted"], said["deployment"]) == (1, 6, opened.identity)
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert "nothing is overwritten" in refused("backup", "--config", config, "--out", tmp_path / "copy")
    opened.store.close()
    assert "--replace" in refused("restore", "--config", config, tmp_path / "copy")
    done = CliRunner().invoke(app, ["restore", "--config", str(config), "--replace", str(tmp_path / "copy")])
    assert done.exit_code == 0
    assert f"deployment {opened.identity}: 1 releases, 6 users" in done.output
    assert "1 round(s)" in done.output
    assert call("migrate", "--config", config).startswith("layout ")
    (listed,) = json.loads(call("deployments", "list", "--config", config, "--json"))
    assert (listed["admitted"], listed["version"], listed["halted"]) == (6, 1, None)
    assert "learning" in call("deployments", "list", "--config", config)
    assert opened.identity in call("deployments", "show", "--config", config)
    for name in ("service.db", "service.db-wal", "service.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert "reticent init" in refused("deployments", "show", "--config", config)
    assert "1 releases, 4 users" in call("restore", "--config", config)  # by the journal alone


def test_a_published_policy_is_exported(config: Path, opened: Deployment, tmp_path: Path) -> None:
    serve(opened, range(5))
    board = opened.billboard(1)
    call("deployments", "export", "--config", config, "--out", tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as content:
        assert np.array_equal(content["policy"], board.policy)
        assert np.array_equal(content["values"], board.values)
        assert int(content["version"]) == 1
        assert str(content["promise"]) == opened.mechanism.guarantee.sentence()
    call("deployments", "export", "--config", config, "--out", tmp_path / "first.json", "--version", 0)
    plain = json.loads((tmp_path / "first.json").read_text())
    assert np.array_equal(np.asarray(plain["policy"]), opened.billboard(0).policy)
    assert (plain["version"], plain["final"], plain["model"]) == (0, False, opened.configuration.model_digest)
    assert "not been published" in refused(
        "deployments", "export", "--config", config, "--out", tmp_path / "x.json", "--version", 2
    )
    assert ".npz or .json" in refused("deployments", "export", "--config", config, "--out", tmp_path / "x.onnx")


def test_names_go_with_a_policy(config: Path, tmp_path: Path) -> None:
    content = json.loads(config.read_text())
    named = {"world": "riverswim:states=3,horizon=2", "database": f"sqlite:///{tmp_path}/named.db"}
    other = tmp_path / "named.yaml"
    other.write_text(json.dumps({**content, **named, "witness": str(tmp_path / "named.witness")}))
    call("init", "--config", other)
    call("deployments", "export", "--config", other, "--out", tmp_path / "named.json")
    plain = json.loads((tmp_path / "named.json").read_text())
    assert plain["actions_names"] == ["left", "right"]
    assert len(plain["states_names"]) == 3


def test_an_earlier_version_is_served_and_learned_under(config: Path, opened: Deployment) -> None:
    serve(opened, range(5))
    assert "version 0 is served" in call("deployments", "fallback", "--config", config, "--version", 0)
    came = opened.admit("user 5")
    assert came.version == 0
    opened.submit_trajectory(came.token, came.episode, **episode(5))
    serve(opened, range(6, 9))
    assert opened.clock()[0].served_version == 2
    assert "version 2 is served" in call("deployments", "fallback", "--config", config, "--newest")
    assert opened.admit("user 9").version == 2
    assert "not been published" in refused("deployments", "fallback", "--config", config, "--version", 3)
    assert "one of the two" in refused("deployments", "fallback", "--config", config)


def test_finishing_waits_for_all_users(config: Path, opened: Deployment) -> None:
    assert "0 of 12 users" in refused("deployments", "finish", "--config", config)
    serve(opened, range(12))
    assert "version 3 is final" in call("deployments", "finish", "--config", config)
    (listed,) = json.loads(call("deployments", "list", "--config", config, "--json"))
    assert listed["finished"]


def test_a_user_is_erased_by_the_store(config: Path, opened: Deployment) -> None:
    serve(opened, range(5))
    waiting = opened.admit("user 5")
    line = ("deployments", "erase", "--config", config)
    done = CliRunner().invoke(app, [*map(str, line), "--user", "-", "--json"], input="user 5\n")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["episodes"], said["before"]) == (1, False)
    assert all(said[part] for part in ("deleted", "kept", "cannot_be_undone"))
    told = call(*line, "--user", "user 0", "--rewrite-journal")
    assert "1 episode(s) belong to no user now" in told
    assert "cannot be undone\n- their part in the sum" in told
    assert "erased before" in call(*line, "--user", "user 0")
    assert opened.admit("user 5", waiting.episode) == waiting  # as for any user: only the admin is told
    assert opened.admit("user 5").reason == "user-already-counted"
    assert "1 to 256 characters" in refused(*line, "--user", "")
    assert "where the journal is" in refused(
        "deployments", "erase", "--url", "http://127.0.0.1:1", "--user", "x", "--rewrite-journal"
    )


@pytest.mark.verify
def test_the_same_by_address(tmp_path: Path) -> None:
    world = "random-blend:states=4,actions=2,horizon=2,d=2"
    with running_service(tmp_path, world=world, agent=AGENT, episodes=4, rate_limit=0) as url:
        connection = Connection(url, APP_KEY)
        for user in range(4):
            connection.post("/v1/episodes", {"user": f"user {user}"})
        connection.close()
        there: tuple[Any, ...] = ("--url", url, "--key", ADMIN_KEY)
        assert json.loads(call("deployments", "show", *there, "--json"))["admitted"] == 4
        assert "finished: yes" in call("deployments", "finish", *there)
        assert "1 episode(s)" in call("deployments", "erase", *there, "--user", "user 2")
        assert "version 0" in call("deployments", "fallback", *there, "--version", 0)
        call("deployments", "export", *there, "--out", tmp_path / "policy.json")
        assert json.loads((tmp_path / "policy.json").read_text())["version"] == 0
        assert "must be named once" in refused("deployments", "show", "--url", url, "--config", "x.yaml")


def test_the_service_says_what_it_serves(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        service = client.app.state.deployment  # type: ignore[attr-defined]
        serve(service, range(5))
        body = {"version": 0}
        assert client.post("/v1/admin/fallback", json=body, headers=APP).status_code == 403
        assert client.post("/v1/admin/fallback", json=body, headers=ADMIN).json() == {"served_version": 0}
        assert client.get("/v1/status").json()["fallback"] == 0
        assert client.get("/v1/billboard").json()["version"] == 0
        assert client.post("/v1/episodes", json={"user": "new"}, headers=APP).json()["version"] == 0
        assert client.post("/v1/admin/fallback", json={"version": 2}, headers=ADMIN).status_code == 404
        assert client.post("/v1/admin/fallback", json={"version": None}, headers=ADMIN).json() == {"served_version": 1}
        board = client.get("/v1/billboard", headers=READER).json()
        assert board == service.billboard(1).to_json(final=False, model=service.configuration.model_digest)
