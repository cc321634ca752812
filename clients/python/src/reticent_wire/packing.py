# SPDX-License-Identifier: Apache-2.0
"""Symmetric matrices as vectors of the same length: the upper triangle, off-diagonal entries times √2.

Packing is an isometry, so the Frobenius sensitivity of a matrix is the 2-norm sensitivity of its vector, and noise is drawn
on the vector: unscaled noise on a triangle has a larger operator norm for nothing.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from reticent_wire.clipping import Array, Namespace
from reticent_wire.errors import InvalidInput


def packed_size(dimension: int) -> int:
    """d(d+1)/2, the length of a packed symmetric d × d matrix."""
    return dimension * (dimension + 1) // 2


def pack_symmetric(matrix: Array, xp: Namespace = np) -> Array:
    r"""The upper triangle of symmetric matrices ``(..., d, d)`` as vectors ``(..., d(d+1)/2)``, off-diagonals times √2.

    The scaling makes it an isometry from the Frobenius norm to the 2-norm, so a Frobenius sensitivity is the 2-norm
    sensitivity of what the counters see. Independent noise of variance σ² on the packed vector unpacks to variance σ²
    on the diagonal and σ²/2 off it, a rotation-invariant matrix.
    """
    matrix = xp.asarray(matrix)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidInput("matrix.shape", matrix.shape, "(..., d, d)", "pass square matrices")
    rows, columns, scale, _ = _layout(int(matrix.shape[-1]))
    return matrix[..., rows, columns] * xp.asarray(scale, dtype=matrix.dtype)


def unpack_symmetric(packed: Array, xp: Namespace = np) -> Array:
    """The inverse of :func:`pack_symmetric`: ``(..., d(d+1)/2)`` to symmetric ``(..., d, d)``."""
    packed = xp.asarray(packed)
    size = int(packed.shape[-1]) if packed.ndim else 0
    dimension = (math.isqrt(8 * size + 1) - 1) // 2
    if size == 0 or packed_size(dimension) != size:
        raise InvalidInput("packed.shape", packed.shape, "(..., d(d+1)/2)", "pass what pack_symmetric returned")
    _, _, scale, place = _layout(dimension)
    return (packed / xp.asarray(scale, dtype=packed.dtype))[..., place]


@functools.cache
def _layout(dimension: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Rows and columns of the packed entries, their scale, and the packed place of each matrix entry."""
    rows, columns = np.triu_indices(dimension)
    scale = np.where(rows == columns, 1.0, math.sqrt(2.0))
    place = np.empty((dimension, dimension), dtype=np.int64)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return rows, columns, scale, place
