# SPDX-License-Identifier: Apache-2.0
"""What server and device share, in one implementation each: NumPy alone.

* :mod:`~reticent_wire.arrays`: numbers in JSON, none lost on the way.
* :mod:`~reticent_wire.model`, :mod:`~reticent_wire.billboard`: what a deployment publishes.
* :mod:`~reticent_wire.trajectory`, :mod:`~reticent_wire.forms`: from an episode to a clipped contribution.
* :mod:`~reticent_wire.clipping`, :mod:`~reticent_wire.packing`, :mod:`~reticent_wire.grid`: the clips
  and the only rounding; they and the forms take an array namespace, so that a simulation runs the same source with JAX.
* :mod:`~reticent_wire.shuffling`, :mod:`~reticent_wire.shuffle_rules`: the shuffle model's messages.
* :mod:`~reticent_wire.promise`: what a report reveals at most.

``vectors/*.json`` are inputs and outputs of all of it, for clients in other languages.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent_wire.billboard import Billboard
    from reticent_wire.errors import InvalidInput, ReticentError
    from reticent_wire.forms import FORMS, Form
    from reticent_wire.model import Dimensions, Model, Rules
    from reticent_wire.shuffle_rules import ShuffleRules
    from reticent_wire.trajectory import Trajectory

# Imported when first used, as in the package above.
_HOMES = {
    "Billboard": "reticent_wire.billboard",
    "Dimensions": "reticent_wire.model",
    "FORMS": "reticent_wire.forms",
    "Form": "reticent_wire.forms",
    "InvalidInput": "reticent_wire.errors",
    "Model": "reticent_wire.model",
    "ReticentError": "reticent_wire.errors",
    "Rules": "reticent_wire.model",
    "ShuffleRules": "reticent_wire.shuffle_rules",
    "Trajectory": "reticent_wire.trajectory",
}

__all__ = [
    "FORMS",
    "Billboard",
    "Dimensions",
    "Form",
    "InvalidInput",
    "Model",
    "ReticentError",
    "Rules",
    "ShuffleRules",
    "Trajectory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
