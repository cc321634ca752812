"""Clips: what makes a declared bound true. An assumption that nobody enforces is a leak."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from reticent.privacy.packing import floating


def clip_norm(x: ArrayLike, bound: ArrayLike) -> Array:
    """Scale each vector on the last axis to 2-norm at most ``bound``; shorter ones are returned as they are.

    Formal guarantee. The result has norm at most ``bound`` in exact arithmetic, whatever comes in: the factor is shaved
    by the rounding error of the norm, and entries that are not finite count as 0 (one NaN from one user would otherwise
    spoil the sum of all). Gradients are finite everywhere, also at the zero vector.
    """
    x = floating(x)
    x = jnp.where(jnp.isfinite(x), x, jnp.zeros_like(x))
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    limit = jnp.asarray(bound, x.dtype)[..., None]
    # Rounding of a sum of n squares, its root and the two products is below (n/2 + 3) units.
    shave = 1.0 - (x.shape[-1] + 4) * float(np.finfo(x.dtype).eps)
    inside = square <= (limit * shave) ** 2
    norm = jnp.sqrt(jnp.where(inside, jnp.ones_like(square), square))
    return x * jnp.where(inside, jnp.ones_like(square), limit * shave / norm)


def clip_interval(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """Clip to [``low``, ``high``]; NaN becomes ``low``, so that nothing outside the interval is ever counted."""
    x = floating(x)
    low = jnp.asarray(low, x.dtype)
    return jnp.clip(jnp.where(jnp.isnan(x), low, x), low, jnp.asarray(high, x.dtype))
