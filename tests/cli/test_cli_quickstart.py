# SPDX-License-Identifier: Apache-2.0
"""``reticent quickstart``: its commands are commands, it refuses a folder in use, and walks to the end in a clean one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer.main

from reticent.cli import app
from reticent.cli.quickstart import BEFORE_LAUNCH


@pytest.mark.parametrize("step", BEFORE_LAUNCH, ids=lambda step: step.arguments[0])
def test_every_step_is_a_command_with_options_that_it_has(step) -> None:
    command = typer.main.get_command(app).commands[step.arguments[0]]
    command.make_context(command.name, list(step.arguments[1:]))  # raises for an unknown option or a wrong value


def test_a_folder_in_use_is_refused(reticent, tmp_path) -> None:
    (tmp_path / "something").touch()
    code, out, err = reticent("quickstart", "--keep", tmp_path)
    assert (code, out) == (2, "")
    assert "but must be an empty folder" in err


@pytest.mark.verify
def test_it_walks_to_users_whose_returns_rose_and_cleans_up(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reticent", "quickstart"], env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.partition("] ")[2] for line in done.stdout.splitlines() if line.startswith("[")]
    assert said == [
        "Make up records", "Fit candidate models", "Rehearse", "Replay recorded users", "Serve", "Send simulated users",
    ]  # fmt: skip
    assert "/dashboard" in done.stdout
    # The first tenth gets about 1.1, the last 1.8, with 0.12 for the standard error of the difference: five of them.
    assert "returns rose by" in done.stdout
    assert not list(tmp_path.glob("reticent-quickstart-*"))
