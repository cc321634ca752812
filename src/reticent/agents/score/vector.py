# SPDX-License-Identifier: Apache-2.0
r"""The one vector of a user: what they tell about the blend, whitened and measured against the round's radius.

Before a round of n users these are public: the plans, V (the values of the plan that they are served, framed to [−1, 1]), a
reference (θ₀, θ_{r,0}) = the present estimate, whitening matrices W, and the radius R. Per step a user's episode adds

* ``values``: :math:`x\,(\bar V(s')-\langle\phi_{\bar V},\theta_0\rangle)` with :math:`x=B^\top\phi_{\bar V}(s,a)`,
  whose mean given (s, a) is :math:`xx^\top(\eta^*-\eta_0)`;
* ``likelihood``: :math:`B^\top\psi(s'\mid s,a)/\langle\psi(s'\mid s,a),\theta_0\rangle`, whose mean is
  :math:`F(s,a)(\eta^*-\eta_0)` *exactly*, since :math:`\sum_{s'}B^\top\psi=0`;
* rewards: :math:`\varphi\,(r-\langle\varphi,\theta_{r,0}\rangle)` in the rewards' coordinates, with the mean
  :math:`\varphi\varphi^\top(\eta_r^*-\eta_{r,0})`; nothing where rewards are known.

They are summed over the steps of a stationary model and concatenated otherwise; the last step's transition leads to nothing
that is paid for and is left out. Multiplied by W and divided by R, the vector should lie in the unit ball. That it
*does* is not assumed: :class:`~reticent.agents.score.unit_ball.UnitBall` clips it as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import HIGHEST, SMALLEST, Score, group_of
from reticent.worlds import Episode
from reticent.worlds.models.model import Model
from reticent_wire.forms.score import Surprises, Weights, weigh


class Reference(NamedTuple):
    """What users' vectors of a round are made of, besides the values of their plan. Public.

    Attributes:
      theta: θ₀, ``(G, d1)``. reward_theta: θ_{r,0}, ``(G, d2)``.
      whiten, whiten_rewards: W ``(T, k, k)`` and ``(G, r, r)``, T groups of steps with transitions that matter.
      radius: R.
    """

    theta: Array
    reward_theta: Array
    whiten: Array
    whiten_rewards: Array
    radius: Array


class VectorTables(NamedTuple):
    """Contrasts x ``(H, k, S, A)`` and predictions ``(H, S, A)`` of all pairs, where many users are served the same
    values."""

    contrasts: Array
    predictions: Array


def user_vector(
    model: Model,
    coordinates: Coordinates,
    reward_coordinates: Coordinates,
    reference: Reference,
    framed: Array,
    episode: Episode,
    score: Score,
    pooled: bool,
    tables: VectorTables | None = None,
) -> Array:
    """The vector ``(D,)`` of one episode in units of the radius, not clipped; ``framed`` ``(H, S)`` are their plan's
    values.

    ``pooled`` adds up the steps, for a stationary model.
    """
    here, there = episode.states[:-1], episode.states[1:]
    steps = jnp.arange(model.horizon)
    groups = reference.theta.shape[0]
    theta = reference.theta[group_of(groups, steps)]
    if score == "values":
        if tables is None:
            features = jax.vmap(model.value_features_at)(framed, here, episode.actions)
            contrasts = jnp.matmul(features, coordinates.basis, precision=HIGHEST)
            predicted = (features * theta).sum(axis=-1)
        else:
            contrasts = tables.contrasts[steps, :, here, episode.actions]
            predicted = tables.predictions[steps, here, episode.actions]
        surprises = framed[steps, there] - predicted
    else:
        psi = jax.vmap(_likelihoods, in_axes=(None, 0, 0, 0))(model, here, episode.actions, there)
        stated = (psi * theta).sum(axis=-1, keepdims=True)
        ratio = jnp.where(stated > SMALLEST, psi / jnp.where(stated > SMALLEST, stated, 1.0), 0.0)
        contrasts, surprises = jnp.matmul(ratio, coordinates.basis, precision=HIGHEST), jnp.ones(model.horizon)
    return weighed(model, reward_coordinates, reference, contrasts, surprises, episode, pooled)


def weighed(
    model: Model,
    reward_coordinates: Coordinates,
    reference: Reference,
    contrasts: Array,
    surprises: Array,
    episode: Episode,
    pooled: bool,
) -> Array:
    """The vector ``(D,)`` of an episode whose transitions tell ``surprises`` ``(H,)`` along ``contrasts`` ``(H, k)``."""
    steps, groups = jnp.arange(model.horizon), reference.reward_theta.shape[0]
    reward_theta = reference.reward_theta[group_of(groups, steps)]
    pays = jax.vmap(model.reward_features_at)(episode.states[:-1], episode.actions)
    seen = Surprises(
        contrasts, surprises,
        jnp.matmul(pays, reward_coordinates.basis, precision=HIGHEST),
        episode.rewards - (pays * reward_theta).sum(axis=-1),
    )  # fmt: skip
    weights = Weights(reference.whiten, reference.whiten_rewards, reference.radius)
    return jnp.asarray(weigh(seen, weights, pooled, jnp))


def tabulate(model: Model, coordinates: Coordinates, theta: Array, framed: Array) -> VectorTables:
    """The tables of all pairs under ``framed`` values ``(H, S)``."""
    groups, steps = theta.shape[0], jnp.arange(model.horizon)

    def of_step(values: Array, own: Array) -> tuple[Array, Array]:
        features = model.value_features(values)
        x = jnp.einsum("dk,dsa->ksa", coordinates.basis, features, precision=HIGHEST)
        return x, jnp.einsum("d,dsa->sa", own, features, precision=HIGHEST)

    return VectorTables(*jax.vmap(of_step)(framed, theta[group_of(groups, steps)]))


def _likelihoods(model: Model, state: Array, action: Array, following: Array) -> Array:
    """ψ(s'|s, a), ``(d1,)``."""
    row = model.transition_features[:, state, action]
    if model.successors is None:
        return row[:, following]
    return (row * (model.successors[state, action] == following)).sum(axis=-1)
