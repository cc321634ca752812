# SPDX-License-Identifier: Apache-2.0
"""Clips: what makes a declared bound true.

The implementation is the wire's, which service and devices run too; here it runs with JAX.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from reticent_wire import clipping


def clip_norm(x: ArrayLike, bound: ArrayLike) -> Array:
    """Scale each vector on the last axis to 2-norm at most ``bound`` (:func:`reticent_wire.clipping.clip_norm`)."""
    clipped: Array = clipping.clip_norm(x, bound, jnp)
    return clipped


def clip_interval(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """Clip to [``low``, ``high``] (:func:`reticent_wire.clipping.clip_interval`)."""
    clipped: Array = clipping.clip_interval(x, low, high, jnp)
    return clipped
