# SPDX-License-Identifier: Apache-2.0
"""From posteriors to what is taken for the truth, and how much it is doubted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST, Doubt, Estimate
from reticent.agents.score.first_states import estimated_starts
from reticent.agents.score.model_moments import MIXING, mean_rewards, root_of
from reticent.agents.score.posterior import Posteriors, Summary, summarize
from reticent.agents.score.residual_block import with_residual, with_residual_doubt
from reticent.agents.score.residual_posterior import ResidualState
from reticent.agents.score.round_plan import ScorePlan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


def estimate_of(agent: ScoreLearner, extension: ScorePlan) -> Estimate:
    """The estimate that a plan was made from."""
    theta = extension.reference.theta
    if agent.score == "likelihood":
        theta = (theta - (1 - MIXING) * agent.coordinates.centre) / MIXING
    starts = agent.model.initial if extension.initial is None else extension.initial
    estimate = estimate_from(agent, agent.coordinates.eta(theta), extension.reward_eta, starts)
    if extension.residual is None:
        return estimate
    return estimate._replace(rewards=extension.residual.reference.rewards, rows=extension.residual.rows)


def estimate_from(
    agent: ScoreLearner, eta: Array, reward_eta: Array, starts: Array, residual: ResidualState | None = None
) -> Estimate:
    """The estimate at these coordinates of transitions and rewards, with these first states and residuals."""
    weights = agent.reward_coordinates.theta(reward_eta)
    estimate = Estimate(agent.coordinates.theta(eta), mean_rewards(agent.model, weights), starts)
    return corrected_by(agent, estimate, residual)


def corrected_by(agent: ScoreLearner, blend: Estimate, residual: ResidualState | None) -> Estimate:
    """The blend's estimate with residuals, where these are learned."""
    if agent.residual is None or residual is None:
        return blend
    return with_residual(agent, agent.residual, blend, residual.estimate)


def doubt_of(agent: ScoreLearner, transitions: Summary, rewards: Summary, residual: ResidualState | None) -> Doubt:
    """The bonus: posterior standard deviations of P V and of the reward, times the scale."""
    root = jnp.einsum("dk,gkl->gdl", agent.coordinates.basis, root_of(transitions.covariance), precision=HIGHEST)
    reward_root = root_of(rewards.covariance)
    spread = jnp.einsum("rsa,grl->glsa", agent.contrasts, reward_root, precision=HIGHEST)
    doubt = Doubt(agent.bonus * root, agent.bonus * jnp.sqrt((spread**2).sum(axis=1)))
    if agent.residual is None or residual is None:
        return doubt
    return with_residual_doubt(agent, agent.residual, doubt, residual.estimate)


def estimate_by(agent: ScoreLearner, posteriors: Posteriors) -> Estimate:
    """The estimate of the blend alone, without residuals, at the means of these posteriors."""
    return estimate_from(
        agent,
        summarize(agent.coordinates, posteriors.blend[0]).mean,
        summarize(agent.reward_coordinates, posteriors.blend[1]).mean,
        estimated_starts(agent.model, posteriors.starts),
    )
