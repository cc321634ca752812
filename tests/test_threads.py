# SPDX-License-Identifier: Apache-2.0
"""Large batched factorisations must not starve XLA's pool of threads (see :mod:`reticent.runtime`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWO_CORES = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
"""

WORLD = """
from reticent.worlds import make_world
world = make_world("riverswim:states=6")
"""

COUNT = """
names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
assert names.count("tf_XLAEigen") >= 8, names
assert "NPROC" not in os.environ
"""

SIMULATE = """
from reticent.agents import make_agent
from reticent.simulation.simulate import simulate
assert simulate(make_agent("ucrl-vtr", world.model, 6), world, range(16)).finished
"""


def run(program: str) -> None:
    """In a process of its own with two cores at most."""
    environment = {key: value for key, value in os.environ.items() if key != "NPROC"}
    subprocess.run([sys.executable, "-c", TWO_CORES + program], check=True, timeout=120, env=environment)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of threads")
def test_the_first_entry_wakes_threads_enough() -> None:
    """Whoever makes a world before anything else: its arrays must not wake the devices with as few threads as cores."""
    run(WORLD + COUNT)


@pytest.mark.verify
def test_riverswim_with_sixteen_seeds_does_not_hang() -> None:
    """Where two batched LAPACK calls at once used to wait for ever."""
    run(WORLD + SIMULATE)
