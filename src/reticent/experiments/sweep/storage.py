# SPDX-License-Identifier: Apache-2.0
"""The directory of a sweep, on storage that every worker sees. What is finished is a file, and there is no other record.

::

    sweep.yaml              the grid
    cells/ID.parquet        one finished cell: the curves of its seeds
    failed/ID.json          a cell that could not be run, and why
    summary.parquet, .csv   one row per setting
    sweep.png, report.html, metadata.json

A cell's file is written under a name of its own and then renamed, so it is there completely or not at all. Its name is
the cell's id and its content follows from the cell, so a cell that is run twice is still there once.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

import reticent
from reticent.errors import InvalidInput
from reticent.experiments.sweep.cells import Cell
from reticent.experiments.sweep.grid import Grid

if TYPE_CHECKING:
    import polars

GRID, SUMMARY, TABLE, PICTURE, REPORT, METADATA = (
    "sweep.yaml",
    "summary.parquet",
    "summary.csv",
    "sweep.png",
    "report.html",
    "metadata.json",
)
CELLS, FAILED = "cells", "failed"
UNFINISHED = ".unfinished"
FORGOTTEN_SECONDS = 3600.0
"""An unfinished file that old belongs to a worker that was killed: writing one takes well under a second."""


def prepare(directory: Path, grid: Grid) -> None:
    """Make the directory, so that a place that cannot be written to is found out first.

    Raises:
      InvalidInput: it cannot.
    """
    content = {"reticent": reticent.__version__, **grid.to_dict()}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    try:
        for folder in (CELLS, FAILED):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        write_whole(directory / GRID, text.encode("utf-8"))
        _sweep_up(directory / CELLS)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise InvalidInput(
            "out", f"{directory} ({reason})", "a directory that can be written to", "choose another"
        ) from None


def partition(directory: Path, cell: Cell) -> Path:
    """Where a cell's results are, once it is finished."""
    return directory / CELLS / f"{cell.id}.parquet"


def finished(directory: Path, cells: Iterable[Cell]) -> list[Cell]:
    """Those of ``cells`` whose results are there."""
    folder = directory / CELLS
    there = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    return [cell for cell in cells if f"{cell.id}.parquet" in there]


def write_partition(directory: Path, cell: Cell, frame: polars.DataFrame) -> None:
    """Store what a cell found.

    Raises:
      InvalidInput: the sweep's directory is not there, as on a machine that does not share the storage.
    """
    path = partition(directory, cell)
    if not path.parent.is_dir():
        raise InvalidInput(
            "out", directory, "a directory that every worker sees", "choose one on storage that all nodes share"
        )
    write_parquet(path, frame)


def write_failure(directory: Path, cell: Cell, message: str) -> None:
    """Record why a cell could not be run. The record is for people: such a cell is tried again next time."""
    content = {"cell": cell.config(), "message": message}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_whole(directory / FAILED / f"{cell.id}.json", text.encode("utf-8"))


def forget_failure(directory: Path, cell: Cell) -> None:
    """A cell that is being run again has not failed any more."""
    (directory / FAILED / f"{cell.id}.json").unlink(missing_ok=True)


def scan(directory: Path, cells: Sequence[Cell]) -> polars.LazyFrame:
    """The curves of these cells, which must be finished, as one frame in long form."""
    import polars

    return polars.scan_parquet([partition(directory, cell) for cell in cells])


def write_whole(target: Path, content: bytes) -> None:
    """Write a file atomically, also with concurrent writers and interruptions."""
    # Process numbers repeat between machines that share a directory; random names do not.
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_parquet(target: Path, frame: polars.DataFrame) -> None:
    """One table, whole."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    write_whole(target, buffer.getvalue())


def write_json(target: Path, content: object) -> None:
    """One JSON document, whole."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(target, text.encode("utf-8"))


def _sweep_up(folder: Path) -> None:
    """Remove what killed workers had begun to write."""
    for path in folder.glob(f".*{UNFINISHED}"):
        if time.time() - path.stat().st_mtime > FORGOTTEN_SECONDS:
            path.unlink(missing_ok=True)
