# SPDX-License-Identifier: Apache-2.0
r"""How a user's episode becomes one vector, and what its mean says about the shares of kinds.

The vector is :math:`x=A\,B^\top L/\langle w,L\rangle` with the likelihoods L of the user's own episode, an orthonormal
sum-zero basis B, and a whitening A; divided by a radius R and clipped to the unit ball. Whatever A, R and the clip are,
**its mean is exactly linear in the true shares**, :math:`\mathbb E\,u=\bar Tw^*` with :math:`\bar T=(\mathbb E_zu)_z`,
because a user of kind z behaves by the law of z under the published policy. :math:`\bar T` is computed by simulating the
public kinds with public random numbers; its own error is added to the covariance. Actions cancel in L: given the
history they do not depend on z.

A, R and :math:`\bar T` are functions of the public model, of w (earlier releases) and of public random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent_wire.clipping import clip_norm
from reticent_wire.forms.kinds import ratios

QUANTILES = (0.2, 0.5, 0.8, 0.95)
"""Radii that are considered: these quantiles of the vectors' norms in the model."""


class Rule(NamedTuple):
    """How vectors of a round are formed and read.

    Attributes:
      whiten: A, ``(k, k)``. radius: R.
      responses: :math:`\\bar T`, mean vectors by kind, ``(k, Z)``.
      spread: covariance of one user's vector by the model, ``(k, k)``.
      error: covariance of the simulated mean, ``(k, k)``.
    """

    whiten: Array
    radius: Array
    responses: Array
    spread: Array
    error: Array


def make_rule(basis: Array, shares: Array, simulated: Array, precision: Array, noise: Array, users: Array) -> Rule:
    """The rule of a round of ``users`` users.

    ``simulated`` are log-likelihoods ``(Z, N, Z)`` of simulated episodes by kind; ``precision`` is the posterior's so far;
    ``noise`` the variance on each coordinate of the round's sum of clipped vectors. The radius is that one, of
    :data:`QUANTILES`, which leaves the least posterior variance.
    """
    kinds, count = simulated.shape[:2]
    directions = ratios(shares, simulated, jnp) @ basis
    weights = shares / count
    second = jnp.einsum("z,zni,znj->ij", weights, directions, directions)
    values, axes = jnp.linalg.eigh((second + second.T) / 2)
    whiten = (axes * jnp.maximum(values, 1e-6 * values[-1]) ** -0.5) @ axes.T
    whitened = directions @ whiten
    norms = jnp.linalg.norm(whitened, axis=-1).reshape(-1)
    order = jnp.argsort(norms)
    reached = jnp.cumsum(jnp.broadcast_to(weights[:, None], (kinds, count)).reshape(-1)[order])

    def candidate(quantile: Array) -> tuple[Array, Rule]:
        place = jnp.searchsorted(reached, quantile * reached[-1])
        radius = jnp.maximum(norms[order][jnp.minimum(place, norms.size - 1)], 1e-9)
        rule = mean_vectors(whiten, radius, shares, whitened / radius, jnp.full(count, 1 / count))
        information, _ = evidence(basis, rule, noise, users)
        return jnp.trace(jnp.linalg.inv(precision + information)), rule

    scores, rules = jax.vmap(candidate)(jnp.asarray(QUANTILES))
    best = jnp.argmin(scores)
    chosen: Rule = jax.tree.map(lambda leaf: leaf[best], rules)
    return chosen


def mean_vectors(whiten: Array, radius: Array, shares: Array, vectors: Array, weights: Array) -> Rule:
    """The rule of this whitening and radius, read from simulated users' ``vectors`` ``(Z, N, k)`` before the clip;
    ``weights`` ``(N,)`` of sum 1 are those of the users in a kind."""
    sent = clip_norm(vectors, 1.0, jnp)
    responses = jnp.einsum("n,zni->iz", weights, sent)
    mean = responses @ shares
    spread = jnp.einsum("z,n,zni,znj->ij", shares, weights, sent, sent) - jnp.outer(mean, mean)
    away = sent - responses.T[:, None]
    error = jnp.einsum("z,n,zni,znj->ij", shares**2, weights**2, away, away)
    return Rule(whiten, radius, responses, spread, error)


def evidence(basis: Array, rule: Rule, noise: Array, users: Array) -> tuple[Array, Array]:
    r""":math:`J^\top\Sigma^{-1}J` and :math:`J^\top\Sigma^{-1}` of a round's release, about :math:`\eta=B^\top(w-c)`."""
    size = rule.spread.shape[0]
    covariance = rule.spread / users + rule.error + (noise / users**2 + 1e-12) * jnp.eye(size)
    slope = rule.responses @ basis
    weighted = jnp.linalg.solve(covariance, slope).T
    return weighted @ slope, weighted
