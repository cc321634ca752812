# SPDX-License-Identifier: Apache-2.0
"""``reticent quickstart``: its commands are commands, it refuses a folder in use, and walks to the end in a clean one."""

from __future__ import annotations

import os
import re
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
def test_it_walks_to_users_from_whom_it_learned_and_cleans_up(tmp_path) -> None:
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
    # The first plan is worth 0.973; after 900 users, one in 2,000 simulated deployments is below 1.2.
    first, last = map(float, re.findall(r"worth (\S+) at first, (\S+) at last", done.stdout)[0])
    assert first == 0.973
    assert last > 1.2
    assert not list(tmp_path.glob("reticent-quickstart-*"))
