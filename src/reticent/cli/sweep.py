# SPDX-License-Identifier: Apache-2.0
"""``reticent sweep``: a grid of settings and seeds, on this machine or on a Ray cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.experiments.sweep.cells import Cell
    from reticent.experiments.sweep.grid import Grid
    from reticent.experiments.sweep.sweep import SweepResult
    from reticent.experiments.sweep.work import Outcome
    from reticent.reports.progress import Progress

MOST_FAILURES = 20
"""How many failed cells are named on the terminal; all are in the sweep's directory and report."""


def sweep(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="The grid; see docs/sweeps.md.")],
    engine: Annotated[str, typer.Option(help="local (this process) or ray (a cluster).")] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster; 'local' starts one of this machine alone.", show_default="the one running here"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory, on storage that all nodes share.", show_default="results/sweep-CONFIG"),
    ] = None,
    num_cpus: Annotated[
        float | None, typer.Option(help="Processors that a cell asks of Ray.", show_default="the file's, else 1")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and compute nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Run a grid of worlds, agents, privacy settings and seeds, and compare them.

    The same command goes on where an earlier one was stopped or killed: finished cells are not run again. Exit code 1
    if cells failed; the others are finished all the same.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.experiments.sweep.grid import read_grid
        from reticent.experiments.sweep.sweep import run_sweep
        from reticent.runtime import enable_compilation_cache

        enable_compilation_cache()
        grid = with_processors(read_grid(config), num_cpus)
        directory = out if out is not None else Path("results") / f"sweep-{config.stem}"
        if dry_run:
            show_cells(grid, directory, as_json)
            return
        result = run_sweep(grid, directory, engine, address=address, progress=Cells(), should_stop=interrupt)
        if result.interrupted:
            note(f"interrupted; {len(result.finished)} of {len(result.cells)} cells are finished; run again to go on")
        if as_json:
            print_json(result.to_dict())
        elif result.settings:
            print_findings(result, directory)
        say_failures(result, directory)
        if interrupt.asked:
            raise typer.Exit(130)
        if result.failures:
            raise typer.Exit(1)


def with_processors(grid: Grid, num_cpus: float | None) -> Grid:
    """The grid with the flag's number of processors per cell, if it was given."""
    import dataclasses

    from reticent.errors import InvalidInput

    if num_cpus is None:
        return grid
    if not 0 < num_cpus < float("inf"):
        raise InvalidInput("--num-cpus", num_cpus, "a finite number above 0", "1 is usual")
    return dataclasses.replace(grid, ray=dataclasses.replace(grid.ray, num_cpus=num_cpus))


def show_cells(grid: Grid, directory: Path, as_json: bool) -> None:
    """What would be done: every cell, and how many episodes of how many learners that is."""
    from reticent.cli.output import print_json, print_table
    from reticent.experiments.sweep import storage
    from reticent.experiments.sweep.cells import cells_of, short_world
    from reticent.experiments.sweep.summary import varied_options
    from reticent.naming import join
    from reticent.reports.numbers import option_in_words

    cells = cells_of(grid)
    done = {cell.id for cell in storage.finished(directory, cells)}
    total = sum(cell.learner_episodes for cell in cells)
    left = sum(cell.learner_episodes for cell in cells if cell.id not in done)
    if as_json:
        listed = [{"cell": cell.id, **cell.config(), "finished": cell.id in done} for cell in cells]
        print_json({"cells": listed, "learner_episodes": total, "learner_episodes_left": left})
        return
    varied = varied_options(cells)

    def row(cell: Cell) -> tuple[str, ...]:
        label = join(cell.agent, {key: option_in_words(cell.options[key]) for key in varied[cell.agent]})
        state = "finished" if cell.id in done else "to do"
        return (cell.id, short_world(cell.world), label, seed_words(cell.seeds), f"{cell.learner_episodes:,}", state)

    print_table(("cell", "world", "agent", "seeds", "learner-episodes", "state"), [row(cell) for cell in cells], left=3)
    runs = sum(len(cell.seeds) for cell in cells)
    print(
        f"{len(cells)} cells of {len({cell.setting for cell in cells})} settings, {runs:,} runs, "
        f"{total:,} learner-episodes; {len(done)} cells are finished, {left:,} learner-episodes are left"
    )


def seed_words(seeds: tuple[int, ...]) -> str:
    """Seeds in short.

    >>> seed_words((3, 4, 5)), seed_words((1, 7))
    ('3–5', '1, 7')
    """
    if len(seeds) > 1 and seeds == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds))


def print_findings(result: SweepResult, directory: Path) -> None:
    """The table of every world and where the files are."""
    from reticent.cli.output import print_table
    from reticent.experiments.sweep import storage
    from reticent.reports.sweep_page import HEAD, table_rows

    for world in dict.fromkeys(setting.world for setting in result.settings):
        print(world)
        print_table(HEAD, table_rows([setting for setting in result.settings if setting.world == world]))
    fresh = len(result.finished) - result.found
    print(f"{len(result.finished)} of {len(result.cells)} cells are finished, {fresh} of them now")
    print("final gap: mean loss per user over the last 5% of the users; share: of what acting at random loses")
    print(f"picture  {directory / storage.PICTURE}")
    print(f"report   {directory / storage.REPORT}")
    print(f"data     {directory / storage.SUMMARY}, {storage.TABLE}, {storage.CELLS}/*.parquet")


def say_failures(result: SweepResult, directory: Path) -> None:
    """The failed cells, on standard error."""
    from reticent.experiments.sweep import storage
    from reticent.experiments.sweep.cells import short_world

    if not result.failures:
        return
    print(f"{len(result.failures)} of {len(result.cells)} cells failed:", file=sys.stderr)
    for cell in result.failed[:MOST_FAILURES]:
        where = f"{cell.agent} in {short_world(cell.world)}, seeds {seed_words(cell.seeds)}"
        print(f"  {cell.id} ({where}): {result.failures[cell.id]}", file=sys.stderr)
    if len(result.failed) > MOST_FAILURES:
        print(f"  … all of them are in {directory / storage.FAILED}", file=sys.stderr)


class Cells:
    """How far a sweep is, in cells."""

    def __init__(self, progress: Progress | None = None) -> None:
        from reticent.reports.progress import reporter

        self._progress = progress or reporter()

    def start(self, cells: int, finished: int) -> None:
        self._done, self._failed = finished, 0
        if finished:
            print(f"{finished} of {cells} cells were finished before", file=sys.stderr, flush=True)
        self._progress.start("sweep", cells, 1, "cells")
        self._progress.advance(finished)

    def advance(self, outcome: Outcome) -> None:
        self._done += outcome.status != "stopped"
        self._failed += outcome.status == "failed"
        self._progress.advance(self._done, f"{self._failed} failed" if self._failed else "")

    def close(self) -> None:
        self._progress.finish()
        self._progress.close()
