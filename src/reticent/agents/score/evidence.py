# SPDX-License-Identifier: Apache-2.0
r"""What one release says about a family of parameters: a Gaussian observation, linear in them.

A released block is :math:`Y=J(\eta-\eta_0)+\text{noise}` with J = n·a·W·F the model's own Jacobian (a undoes the clip's
effect) and noise of covariance :math:`\Sigma=\sigma^2I+n\,WCW^\top+n^2\,\mathrm{diag}(\text{doubt})`. Posteriors gain
:math:`J^\top\Sigma^{-1}J` and :math:`J^\top\Sigma^{-1}(Y+J\eta_0)`.

**Surprise.** If the posteriors are right, :math:`Y-J(\hat\eta-\eta_0)` has covariance
:math:`\Sigma+J\,\mathrm{Cov}\,J^\top`,
so that its squared length in that metric is χ² with as many degrees of freedom as there are numbers. That is a test of
whether users are still those that were learned from, at a chosen rate of false alarms (as good as the Gaussian model is;
docs/endless.md has what it really is), and, added up over releases, of whether the candidates explain what users do: a
blend that is nearest to the truth under one policy is not the nearest under the next (docs/from-records.md).

**No release is certain.** Where a pair's successor is (by the estimate) no matter of chance, and nothing else noises Y, Σ
vanishes along that pair and the information is unbounded: the posterior's condition number passes what double precision
can invert, and its Cholesky factor is not a number. A release is therefore never taken to tell a parameter to better than
:math:`10^{-6}`: :math:`\Sigma+JJ^\top/M` in the place of Σ bounds the information by :math:`M=10^{12}`, wherever the
release would claim more.

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.posterior import Posterior, symmetric
from reticent.agents.score.small_inverses import inverse, solved_transposed

MOST_INFORMATION = 1e12
"""M: the most that one release may tell, along any direction."""


class Evidence(NamedTuple):
    """One release of one family: J and Σ ``(T, k, k)``, Y and η₀ ``(T, k)``, n·a·W ``(T, k, k)``; groups beyond T are not
    observed."""

    response: Array
    noise: Array
    released: Array
    start: Array
    gain: Array


def evidence_of(
    whiten: Array,
    jacobian: Array,
    spread: Array,
    released: Array,
    attenuation: Array,
    doubt: Array,
    start: Array,
    variance: Array,
    users: Array,
) -> Evidence:
    """From one user's moments F and C ``(T, k, k)``, the clip's effect, and the noise's variance."""
    groups, size = released.shape
    identity = jnp.eye(size, dtype=released.dtype)
    gain = users * jnp.einsum("gij,gjl->gil", attenuation, whiten, precision=HIGHEST)
    response = jnp.einsum("gij,gjl->gil", gain, jacobian, precision=HIGHEST)
    noise = (variance + 1e-9) * identity + (users**2 * doubt)[:, :, None] * identity
    noise = noise + users * jnp.einsum("gij,gjl,gml->gim", whiten, spread, whiten, precision=HIGHEST)
    return Evidence(response, noise, released, start[:groups], gain)


def learn(before: Posterior, evidence: Evidence) -> Posterior:
    """The posterior after a release; groups that are not observed are left as they are."""
    groups, size = evidence.released.shape
    if groups * size == 0:
        return before
    weighted, gained = told(evidence)
    target = evidence.released + jnp.einsum("gij,gj->gi", evidence.response, evidence.start, precision=HIGHEST)
    moved = jnp.einsum("gij,gj->gi", weighted, target, precision=HIGHEST)
    return Posterior(
        before.information.at[:groups].add(gained), before.moment.at[:groups].add(moved)
    )  # fmt: skip


def told(evidence: Evidence) -> tuple[Array, Array]:
    """JᵀΣ⁻¹ and JᵀΣ⁻¹J, ``(T, k, k)`` each, of which no release tells too much."""
    weighted, gained = _information(evidence.response, evidence.noise)
    excessive = ~(jnp.trace(gained, axis1=1, axis2=2) <= MOST_INFORMATION)[:, None, None]  # or not a number
    bounded = _information(evidence.response, _bounded_noise(evidence.response, evidence.noise))
    return tuple(jnp.where(excessive, less, all) for all, less in zip((weighted, gained), bounded, strict=True))  # type: ignore[return-value]


def _information(response: Array, noise: Array) -> tuple[Array, Array]:
    """JᵀΣ⁻¹ and JᵀΣ⁻¹J, ``(T, k, k)`` each."""
    weighted = solved_transposed(noise, response)
    return weighted, symmetric(jnp.einsum("gij,gjl->gil", weighted, response, precision=HIGHEST))


def _bounded_noise(response: Array, noise: Array) -> Array:
    """Σ + JJᵀ/M, and as much of the identity as keeps it positive definite in double precision."""
    level = jnp.trace(noise, axis1=1, axis2=2)[:, None, None] / noise.shape[-1]
    square = jnp.einsum("gij,glj->gil", response, response, precision=HIGHEST)
    return symmetric(noise) + square / MOST_INFORMATION + 1e-12 * level * jnp.eye(noise.shape[-1], dtype=noise.dtype)


def surprise(coordinates: Coordinates, before: Posterior, evidence: Evidence) -> Array:
    """The squared length of what was not expected: χ² with T·k degrees of freedom if the posteriors are right."""
    groups, size = evidence.released.shape
    if groups * size == 0:
        return jnp.zeros((), evidence.released.dtype)
    prior = jnp.eye(size, dtype=evidence.released.dtype) / coordinates.variance
    covariance = inverse(before.information[:groups] + prior)
    mean = jnp.einsum("gij,gj->gi", covariance, before.moment[:groups], precision=HIGHEST)
    response = evidence.response
    rest = evidence.released - jnp.einsum("gij,gj->gi", response, mean - evidence.start, precision=HIGHEST)
    spread = evidence.noise + jnp.einsum("gij,gjl,gml->gim", response, covariance, response, precision=HIGHEST)
    weighed = solved_transposed(symmetric(spread), rest[:, :, None])[:, 0]
    return (weighed * rest).sum()
