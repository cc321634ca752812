# SPDX-License-Identifier: Apache-2.0
"""What docs/notebooks/write_your_own.md defines passes the tests of what is built in, as any registered module would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_definitions import PAGE, definitions

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = {
    "tests/agents/test_agent_contract.py": ("tournament", 12),
    "tests/privacy/counters/test_counter_contract.py": ("diary or linear", 30),
    "tests/worlds/test_world_registry.py": ("test", 7),
}
"""Which tests of each, and how many there are at least."""


def test_the_definitions_are_those_of_the_page() -> None:
    registered = re.findall(r'register(?:_world|_counter)?\("([a-z]+)"', "".join(definitions()))
    assert registered == ["reminders", "diary", "tournament"]
    command = re.search(r"^python -m pytest -p your_module.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert command is not None
    assert all(path in command[0].split() for path in CONTRACTS)


@pytest.mark.verify
@pytest.mark.guard
@pytest.mark.parametrize("path", CONTRACTS)
def test_it_keeps_the_contract(path: str) -> None:
    chosen, least = CONTRACTS[path]
    line = ["-m", "pytest", "-p", "notebook_definitions", "-m", "verify or not verify", "-n", "0", path, "-k", chosen]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")}
    done = subprocess.run(
        [sys.executable, *line], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
    assert "failed" not in done.stdout
    assert "skipped" not in done.stdout
