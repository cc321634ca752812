# SPDX-License-Identifier: Apache-2.0
"""How memory grows: the most that a whole process ever held, for different numbers of users.

A peak belongs to a process, so every one is measured in a process of its own: the interpreter, JAX, compilation, the run
and its curve. ``python -m measuring.memory AGENT K LEARNERS WORLD`` is that process.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from measuring.work import EPOCHS, TREE, WORLD

BENCHMARKS = Path(__file__).parents[1]

PEAKS = (
    *((EPOCHS, episodes, 64) for episodes in (20_000, 100_000, 1_000_000)),
    *((TREE, episodes, 64) for episodes in (500, 2_000, 10_000)),
)
"""(agent, K, learners) that a scaling run measures."""


@dataclasses.dataclass(frozen=True)
class Peak:
    """Most memory that a run held, in bytes, and how long the process took."""

    agent: str
    episodes: int
    learners: int
    peak_bytes: int
    seconds: float


def measure_peaks(
    runs: Sequence[tuple[str, int, int]] | None = None,
    told: Callable[[str], None] = lambda _: None,
    world: str = WORLD,
) -> list[Peak]:
    """The peak of each (agent, K, learners), one process after the other."""
    found = []
    for agent, episodes, learners in PEAKS if runs is None else runs:
        told(f"peak memory of {agent}, K = {episodes:,}, {learners} learners")
        command = [sys.executable, "-m", __name__, agent, str(episodes), str(learners), world]
        done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"{agent} with K = {episodes} and {learners} learners did not finish: {reason}")
        found.append(Peak(agent, episodes, learners, **json.loads(done.stdout)))
    return found


def peak_bytes() -> int:
    """Most memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage: there, a child begins with what its parent held
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def main() -> None:
    from reticent.agents import make_agent
    from reticent.simulation.simulate import simulate
    from reticent.worlds import make_world

    agent, episodes, learners = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    world = make_world(sys.argv[4])
    curves = simulate(make_agent(agent, world.model, episodes), world, range(learners))
    print(json.dumps({"peak_bytes": peak_bytes(), "seconds": curves.seconds}))


if __name__ == "__main__":
    main()
