# SPDX-License-Identifier: Apache-2.0
"""Schemathesis against a running service, in all its phases: whatever is sent, it is never the server's error.

pytest -m "verify or soak" tests/service/test_service_schemathesis.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running_service import listening
from serving import KEYS, settings

PHASES = "examples,coverage,fuzzing,stateful"
TRUST = {"app_key": "joint", "admin_key": "joint", "shuffler_key": "shuffle"}
"""Whose key every request has, and the trust model in which that key is good for most."""


def found_by(url: str, key: str, examples: int, report: Path) -> dict[str, int]:
    """How many cases were tried and how often which status was answered; fails if one was a server error."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--phases", PHASES,
        "--checks", "not_a_server_error", "--max-examples", str(examples), "--continue-on-failure", "--seed", "1",
        "--header", f"Authorization: Bearer {key}", "--request-timeout", "20", "--no-color",
        "--report", "ndjson", "--report-ndjson-path", str(report),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "Tested: 28" in done.stdout
    return statuses(report)


def statuses(report: Path) -> dict[str, int]:
    """How often each status was answered, by the report of all exchanges."""
    seen: dict[str, int] = {}

    def look(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("status_code"), int):
                seen[str(value["status_code"])] = seen.get(str(value["status_code"]), 0) + 1
            for part in value.values():
                look(part)
        elif isinstance(value, list):
            for part in value:
                look(part)

    for line in report.read_text(encoding="utf-8").splitlines():
        look(json.loads(line))
    return seen


def run(tmp_path: Path, database: str, role: str, examples: int) -> dict[str, int]:
    chosen = settings(
        tmp_path, database=database, witness=tmp_path / "witness", episodes=100_000,
        agent=f"private-linopt-vi:first=4,growth=1.5,trust={TRUST[role]}",
    )  # fmt: skip
    with listening(chosen) as url:
        return found_by(url, KEYS[role], examples, tmp_path / "exchanges.ndjson")


@pytest.mark.verify
def test_no_phase_finds_a_server_error(tmp_path: Path, database: str) -> None:
    seen = run(tmp_path, database, "app_key", 5)
    assert seen.get("200", 0) > 20
    assert not [status for status in seen if status.startswith("5")]


@pytest.mark.soak
@pytest.mark.parametrize("role", list(TRUST))
def test_no_phase_finds_a_server_error_in_many_examples(tmp_path: Path, database: str, role: str) -> None:
    seen = run(tmp_path, database, role, 30)
    print(f"{database.partition(':')[0]}, {role}: {sum(seen.values())} answers, by status {dict(sorted(seen.items()))}")
    assert not [status for status in seen if status.startswith("5")]
