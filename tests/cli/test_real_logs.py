# SPDX-License-Identifier: Apache-2.0
"""docs/real-logs.md: its commands run as they are typed there, where the data are at hand, and end as it says."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "real-logs.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^## ([^:]+):.*?\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def commands(part: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", PARTS[part], re.DOTALL) for line in block.splitlines()]


def run(line: str, folder: Path) -> tuple[int, str]:
    """One command of the page, in an empty folder, with the ``python`` and ``reticent`` of these tests."""
    typed = line.replace("examples/", f"{ROOT}/examples/")
    typed = re.sub(r"^reticent ", f"{sys.executable} -m reticent ", typed)
    typed = re.sub(r"^python ", f"{sys.executable} ", typed)
    done = subprocess.run(["bash", "-c", typed], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def data(name: str) -> None:
    folder = os.environ.get("RETICENT_DATA")
    if folder is None or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not at hand: name its folder with RETICENT_DATA")


def test_the_page_has_three_logs_and_their_commands() -> None:
    assert list(PARTS) == ["Open Bandit", "HeartSteps", "MSNBC"]
    assert [len(commands(part)) for part in PARTS] == [2, 1, 4]


@pytest.mark.verify
def test_open_bandit_says_too_little(tmp_path: Path) -> None:
    """The first command downloads the package; here an installed one stands in for it."""
    found = importlib.util.find_spec("obp")
    place = None if found is None or found.origin is None else Path(found.origin).parent
    given = os.environ.get("OPEN_BANDIT")  # a folder into which pip has put the package
    place = Path(given) / "obp" if given else place
    if place is None:
        pytest.skip("the package obp is not at hand: install it into a folder and name that with OPEN_BANDIT")
    shutil.copytree(place / "dataset" / "obd", tmp_path / "open-bandit" / "obp" / "dataset" / "obd")
    code, said = run(commands("Open Bandit")[1], tmp_path)
    assert code == 1
    assert "38 rewards for 240 pairs: too few to learn from" in said
    assert not (tmp_path / "model.npz").exists()


@pytest.mark.verify
def test_heartsteps_says_that_little_is_at_stake(tmp_path: Path) -> None:
    data("heartsteps_suggestions.csv.gz")
    code, said = run(commands("HeartSteps")[0], tmp_path)
    assert code == 0, said
    assert "warning: little is at stake" in said
    assert "history does not matter" in said
    assert (tmp_path / "heartsteps.npz").exists()


@pytest.mark.verify
def test_msnbc_says_that_history_matters(tmp_path: Path) -> None:
    data("msnbc990928.zip")
    for line in commands("MSNBC"):
        code, said = run(line, tmp_path)
        assert code == 0, said
        if line.startswith("reticent fit"):
            assert "history matters: the last 2 observations are the state" in said
    rows = {row[1:34].strip(): row for row in said.splitlines()}
    deployed, logged = (float(re.findall(r"\d\.\d{4}", rows[name])[0]) for name in ("deployed", "as logged"))
    assert deployed > 4 * logged
