# SPDX-License-Identifier: Apache-2.0
"""This library beside others, in one run: a NumPy loop of the paper, and rlberry's learners, each in the same world.

    python benchmarks/opponents.py --seeds 128 [--rlberry PYTHON]

The loop is ``numpy_loop.py`` beside this file, which knows nothing of this library; it is one process on one core.
rlberry 0.7 cannot be imported beside a Gymnasium of 1.0 or later, so ``rlberry_peer.py`` is run by another Python that
has it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import numpy_loop as loop
from measuring import bench, default_work, machine, with_agents
from measuring.rows import HEAD, Row, markdown
from measuring.work import Work
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.worlds import World

LOOP = "NumPy loop of the paper, replanning every episode"
PEERS = ("rlberry UCBVI, no privacy", "rlberry LSVI-UCB, no privacy")
PEER_SECONDS = 300
WARM_UP = 100


def plain_arrays(world: World) -> dict[str, np.ndarray]:
    """A world as the dense arrays that the loop takes."""
    model = world.model
    dense = jax.vmap(model.value_features)(jnp.eye(model.states))
    return {
        "psi": np.ascontiguousarray(np.moveaxis(np.asarray(dense), 0, -1)),
        "varphi": np.array(model.reward_features),
        "transitions": np.array(world.transitions),
        "mean_rewards": np.array(world.mean_rewards),
        "initial": np.array(model.initial),
    }


def measure_loop(work: Work, world: World) -> Row:
    """The row of the loop: one learner, the paper's constants."""
    mixture = loop.Mixture(**plain_arrays(world))
    promise = PrivateOptions()
    constants = loop.paper_constants(
        work.episodes, world.model.horizon, world.model.d1, world.model.d2,
        promise.epsilon, promise.delta, promise.alpha, promise.bonus_scale,
    )  # fmt: skip

    def seconds(episodes: int) -> float:
        started = time.perf_counter()
        loop.regret(mixture, constants, work.episodes, episodes, seed=0)
        return time.perf_counter() - started

    warm_up = min(WARM_UP, work.episodes)
    wanted = math.ceil(work.seconds * warm_up / seconds(warm_up))
    episodes = min(work.episodes, max(warm_up, wanted))
    return Row(LOOP, episodes=episodes, rates=tuple(episodes / seconds(episodes) for _ in range(work.repeats)))


def measure_peers(work: Work, world: World, python: str | None) -> list[Row]:
    """The rows of rlberry, run by the interpreter ``python``; or what is missing for them."""
    path = Path(__file__).with_name("rlberry_peer.py")
    if python is None and importlib.util.find_spec("rlberry_scool") is None:
        return [Row(name, remark="not installed; --rlberry PYTHON names a Python that has it") for name in PEERS]
    if not world.model.stationary:
        return [Row(name, remark="needs a world that is the same at every step") for name in PEERS]
    try:
        found = _run_peer(python or sys.executable, path, world, work.repeats)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as problem:
        return [Row(name, remark=f"did not run: {_last_line(problem)}") for name in PEERS]
    return [
        Row(
            name,
            episodes=row["episodes"],
            rates=tuple(row["rates"]),
            remark=f"rlberry {found['version']}; policies are not evaluated",
        )
        for name, row in zip(PEERS, found["rows"], strict=True)
    ]


def _run_peer(python: str, path: Path, world: World, repeats: int) -> dict[str, Any]:
    arrays = plain_arrays(world)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "world.npz"
        np.savez(
            file,
            transitions=arrays["transitions"][0],
            mean_rewards=arrays["mean_rewards"][0],
            initial=arrays["initial"],
            horizon=np.array(world.model.horizon),
        )
        command = [python, str(path), str(file), "--repeats", str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PEER_SECONDS)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1] if done.stdout.strip() else "")
    return answer


def _last_line(problem: Exception) -> str:
    said = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else ""
    return (said or str(problem)).strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, help="how many learners 'many' are (64; 8192 on a GPU)")
    parser.add_argument("--episodes", type=int, help="K (20000)")
    parser.add_argument("--agent", action="append", default=[], help="a further agent; repeat for more")
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    parser.add_argument("--rlberry", metavar="PYTHON", help="a Python that has rlberry-scool")
    chosen = parser.parse_args()
    work = default_work(chosen.quick, seeds=chosen.seeds, episodes=chosen.episodes)
    world = work.make()
    before, after = [measure_loop(work, world)], measure_peers(work, world, chosen.rlberry)
    measured = bench(work, contestants=with_agents(chosen.agent), before=before, after=after)
    print(machine.in_words(measured.machine), "", markdown(HEAD, measured.lines()), "", *measured.notes(), sep="\n")


if __name__ == "__main__":
    main()
