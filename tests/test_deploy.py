# SPDX-License-Identifier: Apache-2.0
"""The files under deploy/: their pieces run here without Docker, and what they name is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from durable import AGENT, WORLD
from fastapi.testclient import TestClient
from running_service import running_service
from serving import READER, settings
from typer.testing import CliRunner

from reticent.cli import app
from reticent.service.config import ENVIRONMENT, ROLES, SECRET_LENGTH, Settings, read_settings
from reticent.service.http.app import create_app

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICE: dict[str, Any] = COMPOSE["services"]["service"]
DOCKERFILE = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))


def instruction(name: str) -> str:
    """The last line of the image's recipe with this instruction."""
    return re.findall(rf"^\s*{name}\s+(.*)$", DOCKERFILE, re.M)[-1].strip()


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """The secrets as the script draws them."""
    shutil.copy(DEPLOY / "secrets.sh", tmp_path)
    for _ in range(2):  # the second time nothing changes
        subprocess.run(["sh", str(tmp_path / "secrets.sh")], check=True, capture_output=True)
    return tmp_path / "secrets"


def test_compose_accepts_it() -> None:
    """With Docker's own parser where it is installed; otherwise the structure is checked below."""
    docker = shutil.which("docker")
    there = docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    if not there:
        pytest.skip("docker compose is not installed: the file's structure is tested, not its acceptance")
    done = subprocess.run(
        [str(docker), "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_everything_that_compose_names_is_declared_and_there() -> None:
    assert set(COMPOSE) == {"name", "services", "networks", "volumes", "secrets"}
    for name, service in COMPOSE["services"].items():
        assert service.get("image"), name
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("networks", ())) <= set(COMPOSE["networks"])
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        for variable, value in service.get("environment", {}).items():
            if str(value).startswith("/run/secrets/"):
                assert Path(value).name in service["secrets"], variable
    assert (DEPLOY / SERVICE["build"]["context"] / SERVICE["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_service_has_no_rights_that_it_does_not_need() -> None:
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in SERVICE["security_opt"]
    assert "ports" not in SERVICE
    assert "ports" not in COMPOSE["services"]["database"]
    assert instruction("USER") == "reticent"
    user = re.search(r"useradd .*--uid (\d+)", DOCKERFILE)
    assert user is not None
    assert int(user[1]) > 0
    writable = [volume.split(":")[1] for volume in SERVICE["volumes"] if not volume.endswith(":ro")]
    assert writable == [instruction("VOLUME")]
    assert read_settings(DEPLOY / "deployment.yaml", {}).rollback_guard_file.parent == Path(instruction("VOLUME"))


def test_its_variables_are_those_that_the_service_reads(drawn: Path) -> None:
    known = {variable for variable, _ in ENVIRONMENT.values()} | {"RETICENT_DATABASE"}
    given = {name.removesuffix("_FILE") for name in SERVICE["environment"]}
    assert given <= known
    assert {"RETICENT_DATABASE", "RETICENT_USER_SECRET", "RETICENT_APP_KEY", "RETICENT_ADMIN_KEY"} <= given
    assert {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} == {
        one.name for one in drawn.iterdir()
    }
    secrets = [one.read_text().strip() for one in drawn.iterdir()]
    assert len(set(secrets)) == len(secrets)
    assert min(len(secret) for secret in secrets) >= SECRET_LENGTH


def test_the_images_command_accepts_the_configuration(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry point and command as the image has them, with the mounted files where they are here."""
    entry, command = json.loads(instruction("ENTRYPOINT")), json.loads(instruction("CMD"))
    assert entry == ["reticent"]
    assert command == SERVICE["command"]
    mounted = dict(volume.split(":")[:2] for volume in SERVICE["volumes"])
    assert command[command.index("--config") + 1] == mounted["./deployment.yaml"]
    for variable, path in SERVICE["environment"].items():
        monkeypatch.delenv(variable.removesuffix("_FILE"), raising=False)
        monkeypatch.setenv(variable, str(drawn / Path(path).name))
    monkeypatch.setenv("RETICENT_CACHE", "off")
    line = [str(DEPLOY / "deployment.yaml") if part == mounted["./deployment.yaml"] else part for part in command]
    done = CliRunner().invoke(app, [*line, "--check", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["epsilon"] == 1.0
    chosen = read_settings(DEPLOY / "deployment.yaml")
    assert chosen.database == (drawn / "database_url").read_text().strip()
    assert {role for role in ROLES if chosen.key_hashes(role)} == {"reader", "app", "admin"}


def test_what_the_image_copies_is_in_the_repository() -> None:
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M):
        assert all((ROOT / source).exists() for source in sources.split()), sources
        kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        assert all(f"!{source}" in kept for source in sources.split())


def test_the_health_check_says_the_truth(tmp_path: Path) -> None:
    command = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert command[0] == "python"

    def healthy(url: str) -> bool:
        line = [part.replace("http://127.0.0.1:8400", url) for part in command[1:]]
        return subprocess.run([sys.executable, *line], capture_output=True, check=False).returncode == 0

    with running_service(tmp_path, world=WORLD, agent=AGENT, episodes=12) as url:
        assert healthy(url)
    assert not healthy(url)
    assert Settings(world=WORLD).port == 8400
    assert instruction("EXPOSE") == "8400"


def test_prometheus_finds_what_the_board_and_the_alerts_show(tmp_path: Path) -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    host = job["static_configs"][0]["targets"][0].partition(":")[0]
    assert host in COMPOSE["services"]
    assert host in read_settings(DEPLOY / "deployment.yaml", {}).hosts
    assert Path(job["authorization"]["credentials_file"]).name in COMPOSE["services"]["prometheus"]["secrets"]
    chosen = settings(tmp_path, public_reads=False, hosts=("testserver", host))
    with TestClient(create_app(chosen, begin=True)) as client:
        asked = {**READER, "Host": f"{host}:8400"}
        assert client.get(job["metrics_path"], headers={"Host": host}).status_code == 401
        answer = client.get(job["metrics_path"], headers=asked)
        assert answer.status_code == 200
    there = set(re.findall(r"^(reticent\w*)(?:\{| )", answer.text, re.M))
    board = json.loads((DEPLOY / "grafana" / "board.json").read_text(encoding="utf-8"))
    shown: set[str] = set()
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["description"]
        for target in panel["targets"]:
            assert target["legendFormat"]
            shown |= set(re.findall(r"reticent_\w+", target["expr"]))
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    warned = {name for rule in group["rules"] for name in re.findall(r"reticent_\w+", rule["expr"])}
    assert warned <= there
    assert shown == there


def test_the_proxy_hands_on_to_the_service_by_an_address_that_is_trusted() -> None:
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert "reverse_proxy service:8400" in caddy
    address = COMPOSE["services"]["proxy"]["networks"]["front"]["ipv4_address"]
    chosen = read_settings(DEPLOY / "deployment.yaml", {})
    assert chosen.trusted_proxies == (address,)
    site = COMPOSE["services"]["proxy"]["environment"]["RETICENT_SITE"].partition(":-")[2].rstrip("}")
    assert site in chosen.hosts
