"""What the world is: linear mixture MDPs, their constructors and the zoo."""

from reticent.gymnasium_ids import register
from reticent.worlds.blend import blend
from reticent.worlds.episode import Episode
from reticent.worlds.misspecified import misspecified
from reticent.worlds.model import Model, make_model
from reticent.worlds.registry import WORLDS, Defaults, defaults_of, make_world_from, register_world, world_rows
from reticent.worlds.simulators import Trajectory, blend_from_simulators
from reticent.worlds.sparse import sparse_blend
from reticent.worlds.tabular import tabular
from reticent.worlds.world import World, make_world

__all__ = [
    "WORLDS",
    "Defaults",
    "Episode",
    "Model",
    "Trajectory",
    "World",
    "blend",
    "blend_from_simulators",
    "defaults_of",
    "make_model",
    "make_world",
    "make_world_from",
    "misspecified",
    "register_world",
    "sparse_blend",
    "tabular",
    "world_rows",
]

register()
