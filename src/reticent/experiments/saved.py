# SPDX-License-Identifier: Apache-2.0
"""Save and load agents and half-finished simulations, without pickle and without losing a bit.

A saved file is a zip archive of two members. ``manifest.json`` is versioned and says what there is: the agent with its
options, the model's horizon and declared bounds, the position, and the key paths of the state's tree. ``arrays.npz``
holds the numbers: the model's features, the agent's constants and the state. Loading builds the agent anew from its
name and checks that it is the one that was saved: same structure, same constants. So nothing in a file is ever
executed, and a state never meets an agent with other noise or another schedule than its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

import reticent
from reticent.agents import make_agent
from reticent.errors import InvalidInput, ReticentError
from reticent.experiments.storage import replacing
from reticent.learning.learner import AgentState, AnyLearner
from reticent.runtime import double_precision, on_device
from reticent.simulation.engine import Carry
from reticent.worlds import Model, make_model
from reticent.worlds.continuous import ContinuousModel
from reticent.worlds.models.model import About

FORMAT = 2
"""Version of the file format; a file of a later one is refused. In format 1 the plan of a simulation had ``centres`` and
``scales`` of its own, whatever its agent's family."""

_DECLARED = [
    field.name for field in dataclasses.fields(Model) if field.metadata.get("static") and field.name != "about"
]
_FEATURES = [field.name for field in dataclasses.fields(Model) if not field.metadata.get("static")]


class DamagedFile(ReticentError):
    """A file that is not a saved agent, or not a whole one, or one that this version does not understand."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """What :func:`load` returns.

    Attributes:
      agent: the agent, as it was.
      state: an :class:`AgentState`, or the :class:`Carry` of a simulation (every leaf with a seed axis).
      position: number of episodes behind the state.
      seeds: the simulation's seeds; None for an agent's own state.
      world: name of the simulation's world, if it was given.
      version: the version of reticent that wrote the file.
    """

    agent: AnyLearner
    state: AgentState | Carry
    position: int
    seeds: tuple[int, ...] | None
    world: str | None
    version: str

    @property
    def carry(self) -> Carry:
        """The state of a simulation, to be given to ``simulate(..., resume=, from_episode=position)``."""
        if not isinstance(self.state, Carry):
            raise InvalidInput("saved state", "an agent's own", "a simulation's", "save the Curves' carry")
        return self.state


@double_precision
def save(
    path: str | Path,
    agent: AnyLearner,
    state: AgentState | Carry,
    *,
    position: int,
    seeds: tuple[int, ...] | None = None,
    world: str | None = None,
) -> Path:
    """Write an agent and its state (or a simulation's carry, with its ``seeds``) to one file, replacing it as a whole.

    The agent's ``name`` must say all options that differ from their defaults, as agents of a run's result do.

    Raises:
      InvalidInput: the agent cannot be made again from its name; nothing is written.
    """
    path = Path(path)
    if isinstance(state, Carry) != (seeds is not None):
        raise InvalidInput(
            "seeds", seeds, "given exactly for a simulation's carry", "pass the Curves' seeds with its carry"
        )
    if isinstance(agent.model, ContinuousModel):
        raise InvalidInput(
            "agent.model", "a continuous one", "one with finitely many states", "a file cannot hold its densities"
        )
    if not 0 <= position <= agent.schedule.episodes:
        raise InvalidInput("position", position, f"from 0 to {agent.schedule.episodes}", "give the episodes finished")
    difference = _difference(make_agent(agent.name, agent.model, agent.schedule.episodes), agent)
    if difference:
        raise InvalidInput(
            "agent",
            f"not what its name {agent.name!r} makes ({difference})",
            "made from its name alone",
            "put the options into the name: make_agent('name:key=value', ...)",
        )
    kind = "simulation" if isinstance(state, Carry) else "agent"
    trees = {"agent": agent, "state": state}
    arrays = {f"{tree}{key}": leaf for tree, content in trees.items() for key, leaf in _leaves(content).items()}
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "reticent": reticent.__version__,
        "agent": agent.name,
        "episodes": agent.schedule.episodes,
        "position": position,
        "seeds": None if seeds is None else [int(seed) for seed in seeds],
        "world": world,
        "model": {field: getattr(agent.model, field) for field in _DECLARED},
        "about": agent.model.about.to_dict(),
        "structure": _structure(agent),
        "arrays": {key: {"shape": list(leaf.shape), "dtype": str(leaf.dtype)} for key, leaf in arrays.items()},
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest, indent=1, allow_nan=False))
        archive.writestr("arrays.npz", packed.getvalue())
    return path


@double_precision
def load(path: str | Path) -> Saved:
    """Read what :func:`save` wrote; the state is the same to the last bit, and so is everything that follows from it.

    Raises:
      DamagedFile: the file is damaged, of a later format, or its agent is another one in this version.
    """
    manifest, arrays = _read(Path(path))
    try:
        model = _model(manifest["model"], About.from_dict(manifest["about"]), arrays)
        agent = make_agent(manifest["agent"], model, manifest["episodes"])
        if _structure(agent) != manifest["structure"]:
            raise DamagedFile(_other_agent(path, manifest))
        agent = _filled(agent, "agent", arrays, close_to=_other_agent(path, manifest))
        seeds = None if manifest["seeds"] is None else tuple(manifest["seeds"])
        template = jax.eval_shape(agent.init) if seeds is None else jax.eval_shape(_carry, agent, np.zeros(len(seeds)))
        if manifest["format"] == 1:
            arrays = _as_format_2(arrays, _leaves_of(template, "state"))
        state: AgentState | Carry = _filled(template, "state", arrays)
        return Saved(agent, state, int(manifest["position"]), seeds, manifest["world"], manifest["reticent"])
    except (KeyError, TypeError) as problem:
        raise DamagedFile(f"{path} is damaged: {problem} does not fit its manifest") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of a file, checked for completeness."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
                raise DamagedFile(f"{path} is not a saved agent: its manifest states no format")
            if manifest["format"] > FORMAT:
                raise DamagedFile(
                    f"{path} has format {manifest['format']}, but this reticent ({reticent.__version__}) knows formats "
                    f"up to {FORMAT}; load it with reticent {manifest.get('reticent', '?')} or later"
                )
            packed = archive.read("arrays.npz")
    except FileNotFoundError:
        raise DamagedFile(f"{path} does not exist; give the path of a saved agent") from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, EOFError) as problem:
        if isinstance(problem, DamagedFile):
            raise
        raise DamagedFile(f"{path} is not a saved agent, or is damaged: {problem}") from None
    if hashlib.sha256(packed).hexdigest() != manifest.get("sha256"):
        raise DamagedFile(f"{path} is damaged: its arrays do not match their checksum")
    with np.load(io.BytesIO(packed), allow_pickle=False) as content:
        return manifest, {key: content[key] for key in content.files}


def _model(stated: dict[str, Any], about: About, arrays: dict[str, np.ndarray]) -> Model:
    declared: dict[str, Any] = {field: stated[field] for field in _DECLARED}
    stored = {field: arrays.get(f"agent.model.{field}") for field in _FEATURES}  # a dense model has no successors
    features: dict[str, Any] = {field: on_device(array) for field, array in stored.items() if array is not None}
    make_model(**features, **declared, names=about.names, provenance=about.provenance)
    # That was the check, which casts to double precision; the features stay in the precision they were saved in.
    return Model(**features, **declared, about=about)


def _carry(agent: AnyLearner, seeds: Array) -> Carry:
    """A carry of as many seeds, for its structure and shapes."""

    def one(seed: Array) -> Carry:
        state = agent.init()
        value = seed.astype(agent.model.initial.dtype)
        return Carry(state, agent.plan(state), value, value)

    return jax.vmap(one)(seeds)


def _leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by key path, such as ``.aggregator.closed.reward_gram``."""
    return {jax.tree_util.keystr(key): np.asarray(leaf) for key, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _leaves_of(template: Any, name: str) -> set[str]:
    """The key paths of a tree that is called ``name``."""
    return {f"{name}{jax.tree_util.keystr(key)}" for key, _ in jax.tree_util.tree_leaves_with_path(template)}


def _as_format_2(arrays: dict[str, np.ndarray], expected: set[str]) -> dict[str, np.ndarray]:
    """The arrays of a file of format 1 under the names of format 2; what its agent's plans no longer have is left out."""
    old = {f"state.plan.{field}": f"state.plan.extension.{field}" for field in ("centres", "scales")}
    named = {old.get(key, key): array for key, array in arrays.items()}
    return {key: array for key, array in named.items() if key in expected or key not in old.values()}


def _filled(template: Any, name: str, arrays: dict[str, np.ndarray], close_to: str | None = None) -> Any:
    """``template`` with the saved arrays as leaves; with ``close_to``, an error of that text if they differ from it."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = _leaves_of(template, name)
    saved = {key for key in arrays if key.startswith(f"{name}.")}
    if expected != saved:
        raise KeyError(", ".join(sorted(expected ^ saved)[:3]))
    leaves = []
    for key, leaf in paths:
        array = arrays[f"{name}{jax.tree_util.keystr(key)}"]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise KeyError(f"{name}{jax.tree_util.keystr(key)}")
        # Another machine's logarithm may differ in the last digit; a changed constant differs by more.
        if close_to is not None and not np.allclose(array, np.asarray(leaf), rtol=1e-9, atol=0, equal_nan=True):
            raise DamagedFile(close_to)
        leaves.append(on_device(array))
    return jax.tree.unflatten(structure, leaves)


def _structure(agent: AnyLearner) -> str:
    """A fingerprint of everything about an agent that is not an array: classes, schedule, options."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", str(jax.tree.structure(agent)))
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(made: AnyLearner, given: AnyLearner) -> str | None:
    """Where two agents differ, or None."""
    if _structure(made) != _structure(given):
        return "another structure"
    one, other = _leaves(made), _leaves(given)
    return next((key for key, leaf in one.items() if not np.array_equal(leaf, other[key], equal_nan=True)), None)


def _other_agent(path: str | Path, manifest: dict[str, Any]) -> str:
    return (
        f"{path} was saved by reticent {manifest['reticent']}, where {manifest['agent']!r} was another agent than in "
        f"{reticent.__version__}; load it with that version"
    )
