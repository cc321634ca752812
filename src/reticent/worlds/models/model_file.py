# SPDX-License-Identifier: Apache-2.0
"""Model files: what is known before the first user, with its names, its coding and its origin. No pickle.

``model.npz`` is a zip archive as NumPy writes it, one ``.npy`` member per array, with a member ``manifest.json``
beside them. The manifest is versioned and says what there is: horizon and declared bounds, names of states and
actions, coding, provenance, report, and a checksum of every array. Nothing in a file is ever executed, and a file
that is not whole is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import reticent
from reticent.errors import InvalidInput, ReticentError
from reticent.short_repr import ShortRepr
from reticent.worlds.models.model import Model, make_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.prior import RewardWeights
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.records.coding import Coding
from reticent.worlds.tastes.model import TasteModel, make_taste_model

FORMAT = 1
"""Version of the file format; files of others are refused."""

_DECLARED = [
    field.name for field in dataclasses.fields(Model) if field.metadata.get("static") and field.name != "about"
]
"""What a model declares; its names and provenance (``about``) are written apart."""
_FEATURES = [field.name for field in dataclasses.fields(Model) if not field.metadata.get("static")]
_TASTES = ["intercepts", "loadings", "noise"]
"""What a model of tastes has besides (:mod:`reticent.worlds.tastes.model`); the rest of it follows from these."""
_SHARES = "shares"
_MANIFEST = "manifest.json"


class DamagedModel(ReticentError):
    """A file that is not a model, or not a whole one, or one of another format."""


@dataclasses.dataclass(frozen=True)
class ModelFile(ShortRepr):
    """What :func:`load_model` returns.

    Attributes:
      model: what a learner gets. ``names``: of its states and actions.
      provenance: where the numbers come from.
      coding: of recorded columns into states and actions, if the model has one.
      shares: of the candidates in the public records, ``(d1,)``, if known: where a prior may be centred.
      report: what the candidates rest on, as a JSON object.
      version: of reticent that wrote the file.
    """

    model: Model
    names: Names
    provenance: Provenance
    coding: Coding | None
    shares: np.ndarray | None
    report: Mapping[str, Any] | None
    version: str

    @property
    def reward_weights(self) -> RewardWeights:
        """How a public prior draws reward weights: candidates of a fit are kinds of people, so what they do and what pays
        off for them have the same weights."""
        kinds = self.coding is not None and self.model.d1 == self.model.d2 and self.model.reward_total is not None
        return "same" if kinds else "own"


def save_model(
    path: str | Path,
    model: Model,
    *,
    names: Names,
    provenance: Provenance,
    coding: Coding | None = None,
    shares: np.ndarray | None = None,
    report: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model file, replacing an old one as a whole.

    Raises:
      InvalidInput: names, coding or shares do not fit the model, or the place cannot be written to; nothing is changed.
    """
    path = Path(path)
    names.check_sizes(model.states, model.actions)
    if coding is not None and (coding.states, coding.actions) != (model.states, model.actions):
        raise InvalidInput(
            "coding",
            f"of {coding.states} states and {coding.actions} actions",
            f"of {model.states} and {model.actions}, as the model",
            "save the coding that the model was made with",
        )
    arrays = {name: getattr(model, name) for name in _FEATURES if getattr(model, name) is not None}
    arrays |= {name: getattr(model, name) for name in _TASTES if isinstance(model, TasteModel)}
    if shares is not None:
        shares = np.asarray(shares, dtype=np.float64)
        if shares.shape != (model.d1,) or not (shares.min() >= 0 and abs(shares.sum() - 1) < 1e-6):
            raise InvalidInput("shares", shares, f"a distribution over {model.d1} candidates", "normalise them")
        arrays[_SHARES] = shares
    packed = {name: _pack(np.asarray(array)) for name, array in arrays.items()}
    manifest = {
        "format": FORMAT,
        "kind": "model",
        "reticent": reticent.__version__,
        "declared": {name: getattr(model, name) for name in _DECLARED},
        "names": names.to_dict(),
        "provenance": provenance.to_dict(),
        "coding": None if coding is None else coding.to_dict(),
        "report": None if report is None else dict(report),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in packed.items()},
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_MANIFEST, text)
                for name, content in packed.items():
                    archive.writestr(f"{name}.npy", content)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise InvalidInput("path", f"{path} ({reason})", "a place that can be written to", "choose another") from None
    return path


def is_model_file(path: str | Path) -> bool:
    """Whether a file has the manifest of a model file; :func:`load_model` says whether it is whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _MANIFEST in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load_model(path: str | Path) -> ModelFile:
    """Read what :func:`save_model` wrote.

    Raises:
      DamagedModel: the file is missing, not a model, damaged, or of another format.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            _check_format(path, manifest)
            packed = {name: archive.read(f"{name}.npy") for name in manifest["sha256"]}
    except FileNotFoundError:
        raise DamagedModel(
            f"{path} does not exist; give the path of a model file, such as reticent fit writes"
        ) from None
    except IsADirectoryError:
        raise DamagedModel(f"{path} is a folder; give the path of a model file, such as reticent fit writes") from None
    except zipfile.BadZipFile:
        raise DamagedModel(
            f"{path} is not a model file, or its end is missing; expected what reticent fit or save_model wrote "
            "(a model of recorded columns is made by reticent fit; a damaged file must be written again)"
        ) from None
    except (OSError, KeyError, TypeError, ValueError, EOFError) as problem:
        if isinstance(problem, DamagedModel):
            raise
        raise DamagedModel(f"{path} is not a model file, or is damaged: {problem}") from None
    for name, content in packed.items():
        if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
            raise DamagedModel(f"{path} is damaged: its array {name!r} does not match its checksum")
    try:
        arrays = {name: np.load(io.BytesIO(content), allow_pickle=False) for name, content in packed.items()}
        shares = arrays.pop(_SHARES, None)
        names, origin = Names.from_dict(manifest["names"]), Provenance.from_dict(manifest["provenance"])
        declared = {name: manifest["declared"][name] for name in _DECLARED}
        tastes = {name: arrays.pop(name) for name in _TASTES if name in arrays}
        if tastes:
            model: Model = make_taste_model(**tastes, horizon=declared["horizon"], names=names, provenance=origin)
        else:
            model = make_model(**arrays, **declared, names=names, provenance=origin)
        coding = None if manifest["coding"] is None else Coding.from_dict(manifest["coding"])
        return ModelFile(model, names, origin, coding, shares, manifest["report"], manifest["reticent"])
    except (KeyError, TypeError, ValueError) as problem:
        raise DamagedModel(f"{path} is damaged: {problem}") from None


def _check_format(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("kind") != "model" or not isinstance(manifest.get("format"), int):
        raise DamagedModel(f"{path} is not a model file: its manifest does not say so")
    if manifest["format"] != FORMAT:
        raise DamagedModel(
            f"{path} has format {manifest['format']}, but this reticent ({reticent.__version__}) reads format {FORMAT}; "
            f"use reticent {manifest.get('reticent', '?')}, or fit the model again"
        )


def _pack(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()
