# SPDX-License-Identifier: Apache-2.0
"""Noise of simulations and tests: Gaussians in floating point from an explicit key. :mod:`reticent.privacy.noise` has the
noise of deployments, and no way to take one for the other."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from reticent.errors import InvalidInput


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SimulationNoise:
    """Gaussian noise from a JAX key, for simulations and tests only.

    A source is a value: drawing twice from the same one gives the same numbers. Take one per counter and per round
    with :meth:`for_counter` and :meth:`for_round`; these are pure and work under ``jit``, ``vmap`` and ``scan``.
    """

    key: Array

    def __post_init__(self) -> None:
        given: object = self.key  # tree operations put all sorts of leaves here; only the likely mistake is caught
        if isinstance(given, int | np.integer):
            raise InvalidInput("key", given, "a JAX key", "pass jax.random.key(seed)")

    def for_counter(self, index: ArrayLike) -> SimulationNoise:
        """The source of one counter; different from every round's."""
        return SimulationNoise(jax.random.fold_in(jax.random.fold_in(self.key, 1), jnp.asarray(index)))

    def for_round(self, index: ArrayLike) -> SimulationNoise:
        """The source of one round, the same whatever other rounds drew."""
        return SimulationNoise(jax.random.fold_in(jax.random.fold_in(self.key, 2), jnp.asarray(index)))

    def draw(self, scale: ArrayLike) -> Array:
        """Independent N(0, scale²) in the shape and precision of ``scale``."""
        scale = jnp.asarray(scale)
        dtype = scale.dtype if jnp.issubdtype(scale.dtype, jnp.floating) else jnp.result_type(float)
        return jax.random.normal(self.key, scale.shape, dtype) * scale
