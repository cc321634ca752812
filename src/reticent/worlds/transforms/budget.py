# SPDX-License-Identifier: Apache-2.0
"""At most m prompts in an episode: what is left of a budget becomes part of the state.

The product has a copy of every state for each number r = m, …, 0 of prompts that are left. The prompt moves from r to
r − 1 and everything else stays at r. Where nothing is left the prompt does what the null action does, so that a
learner gains nothing by it and a user is not bothered. Features are those of the model, so that its parameters,
bounds and declarations stay as they are; a pair has no more successors than before (``successors``), and memory grows
by the factor m + 1 and not its square.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds.models.model import About, Model
from reticent.worlds.models.names import Names
from reticent.worlds.transforms.unknown_start import require_known_start
from reticent.worlds.world import World, world_from_parameters

__all__ = ["with_budget", "world_with_budget"]


@double_precision
def with_budget(model: Model, action: int, m: int, *, null: int = 0) -> Model:
    """The model in which ``action`` can be taken at most ``m`` times in an episode; after that it does what ``null`` does.

    State s with r left has the number ``(m - r) * S + s``: users begin among the first S.

    Raises:
      InvalidInput: an action that there is none of, the null action itself, or a budget below 0.
    """
    for field, value in (("action", action), ("null", null)):
        if not 0 <= value < model.actions:
            raise InvalidInput(field, value, f"from 0 to {model.actions - 1}", "name an action of the model")
    if action == null:
        raise InvalidInput("action", action, f"another than the null action {null}", "the null action has no budget")
    if m < 0:
        raise InvalidInput("m", m, "at least 0", "count how often the action may be taken")
    states = model.states
    listed = model.successors
    if listed is None:
        listed = jnp.broadcast_to(jnp.arange(states), (states, model.actions, states))
    left = [listed.at[:, action].add(states) + spent * states for spent in range(m)]
    left.append(_without(listed, action, null, axis=1) + m * states)

    def copied(features: Array, axis: int) -> Array:
        return jnp.concatenate([*[features] * m, _without(features, action, null, axis=axis)], axis=axis - 1)

    names = model.names
    labels = tuple(f"{name} ({r} left)" for r in range(m, -1, -1) for name in names.states)
    return dataclasses.replace(
        model,
        transition_features=copied(model.transition_features, 2),
        reward_features=copied(model.reward_features, 2),
        initial=jnp.concatenate([model.initial, jnp.zeros(m * states, model.initial.dtype)]),
        successors=jnp.concatenate(left).astype(jnp.int32),
        known_rewards=None if model.known_rewards is None else copied(model.known_rewards, 1),
        linear_features=None if model.linear_features is None else copied(model.linear_features, 2),
        about=About(Names(labels, names.actions), model.about.provenance),
    )


@double_precision
def world_with_budget(world: World, action: int, m: int, *, null: int = 0) -> World:
    """The world whose model is :func:`with_budget`, with the truth as it was."""
    require_known_start(world)
    return world_from_parameters(
        with_budget(world.model, action, m, null=null),
        np.asarray(world.transition_theta),
        np.asarray(world.reward_theta),
        name=f"{world.name} with a budget",
        reward_kind=world.reward_kind,
    )


def _without(features: Array, action: int, null: int, *, axis: int) -> Array:
    """With the null action in the prompt's place."""
    return jnp.moveaxis(jnp.moveaxis(features, axis, 0).at[action].set(jnp.moveaxis(features, axis, 0)[null]), 0, axis)
