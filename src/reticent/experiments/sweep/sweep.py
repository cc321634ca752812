# SPDX-License-Identifier: Apache-2.0
"""Drive a sweep: leave out what is finished, have an engine do the rest, say what came out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from reticent.errors import UnknownName
from reticent.experiments import metadata
from reticent.experiments.sweep import storage
from reticent.experiments.sweep.cells import Cell, cells_of
from reticent.experiments.sweep.grid import Grid
from reticent.experiments.sweep.local import run_locally
from reticent.experiments.sweep.ray_engine import run_on_ray
from reticent.experiments.sweep.summary import Setting, settings_of
from reticent.experiments.sweep.work import Outcome
from reticent.extras import require

ENGINES = ("local", "ray")
LOST = "was reported finished, but its file is not in the sweep's directory; is that on storage that all nodes share?"


class Progress(Protocol):
    """Who is told how far a sweep is."""

    def start(self, cells: int, finished: int) -> None:
        """So many cells there are, and so many were finished before."""
        ...

    def advance(self, outcome: Outcome) -> None:
        """A cell has come to its end."""
        ...

    def close(self) -> None:
        """No more cells will."""
        ...


class Silence:
    """Report nothing."""

    def start(self, cells: int, finished: int) -> None: ...

    def advance(self, outcome: Outcome) -> None: ...

    def close(self) -> None: ...


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes:
      grid: what was asked for.
      cells: all of its cells.
      finished: those whose results are stored.
      found: how many of these were there before.
      failures: why cells failed, by the cell's id.
      settings: one per world, agent with options and number of users, of which any seed is finished.
      metadata: versions, device, date, engine and seconds.
      interrupted: True if the sweep was stopped.
    """

    grid: Grid
    cells: Sequence[Cell]
    finished: Sequence[Cell]
    found: int
    failures: dict[str, str]
    settings: Sequence[Setting]
    metadata: dict[str, Any]
    interrupted: bool

    @property
    def failed(self) -> list[Cell]:
        """The cells that failed, in the grid's order."""
        return [cell for cell in self.cells if cell.id in self.failures]

    def to_dict(self) -> dict[str, Any]:
        """As one JSON object: what ``reticent sweep --json`` prints."""
        return {
            "cells": len(self.cells),
            "finished": len(self.finished),
            "found": self.found,
            "interrupted": self.interrupted,
            "failed": [{"cell": cell.id, **cell.config(), "message": self.failures[cell.id]} for cell in self.failed],
            "settings": [setting.row() for setting in self.settings],
        }


def run_sweep(
    grid: Grid,
    directory: str | Path,
    engine: str = "local",
    *,
    address: str | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SweepResult:
    """Run every cell of ``grid`` whose results are not in ``directory`` yet, then summarise all of them there.

    Args:
      engine: ``local`` (this process) or ``ray`` (tasks of the cluster at ``address``; see :mod:`.ray_engine`).
      progress: is told how far the sweep is.
      should_stop: asked now and then; on True the sweep ends, and keeps what is finished.

    Raises:
      ReticentError: the grid, the directory or the engine is wrong; nothing has been computed then.
    """
    if engine not in ENGINES:
        raise UnknownName("engine", engine, list(ENGINES))
    for package in ("polars", "matplotlib"):
        require(package, "a sweep")
    directory, started = Path(directory), time.perf_counter()
    cells = cells_of(grid)
    storage.prepare(directory, grid)
    found = {cell.id for cell in storage.finished(directory, cells)}
    todo = {cell.id: cell for cell in cells if cell.id not in found}
    for cell in cells:
        storage.forget_failure(directory, cell)

    progress, stopped = progress or Silence(), False

    def stop() -> bool:
        nonlocal stopped
        stopped = stopped or (should_stop is not None and should_stop())
        return stopped

    def outcomes() -> Generator[Outcome, None, None]:
        if engine == "ray":
            return run_on_ray(list(todo.values()), directory, stop, grid.ray, address)
        return run_locally(list(todo.values()), directory, stop)

    failures: dict[str, str] = {}

    def fail(cell: Cell, message: str) -> None:
        failures[cell.id] = message
        storage.write_failure(directory, cell, message)

    progress.start(len(cells), len(found))
    try:
        with closing(outcomes()) as coming:
            for outcome in coming:
                if outcome.status == "failed":
                    fail(todo[outcome.cell], outcome.message)
                progress.advance(outcome)
    finally:
        progress.close()
    finished = storage.finished(directory, cells)
    if not stopped:
        there = {cell.id for cell in finished}
        for cell in cells:
            if cell.id not in there and cell.id not in failures:
                fail(cell, LOST)
    facts = {**metadata.describe(), "engine": engine, "seconds": time.perf_counter() - started}
    result = SweepResult(
        grid, cells, finished, len(found), failures, settings_of(directory, cells, finished), facts, stopped
    )
    if finished:
        write_findings(result, directory)
    return result


def write_findings(result: SweepResult, directory: Path) -> None:
    """The summary as tables, a picture and a report."""
    from reticent.experiments.sweep.summary import summary_frame
    from reticent.reports.plots.sweep import draw_sweep
    from reticent.reports.sweep_page import sweep_html

    frame = summary_frame(result.settings)
    storage.write_parquet(directory / storage.SUMMARY, frame)
    storage.write_whole(directory / storage.TABLE, frame.write_csv().encode("utf-8"))
    picture = draw_sweep(result.settings)
    storage.write_whole(directory / storage.PICTURE, picture)
    storage.write_whole(directory / storage.REPORT, sweep_html(result, picture).encode("utf-8"))
    facts = {
        **result.metadata,
        "cells": len(result.cells),
        "finished": len(result.finished),
        "found": result.found,
        "failed": len(result.failures),
        "interrupted": result.interrupted,
    }
    storage.write_json(directory / storage.METADATA, facts)
