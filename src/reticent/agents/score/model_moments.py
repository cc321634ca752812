# SPDX-License-Identifier: Apache-2.0
r"""What the public model says of users before they come: their rewards, the moments of those who act at random, whitening.

All of it is computed from the model, the coordinates and earlier releases.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import (
    HIGHEST,
    Estimate,
    Moments,
    Score,
    Statistic,
    forward_pass_uniform,
    plan_backward,
)
from reticent.learning.small_matrices import cholesky, eigen
from reticent.worlds import Model

MIXING = 0.5
"""Share of the estimate in the reference of ``likelihood``; the rest is the centre, so that ratios are bounded."""

REWARD_VARIANCE = 0.25
"""Of a reward in [0, 1], at the most."""


def moments_of_random_users(
    model: Model, coordinates: Coordinates, reward_coordinates: Coordinates, score: Score, floor: float = 0.0
) -> Moments:
    """Of one user who acts at random, if the prior mean and the model's first states were the truth; their statistic is
    made of the values of its plan."""
    groups = 1 if model.stationary else model.horizon
    theta = jnp.broadcast_to(coordinates.centre, (groups, model.d1))
    weights = jnp.broadcast_to(reward_coordinates.centre, (groups, model.d2))
    estimate = Estimate(theta, mean_rewards(model, weights), model.initial)
    contrasts = jnp.einsum("dr,dsa->rsa", reward_coordinates.basis, model.reward_features, precision=HIGHEST)
    values = plan_backward(model, estimate, None, coordinates.total is not None, floor).values
    return forward_pass_uniform(model, Statistic(coordinates, contrasts, theta), estimate, values, score)


def mean_rewards(model: Model, weights: Array) -> Array:
    """Mean rewards ``(G, S, A)`` by weights ``(G, d2)``, within [0, 1]; or what is known of them."""
    if model.known_rewards is not None:
        return jnp.broadcast_to(model.known_rewards, (weights.shape[0], *model.known_rewards.shape))
    table = jnp.einsum("gd,dsa->gsa", weights, model.reward_features, precision=HIGHEST)
    return jnp.clip(table, 0.0, 1.0)


def whitening(spread: Array, ridge: Array) -> Array:
    r""":math:`(C+\kappa\bar c I)^{-1/2}` of all groups ``(T, k, k)``, :math:`\bar c` the mean eigenvalue of all of them."""
    groups, size = spread.shape[:2]
    if groups * size == 0:
        return spread
    level = jnp.maximum(jnp.trace(spread, axis1=1, axis2=2).sum() / (groups * size), 1e-9)
    values, vectors = eigen(spread + ridge * level * jnp.eye(size, dtype=spread.dtype))
    return jnp.einsum("gik,gk,gjk->gij", vectors, values**-0.5, vectors, precision=HIGHEST)


def root_of(covariance: Array) -> Array:
    """A lower triangular root of covariances ``(..., k, k)``."""
    size = covariance.shape[-1]
    return cholesky(covariance + 1e-13 * jnp.eye(size, dtype=covariance.dtype)) if size else covariance
