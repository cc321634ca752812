# SPDX-License-Identifier: Apache-2.0
"""``reticent init`` and ``serve``: what they say before serving, and what they refuse to begin or to serve."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from durable import AGENT, WORLD
from typer.testing import CliRunner

from reticent.cli import app
from reticent.errors import InvalidInput
from reticent.service.config import read_settings
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
    assert done.output.count("RETICENT_USER_SECRET") == 1


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
    assert begun.keys() == {"deployment", "rollback_guard", "public_key", "promise"}
    assert begun["promise"]["epsilon"] == 1.0
    assert Path(begun["rollback_guard"]).exists()
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


def refused(config: Path, *given: str) -> str:
    """What ``reticent serve`` says on standard error before it ends: one sentence, whatever was wrong."""
    command = [sys.executable, "-m", "reticent", "serve", "--config", str(config), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert (done.returncode, done.stdout, len(said)) == (2, "", 1), done.stderr
    assert said[0].startswith("error: ")
    return said[0]


def test_a_bad_port_or_a_store_that_takes_no_writes_is_one_sentence(config: Path, database: str) -> None:
    """A command of its own, as an operator runs it: no traceback gets out, and nothing is begun."""
    content = f'world: "{WORLD}"\nagent: "{AGENT}"\nepisodes: 12\ndatabase: "{database}"\nwitness: "{config}.w"\n'
    config.write_text(content)
    if database.startswith("sqlite"):
        assert "port is 99999, but must be at most 65535" in refused(config, "--dev", "--init", "--port", "99999")
        config.write_text(content.replace(database, "sqlite:////proc/service.db"))  # not even root can write there
        assert "database is unusable" in refused(config, "--dev", "--init")
    else:
        config.write_text(content.replace(database, f"{database}&options=-cdefault_transaction_read_only%3Don"))
        assert "that the server takes writes" in refused(config, "--dev", "--init")
    assert not Path(f"{config}.w").exists()


def test_a_file_that_cannot_be_read_is_told_with_its_line(config: Path) -> None:
    config.write_text("world: riverswim\n agent: private-score-vi\n")
    with pytest.raises(
        InvalidInput, match=r"deployment\.yaml, line 2: mapping values are not allowed here, but must be"
    ):
        read_settings(config)
    with pytest.raises(InvalidInput, match=r"missing\.yaml \(No such file or directory\), but must be a readable"):
        read_settings(config.with_name("missing.yaml"))
