# SPDX-License-Identifier: Apache-2.0
"""Many truths of one model, simulated side by side: one for each seed.

Worlds that share their model differ in a few arrays only. Stacked along a leading axis these go through one compiled
program, as seeds do, so that hundreds of truths cost one compilation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods
from reticent.simulation.rollout import AnyWorld
from reticent.worlds import World

OWN = ("transition_theta", "reward_theta", "rows", "cumulative", "reward_means")
"""What a truth consists of; the other fields of a world are its model's, or derived from it."""


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WorldBatch:
    """Worlds of one model, one for each seed of a simulation.

    Attributes:
      shared: a world of that model; only what all worlds share is read from it.
      own: the arrays of every truth by field, each with a leading axis of truths.
    """

    shared: World
    own: dict[str, Array]

    @property
    def count(self) -> int:
        return len(self.own["rows"])

    def world_of(self, truth: dict[str, Array]) -> World:
        """The world of one truth, given its arrays."""
        changed: Any = truth
        return dataclasses.replace(self.shared, **changed)

    def some(self, chosen: np.ndarray) -> WorldBatch:
        """The truths at these places."""
        return dataclasses.replace(self, own={field: array[chosen] for field, array in self.own.items()})

    def optimal_policy_value(self) -> Array:
        """V* of every truth, ``(count,)``."""
        return self._each(lambda world: world.optimal_policy_value())

    def uniform_value(self) -> Array:
        """The uniform policy's value in every truth, ``(count,)``."""
        return self._each(lambda world: world.policy_value(world.uniform_policy))

    def one_plan(self) -> Array:
        """The best choices ``(H, S)`` in the mean truth: a plan for one who knows the distribution of truths, and will
        not learn which one it is."""
        middle = {field: array.mean(axis=0) for field, array in self.own.items()}
        return self.world_of(middle).optimal_choices

    def policy_value(self, policy: Array) -> Array:
        """The value of one policy in every truth, ``(count,)``."""
        return self._each(lambda world: world.policy_value(policy))

    def _each(self, function: Any) -> Array:
        values: Array = jax.vmap(lambda truth: function(self.world_of(truth)))(self.own)
        return values


AnyPlace: TypeAlias = AnyWorld | WorldBatch
"""Where a simulation takes place: one world for all seeds, or a truth for each."""


@double_precision
def stack_worlds(worlds: Sequence[World]) -> WorldBatch:
    """Worlds of one model as :class:`WorldBatch`.

    Raises:
      InvalidInput: there are none, or they do not share one model, or have parameters of different shapes.
    """
    if not worlds or any(world.model is not worlds[0].model for world in worlds):
        raise InvalidInput(
            "worlds", f"{len(worlds)} of several models", "at least one, of one model", "draw them from it"
        )
    shapes = {tuple(getattr(world, field).shape for field in OWN) for world in worlds}
    if len(shapes) > 1 or len({world.reward_kind for world in worlds}) > 1:
        raise InvalidInput("worlds", "of different shapes", "alike but for numbers", "give all of them rows per step")
    return WorldBatch(worlds[0], {field: jnp.stack([getattr(world, field) for world in worlds]) for field in OWN})


def example_of(place: AnyPlace) -> AnyWorld:
    """A world from which sizes can be read."""
    return place.shared if isinstance(place, WorldBatch) else place


def check_world_batch(place: AnyPlace, seeds: int) -> None:
    """There is a truth for each seed, if there are several.

    Raises:
      InvalidInput: there is not.
    """
    if isinstance(place, WorldBatch) and place.count != seeds:
        raise InvalidInput("truths", place.count, f"{seeds}, one for each seed", "draw as many truths as seeds")
