# SPDX-License-Identifier: Apache-2.0
"""Every test that docs/measurements/audit-coverage.md names, by entry point and kind of neighbour, exists."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from real_path import KINDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "measurements" / "audit-coverage.md"
COLUMNS = ("entry point", "swap", "refusal", "silence", "lateness", "retries", "order")
ENTRIES = (
    "library (simulation)", "embedded agent, in order", "embedded agent, tickets", "service, SQLite", "service, PostgreSQL",
    "service, many users in one request",
    "device, local", "device and shuffler",
)  # fmt: skip


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@functools.cache
def table() -> dict[str, list[str]]:
    """The rows by entry point."""
    lines = PAGE.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| entry point |"))
    assert tuple(cells(lines[start])) == COLUMNS
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        entry, *rest = cells(line)
        rows[entry] = rest
    return rows


@functools.cache
def names_of_tests() -> set[str]:
    folders = (ROOT / "tests", ROOT / "clients" / "python" / "tests")
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


def test_every_entry_point_has_every_kind() -> None:
    assert tuple(table()) == ENTRIES
    assert all(len(row) == len(COLUMNS) - 1 and all(row) for row in table().values())
    assert set(COLUMNS[1:]) <= set(KINDS)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_test_in_the_table_exists(entry: str) -> None:
    for column, cell in zip(COLUMNS[1:], table()[entry], strict=True):
        named = re.findall(r"`([^`]+)`", cell)
        assert set(named) <= names_of_tests(), column
        # A cell that names no test says why there is nothing to test, or where it is proved.
        assert named or cell.startswith(("P", "none: ")), (entry, column)
