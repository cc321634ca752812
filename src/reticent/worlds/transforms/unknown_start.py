# SPDX-License-Identifier: Apache-2.0
"""Worlds in which the distribution of first states is unknown beforehand.

A model declares ``initial_known=False``; its ``initial`` is then a public guess, and where users really begin belongs to
the world, as the blend does. Plans do not depend on it: a plan says what to do in *every* state. What depends on it is how
often states are visited, so an agent that computes visits from the model (:mod:`reticent.agents.score`) has to learn it
from users, under their promise.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds.models.model import initial_distribution
from reticent.worlds.world import World

Initial = Literal["known", "unknown"]
"""Whether a world's model knows where users begin, as an option of worlds."""


@double_precision
def with_unknown_start(world: World, guess: ArrayLike | None = None) -> World:
    """The same world, whose users begin where they did, with a model that does not know it.

    Args:
      world: whose model declares its first states; it is left as it is.
      guess: a public distribution ``(S,)`` or a state; by default all states are as likely.

    Raises:
      InvalidInput: the guess is no distribution over the states.

    >>> from reticent.worlds import make_world
    >>> known = make_world("random-blend:states=4")
    >>> world = with_unknown_start(known)
    >>> world.model.initial.tolist(), world.initial.tolist(), world.optimal_value == known.optimal_value
    ([0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0], True)
    """
    states = world.model.states
    start = initial_distribution(np.full(states, 1 / states) if guess is None else guess, states)
    model = dataclasses.replace(world.model, initial=jnp.asarray(start), initial_known=False)
    return dataclasses.replace(world, model=model)


def require_known_start(world: World) -> None:
    """Refuse a world to whatever makes another one out of its model: users would begin where the model guesses.

    Raises:
      InvalidInput: its model does not know where users begin.
    """
    if not world.model.initial_known:
        remedy = "change the world first, and then use with_unknown_start"
        raise InvalidInput("world", world.name, "one whose model knows where users begin", remedy)
