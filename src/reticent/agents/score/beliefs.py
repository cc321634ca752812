r"""What is believed of a parameter: a prior times Gaussian likelihoods, its mean and covariance.

Every release is Gaussian with a mean that is linear in η, so after any number of them the likelihood is
:math:`\exp(-\tfrac12\eta^\top\Lambda\eta+b^\top\eta)`, one Λ and b per step (one for all steps of a stationary model). On a
simplex the prior is uniform, and the posterior a Gaussian cut off at the faces: its moments are those of a hit-and-run walk
with public random numbers. Cutting off matters while little is known, which under privacy is long: a projected Gaussian
has an order of magnitude more regret in the first thousand users.

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr, ndtri

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.small import inverse
from reticent.learning.small_matrices import cholesky, eigen

HIGHEST = jax.lax.Precision.HIGHEST
PROJECTION_STEPS = 60
CHAINS, SWEEPS = 8, 120
"""Hit-and-run: walks side by side, and steps of each, of which the last two thirds count."""


class Belief(NamedTuple):
    """Likelihood of all releases so far: information Λ ``(G, k, k)`` and moment b ``(G, k)``."""

    information: Array
    moment: Array


class Summary(NamedTuple):
    """Posterior mean ``(G, k)`` and covariance ``(G, k, k)`` of η."""

    mean: Array
    covariance: Array


def no_belief(coordinates: Coordinates, groups: int) -> Belief:
    """Before any release."""
    k, dtype = coordinates.size, coordinates.basis.dtype
    return Belief(jnp.zeros((groups, k, k), dtype), jnp.zeros((groups, k), dtype))


def precision(coordinates: Coordinates, belief: Belief) -> Array:
    """Information of releases and of the prior's Gaussian, ``(G, k, k)``."""
    return belief.information + jnp.eye(coordinates.size, dtype=belief.moment.dtype) / coordinates.variance


def gaussian_summary(coordinates: Coordinates, belief: Belief) -> Summary:
    """Without cutting off: the Gaussian's covariance, and its mean moved to the nearest point of the simplex."""
    strength = precision(coordinates, belief)
    covariance = inverse(strength)
    mean = jnp.einsum("gij,gj->gi", covariance, belief.moment, precision=HIGHEST)
    if coordinates.total is not None:
        theta = nearest_weights(coordinates, coordinates.theta(mean), strength)
        mean = coordinates.eta(theta)
    return Summary(mean, covariance)


def posterior_summary(coordinates: Coordinates, belief: Belief, key: Array) -> Summary:
    """Mean and covariance of the posterior; ``key`` is public."""
    start = gaussian_summary(coordinates, belief)
    if coordinates.total is None or coordinates.size == 0:
        return start
    shape = cholesky(start.covariance)
    # Strictly inside: from a face no direction leads away on one side.
    walkers = jnp.broadcast_to(0.9 * start.mean, (CHAINS, *start.mean.shape))

    def step(walkers: Array, own: Array) -> tuple[Array, tuple[Array, Array]]:
        along, place = jax.random.split(own)
        direction = jnp.einsum("gij,tgj->tgi", shape, jax.random.normal(along, walkers.shape, walkers.dtype))
        change = jnp.matmul(direction, coordinates.basis.T, precision=HIGHEST)
        theta = coordinates.theta(walkers)
        ratio = -theta / jnp.where(change == 0, 1.0, change)
        low = jnp.minimum(jnp.where(change > 1e-14, ratio, -1e9).max(axis=-1), 0.0)
        high = jnp.maximum(jnp.where(change < -1e-14, ratio, 1e9).min(axis=-1), 0.0)
        bent = jnp.einsum("gij,tgj->tgi", belief.information, direction, precision=HIGHEST)
        curvature = jnp.maximum((direction * bent).sum(axis=-1), 1e-8)
        slope = (direction * belief.moment).sum(axis=-1) - (walkers * bent).sum(axis=-1)
        uniform = jax.random.uniform(place, curvature.shape, walkers.dtype)
        length = truncated_normal(slope / curvature, curvature**-0.5, low, high, uniform)
        walkers = walkers + length[..., None] * direction
        return walkers, (walkers.mean(axis=0), jnp.einsum("tgi,tgj->gij", walkers, walkers) / CHAINS)

    _, (firsts, seconds) = jax.lax.scan(step, walkers, jax.random.split(key, SWEEPS))
    mean, second = firsts[SWEEPS // 3 :].mean(axis=0), seconds[SWEEPS // 3 :].mean(axis=0)
    return Summary(mean, symmetric(second - mean[:, :, None] * mean[:, None, :]))


def truncated_normal(mean: Array, deviation: Array, low: Array, high: Array, uniform: Array) -> Array:
    """N(mean, deviation²) between ``low`` and ``high`` by inversion, reflected so that the tail in question is the lower one.

    Where even that underflows, the density is an exponential's for all practical purposes.
    """
    a, b = (low - mean) / deviation, (high - mean) / deviation
    flipped = a > 0
    a, b = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    below, above = ndtr(a), ndtr(b)
    inverse = ndtri(below + uniform * (above - below))
    rate = jnp.maximum(-b, 1e-3)
    tail = b + jnp.log1p(-uniform * (1 - jnp.exp(-jnp.minimum(rate * (b - a), 700.0)))) / rate
    z = jnp.clip(jnp.where(jnp.isfinite(inverse) & (above - below > 1e-290), inverse, tail), a, b)
    return jnp.where(flipped, -z, z) * deviation + mean


def nearest_weights(coordinates: Coordinates, theta: Array, strength: Array) -> Array:
    """The point of the scaled simplex nearest to ``theta`` ``(G, d)`` in the metric of ``strength``, by projected gradients."""
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


def project_on_simplex(x: Array, total: float) -> Array:
    """The nearest nonnegative ``(..., d)`` of this sum, in the Euclidean metric."""
    size = x.shape[-1]
    falling = -jnp.sort(-x, axis=-1)
    level = (jnp.cumsum(falling, axis=-1) - total) / jnp.arange(1, size + 1)
    active = (falling > level).sum(axis=-1, keepdims=True)
    return jnp.maximum(x - jnp.take_along_axis(level, jnp.maximum(active - 1, 0), axis=-1), 0.0)


def symmetric(matrix: Array) -> Array:
    """The symmetric part of matrices ``(..., k, k)``."""
    return (matrix + jnp.swapaxes(matrix, -1, -2)) / 2
