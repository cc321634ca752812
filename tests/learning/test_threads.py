"""Large batched factorisations must not starve XLA's pool of threads (see :mod:`reticent.runtime`)."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
from reticent.agents import make_agent
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world_from
world = make_world_from("riverswim:states=6")
assert simulate(make_agent("ucrl-vtr", world.model, 6), world, range(16)).finished
"""


def test_riverswim_with_sixteen_seeds_does_not_hang() -> None:
    """In a process of its own with two cores at most, where two batched LAPACK calls at once used to wait for ever."""
    environment = {key: value for key, value in os.environ.items() if key != "NPROC"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120, env=environment)
