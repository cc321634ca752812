# SPDX-License-Identifier: Apache-2.0
"""Written-out Cholesky and triangular solves against NumPy, and the eigenvalue floor under nested vmaps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.learning import small_matrices

EIGEN = jax.jit(small_matrices.eigen_by_rotations)
RAISED = jax.jit(small_matrices.raise_eigenvalues)
SIZES = [1, 2, 4, 7, small_matrices.WRITTEN_OUT, small_matrices.WRITTEN_OUT + 1, 20]


def positive(seed: int, size: int, batch: tuple[int, ...], least: float = 0.1) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(*batch, size, size))
    return np.asarray(root @ np.swapaxes(root, -1, -2) + least * np.eye(size))


@pytest.mark.parametrize("size", SIZES)
def test_factor_and_solutions_are_numpys(size: int) -> None:
    rng = np.random.default_rng(size)
    matrix, many, one = positive(size, size, (3, 5)), rng.normal(size=(3, 5, size, 4)), rng.normal(size=(3, 5, size))
    factor = small_matrices.cholesky(jnp.asarray(matrix))
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-11)
    norms = small_matrices.inverse_norm(factor, jnp.asarray(many))
    wanted = np.linalg.norm(np.linalg.solve(np.asarray(factor), many), axis=-2)
    np.testing.assert_allclose(norms, wanted, rtol=1e-7, atol=1e-9)
    solved = small_matrices.solve(factor, jnp.asarray(one))
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, one[..., None])[..., 0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [2, 4, small_matrices.WRITTEN_OUT + 1])
def test_only_the_lower_triangle_is_read(size: int) -> None:
    matrix = positive(3, size, ())
    spoiled = np.tril(matrix) + np.triu(np.full((size, size), 99.0), 1)
    both = [small_matrices.cholesky(jnp.asarray(one)) for one in (matrix, spoiled)]
    np.testing.assert_array_equal(*both)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.sampled_from([1, 2, 3, small_matrices.ROTATED]),
    spread=st.floats(0, 8),
)
def test_eigenvalues_are_numpys(seed: int, size: int, spread: float) -> None:
    """Also where they span many orders of magnitude, or are all alike."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(6, size, size)))[0]
    wanted = 10 ** rng.uniform(-spread, 0, size=(6, size)) * rng.choice([-1, 1], size=(6, size))
    matrix = np.einsum("bij,bj,bkj->bik", turn, wanted, turn)
    values, vectors = map(np.asarray, EIGEN(matrix))
    np.testing.assert_allclose(np.sort(values), np.sort(wanted), rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        vectors @ np.swapaxes(vectors, -1, -2), np.broadcast_to(np.eye(size), matrix.shape), atol=1e-12
    )
    np.testing.assert_allclose(np.einsum("bij,bj,bkj->bik", vectors, values, vectors), matrix, rtol=0, atol=1e-12)


def test_diagonal_and_zero_matrices_have_eigenvalues_too() -> None:
    for diagonal in ([0.0, 0, 0, 0], [3, 1, 1, -2], [1, 1, 1, 1]):
        values, vectors = EIGEN(np.diag(np.asarray(diagonal, np.float64)))
        np.testing.assert_array_equal(values, diagonal)
        np.testing.assert_array_equal(vectors, np.eye(4))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), floor=st.floats(0.1, 5), size=st.sampled_from([1, 2, 4]))
def test_eigenvalues_are_raised_and_the_rest_is_left_alone(seed: int, floor: float, size: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(4, size, size))
    matrix = matrix + np.swapaxes(matrix, -1, -2) + rng.uniform(-2, 12, size=(4, 1, 1)) * np.eye(size)
    raised = np.asarray(RAISED(matrix, np.full(4, floor)))
    for before, after in zip(matrix, raised, strict=True):
        values, vectors = np.linalg.eigh(before)
        if values[0] > floor + 1e-9:
            np.testing.assert_array_equal(after, before)
        wanted = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
        np.testing.assert_allclose(after, wanted, rtol=0, atol=1e-9)


def test_the_floor_is_the_same_under_nested_vmaps_and_jit() -> None:
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(3, 4, 2, 3, 3))
    matrix = matrix + np.swapaxes(matrix, -1, -2) + 2 * np.eye(3)
    floor = rng.uniform(0.5, 2, size=(3, 2))
    batched = jax.jit(jax.vmap(jax.vmap(small_matrices.raise_eigenvalues, in_axes=(0, None))))(matrix, floor)
    for i in range(3):
        for j in range(4):
            alone = RAISED(matrix[i, j], floor[i])
            np.testing.assert_allclose(batched[i, j], alone, rtol=0, atol=1e-12)
