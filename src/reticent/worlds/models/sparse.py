# SPDX-License-Identifier: Apache-2.0
r"""Blends of sparse candidate models: many states, few successors each.

A candidate is a SciPy sparse matrix of shape ``(S·A, S)`` whose row ``s·A + a`` is :math:`P_i(\cdot\mid s,a)`: what a
simulator that lists transitions writes down. The successors of a pair are the union of its candidates' supports, padded
to the longest union; every candidate then has a column of features for each, zero where it has no such transition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import blend
from reticent.worlds.world import World


def sparse_blend(
    candidates: Sequence[Any],
    reward_candidates: ArrayLike,
    weights: ArrayLike,
    reward_weights: ArrayLike,
    horizon: int,
    **options: Any,
) -> World:
    """The blend of sparse matrices ``(S·A, S)``; everything else as in :func:`reticent.worlds.blend`.

    Raises:
      InvalidInput: a matrix does not fit the reward tables ``(d2, S, A)``, or :func:`~reticent.worlds.blend` refuses.

    >>> import numpy as np, scipy.sparse
    >>> stay, turn = scipy.sparse.eye_array(3), scipy.sparse.csr_array(np.roll(np.eye(3), 1, axis=1))
    >>> world = sparse_blend([stay, turn], [[[0.0], [0.0], [1.0]]], [0.5, 0.5], [1.0], 3)
    >>> world.model.successors[:, 0].tolist(), world.optimal_value
    ([[0, 1], [1, 2], [0, 2]], 0.25)
    """
    tables = np.asarray(reward_candidates, dtype=np.float64)
    if tables.ndim != 3:
        raise InvalidInput("reward_candidates.shape", tables.shape, "(d2, S, A)", "stack the tables along axis 0")
    successors, psi = gather(candidates, tables.shape[1], tables.shape[2])
    return blend(psi, tables, weights, reward_weights, horizon, successors=successors, **options)


def gather(candidates: Sequence[Any], states: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Successors ``(S, A, n)`` and features ``(d1, S, A, n)`` of sparse matrices ``(S·A, S)``.

    Work and memory are proportional to the stored entries and to the result; nothing of size S² is formed.
    """
    import scipy.sparse  # not at the top: few worlds need it

    pairs = states * actions
    matrices = [scipy.sparse.csr_array(matrix, dtype=np.float64) for matrix in candidates]
    if not matrices:
        raise InvalidInput("candidates", "empty", "at least one matrix", "give the candidate models")
    for number, matrix in enumerate(matrices):
        if matrix.shape != (pairs, states):
            raise InvalidInput(
                f"candidates[{number}].shape",
                matrix.shape,
                f"(S·A, S) = ({pairs}, {states})",
                "put row s·A + a for (s, a)",
            )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()

    union = sum((_pattern(matrix) for matrix in matrices[1:]), start=_pattern(matrices[0]))
    union.sort_indices()
    counts = np.diff(union.indptr)
    width = max(int(counts.max()), 1)
    # Place of every entry of the union in its padded row; the padding repeats state 0 with features 0.
    owner = np.repeat(np.arange(pairs), counts)
    column = np.arange(union.nnz) - np.repeat(union.indptr[:-1], counts)
    successors = np.zeros((pairs, width), np.int32)
    successors[owner, column] = union.indices

    psi = np.zeros((len(matrices), pairs, width))
    keys = owner.astype(np.int64) * states + union.indices
    for feature, matrix in zip(psi, matrices, strict=True):
        rows = np.repeat(np.arange(pairs, dtype=np.int64), np.diff(matrix.indptr))
        found = np.searchsorted(keys, rows * states + matrix.indices)
        feature[owner[found], column[found]] = matrix.data
    shape = (states, actions, width)
    return successors.reshape(shape), psi.reshape(len(matrices), *shape)


def _pattern(matrix: Any) -> Any:
    """Where a matrix has entries: ones, so that no sum of patterns cancels."""
    return type(matrix)((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
