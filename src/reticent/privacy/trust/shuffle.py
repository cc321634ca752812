# SPDX-License-Identifier: Apache-2.0
"""Shuffle differential privacy: a shuffler mixes messages, and users hide each other with coin flips.

The protocol and its theorem are in :mod:`reticent_wire.shuffling`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from reticent.privacy.trust.trust import Draw, Trust
from reticent_wire.grid import dithered


class Shuffle(Trust):
    """Users send one-bit messages through a shuffler; the coins of all users of a round are its noise."""

    name = "shuffle"
    exposed = "everything that leaves the shuffler, and all that is computed from it,"
    trusted = "the shuffler, to mix the messages and to fill silent places"
    wire = "messages"
    grouped = True
    silence = " The shuffler knows whether a user sends at all: it fills the places of silent users with coins."

    def send(self, contribution: Array, noise: Array | None, grid: Array) -> Array:
        """On the grid, which is coarse: ``noise`` in [0, 1) decides which way a number is rounded
        (:func:`reticent_wire.grid.dithered`); None rounds to the nearest."""
        spacing = jnp.where(grid > 0, grid, 1.0)
        sent: Array = spacing * dithered(contribution, spacing, 0.5 if noise is None else noise, jnp)
        return sent

    def simulate_user_noise(self, key: Array, like: Array, draw: Draw) -> Array:
        del draw
        return jax.random.uniform(key, like.shape, like.dtype)

    def reliance(self, honest: float) -> str:
        users = "every user" if honest == 1 else f"{100 * honest:g}% of the users"
        return f" No party sees a report: the shuffler is trusted to mix, and {users} of the epoch to flip the coins."


SHUFFLE = Shuffle()
