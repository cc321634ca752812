# SPDX-License-Identifier: Apache-2.0
r"""Actions that cannot be taken: in some states, by public rule, or at some moments, by what a user is doing.

An action that is not available does what another one does that is (``instead``, most often "nothing"). The model says so
itself: the pair's features are those of the other pair. Plans, statistics, clips and noise are made of the model alone, so
that nothing else has to know:

* **By state** (:func:`with_mask`): the rule is public and part of the model. The best plan of the new model is the best
  among plans that take available actions only, since every pair has the law of an available one.
* **By user and moment** (:func:`with_availability`): whether the user is available is part of the state, so it is
  the user's data, and enters the contribution as states do. *A contribution's bound does not depend on which states there
  are, so its sensitivity is the one proven for any model.* The policy reads the user's own availability, on the
  device in the local model; no other party sees it.

Ties between an action and its stand-in go to the lower number, so let what is always possible be action 0.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, on_device
from reticent.worlds.models.model import About, Model
from reticent.worlds.models.names import Names
from reticent.worlds.transforms.unknown_start import require_known_start
from reticent.worlds.world import World, world_from_parameters

__all__ = ["with_availability", "with_mask", "world_with_availability", "world_with_mask"]


@double_precision
def with_mask(model: Model, allowed: np.ndarray, *, instead: int = 0) -> Model:
    """The model in which a pair that is not ``allowed`` ``(S, A)`` does what ``instead`` does in that state.

    Raises:
      InvalidInput: a mask of another shape, or one that forbids ``instead`` somewhere.
    """
    _require_action(model, instead)
    allowed = np.asarray(allowed, bool)
    if allowed.shape != (model.states, model.actions):
        raise InvalidInput(
            "allowed", allowed.shape, f"of shape ({model.states}, {model.actions})", "one entry per pair"
        )
    forbidden = np.flatnonzero(~allowed[:, instead])
    if forbidden.size:
        state = model.names.states[forbidden[0]]
        raise InvalidInput(
            "instead",
            model.names.actions[instead],
            f"allowed in every state; it is not in {state!r}",
            "choose an action that is possible everywhere, such as doing nothing",
        )
    taken = on_device(np.where(allowed, np.arange(model.actions), instead))

    def followed(table: Array, axis: int) -> Array:
        """``table`` with pairs on ``axis`` − 1 and ``axis``, each pair as the one that is really taken."""
        pairs = jnp.moveaxis(table, (axis - 1, axis), (0, 1))
        return jnp.moveaxis(pairs[jnp.arange(model.states)[:, None], taken], (0, 1), (axis - 1, axis))

    return dataclasses.replace(
        model,
        transition_features=followed(model.transition_features, 2),
        reward_features=followed(model.reward_features, 2),
        successors=None if model.successors is None else followed(model.successors, 1),
        known_rewards=None if model.known_rewards is None else followed(model.known_rewards, 1),
        linear_features=None if model.linear_features is None else followed(model.linear_features, 2),
    )


@double_precision
def with_availability(model: Model, chance: float | np.ndarray, *, instead: int = 0) -> Model:
    """The model in which a user is available at a moment with the public probability ``chance``, by state ``(S,)``.

    State s has the number s where the user is available and S + s where not, where all actions do what ``instead`` does.

    Raises:
      InvalidInput: a chance that is no probability, one of another shape, or an action that there is none of.
    """
    _require_action(model, instead)
    states, actions = model.states, model.actions
    chances = np.asarray(chance, float)
    if chances.shape not in ((), (states,)):
        raise InvalidInput("chance", chances.shape, f"one number, or ({states},)", "one probability per state")
    if not ((chances >= 0) & (chances <= 1)).all():
        raise InvalidInput("chance", "a number outside", "from 0 to 1", "give probabilities of being available")
    there = jnp.broadcast_to(jnp.asarray(chances), (states,))
    listed = model.successors
    if listed is None:
        listed = jnp.broadcast_to(jnp.arange(states), (states, actions, states))
    # Every successor twice: the user is available there, or not.
    features = jnp.concatenate(
        [model.transition_features * there[listed], model.transition_features * (1 - there)[listed]], axis=-1
    )

    def halved(table: Array, axis: int) -> Array:
        """The table where the user is available, and under it the one where every action is ``instead``."""
        at_rest = jnp.broadcast_to(jnp.take(table, jnp.array([instead]), axis=axis), table.shape)
        return jnp.concatenate([table, at_rest], axis=axis - 1)

    names = model.names
    labels = (*names.states, *(f"{name} (not available)" for name in names.states))
    return dataclasses.replace(
        model,
        transition_features=halved(features, 2),
        reward_features=halved(model.reward_features, 2),
        initial=jnp.concatenate([model.initial * there, model.initial * (1 - there)]),
        successors=halved(jnp.concatenate([listed, listed + states], axis=-1), 1).astype(jnp.int32),
        known_rewards=None if model.known_rewards is None else halved(model.known_rewards, 1),
        linear_features=None if model.linear_features is None else halved(model.linear_features, 2),
        about=About(Names(labels, names.actions), model.about.provenance),
    )


@double_precision
def world_with_mask(world: World, allowed: np.ndarray, *, instead: int = 0) -> World:
    """The world whose model is :func:`with_mask`, with the truth as it was."""
    return _with_model(world, with_mask(world.model, allowed, instead=instead), "with a mask")


@double_precision
def world_with_availability(world: World, chance: float | np.ndarray, *, instead: int = 0) -> World:
    """The world whose model is :func:`with_availability`, with the truth as it was."""
    return _with_model(world, with_availability(world.model, chance, instead=instead), "with availability")


def _with_model(world: World, model: Model, what: str) -> World:
    require_known_start(world)
    return world_from_parameters(
        model,
        np.asarray(world.transition_theta),
        np.asarray(world.reward_theta),
        name=f"{world.name} {what}",
        reward_kind=world.reward_kind,
    )


def _require_action(model: Model, action: int) -> None:
    if not 0 <= action < model.actions:
        raise InvalidInput("instead", action, f"from 0 to {model.actions - 1}", "name an action of the model")
