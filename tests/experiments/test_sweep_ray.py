# SPDX-License-Identifier: Apache-2.0
"""A sweep on a real Ray cluster of three nodes, of which one is killed midway; and one whose driver is killed.

The nodes are processes of this machine: each has its own raylet, workers and object store, and dies like a machine does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml

from reticent.experiments.sweep import ray_engine, storage
from reticent.experiments.sweep.grid import grid_of
from reticent.experiments.sweep.sweep import Silence, run_sweep

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

pytestmark = [
    pytest.mark.slow,
    # Ray starts its processes by fork and exec; JAX warns of every fork, and means those that go on running Python.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

GRID = {
    "worlds": "random-blend:states=3,actions=2,horizon=2,d=2",
    "agents": ["private-linopt-vi:first=20", "ucrl-vtr:replan=epoch"],
    "episodes": 1000,
    "privacy": {"epsilon": [0.25, 0.5, 1, 2, 3, 4, 5, 6, 8]},
    "bonus_scales": [0.02, 0.05, 0.1, 0.2, 0.5],
    "seeds": 4,
    "seeds_per_cell": 1,
}
"""45 private settings and 5 others, 4 seeds each, one run per cell: 200 cells of two compiled programs."""
CELLS = 200
STARTS = "starts"


def contents(directory):
    """Every cell's file, byte for byte."""
    return {path.name: path.read_bytes() for path in (directory / storage.CELLS).glob("*.parquet")}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The local engine's answer."""
    directory = tmp_path_factory.mktemp("local")
    return directory, run_sweep(grid_of(GRID), directory)


@pytest.fixture(scope="module")
def cluster(local):
    """A head and two more nodes, one processor each. (The local answer first: its compiled programs are on disk then.)"""
    sizes = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    variables = {
        "RETICENT_CACHE": str(Path(__file__).parents[2] / ".pytest_cache" / "jax"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    made.add_node(**sizes)
    made.add_node(**sizes)
    yield made
    ray.shutdown()
    made.shutdown()
    for key, value in before.items():
        os.environ.pop(key) if value is None else os.environ.update({key: value})


def noting(config, directory, environment):
    """The real work, with a note of which cell was begun where. On the node that is to die, work is held until it does."""
    import ray

    from reticent.experiments.sweep.cells import Cell
    from reticent.experiments.sweep.ray_engine import work_on

    note = {"cell": Cell.of(config).id, "node": ray.get_runtime_context().get_node_id(), "process": os.getpid()}
    note["held"] = (Path(directory) / f"doomed-{note['node']}").exists()
    path = Path(directory) / STARTS / uuid.uuid4().hex
    path.write_text(json.dumps(note))
    path.rename(path.with_suffix(".json"))
    if note["held"]:
        time.sleep(600)
    return work_on(config, directory, environment)


def notes(directory):
    return [json.loads(path.read_text()) for path in (directory / STARTS).glob("*.json")]


class Killer(Silence):
    """Kills a node with all its processes, as a power cut would, when a third of the cells are finished.

    It waits for the node to have a cell in hand, so that there is something to lose.
    """

    def __init__(self, cluster, directory):
        self.cluster, self.directory, self.held, self.done = cluster, directory, None, 0

    def advance(self, outcome):
        self.done += 1
        if self.done == CELLS // 3:
            self.kill(next(iter(self.cluster.worker_nodes)))

    def kill(self, node):
        (self.directory / f"doomed-{node.node_id}").touch()
        deadline = time.monotonic() + 120
        while self.held is None and time.monotonic() < deadline:
            time.sleep(0.02)
            self.held = next((note["cell"] for note in notes(self.directory) if note["held"]), None)
        self.cluster.remove_node(node, allow_graceful=False)
        # A raylet's workers live on for a moment; a machine's do not.
        for process in {note["process"] for note in notes(self.directory) if note["node"] == node.node_id}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.verify
def test_a_killed_node_costs_nothing_but_time(cluster, local, tmp_path, monkeypatch):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(ray_engine, "work_on", noting)
    (tmp_path / STARTS).mkdir()
    killer = Killer(cluster, tmp_path)
    found = run_sweep(grid_of(GRID), tmp_path, "ray", address=cluster.address, progress=killer)
    assert (killer.done, len(found.cells), len(found.finished), found.failures) == (CELLS, CELLS, CELLS, {})

    begun = notes(tmp_path)
    times = {cell.id: sum(note["cell"] == cell.id for note in begun) for cell in found.cells}
    assert len({note["node"] for note in begun}) == 3
    assert min(times.values()) == 1
    assert times[killer.held] > 1

    directory, reference = local
    assert contents(tmp_path) == contents(directory)
    assert [setting.row() for setting in found.settings] == [setting.row() for setting in reference.settings]
    assert sum(len(setting.seeds) for setting in found.settings) == CELLS


@pytest.mark.verify
def test_a_killed_driver_is_resumed(cluster, local, tmp_path):
    config, out = tmp_path / "grid.yaml", tmp_path / "out"
    config.write_text(yaml.safe_dump(GRID))
    command = [
        sys.executable, "-m", "reticent", "sweep", str(config), "--engine", "ray", "--address", cluster.address,
        "--out", str(out), "--json",
    ]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(contents(out) if out.exists() else ()) < CELLS // 4 and time.monotonic() < deadline:
        assert driver.poll() is None
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {path: path.stat() for path in (out / storage.CELLS).glob("*.parquet")}
    assert CELLS // 4 <= len(before) < CELLS
    assert not (out / storage.SUMMARY).exists()

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    directory, reference = local
    assert content["finished"] == CELLS
    assert content["found"] >= len(before)  # a worker may have finished its cell before it heard of the driver's death
    assert content["settings"] == [setting.row() for setting in reference.settings]
    assert contents(out) == contents(directory)
    for path, stat in before.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns), "was written again"


@pytest.mark.verify
def test_errors_of_a_cell_come_back_and_are_not_tried_again(cluster, tmp_path, monkeypatch):
    """A wrong option is said as it would be locally; a defect is named; both are final."""

    def defect(config, directory, environment):
        (Path(directory) / STARTS / uuid.uuid4().hex).write_text("")
        raise ZeroDivisionError("nothing to share")

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    small = {**GRID, "privacy": None, "bonus_scales": None, "seeds": 2, "episodes": 50}
    wrong = run_sweep(grid_of({**small, "agents": ["oppo:bonus_scale=-3"]}), tmp_path, "ray", address=cluster.address)
    assert len(wrong.failures) == 2
    assert all(message.startswith("bonus_scale is -3.0, but must be") for message in wrong.failures.values())
    monkeypatch.setattr(ray_engine, "work_on", defect)
    (tmp_path / STARTS).mkdir()
    broken = run_sweep(grid_of({**small, "agents": ["ucrl-vtr"]}), tmp_path, "ray", address=cluster.address)
    assert set(broken.failures.values()) == {"ZeroDivisionError: nothing to share"}
    assert len(list((tmp_path / STARTS).iterdir())) == 2
