# SPDX-License-Identifier: Apache-2.0
"""The tutorials run as they stand and print what they say: every Python cell of a notebook, in order, in one process."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
assert spec is not None
assert spec.loader is not None
execute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(execute)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def agree(one: str, other: str) -> bool:
    """The same words, and numbers that differ as those of another processor may."""
    if " ".join(NUMBER.sub("#", one).split()) != " ".join(NUMBER.sub("#", other).split()):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=0.01) for a, b in pairs)


def test_the_index_lists_every_notebook() -> None:
    listed = re.findall(r"^([a-z_]+)$", (FOLDER / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == execute.names()
    assert len(listed) == 5


@pytest.mark.parametrize("name", execute.names())
def test_cells_compile_and_what_they_print_is_shown(name: str) -> None:
    found = execute.cells(name)
    for number, (code, said) in enumerate(found):
        compile(code, f"{name}, cell {number}", "exec")
        shows = re.search(r"^(?!def|class)(?: {4})?print\(", code, re.M) is not None
        assert shows == bool(said), f"{name}, cell {number}: python docs/notebooks/execute.py {name}"
    assert any(said for _, said in found)


@pytest.mark.verify
@pytest.mark.parametrize("name", execute.names())
def test_a_notebook_prints_what_it_says(name: str, tmp_path: Path) -> None:
    for (code, said), printed in zip(execute.cells(name), execute.executed(name, tmp_path), strict=True):
        assert agree(said, printed), f"{code}\nprints\n{printed}"
