# SPDX-License-Identifier: Apache-2.0
"""The files under deploy/kubernetes: what they rely on is there, and Kubernetes' own schema accepts them."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fastapi.testclient import TestClient
from serving import settings
from typer.testing import CliRunner

from reticent.cli import app
from reticent.service.config import ENVIRONMENT, OPTIONAL, read_settings
from reticent.service.http import readiness
from reticent.service.http.app import create_app

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
PLACE = DEPLOY / "kubernetes"
FILES = ("begin.yaml", "migrate.yaml", "service.yaml", "storage.yaml")
DOCUMENTS: dict[tuple[str, str], dict[str, Any]] = {
    (one["kind"], one["metadata"]["name"]): one
    for name in FILES
    for one in yaml.safe_load_all((PLACE / name).read_text(encoding="utf-8"))
}
PODS = {
    key: one["spec"]["template"] for key, one in DOCUMENTS.items() if one["kind"] in ("Deployment", "Job")
}  # fmt: skip
WORKERS = PODS["Deployment", "reticent"]


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_everything_that_a_deployment_needs_is_declared() -> None:
    assert set(DOCUMENTS) == {
        ("Deployment", "reticent"), ("Service", "reticent"), ("PodDisruptionBudget", "reticent"),
        ("NetworkPolicy", "reticent"), ("Job", "reticent-begin"), ("Job", "reticent-migrate"),
        ("PersistentVolumeClaim", "reticent-witness"),
    }  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_schema_of_kubernetes_accepts_it(name: str) -> None:
    """Of the newest release that kubernetes-validate knows, unknown fields refused."""
    for document in yaml.safe_load_all((PLACE / name).read_text(encoding="utf-8")):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_the_schema_refuses_a_misspelled_field() -> None:
    """The check above can fail."""
    misspelled = copy.deepcopy(DOCUMENTS["Deployment", "reticent"])
    container(misspelled["spec"]["template"])["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(misspelled, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("pod", PODS.values(), ids=[" ".join(key) for key in PODS])
def test_pods_run_as_the_images_user_with_every_secret_from_a_file(pod: dict[str, Any]) -> None:
    user = int(re.findall(r"--uid (\d+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))[0])
    assert pod["spec"]["securityContext"]["runAsUser"] == user
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert not pod["spec"]["automountServiceAccountToken"]
    one = container(pod)
    assert one["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    given = {each["name"]: each["value"] for each in one["env"]}
    needed = {f"{variable}_FILE" for name, (variable, _) in ENVIRONMENT.items() if name not in OPTIONAL}
    assert {"RETICENT_DATABASE_FILE", *needed} <= set(given)
    drawn = (DEPLOY / "secrets.sh").read_text(encoding="utf-8")
    for path in given.values():
        assert path.startswith("/run/secrets/reticent/")
        assert path.rsplit("/", 1)[1] in drawn
    mounted = {each["name"] for each in one["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["spec"]["volumes"]}


@pytest.mark.parametrize("pod", PODS.values(), ids=[" ".join(key) for key in PODS])
def test_commands_are_there_and_find_their_configuration(pod: dict[str, Any]) -> None:
    command, option, path = container(pod)["args"]
    assert option == "--config"
    assert option in CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    mounts = {each["mountPath"] for each in container(pod)["volumeMounts"]}
    assert str(Path(path).parent) in mounts
    chosen = read_settings(PLACE / Path(path).name, {})
    assert str(chosen.rollback_guard_file.parent) in mounts
    assert chosen.workers > 1
    ports = container(WORKERS)["ports"]
    assert [each["containerPort"] for each in ports] == [chosen.port]


def test_probes_ask_what_is_there_and_wait_long_enough(tmp_path: Path) -> None:
    one = container(WORKERS)
    assert one["readinessProbe"]["httpGet"]["path"] == "/v1/health/ready"
    assert one["readinessProbe"]["timeoutSeconds"] > readiness.PATIENCE + 0.5
    assert {one[probe]["httpGet"]["path"] for probe in ("livenessProbe", "startupProbe")} == {"/v1/health/live"}
    with TestClient(create_app(settings(tmp_path), begin=True)) as client:
        for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
            asked = one[probe]["httpGet"]
            assert asked["port"] == "http"
            answer = client.get(asked["path"], headers={"Host": "10.1.2.3:8400"})  # as a kubelet asks: by address
            assert answer.status_code == 200


def test_one_pod_is_left_and_all_selectors_mean_the_workers() -> None:
    labels = WORKERS["metadata"]["labels"].items()
    budget = DOCUMENTS["PodDisruptionBudget", "reticent"]["spec"]
    deployment = DOCUMENTS["Deployment", "reticent"]["spec"]
    assert budget["maxUnavailable"] < deployment["replicas"]
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    selectors = [
        budget["selector"]["matchLabels"], deployment["selector"]["matchLabels"],
        DOCUMENTS["Service", "reticent"]["spec"]["selector"],
        DOCUMENTS["NetworkPolicy", "reticent"]["spec"]["podSelector"]["matchLabels"],
    ]  # fmt: skip
    for selector in selectors:
        assert selector.items() <= labels
    jobs = [pod["metadata"]["labels"] for (kind, _), pod in PODS.items() if kind == "Job"]
    assert all(not selectors[0].items() <= job.items() for job in jobs)


def test_all_pods_can_write_the_rollback_guard() -> None:
    claim = DOCUMENTS["PersistentVolumeClaim", "reticent-witness"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in PODS.values():
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert volumes["witness"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
