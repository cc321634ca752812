# SPDX-License-Identifier: Apache-2.0
"""``reticent init`` and ``serve``: what they say before serving, and what they refuse to begin or to serve."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from durable import AGENT, WORLD
from typer.testing import CliRunner

from reticent.cli import app
from reticent.errors import InvalidInput
from reticent.service.http.sockets import require_free


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("RETICENT_APP_KEY", "RETICENT_ADMIN_KEY", "RETICENT_USER_SECRET", "RETICENT_DATABASE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RETICENT_CACHE", "off")
    path = tmp_path / "deployment.yaml"
    path.write_text(f'world: "{WORLD}"\nagent: "{AGENT}"\nepisodes: 12\ndatabase: "sqlite:///{tmp_path}/service.db"\n')
    return path


def test_check_says_the_promise_and_warns_of_development_secrets(config: Path) -> None:
    refused = CliRunner().invoke(app, ["serve", "--config", str(config), "--check"])
    assert "--dev" in str(refused.exception)
    done = CliRunner().invoke(app, ["serve", "--config", str(config), "--check", "--dev"])
    assert done.exit_code == 0, done.output
    assert "(1, 1e-05)-indistinguishable" in done.output
    assert done.output.count("RETICENT_USER_SECRET is not set") == 1


def test_check_says_the_promise_to_programs_too(config: Path) -> None:
    done = CliRunner().invoke(app, ["serve", "--config", str(config), "--check", "--json", "--dev"])
    assert done.exit_code == 0, done.output
    promise = json.loads(done.stdout)
    assert (promise["epsilon"], promise["delta"]) == (1.0, 1e-5)


def test_it_does_not_start_on_an_open_address_with_default_secrets(config: Path) -> None:
    done = CliRunner().invoke(app, ["serve", "--config", str(config), "--host", "0.0.0.0", "--check"])
    assert isinstance(done.exception, InvalidInput)
    assert "RETICENT_APP_KEY" in str(done.exception)
    assert not (config.parent / "service.db").exists()


def test_a_deployment_is_begun_once_and_says_what_to_keep(config: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--config", str(config), "--json", "--dev"])
    assert done.exit_code == 0, done.output
    begun = json.loads(done.stdout)
    assert begun.keys() == {"deployment", "witness", "public_key", "promise"}
    assert begun["promise"]["epsilon"] == 1.0
    assert Path(begun["witness"]).exists()
    again = CliRunner().invoke(app, ["init", "--config", str(config), "--json", "--dev"])
    assert "this deployment was begun" in str(again.exception)


def test_a_port_that_is_taken_and_an_address_that_is_not_ours_are_named_before_anything_is_begun(config: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--config", str(config), "--dev", "--init", "--port", str(port)])
        assert isinstance(done.exception, InvalidInput)
        assert f"port is {port}, but must be free on 127.0.0.1" in str(done.exception)
    with pytest.raises(InvalidInput, match=r"host is 203\.0\.113\.9, but must be an address of this machine"):
        require_free("203.0.113.9", 8400)


def test_a_store_that_cannot_be_made_or_written_is_named_with_its_remedy(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "service.db"
    place = tmp_path / "deployment.yaml"
    place.write_text(json.dumps({"world": WORLD, "agent": AGENT, "episodes": 12, "database": f"sqlite:///{missing}"}))
    done = CliRunner().invoke(app, ["init", "--config", str(place), "--dev"])
    assert isinstance(done.exception, InvalidInput)
    assert "database is unusable (unable to open database file)" in str(done.exception)
    assert "permissions" in str(done.exception)
