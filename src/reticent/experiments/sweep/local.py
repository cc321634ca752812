# SPDX-License-Identifier: Apache-2.0
"""The engine of one process: cells one after another, on whatever device JAX has."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from reticent.experiments.sweep.cells import Cell
from reticent.experiments.sweep.work import Outcome, run_cell


def run_locally(
    cells: Sequence[Cell], directory: Path, should_stop: Callable[[], bool]
) -> Generator[Outcome, None, None]:
    """Run the cells in order; a failed one does not stop the others."""
    for cell in cells:
        if should_stop():
            return
        try:
            yield run_cell(cell, directory, should_stop)
        except Exception as problem:  # a defect or a full memory: the other cells may well be fine
            yield Outcome(cell.id, "failed", f"{type(problem).__name__}: {problem}")
