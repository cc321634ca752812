# SPDX-License-Identifier: Apache-2.0
r"""Estimates that respect what is known of θ: the weights of a blend sum to one.

A :class:`~reticent.worlds.Model` may declare that its transition parameter sums to one. The ridge estimate is then
replaced by its projection onto :math:`\{\theta:\mathbf 1^\top\theta=1\}` in the norm of Λ,

.. math:: \tilde\theta=\hat\theta+\Lambda^{-1}\mathbf 1\,
          \frac{1-\mathbf 1^\top\hat\theta}{\mathbf 1^\top\Lambda^{-1}\mathbf 1}.

Projections onto a convex set that contains θ are non-expansive in that norm, so
:math:`\|\tilde\theta-\theta\|_\Lambda\le\|\hat\theta-\theta\|_\Lambda\le\beta`: every confidence ellipsoid, and with it
optimism and the regret bounds, carries over with the same β. Under heavy noise the estimate then shrinks towards the
even blend instead of towards zero, that is, towards a world without any dynamics.
"""

from __future__ import annotations

import jax.numpy as jnp

from reticent.learning import small_matrices
from reticent.learning.ridge import Estimate


def project_sum(ridge: Estimate) -> Estimate:
    """The H ridge estimates projected onto {Σθ = 1}, each in the norm of its own Λ."""
    direction = small_matrices.solve(ridge.factor, jnp.ones_like(ridge.theta))
    missing = 1 - ridge.theta.sum(axis=-1, keepdims=True)
    return ridge._replace(theta=ridge.theta + direction * missing / direction.sum(axis=-1, keepdims=True))
