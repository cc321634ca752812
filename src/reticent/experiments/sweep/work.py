# SPDX-License-Identifier: Apache-2.0
"""Run one cell and store what it found. Both engines do this and nothing else, so they find the same numbers."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from reticent.errors import ReticentError
from reticent.experiments import metadata
from reticent.experiments.result import AgentRun
from reticent.experiments.sweep import storage
from reticent.experiments.sweep.cells import Cell
from reticent.reports.run_page import promise
from reticent.simulation.simulate import Curves, simulate
from reticent.worlds import World, make_world

if TYPE_CHECKING:
    import polars


class Outcome(NamedTuple):
    """What became of a cell; ``message`` says why it failed."""

    cell: str
    status: Literal["finished", "failed", "stopped"]
    message: str = ""
    seconds: float = 0.0


def run_cell(cell: Cell, directory: Path, should_stop: Callable[[], bool] | None = None) -> Outcome:
    """Run a cell and store its results, unless they are there already.

    What a user got wrong becomes an outcome; any other error is raised. A cell that was stopped leaves nothing behind.
    """
    started = time.perf_counter()
    try:
        if not storage.partition(directory, cell).exists():
            run, world = simulate_cell(cell, should_stop)
            if not run.curves.finished:
                return Outcome(cell.id, "stopped")
            storage.write_partition(directory, cell, frame_of(cell, run, world))
    except ReticentError as problem:
        return Outcome(cell.id, "failed", str(problem), time.perf_counter() - started)
    return Outcome(cell.id, "finished", seconds=time.perf_counter() - started)


def simulate_cell(cell: Cell, should_stop: Callable[[], bool] | None = None) -> tuple[AgentRun, World]:
    """Make the cell's world and agent, and run all its seeds."""
    world = _world(cell.world)
    agent = cell.agent_config.make(world.model, cell.episodes)
    # Without its options an agent's name is the same in many cells, and so is the compiled program.
    curves = simulate(dataclasses.replace(agent, name=cell.agent), world, cell.seeds, should_stop=should_stop)
    return AgentRun(cell.agent_config, agent, curves), world


def frame_of(cell: Cell, run: AgentRun, world: World) -> polars.DataFrame:
    """A cell's results in long form: one row per seed and point of its curve. No times: the same cell, the same bytes."""
    import polars

    curves: Curves = run.curves
    points, promised = len(curves.episodes), promise(run)
    columns = {
        "seed": np.repeat(curves.seeds.astype(np.int64), points),
        "episode": np.tile(curves.episodes.astype(np.int64), len(curves.seeds)),
        "value": np.asarray(curves.value, dtype=np.float64).ravel(),
        "regret": np.asarray(curves.regret, dtype=np.float64).ravel(),
        "final_gap": np.repeat(np.asarray(curves.tail_regret, dtype=np.float64), points),
    }
    return polars.DataFrame(columns).select(
        polars.lit(cell.id).alias("cell"),
        polars.lit(cell.world).alias("world"),
        polars.lit(cell.agent_config.spec).alias("agent"),
        polars.lit(cell.episodes, polars.Int64).alias("episodes"),
        *columns,
        polars.lit(world.optimal_value, polars.Float64).alias("optimal_value"),
        polars.lit(world.uniform_value, polars.Float64).alias("uniform_value"),
        polars.lit(None if promised is None else promised["epsilon_spent"], polars.Float64).alias("epsilon_spent"),
        polars.lit(_made_with()).alias("made_with"),
    )


@functools.lru_cache(maxsize=8)
def _world(spec: str) -> World:
    return make_world(spec)


@functools.cache
def _made_with() -> str:
    """What decides the last digits: versions and device. Sweeps simulate in double precision."""
    versions, device = metadata.versions(), metadata.device()
    return f"reticent {versions['reticent']}, jax {versions['jax']}, {device['device']}, float64"
