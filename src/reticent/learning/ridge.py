# SPDX-License-Identifier: Apache-2.0
r"""Ridge estimates :math:`\hat\theta=\Lambda^{-1}u` and norms :math:`\|x\|_{\Lambda^{-1}}`, by Cholesky factors.

With :math:`\Lambda=LL^\top`, :math:`\|x\|_{\Lambda^{-1}}=\|L^{-1}x\|_2`; no inverse is ever formed.
"""

from __future__ import annotations

from typing import NamedTuple

from jax import Array

from reticent.learning import small_matrices


class Estimate(NamedTuple):
    """θ̂ ``(H, d)`` and the lower Cholesky factor ``(H, d, d)`` of Λ, for one of the two regressions."""

    theta: Array
    factor: Array


def estimate(gram: Array, moment: Array) -> Estimate:
    """Solve the H ridge regressions of one kind."""
    factor = small_matrices.cholesky(gram)
    return Estimate(theta=small_matrices.solve(factor, moment), factor=factor)


def width(factor: Array, features: Array) -> Array:
    r"""All :math:`\|x\|_{\Lambda^{-1}}` for features ``(d, S, A)`` and one factor ``(d, d)``; shape ``(S, A)``."""
    flat = features.reshape(features.shape[0], -1)
    return small_matrices.inverse_norm(factor, flat).reshape(features.shape[1:])
