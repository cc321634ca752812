# SPDX-License-Identifier: Apache-2.0
r"""Cholesky factors, triangular solves and eigenvalues of many small matrices, written out entry by entry.

A learner factors two d×d matrices per step and replan, with d about 4, for thousands of seeds at once. Library routines
pay a call per matrix (on a CPU) or a launch per operation (on a GPU); written out over the batch, the whole thing is
elementwise arithmetic that XLA fuses with what comes before and after. The operations are the textbook's, in the
textbook's order; above :data:`WRITTEN_OUT` the code would grow as d³ and the library's routines are used instead.

All functions take leading batch axes, and agree with the library to rounding.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

WRITTEN_OUT = 12
"""Largest dimension whose factorization is written out."""

ROTATED = 4
"""Largest dimension whose eigenvalues are found by written-out rotations, where that is faster."""

SWEEPS = 6
"""Jacobi sweeps over all pairs of axes."""


def cholesky(matrix: Array) -> Array:
    """The lower factor L of symmetric positive definite matrices ``(..., d, d)``; NaN where one is not.

    Only the lower triangle is read.
    """
    size = matrix.shape[-1]
    if size > WRITTEN_OUT:
        factor: Array = jnp.linalg.cholesky(matrix, symmetrize_input=False)
        return factor
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i + 1):
            rest = matrix[..., i, j]
            for k in range(j):
                rest = rest - row[k] * (rows[j][k] if j < i else row[k])
            # A pivot that is not positive gives NaN (as the library does), and NaN spreads to all later entries.
            row.append(jnp.sqrt(jnp.where(rest > 0, rest, jnp.nan)) if i == j else rest / rows[j][j])
        rows.append(row)
    zero = jnp.zeros_like(rows[0][0])
    return jnp.stack([jnp.stack(row + [zero] * (size - len(row)), axis=-1) for row in rows], axis=-2)


def _forward(factor: Array, right: Array) -> list[Array]:
    """Solve L x = b for lower factors ``(..., d, d)`` and right sides ``(..., d, m)``; the d rows of x apart."""
    size = factor.shape[-1]
    solved: list[Array] = []
    for i in range(size):
        rest = right[..., i, :]
        for k in range(i):
            rest = rest - factor[..., i, k, None] * solved[k]
        solved.append(rest / factor[..., i, i, None])
    return solved


def inverse_norm(factor: Array, right: Array) -> Array:
    r"""All :math:`\|L^{-1}b\|_2` for lower factors ``(..., d, d)`` and columns b of ``(..., d, m)``; shape ``(..., m)``."""
    if factor.shape[-1] > WRITTEN_OUT:
        solved = jax.lax.linalg.triangular_solve(factor, right, left_side=True, lower=True)
        return jnp.sqrt((solved**2).sum(axis=-2))
    return jnp.sqrt(sum((row * row for row in _forward(factor, right)), jnp.zeros((), right.dtype)))


def solve(factor: Array, right: Array) -> Array:
    """Solve L Lᵀ x = b for lower factors ``(..., d, d)`` and right sides ``(..., d)``."""
    size = factor.shape[-1]
    if size > WRITTEN_OUT:
        half = jax.lax.linalg.triangular_solve(factor, right[..., None], left_side=True, lower=True)
        return jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[..., 0]
    halves = _forward(factor, right[..., None])
    solved: list[Array] = []
    for i in reversed(range(size)):
        rest = halves[i][..., 0]
        for k, known in zip(reversed(range(i + 1, size)), solved, strict=True):
            rest = rest - factor[..., k, i] * known
        solved.append(rest / factor[..., i, i])
    return jnp.stack(solved[::-1], axis=-1)


def eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues ``(..., d)``, in no particular order, and eigenvectors as columns, of symmetric ``(..., d, d)``.

    On an accelerator, the library's routine for thousands of tiny matrices takes a quarter of a replan; rotations that
    are fused take a tenth of that. On a CPU they are as fast as the library, but take seconds to compile.
    """
    if matrix.shape[-1] > ROTATED:
        values, vectors = jnp.linalg.eigh(matrix)
        return values, vectors
    found: tuple[Array, Array] = jax.lax.platform_dependent(
        matrix, cpu=lambda given: tuple(jnp.linalg.eigh(given)), default=eigen_by_rotations
    )
    return found


def eigen_by_rotations(matrix: Array) -> tuple[Array, Array]:
    """:func:`eigen` by cyclic Jacobi rotations: each makes one off-diagonal entry zero.

    A sweep over all of them squares their size once it is small. After :data:`SWEEPS` of them what is left is rounding
    (tested); the number is fixed, so that no lane waits for a decision about another.
    """
    size = matrix.shape[-1]
    zero = jnp.zeros_like(matrix[..., 0, 0])
    entries = {(i, j): matrix[..., j, i] for i in range(size) for j in range(i, size)}
    columns = {(i, j): zero + float(i == j) for i in range(size) for j in range(size)}

    def place(i: int, j: int) -> tuple[int, int]:
        return (i, j) if i <= j else (j, i)

    def sweep(_: Array, both: tuple[dict[Any, Array], dict[Any, Array]]) -> tuple[dict[Any, Array], dict[Any, Array]]:
        a, v = dict(both[0]), dict(both[1])
        for p in range(size):
            for q in range(p + 1, size):
                off, half = a[p, q], (a[q, q] - a[p, p]) / 2
                reach = half + jnp.where(half < 0, -1.0, 1.0) * jnp.sqrt(half * half + off * off)
                tangent = jnp.where(reach == 0, 0.0, off / jnp.where(reach == 0, 1.0, reach))
                cosine = jax.lax.rsqrt(1 + tangent * tangent)
                sine = tangent * cosine
                a[p, p], a[q, q], a[p, q] = a[p, p] - tangent * off, a[q, q] + tangent * off, zero
                for r in range(size):
                    if r not in (p, q):
                        one, other = a[place(r, p)], a[place(r, q)]
                        a[place(r, p)], a[place(r, q)] = cosine * one - sine * other, sine * one + cosine * other
                    one, other = v[r, p], v[r, q]
                    v[r, p], v[r, q] = cosine * one - sine * other, sine * one + cosine * other
        return a, v

    entries, columns = jax.lax.fori_loop(0, SWEEPS, sweep, (entries, columns))
    values = jnp.stack([entries[i, i] for i in range(size)], axis=-1)
    rows = [jnp.stack([columns[i, j] for j in range(size)], axis=-1) for i in range(size)]
    return values, jnp.stack(rows, axis=-2)


def raise_eigenvalues(matrix: Array, floor: Array) -> Array:
    """Symmetric matrices ``(..., d, d)`` with their eigenvalues raised to ``floor`` ``(...)`` where they are below it.

    What is missing is added, so that a matrix that needs nothing comes back as it is, to the last bit.
    """
    values, vectors = eigen(matrix)
    missing = jnp.maximum(floor[..., None] - values, 0)
    scaled = vectors * missing[..., None, :]
    return matrix + (scaled[..., :, None, :] * vectors[..., None, :, :]).sum(axis=-1)
