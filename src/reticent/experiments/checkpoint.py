# SPDX-License-Identifier: Apache-2.0
"""What a long run leaves behind now and then, so that the same command goes on where it was killed.

One file per agent in the run's directory: the curve so far and the carry of the simulation, as plain arrays, with a
fingerprint of everything they depend on (configuration, versions, device). A file is replaced as a whole, and one whose
fingerprint is another is not used. Going on from a checkpoint gives the same numbers, bit for bit, as never having
stopped (:mod:`reticent.simulation.simulate`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import reticent
from reticent.experiments.storage import replacing
from reticent.learning.learner import AnyLearner
from reticent.runtime import double_precision
from reticent.simulation import engine
from reticent.simulation.rollout import AnyWorld, streams
from reticent.simulation.simulate import Curves, simulate_settings

FOLDER = "checkpoints"
EVERY = 15.0
"""Seconds between two checkpoints: what a killed run loses at most."""

_PLAIN = [field.name for field in dataclasses.fields(Curves) if field.name != "carry"]


def fingerprint(parts: Sequence[str]) -> str:
    """What must be the same for a checkpoint to be of use: the given texts, the versions and the device."""
    device = jax.devices()[0]
    facts = [*parts, reticent.__version__, jax.__version__, np.__version__, device.platform, device.device_kind]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class Checkpoints:
    """The checkpoints of one run, in its directory; of none if there is no directory."""

    def __init__(self, directory: Path | None, mark: str) -> None:
        self._folder = None if directory is None else directory / FOLDER
        self._mark = mark

    def save(self, name: str, curves: Curves) -> None:
        """Keep an agent's simulation so far."""
        if self._folder is None:
            return
        self._folder.mkdir(exist_ok=True)
        arrays = {field: np.asarray(getattr(curves, field)) for field in _PLAIN}
        arrays |= {f"carry{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(curves.carry))}
        with replacing(self._folder / f"{name}.npz") as path:
            np.savez(path, mark=np.array(self._mark), allow_pickle=False, **arrays)

    def load(self, name: str, agent: AnyLearner, world: AnyWorld, seeds: Sequence[int]) -> Curves | None:
        """An agent's simulation so far, or None if there is none that can be gone on from."""
        if self._folder is None:
            return None
        try:
            # (Opened here: NumPy would leave a file that is no archive open.)
            with (self._folder / f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as content:
                arrays = {key: content[key] for key in content.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        if str(arrays.pop("mark", "")) != self._mark:
            return None
        template = jax.eval_shape(
            engine.begin, engine.stack_settings([agent]), world, jax.vmap(streams)(jnp.zeros(len(seeds), jnp.uint32))
        )
        leaves, structure = jax.tree.flatten(template)
        kept = [jnp.asarray(arrays[f"carry{number}"]) for number in range(len(leaves))]
        plain = {field: arrays[field].item() if arrays[field].ndim == 0 else arrays[field] for field in _PLAIN}
        return Curves(carry=jax.tree.unflatten(structure, kept), **plain)

    def clear(self) -> None:
        """Forget everything: the run is complete."""
        if self._folder is not None and self._folder.is_dir():
            for path in self._folder.glob("*.npz"):
                path.unlink()
            self._folder.rmdir()


@double_precision
def simulate_kept(
    checkpoints: Checkpoints,
    names: Sequence[str],
    agents: Sequence[AnyLearner],
    world: AnyWorld,
    seeds: Sequence[int],
    *,
    every: float,
    parts: int = 40,
    clock: Callable[[], float],
    progress: Callable[[int], None],
    stop: Callable[[], bool],
) -> list[Curves]:
    """:func:`simulate_settings`, from the last checkpoint on if there is one, with a checkpoint ``every`` so many seconds.

    ``names`` are the agents' file names, ``parts`` into how many the run is cut. A simulation that is stopped or finished
    is kept too.
    """
    found = [checkpoints.load(name, agent, world, seeds) for name, agent in zip(names, agents, strict=True)]
    curves = [one for one in found if one is not None]
    if len(curves) < len(agents) or len({one.position for one in curves}) > 1:
        curves = []
    started = clock()
    while not curves or not curves[0].finished:
        due = clock() + every
        part = simulate_settings(
            agents,
            world,
            seeds,
            segments=parts,
            progress=progress,
            should_stop=lambda due=due: stop() or clock() >= due,  # type: ignore[misc]
            resume=[one.carry for one in curves] if curves else None,
            from_episode=curves[0].position if curves else 0,
        )
        curves = [one.then(more) for one, more in zip(curves, part, strict=True)] if curves else part
        # Also of what is finished, if it took long: the next agents may be interrupted.
        if not curves[0].finished or clock() - started >= every:
            for name, one in zip(names, curves, strict=True):
                checkpoints.save(name, one)
        if stop():
            break
    return curves
