# SPDX-License-Identifier: Apache-2.0
"""What a whole episode tells of a user's tastes. The formulas are the device's own (:mod:`reticent_wire.forms.factors`),
run with JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from reticent_wire.forms.factors import Items, Taste, newcomer, observed


def after_episode(items: Items, mean: Array, actions: Array, rewards: Array) -> Taste:
    """What a whole episode tells of a user, from a published mean on."""

    def step(taste: Taste, at: tuple[Array, Array]) -> tuple[Taste, None]:
        return observed(items, taste, *at, jnp), None

    begin = newcomer(mean, items.noise.shape[0], jnp)
    return jax.lax.scan(step, begin, (actions, rewards))[0]
