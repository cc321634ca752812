# SPDX-License-Identifier: Apache-2.0
"""The tutorials run as they stand: every Python cell of a notebook, in order, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")


def cells(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (FOLDER / f"{name}.md").read_text(encoding="utf-8"), re.S | re.M)


def test_the_index_lists_every_notebook() -> None:
    listed = re.findall(r"^([a-z_]+)$", (FOLDER / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == NOTEBOOKS
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells_compile(name: str) -> None:
    assert cells(name)
    for number, cell in enumerate(cells(name)):
        compile(cell, f"{name}, cell {number}", "exec")


@pytest.mark.verify
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    program = "\n".join(cells(name))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
