# SPDX-License-Identifier: Apache-2.0
"""docs/examples.md: every block runs as it stands, and every entry has a picture, lines and a way on."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from service_process import KEY, serving
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
spec = importlib.util.spec_from_file_location("run_examples", ROOT / "docs" / "run_examples.py")
assert spec is not None
assert spec.loader is not None
examples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(examples)
TASKS = list(examples.sections())
DEVICE = "python examples/device.py ann"


def lines(task: str) -> list[str]:
    """The commands of a task."""
    return [line for language, text in examples.blocks(task) if language == "sh" for line in text.splitlines()]


@pytest.mark.parametrize("task", TASKS)
def test_an_entry_has_a_picture_lines_and_a_way_on(task: str) -> None:
    assert examples.blocks(task)
    assert examples.shown(task).exists()
    caption = re.search(r"^\*.+", examples.sections()[task], re.MULTILINE | re.DOTALL)
    assert caption is not None
    assert re.search(r"\]\([\w/-]+\.md", caption[0])
    for language, text in examples.blocks(task):
        if language == "python":
            compile(text, task, "exec")


@pytest.mark.parametrize("task", examples.ELSEWHERE)
def test_what_is_run_elsewhere_is_what_is_run_there(task: str) -> None:
    for line in lines(task):
        assert line in README.splitlines() or line.startswith(DEVICE)


def test_commands_have_the_options_that_they_are_given() -> None:
    from reticent.cli import app

    known = get_command(app).commands
    for line in (line for task in TASKS for line in lines(task) if line.startswith("reticent ")):
        name, given = line.split()[1], re.findall(r"\s(--[a-z-]+)", line)
        options = {
            option for parameter in known[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set(given) <= options, line


@pytest.mark.verify
@pytest.mark.parametrize("task", [task for task in TASKS if task not in examples.ELSEWHERE])
def test_the_lines_run_and_write_the_picture(task: str, tmp_path: Path) -> None:
    examples.run(task, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_the_device_plays_an_episode(trust: str, tmp_path: Path) -> None:
    world = "random-blend:states=3,actions=2,horizon=2,d=2"
    agent = f"private-score-vi:epsilon=1,trust={trust}"
    with serving(
        {"world": world, "agent": agent, "episodes": 20, "database": f"sqlite:///{tmp_path}/device.db"}
    ) as service:
        command = [sys.executable, str(ROOT / "examples" / "device.py"), "ann", "--trust", trust, "--epsilon", "1"]
        done = subprocess.run(
            [*command, "--url", f"http://127.0.0.1:{service.port}"],
            env={**os.environ, "RETICENT_APP_KEY": KEY}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "indistinguishable" in done.stdout
    assert re.search(r"^ann: submitted|^ann: counted|^ann: \w+, under version 0", done.stdout, re.MULTILINE), (
        done.stdout
    )
