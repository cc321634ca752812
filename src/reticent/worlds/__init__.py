# SPDX-License-Identifier: Apache-2.0
"""What the world is: linear mixture MDPs, their constructors, candidates from records, and the zoo."""

from typing import TYPE_CHECKING, Any

from reticent.gymnasium_ids import register
from reticent.worlds.episode import Episode
from reticent.worlds.models.blend import blend
from reticent.worlds.models.finite import finite_mdp
from reticent.worlds.models.model import Model, make_model
from reticent.worlds.models.model_file import ModelFile, load_model, save_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.models.simulators import Trajectory, blend_from_simulators
from reticent.worlds.models.sparse import sparse_blend
from reticent.worlds.models.tabular import tabular
from reticent.worlds.registry import WORLDS, default_episodes, make_world, register_world, world_rows
from reticent.worlds.transforms.misspecified import misspecified
from reticent.worlds.transforms.unknown_start import with_unknown_start
from reticent.worlds.world import World, world_from_parameters

if TYPE_CHECKING:
    from reticent.worlds.records import Fitted, fit

__all__ = [
    "WORLDS",
    "Episode",
    "Fitted",
    "Model",
    "ModelFile",
    "Names",
    "Provenance",
    "Trajectory",
    "World",
    "blend",
    "blend_from_simulators",
    "default_episodes",
    "finite_mdp",
    "fit",
    "load_model",
    "make_model",
    "make_world",
    "misspecified",
    "register_world",
    "save_model",
    "sparse_blend",
    "tabular",
    "with_unknown_start",
    "world_from_parameters",
    "world_rows",
]

register()


def __getattr__(name: str) -> Any:
    if name in ("Fitted", "fit"):  # not at the top: few need the tables of a fit
        from reticent.worlds import records

        return getattr(records, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
