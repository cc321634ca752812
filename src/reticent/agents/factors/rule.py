# SPDX-License-Identifier: Apache-2.0
r"""How a user's episode becomes one vector, and what its mean says about the mean of tastes.

By Fisher's identity the score of the population's mean is what the device knows already: the posterior mean of the user's
vector less the published mean, :math:`x=m-\mu`. The vector is :math:`u=\mathrm{clip}(Ax/R)` with a whitening A and a radius
R. If the users' true mean is :math:`\mu+\delta`, then

.. math:: \mathbb E_{\mu+\delta}\,u=g(\delta)=\mathbb E_\mu\big[e^{z^\top\delta-\|\delta\|^2/2}\,u\big],\qquad z=f-\mu,

**exactly, whatever A, R, the clip of rewards and the policy are**, because users of another mean are users of this one with
other frequencies. It is computed from N simulated users of the public model with public random numbers, in pairs of
opposite draws; the error of that is added to the covariance. g is linear for rewards and vectors that are not clipped and a
list that does not depend on them; the learner does not assume it (:func:`learned`).

A, R and g are functions of the public model, of μ (earlier releases) and of public random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent_wire.clipping import clip_norm

QUANTILES = (0.2, 0.5, 0.8, 0.95)
"""Radii that are considered: these quantiles of the vectors' norms in the model."""

ITERATIONS = 5
"""Gauss–Newton steps of one update."""

REACH = 1.0
"""How far from the published mean g is evaluated: beyond it, few of the simulated users would count."""

FARTHEST = 4.0
"""Longest mean that is published."""


class Rule(NamedTuple):
    """How vectors of a round are formed and read.

    Attributes:
      whiten: A, ``(m, m)``. radius: R.
      tastes: z of the simulated users, ``(N, m)``, opposite ones N/2 apart.
      vectors: u of the simulated users, ``(N, m)``.
      weights: logarithm of how much each of them counts, ``(N,)``: an A/B share counts as many as it has.
    """

    whiten: Array
    radius: Array
    tastes: Array
    vectors: Array
    weights: Array

    def of(self, tastes: Array, scores: Array, weights: Array) -> Rule:
        """The same vectors, of other simulated users: z and x, ``(N, m)`` each."""
        return self._replace(
            tastes=tastes, vectors=clip_norm(scores @ self.whiten / self.radius, 1.0, jnp), weights=weights
        )


class MeanPosterior(NamedTuple):
    """What is known of the mean of tastes: precision ``(m, m)``, precision times mean ``(m,)``, and the published mean."""

    precision: Array
    moment: Array
    mean: Array


class Response(NamedTuple):
    """Mean ``(m,)``, slope ``(m, m)`` and covariance ``(m, m)`` of the mean vector of a round."""

    mean: Array
    slope: Array
    covariance: Array


def make_rule(tastes: Array, scores: Array, precision: Array, noise: Array, users: Array) -> Rule:
    """The rule of a round of ``users`` users, from simulated ones: z and x, ``(N, m)`` each.

    The radius is that one, of :data:`QUANTILES`, which leaves the least posterior variance.
    """
    values, axes = jnp.linalg.eigh(scores.T @ scores / len(scores))
    whiten = (axes * jnp.maximum(values, 1e-6 * values[-1]) ** -0.5) @ axes.T
    whitened = scores @ whiten
    radii = jnp.quantile(jnp.linalg.norm(whitened, axis=1), jnp.asarray(QUANTILES))

    def candidate(radius: Array) -> tuple[Array, Rule]:
        rule = Rule(whiten, radius, tastes, clip_norm(whitened / radius, 1.0, jnp), jnp.zeros(len(tastes)))
        found = response(rule, jnp.zeros(len(whiten)), noise, users)
        information = found.slope.T @ jnp.linalg.solve(found.covariance, found.slope)
        return jnp.trace(jnp.linalg.inv(precision + information)), rule

    left, rules = jax.vmap(candidate)(jnp.maximum(radii, 1e-9))
    best = jnp.argmin(left)
    chosen: Rule = jax.tree.map(lambda leaf: leaf[best], rules)
    return chosen


def response(rule: Rule, shift: Array, noise: Array, users: Array) -> Response:
    """g(δ), its slope, and the covariance of the released mean: of users, of simulated users, and of the noise.

    ``noise`` is the variance on each coordinate of the round's sum.
    """
    count = len(rule.tastes)
    weights = jax.nn.softmax(rule.tastes @ shift + rule.weights)
    mean = weights @ rule.vectors
    away = rule.vectors - mean
    slope = (weights[:, None] * away).T @ rule.tastes
    spread = (weights[:, None] * away).T @ away
    pairs = (weights[:, None] * away).reshape(2, count // 2, -1).sum(axis=0)
    covariance = spread / users + pairs.T @ pairs + (noise / users**2 + 1e-12) * jnp.eye(len(mean))
    return Response(mean, slope, covariance)


def learned(
    before: MeanPosterior, rule: Rule, served: Array, released: Array, noise: Array, users: Array
) -> MeanPosterior:
    r"""The posterior after a round whose users were served the mean ``served`` and whose sum was ``released``.

    Gauss–Newton steps on :math:`\|\mu-\mu_0\|^2_\Lambda+\|Y/n-g(\mu-\mu_e)\|^2_{\Sigma^{-1}}` find the point at which g is
    linearised: the iterated Kalman update.
    """

    def step(_: int, now: MeanPosterior) -> MeanPosterior:
        shift = clip_norm(now.mean - served, REACH, jnp)
        found = response(rule, shift, noise, users)
        weighted = jnp.linalg.solve(found.covariance, found.slope).T
        rest = released / users - found.mean + found.slope @ (served + shift)
        precision, moment = before.precision + weighted @ found.slope, before.moment + weighted @ rest
        return MeanPosterior(precision, moment, clip_norm(jnp.linalg.solve(precision, moment), FARTHEST, jnp))

    after: MeanPosterior = jax.lax.fori_loop(0, ITERATIONS, step, before._replace(mean=served))
    sound = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(after)]).all()
    kept: MeanPosterior = jax.tree.map(lambda new, old: jnp.where(sound, new, old), after, before)
    return kept
