# SPDX-License-Identifier: Apache-2.0
r"""What is believed of the residuals of all cells, given every release so far.

With Λ_q and b_q the likelihood of a cell (:mod:`reticent.agents.score.residual_likelihood`), the prior
:math:`\delta_q\sim N(0,\Sigma_0)` around the blend's row :math:`g_0=Z^\top P_{\hat\theta}`,

.. math:: \hat\delta_q=(\Lambda_q+\Sigma_0^{-1})^{-1}(b_q-\Lambda_qg_0);

rewards likewise, one number per cell, prior :math:`N(0,\tau_r^2/4)`. The blend itself is the one that both blocks of a
vector speak for (:mod:`reticent.agents.score.joint_posterior`).

**How wrong the blend is** is learned: τ and τ_r are posterior means over a grid under the marginal likelihood of all
cells (empirical Bayes) with :math:`\Sigma_0=\tau^2I/S`, with a prior that thins out as :math:`\tau^{-2}` above 0.02. Where
the blend is right τ stays small, and with it δ and its bonus. (The root of the mean of τ² would follow the far tail of
that prior: a chance of 5 % that the blend is far off would be believed to be a blend that is off by a fifth of that.)

**In which directions it is wrong** is learned from all cells too, since what candidates overlook is often the same
everywhere: people who leave, a state that was not thought of. Σ₀ starts as :math:`\tau^2I/S` and is moved by steps of
expectation and maximisation, with that for a prior of the weight of ν cells:

.. math:: \Sigma_0\leftarrow\frac{\nu\,\tau^2I/S+\sum_q(C_q+\hat\delta_q\hat\delta_q^\top)}{\nu+Q},\qquad
          C_q=(\Lambda_q+\Sigma_0^{-1})^{-1}.

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.joint_posterior import conditional, joint_posterior
from reticent.agents.score.misfit import Coupling, Slopes
from reticent.agents.score.model_moments import REWARD_VARIANCE
from reticent.agents.score.posterior import Posterior, project_on_simplex
from reticent.agents.score.residual_likelihood import Likelihood, Release

SCALES = (0.0005, 0.003, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0)
"""The grid of τ."""

USUAL = 0.02
"""τ₀: beyond it the prior of τ thins out; also what is believed before any release."""

PRIOR_CELLS, STEPS = 20, 6
"""ν, and how many steps of expectation and maximisation follow a release."""


class ResidualEstimate(NamedTuple):
    """What is believed of the residuals.

    Attributes:
      delta: ``(G, S·A, z)``. root: of its covariance, ``(G, S·A, z, z)``.
      reward_shift, reward_deviation: ``(G, S·A)``.
      covariance: Σ₀, ``(z, z)``. scale, reward_scale: τ and τ_r.
      estimated: the estimate's rows as distributions, ``(G, S·A, S)``: at which visits are computed.
      transitions, rewards: the likelihood of the blend that both blocks speak for.
    """

    delta: Array
    root: Array
    reward_shift: Array
    reward_deviation: Array
    covariance: Array
    scale: Array
    reward_scale: Array
    estimated: Array
    transitions: Posterior
    rewards: Posterior


class ResidualState(NamedTuple):
    """All releases, as many as there are rounds along a leading axis, what couples them to the blend's block, and what is
    believed."""

    releases: Release | None
    coupling: Coupling
    estimate: ResidualEstimate


def no_residual(basis: Array, blend: Array, transitions: Posterior, rewards: Posterior) -> ResidualEstimate:
    """Before any release; ``blend`` are the blend's rows ``(G, S·A, S)``."""
    states, size = basis.shape
    cells, dtype = blend.shape[:2], blend.dtype
    scale = jnp.asarray(USUAL, dtype)
    root = scale / jnp.sqrt(float(states)) * jnp.eye(size, dtype=dtype)
    return ResidualEstimate(
        delta=jnp.zeros((*cells, size), dtype),
        root=jnp.broadcast_to(root, (*cells, size, size)),
        reward_shift=jnp.zeros(cells, dtype),
        reward_deviation=jnp.full(cells, USUAL * REWARD_VARIANCE**0.5, dtype),
        covariance=scale**2 / states * jnp.eye(size, dtype=dtype),
        scale=scale,
        reward_scale=scale,
        estimated=blend,
        transitions=transitions,
        rewards=rewards,
    )


def jointly(
    likelihood: Likelihood,
    slopes: Slopes,
    believed: ResidualEstimate,
    own: tuple[Posterior, Posterior],
    coupling: Coupling,
) -> tuple[Posterior, Posterior]:
    """The likelihoods of the blend's transitions and rewards that both blocks speak for, at the scales of ``believed``."""
    groups, pairs, size = believed.delta.shape

    def one(
        information: Array,
        moment: Array,
        centre: Array,
        slope: Array,
        covariance: Array,
        own: Posterior,
        coupled: Array,
    ) -> Posterior:
        if slope.shape[-1] == 0:
            return own
        around = moment - jnp.einsum("gpij,pj->gpi", information, centre, precision=HIGHEST)
        joint: Posterior = jax.vmap(joint_posterior, in_axes=(0, 0, None, None, 0, 0))(
            information, around, slope, covariance, own, coupled
        )
        return joint

    reward_covariance = jnp.full((1, 1), REWARD_VARIANCE) * believed.reward_scale**2
    return (
        one(
            likelihood.information.reshape(groups, pairs, size, size), likelihood.moment.reshape(groups, pairs, size),
            slopes.centre, slopes.rows, believed.covariance, own[0], coupling.transitions,
        ),
        one(
            likelihood.reward_information.reshape(groups, pairs, 1, 1),
            likelihood.reward_moment.reshape(groups, pairs, 1),
            slopes.reward_centre, slopes.rewards, reward_covariance, own[1], coupling.rewards,
        ),
    )  # fmt: skip


def learn_scales(
    basis: Array, likelihood: Likelihood, rows: Array, rewards: Array, before: ResidualEstimate
) -> ResidualEstimate:
    """τ, Σ₀ and τ_r around a blend with these ``rows`` ``(G, S·A, S)`` and ``rewards`` ``(G, S·A)``."""
    states = basis.shape[0]
    information, moment = likelihood.information, _around(basis, likelihood, rows)
    found, vectors = jnp.linalg.eigh(information / states)
    found = jnp.maximum(found, 0.0)
    turned = jnp.einsum("qij,qi->qj", vectors, moment, precision=HIGHEST) / states**0.5
    square = scale_of(found.ravel(), (turned**2).ravel())
    paid = likelihood.reward_moment - likelihood.reward_information * rewards.ravel()
    reward_square = scale_of(REWARD_VARIANCE * likelihood.reward_information, REWARD_VARIANCE * paid**2)
    return before._replace(
        covariance=covariance_of(information, moment, square / states, before.covariance),
        scale=jnp.sqrt(square),
        reward_scale=jnp.sqrt(reward_square),
    )


def residuals_around(
    basis: Array, likelihood: Likelihood, rows: Array, rewards: Array, believed: ResidualEstimate
) -> ResidualEstimate:
    """The residuals around a blend with these ``rows`` and ``rewards``, at the scales of ``believed``."""
    shape = believed.delta.shape
    spread, root = conditional(likelihood.information, believed.covariance)
    delta = jnp.einsum("qij,qj->qi", spread, _around(basis, likelihood, rows), precision=HIGHEST)
    known = REWARD_VARIANCE * believed.reward_scale**2
    variance = known / (1 + known * likelihood.reward_information)
    shift = variance * (likelihood.reward_moment - likelihood.reward_information * rewards.ravel())
    linear = rows + jnp.matmul(delta, basis.T, precision=HIGHEST).reshape(rows.shape)
    return believed._replace(
        delta=delta.reshape(shape),
        root=jnp.swapaxes(root, 1, 2).reshape(*shape, shape[-1]),
        reward_shift=shift.reshape(shape[:2]),
        reward_deviation=jnp.sqrt(variance).reshape(shape[:2]),
        estimated=project_on_simplex(linear, 1.0),
    )


def _around(basis: Array, likelihood: Likelihood, rows: Array) -> Array:
    """Moments around the blend's rows."""
    centre = jnp.matmul(rows.reshape(-1, rows.shape[-1]), basis, precision=HIGHEST)
    return likelihood.moment - jnp.einsum("qij,qj->qi", likelihood.information, centre, precision=HIGHEST)


def covariance_of(information: Array, moment: Array, usual: Array, start: Array) -> Array:
    """Σ₀ after some steps from ``start`` at the present scale; ``usual`` is τ²/S."""
    cells, size = moment.shape
    identity = jnp.eye(size, dtype=moment.dtype)

    def again(covariance: Array, _: None) -> tuple[Array, None]:
        spread = conditional(information, covariance)[0]
        mean = jnp.einsum("qij,qj->qi", spread, moment, precision=HIGHEST)
        second = spread.sum(axis=0) + jnp.matmul(mean.T, mean, precision=HIGHEST)
        return (PRIOR_CELLS * usual * identity + second) / (PRIOR_CELLS + cells), None

    found: Array = jax.lax.scan(again, start * (usual * size / jnp.trace(start)), None, length=STEPS)[0]
    return found


def scale_of(information: Array, squares: Array) -> Array:
    """τ² by empirical Bayes: the square of τ's posterior mean over the grid.

    ``information`` and ``squares`` ``(n,)`` are of independent numbers of prior variance τ²: the eigenvalues of what is
    known of them, and the squared moments along these.
    """
    grid = jnp.asarray(SCALES, information.dtype)
    variance = grid[:, None] ** 2
    shrunk = 1 + variance * information
    likelihood = (0.5 * variance * squares / shrunk - 0.5 * jnp.log(shrunk)).sum(axis=1)
    weight = jax.nn.softmax(likelihood - jnp.log1p((grid / USUAL) ** 2))
    return (weight * grid).sum() ** 2
