# SPDX-License-Identifier: Apache-2.0
r"""In which directions a row may leave the blend, and which of them a round asks its users about.

A row of transitions is :math:`P_{\hat\theta}(\cdot\mid q)+\delta_qZ^\top` with Z ``(S, z)`` orthonormal and every column of
sum zero, so that rows keep the sum one. Z has all S − 1 such directions where they are few, and otherwise those along which
value functions of drawn truths vary most: what no value function looks at need not be known.

A round's plan depends on rows through :math:`\langle P(\cdot\mid q),V_h\rangle` alone, for the values of its two plans. The
round asks about the m leading eigenvectors of :math:`\sum_hZ^\top V_hV_h^\top Z`, each scaled by
:math:`(\lambda_j/\lambda_1)^{1/4}`: less of the vector's length is spent where less depends on it.

Both follow from the model, from public random numbers and from earlier releases.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.score.coordinates import null_space
from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.worlds.models.model import Model

DRAWS = 200
"""Truths whose value functions choose the directions of a model with many states."""

REWARD_SPREAD = 0.1
"""Standard deviation of the drawn truths' rewards around a drawn blend of the reward tables."""

POWER = 0.25
LEAST_RATIO = 1e-3
"""Least eigenvalue, relative to the largest, that a direction is scaled by."""


def residual_basis(model: Model, most: int) -> np.ndarray:
    """Z, ``(S, z)`` with z the smaller of S − 1 and ``most``."""
    states = model.states
    if states - 1 <= most:
        return null_space(np.ones((1, states)))[0]
    return _value_directions(model, most)


def _value_directions(model: Model, count: int) -> np.ndarray:
    """The leading directions of centred value functions of truths that are drawn from the prior; public random numbers."""
    draw = np.random.default_rng(0)
    psi, phi = np.asarray(model.transition_features), np.asarray(model.reward_features)
    successors = None if model.successors is None else np.asarray(model.successors)
    second = np.zeros((model.states, model.states))
    for _ in range(DRAWS):
        rows = np.maximum(np.tensordot(draw.dirichlet(np.ones(model.d1)), psi, 1), 0.0)
        rows /= np.maximum(rows.sum(axis=-1, keepdims=True), 1e-12)
        weights = draw.dirichlet(np.ones(model.d2)) * (model.reward_total or 1.0)
        table = np.tensordot(weights, phi, 1) if model.known_rewards is None else np.asarray(model.known_rewards)
        rewards = table + REWARD_SPREAD * draw.normal(size=table.shape)
        values = np.zeros(model.states)
        for _ in range(model.horizon - 1):
            values = (rewards + (rows * (values if successors is None else values[successors])).sum(axis=-1)).max(
                axis=1
            )
            centred = values - values.mean()
            second += np.outer(centred, centred)
    # The constant direction has the eigenvalue 0 and comes last.
    return np.linalg.eigh(second)[1][:, ::-1][:, :count].copy()


def round_directions(basis: Array, values: Array, hoped: Array, count: int) -> Array:
    """A ``(m, z)``: what a round asks about, from V of the greedy and of the curious plan ``(H + 1, S)`` each."""
    with jax.disable_jit(False):  # it sees public numbers alone
        directions: Array = _round_directions(basis, values, hoped, count)
        return directions


@functools.partial(jax.jit, static_argnums=3)
def _round_directions(basis: Array, values: Array, hoped: Array, count: int) -> Array:
    later = jnp.concatenate([values[1:-1], hoped[1:-1]])
    seen = jnp.matmul(later, basis, precision=HIGHEST)
    second = jnp.matmul(seen.T, seen, precision=HIGHEST)
    size = second.shape[0]
    # Directions that no value looks at would be in arbitrary order: a small public slope decides, not rounding.
    slope = jnp.linspace(1.0, 0.5, size, dtype=second.dtype)
    second = second + jnp.diag(slope * (LEAST_RATIO / 10 * jnp.trace(second) + 1e-9))
    found, vectors = jnp.linalg.eigh(second)
    found, vectors = found[::-1][:count], vectors[:, ::-1][:, :count]
    # The sign of an eigenvector is arbitrary too.
    largest = jnp.take_along_axis(vectors, jnp.abs(vectors).argmax(axis=0)[None], axis=0)[0]
    scale = jnp.maximum(found / found[0], LEAST_RATIO) ** POWER
    scaled: Array = vectors * jnp.where(largest < 0, -scale, scale)
    return scaled.T
