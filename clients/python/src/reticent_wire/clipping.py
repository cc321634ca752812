# SPDX-License-Identifier: Apache-2.0
"""Clips: what makes a declared bound true. An assumption that is not enforced is a leak.

Written over an array namespace ``xp``: a device and the service run it with NumPy, a simulation runs the same source with
``jax.numpy``.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""An array of the namespace that a function is called with: NumPy's or JAX's."""

Namespace: TypeAlias = Any
"""The module whose functions are used on the arrays: ``numpy`` or ``jax.numpy``."""


def clip_norm(x: Array, bound: Array, xp: Namespace = np) -> Array:
    """Scale each vector on the last axis to 2-norm at most ``bound``; shorter ones are returned as they are.

    Formal guarantee. The result has norm at most ``bound`` in exact arithmetic, whatever comes in: the factor is shaved
    by the rounding error of the norm. Entries that are not finite count as 0 (one NaN from one user would otherwise spoil
    the sum of all), and so do those whose square would be lost, which would pass a bound of 0. Gradients are finite
    everywhere, also at the zero vector.
    """
    x = floating(x, xp)
    kind = np.finfo(x.dtype)
    x = xp.where(xp.isfinite(x) & (xp.abs(x) > math.sqrt(kind.tiny)), x, 0.0)
    with np.errstate(over="ignore"):  # an infinite norm makes the vector 0, which is within every bound
        square = (x * x).sum(axis=-1, keepdims=True)
    # Rounding of a sum of n squares, its root and the two products is below (n/2 + 3) units.
    shave = 1.0 - (x.shape[-1] + 4) * float(kind.eps)
    limit = xp.asarray(bound, dtype=x.dtype)[..., None] * shave
    inside = square <= limit**2
    norm = xp.sqrt(xp.where(inside, 1.0, square))
    return x * xp.where(inside, 1.0, limit / norm)


def clip_interval(x: Array, low: Array, high: Array, xp: Namespace = np) -> Array:
    """Clip to [``low``, ``high``]; NaN becomes ``low``, so that nothing outside the interval is ever counted."""
    x = floating(x, xp)
    low = xp.asarray(low, dtype=x.dtype)
    return xp.clip(xp.where(xp.isnan(x), low, x), low, xp.asarray(high, dtype=x.dtype))


def floating(x: Array, xp: Namespace = np) -> Array:
    """``x`` as an array of floating-point numbers."""
    x = xp.asarray(x)
    return x if xp.issubdtype(x.dtype, xp.floating) else x.astype(float)
