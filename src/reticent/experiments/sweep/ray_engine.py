# SPDX-License-Identifier: Apache-2.0
"""The engine of many machines: every cell is a task of an existing Ray cluster.

Ray tries a task again if its worker or its node dies. That is safe because a cell's result is a file with the cell's own
name: a task that was tried again, or even ran twice at the same time, replaces a file by the same one. An error in the
computation itself would come again, so it is not retried. The driver keeps no state that matters: the same command run
again finds what is stored and goes on with the rest.
"""

from __future__ import annotations

import itertools
import os
import socket
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.errors import InvalidInput
from reticent.extras import require

if TYPE_CHECKING:
    from reticent.experiments.sweep.cells import Cell
    from reticent.experiments.sweep.grid import RayOptions
    from reticent.experiments.sweep.work import Outcome

MOST_PENDING = 1000
"""Tasks handed to Ray at once: enough for a cluster that grows with its queue, few enough to wait for and to cancel."""

KNOCK_SECONDS = 10.0

HANDED_ON = ("RETICENT_CACHE", "JAX_PLATFORMS")
"""Variables of the driver's environment that workers take over; a worker's own comes from its node."""


def work_on(config: Mapping[str, Any], directory: str, environment: Mapping[str, str]) -> tuple[Any, ...]:
    """What a worker does with one cell. Plain values go in and out; JAX is imported once its settings are in place."""
    os.environ.update(environment)
    from reticent.experiments.sweep.cells import Cell
    from reticent.experiments.sweep.work import run_cell
    from reticent.runtime import enable_compilation_cache

    enable_compilation_cache()  # workers of a node compile each program once between them
    return tuple(run_cell(Cell.of(config), Path(directory)))


def run_on_ray(
    cells: Sequence[Cell],
    directory: Path,
    should_stop: Callable[[], bool],
    options: RayOptions,
    address: str | None = None,
) -> Generator[Outcome, None, None]:
    """Run the cells as tasks of the cluster at ``address``, and yield outcomes as they come.

    Args:
      address: of a running cluster; by default the one that ``RAY_ADDRESS`` names or that this machine belongs to.
        ``"local"`` starts one of this machine alone and stops it afterwards.

    Raises:
      InvalidInput: Ray is not installed, or no cluster answers.
    """
    from reticent.experiments.sweep.work import Outcome

    ray = import_ray()
    environment = {key: os.environ[key] for key in HANDED_ON if key in os.environ}
    with connected(ray, address):
        remote = ray.remote(
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
            max_retries=options.max_retries,
            retry_exceptions=False,
        )(work_on)
        waiting = iter(cells)
        pending: dict[Any, Cell] = {}
        while True:
            for cell in itertools.islice(waiting, MOST_PENDING - len(pending)):
                pending[remote.remote(cell.config(), str(directory.absolute()), environment)] = cell
            if not pending:
                return
            if should_stop():
                for reference in pending:
                    ray.cancel(reference, force=True)
                return
            done, _ = ray.wait(list(pending), num_returns=1, timeout=0.5)
            for reference in done:
                cell = pending.pop(reference)
                try:
                    yield Outcome(*ray.get(reference))
                except ray.exceptions.RayError as problem:
                    yield Outcome(cell.id, "failed", _reason(problem))


def import_ray() -> Any:
    """Ray, if it is there.

    Raises:
      MissingExtra: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import, which reads it
    return require("ray", "--engine ray")


@contextmanager
def connected(ray: Any, address: str | None) -> Iterator[None]:
    """A connection to the cluster for the block; one that the process had already is used and left open.

    Raises:
      InvalidInput: no cluster answers.
    """
    if ray.is_initialized():
        yield
        return
    chosen = address or os.environ.get("RAY_ADDRESS") or "auto"
    own = {"include_dashboard": False} if chosen == "local" else {}
    try:
        _knock(chosen)
        with warnings.catch_warnings():
            # Ray starts its processes by fork and exec; JAX warns of every fork, and means those that go on in Python.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(address=chosen, log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, RuntimeError, ValueError) as problem:
        reason = str(problem).strip().partition("\n")[0].partition(". ")[0]
        raise InvalidInput(
            "--address",
            f"{chosen} ({reason})",
            "that of a running Ray cluster",
            "start one with `ray start --head`, or say --address local",
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once if nothing answers at ``host:port``; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS):
            pass


def _reason(problem: Any) -> str:
    """What went wrong, in one line: the error that the task raised, or what became of its worker."""
    cause = getattr(problem, "cause", None) or problem
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
