# SPDX-License-Identifier: Apache-2.0
"""Symmetric matrices as vectors of the same length: the upper triangle, off-diagonal entries times √2.

The implementation is the wire's, which service and devices run too; here it runs with JAX.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from reticent_wire import packing
from reticent_wire.packing import packed_size

__all__ = ["pack_symmetric", "packed_size", "unpack_symmetric"]


def pack_symmetric(matrix: ArrayLike) -> Array:
    """The upper triangle as a vector, an isometry (:func:`reticent_wire.packing.pack_symmetric`)."""
    packed: Array = packing.pack_symmetric(matrix, jnp)
    return packed


def unpack_symmetric(packed: ArrayLike) -> Array:
    """The inverse of :func:`pack_symmetric`."""
    matrix: Array = packing.unpack_symmetric(packed, jnp)
    return matrix
