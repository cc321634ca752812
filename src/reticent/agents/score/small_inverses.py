# SPDX-License-Identifier: Apache-2.0
"""Inverses and solutions for the positive definite matrices of posteriors, batched; tiny ones are written out.

See :mod:`reticent.learning.small_matrices` for why.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.small_matrices import WRITTEN_OUT, cholesky, solve


def inverse(matrix: Array) -> Array:
    """Of symmetric positive definite matrices ``(..., k, k)``."""
    size = matrix.shape[-1]
    rows = solved_transposed(matrix, jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), matrix.shape))
    return (rows + jnp.swapaxes(rows, -1, -2)) / 2


def solved_transposed(matrix: Array, right: Array) -> Array:
    """:math:`(A^{-1}R)^\\top` for symmetric positive definite A ``(..., k, k)`` and R ``(..., k, m)``; ``(..., m, k)``."""
    size = matrix.shape[-1]
    if size == 0:
        return jnp.swapaxes(right, -1, -2)
    factor = cholesky(matrix)
    if size <= WRITTEN_OUT:
        return solve(factor[..., None, :, :], jnp.swapaxes(right, -1, -2))
    half = jax.lax.linalg.triangular_solve(factor, right, left_side=True, lower=True)
    whole = jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)
    return jnp.swapaxes(whole, -1, -2)
