"""Inverses and solutions for the tiny positive definite matrices of beliefs, batched (see ``learning.small_matrices``)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from reticent.learning.small_matrices import cholesky, solve


def inverse(matrix: Array) -> Array:
    """Of symmetric positive definite matrices ``(..., k, k)``."""
    size = matrix.shape[-1]
    if size == 0:
        return matrix
    identity = jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), matrix.shape)
    rows = solve(cholesky(matrix)[..., None, :, :], identity)
    return (rows + jnp.swapaxes(rows, -1, -2)) / 2


def solved_transposed(matrix: Array, right: Array) -> Array:
    """:math:`(A^{-1}R)^\\top` for symmetric positive definite A ``(..., k, k)`` and R ``(..., k, m)``; ``(..., m, k)``."""
    return solve(cholesky(matrix)[..., None, :, :], jnp.swapaxes(right, -1, -2))
