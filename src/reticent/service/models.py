# SPDX-License-Identifier: Apache-2.0
"""The model of a deployment: a world's from the zoo, or one from a file of arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.service.config import Settings
from reticent.service.fingerprint import ARRAYS, SCALARS
from reticent.worlds import Model, make_model
from reticent.worlds.continuous import ContinuousModel
from reticent.worlds.models.model_file import is_model_file, load_model
from reticent.worlds.registry import make_world


def deployment_model(settings: Settings) -> Model:
    """The model that the settings name.

    Raises:
      InvalidInput: it has real states, which episodes of this service cannot carry, or is not a model at all.
    """
    model = read_model(settings.model_file) if settings.model_file else make_world(str(settings.world)).model
    if isinstance(model, ContinuousModel):
        raise InvalidInput("world", settings.world, "one with finitely many states", "real states cannot be served yet")
    return model


def read_model(path: Path) -> Model:
    """A model file as ``reticent fit`` writes it, or an ``.npz`` file whose names are the arguments of
    :func:`reticent.worlds.make_model`."""
    if is_model_file(path):
        return load_model(path).model
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {key: content[key] for key in content.files}
    except FileNotFoundError:
        raise InvalidInput(
            "model_file", f"{path}, which does not exist", "a model file", "correct the path; reticent fit writes one"
        ) from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, AttributeError, TypeError) as problem:
        remedy = f"make one with reticent fit, or with numpy.savez and without objects ({problem})"
        raise InvalidInput(
            "model_file", path, "a model file, or an .npz file of make_model's arguments", remedy
        ) from None
    unknown = sorted(set(arrays) - set(ARRAYS) - set(SCALARS))
    missing = sorted({"transition_features", "reward_features", "horizon"} - set(arrays))
    if unknown or missing:
        found = f"missing {missing}, unknown {unknown}"
        raise InvalidInput("model_file", found, "arguments of make_model", "save it with numpy.savez(path, name=array)")
    given: dict[str, Any] = {key: arrays[key] for key in ARRAYS if key in arrays}
    given |= {key: kind(arrays[key]) for key, kind in SCALARS.items() if key in arrays}
    if "initial" in given and given["initial"].ndim == 0:
        given["initial"] = int(given["initial"])
    return make_model(given.pop("transition_features"), given.pop("reward_features"), given.pop("horizon"), **given)
