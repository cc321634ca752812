"""The others: the NumPy loop of the paper, and rlberry's learners, each in the same world.

The loop is ``benchmarks/numpy_loop.py`` of the repository, which knows nothing of this library. rlberry 0.7 cannot be
imported beside a Gymnasium of 1.0 or later, so ``benchmarks/rlberry_peer.py`` is run by another Python that has it.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.experiments.bench.rows import Row
from reticent.experiments.bench.work import Work
from reticent.worlds import World

LOOP = "NumPy loop of the paper, replanning every episode"
PEERS = ("rlberry UCBVI, no privacy", "rlberry LSVI-UCB, no privacy")
PEER_SECONDS = 300
WARM_UP = 100


def script(name: str) -> Path | None:
    """A file of the repository's ``benchmarks``: beside the package's sources, or under the working directory."""
    roots = (Path(__file__).parents[4], Path.cwd())
    return next((path for root in roots if (path := root / "benchmarks" / name).is_file()), None)


def load_loop() -> ModuleType | None:
    """The loop's module; None where there is no checkout of the repository."""
    path = script("numpy_loop.py")
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location("numpy_loop", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules["numpy_loop"] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


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
    loop = load_loop()
    if loop is None:
        return Row(LOOP, remark="not here: benchmarks/numpy_loop.py is in the repository only; run in a checkout of it")
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
    path = script("rlberry_peer.py")
    if path is None:
        return [Row(name, remark="not here: benchmarks/rlberry_peer.py is in the repository only") for name in PEERS]
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
