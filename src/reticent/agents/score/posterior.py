# SPDX-License-Identifier: Apache-2.0
r"""What is believed of a parameter: a Gaussian prior times Gaussian likelihoods, its mean and covariance.

Every release is Gaussian with a mean that is linear in η, so after any number of them the likelihood is
:math:`\exp(-\tfrac12\eta^\top\Lambda\eta+b^\top\eta)`, one Λ and b per step (one for all steps of a stationary model).
Where the parameters are weights, the mean is moved to the nearest point of their simplex, in the metric of the
posterior. (A posterior that is cut off at the faces, by a hit-and-run walk, was tried: it ties within error and costs a
sampler.)

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.small_inverses import inverse
from reticent.learning.small_matrices import eigen

if TYPE_CHECKING:
    from reticent.agents.score.first_states import StartPosterior
    from reticent.agents.score.residual_posterior import ResidualState

HIGHEST = jax.lax.Precision.HIGHEST
PROJECTION_STEPS = 60


class Posterior(NamedTuple):
    """Likelihood of all releases so far: information Λ ``(G, k, k)`` and moment b ``(G, k)``."""

    information: Array
    moment: Array


class Fit(NamedTuple):
    """How well releases were foretold by what was believed before them (:func:`~reticent.agents.score.evidence.surprise`).

    Attributes:
      last: squared length of the newest release's surprise.
      total: of all that are believed in (those since the last alarm) but the first, which only a prior foretold.
      releases: how many are believed in.
    """

    last: Array
    total: Array
    releases: Array


class Posteriors(NamedTuple):
    """What is believed of transitions and of rewards, how well it foretold what came, and how often it was given up
    (:attr:`~reticent.agents.score.learner.ScoreLearner.alarm`); of first states too where the model does not declare them
    (:mod:`reticent.agents.score.first_states`), else None; and of residuals where they are learned
    (:mod:`reticent.agents.score.residual_posterior`), else None."""

    transitions: Posterior
    rewards: Posterior
    fit: Fit
    alarms: Array
    starts: StartPosterior | None = None
    residual: ResidualState | None = None

    @property
    def blend(self) -> tuple[Posterior, Posterior]:
        """What is believed of the blend's transitions and rewards by all that was released."""
        if self.residual is None:
            return self.transitions, self.rewards
        return self.residual.estimate.transitions, self.residual.estimate.rewards


class Summary(NamedTuple):
    """Posterior mean ``(G, k)`` and covariance ``(G, k, k)`` of η."""

    mean: Array
    covariance: Array


def empty_posterior(coordinates: Coordinates, groups: int) -> Posterior:
    """Before any release."""
    k, dtype = coordinates.size, coordinates.basis.dtype
    return Posterior(jnp.zeros((groups, k, k), dtype), jnp.zeros((groups, k), dtype))


def no_surprise(dtype: jnp.dtype) -> Fit:
    """Before any release."""
    return Fit(jnp.zeros((), dtype), jnp.zeros((), dtype), jnp.zeros((), jnp.int32))


def precision(coordinates: Coordinates, posterior: Posterior) -> Array:
    """Information of releases and of the prior's Gaussian, ``(G, k, k)``."""
    return posterior.information + jnp.eye(coordinates.size, dtype=posterior.moment.dtype) / coordinates.variance


def summarize(coordinates: Coordinates, posterior: Posterior) -> Summary:
    """The posterior's mean, on the simplex where that is declared, and its covariance."""
    strength = precision(coordinates, posterior)
    covariance = inverse(strength)
    mean = jnp.einsum("gij,gj->gi", covariance, posterior.moment, precision=HIGHEST)
    if coordinates.total is not None and coordinates.size:  # a single candidate leaves nothing to learn
        theta = nearest_weights(coordinates, coordinates.theta(mean), strength)
        mean = coordinates.eta(theta)
    return Summary(mean, covariance)


def nearest_weights(coordinates: Coordinates, theta: Array, strength: Array) -> Array:
    """The point of the scaled simplex nearest to ``theta`` ``(G, d)`` in the metric of ``strength``."""
    # Compiled even where nothing else is (a replay): it sees releases alone, and its loop would take seconds.
    with jax.disable_jit(False):
        nearest: Array = _nearest_weights(coordinates, theta, strength)
        return nearest


@jax.jit
def _nearest_weights(coordinates: Coordinates, theta: Array, strength: Array) -> Array:
    """By accelerated projected gradients."""
    total = coordinates.total
    assert total is not None
    basis = coordinates.basis
    metric = jnp.einsum("di,gij,ej->gde", basis, strength, basis, precision=HIGHEST)
    top = eigen(strength)[0].max(axis=-1, keepdims=True)  # the metric's as well, since the basis is orthonormal

    def step(_: int, both: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, y, pace = both
        moved = project_on_simplex(y - jnp.einsum("gde,ge->gd", metric, y - theta, precision=HIGHEST) / top, total)
        faster = (1 + jnp.sqrt(1 + 4 * pace * pace)) / 2
        return moved, moved + (pace - 1) / faster * (moved - x), faster

    start = project_on_simplex(theta, total)
    nearest: Array = jax.lax.fori_loop(0, PROJECTION_STEPS, step, (start, start, jnp.ones((), theta.dtype)))[0]
    return nearest


def project_on_simplex(x: Array, total: Array | float) -> Array:
    """The nearest nonnegative ``(..., d)`` of this sum, in the Euclidean metric."""
    size = x.shape[-1]
    falling = -jnp.sort(-x, axis=-1)
    level = (jnp.cumsum(falling, axis=-1) - total) / jnp.arange(1, size + 1)
    active = (falling > level).sum(axis=-1, keepdims=True)
    return jnp.maximum(x - jnp.take_along_axis(level, jnp.maximum(active - 1, 0), axis=-1), 0.0)


def symmetric(matrix: Array) -> Array:
    """The symmetric part of matrices ``(..., k, k)``."""
    return (matrix + jnp.swapaxes(matrix, -1, -2)) / 2
