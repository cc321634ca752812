# SPDX-License-Identifier: Apache-2.0
r"""What a released vector says about itself, and what the plan made of it seems to be worth.

Formal guarantee. Everything here is a function of one release, of the plan and the posteriors published with
it, and of numbers fixed before the first user: post-processing, which spends nothing.

**Signal to noise.** A release is :math:`Y=\sum_iu_i+N` with noise of standard deviation σ on each of its D numbers. The
figure is :math:`\|Y\|/(\sigma\sqrt D)`: about 1 if there is nothing but noise. It is given for the part about transitions
and for the part about rewards, and by step where steps are not added up.

**Value.** The greedy plan's value in the model of the posterior mean, and its standard deviation to first order:
:math:`\sqrt{\nabla v^\top\Sigma\nabla v}` with Σ the posterior covariance. It is the agent's own doubt, as good as its
Gaussian model; no theorem is behind it. Where users begin is taken for as it is declared or believed.

**Fit.** Every release but the first was foretold by the posteriors before it; the squared lengths of what was not
(:func:`~reticent.agents.score.evidence.surprise`) add up to a χ² if users are a blend of the candidates. They are
independent then, since each is a new sum with noise of its own, and posteriors are made of the earlier ones.

**Residual.** Where residuals are learned, τ̂ (:mod:`reticent.agents.score.residual_posterior`) says how far the truth is
from the blend, and ρ how much of a user's vector is spent on it; in words, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import chi2

from reticent.agents.score.dynamic_programming import HIGHEST, Statistic, forward_pass
from reticent.agents.score.estimates import estimate_from
from reticent.agents.score.first_states import estimated_starts
from reticent.agents.score.posterior import Fit, summarize
from reticent.agents.score.residual_share import REWARD_REFUTED, RIGHT
from reticent.learning.diagnostics import Diagnostics, LearnedResidual, ModelFit, Signal, StartValue
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner
    from reticent.agents.score.posterior import Posteriors
    from reticent.agents.score.round_plan import ScorePlan


def diagnostics_of(
    agent: ScoreLearner, released: np.ndarray, version: int, plan: Plan[ScorePlan], posteriors: Posteriors
) -> Diagnostics:
    """What the vector ``(1, D)`` released before ``version`` says, and what the plan published as it is worth."""
    signal = None
    if version:
        users = float(agent.schedule.round_sizes[version - 1]) if agent.noised_reports else 1.0
        signal = signal_to_noise(
            agent, np.ravel(released)[: agent.score_dimension], float(agent.noise_scale) * math.sqrt(users)
        )
    estimate, deviation, explorers = (float(number) for number in _value(agent, plan, posteriors))
    value = StartValue(
        cautious=max(0.0, estimate - deviation),
        estimate=estimate,
        optimistic=min(float(agent.model.horizon), estimate + deviation),
        deviation=deviation,
        explorers=explorers,
    )
    return Diagnostics(
        signal, value, agent.groups == 1, 1.0, fit=fit_of(agent, posteriors.fit), residual=residual_of(plan, posteriors)
    )


def residual_of(plan: Plan[ScorePlan], posteriors: Posteriors) -> LearnedResidual | None:
    """How wrong the candidates are, and what the plan spends on it; None where only the blend is learned."""
    asked, residual = plan.extension.residual, posteriors.residual
    if asked is None or residual is None:
        return None
    scale, reward_scale = float(residual.estimate.scale), float(residual.estimate.reward_scale)
    share = float(asked.reference.share)
    if share == 1:
        sentence = "There are no candidates; everything is learned from users alone."
    elif scale <= RIGHT and reward_scale <= REWARD_REFUTED:
        sentence = f"The candidates explain what users do; {share:.0%} of what is learned is a check of that."
    else:
        sentence = f"The candidates do not explain what users do; {share:.0%} of what is learned is from users alone."
    return LearnedResidual(scale, reward_scale, share, sentence)


def fit_of(agent: ScoreLearner, fit: Fit) -> ModelFit | None:
    """Whether the candidates explain what users do; None before the second release."""
    degrees = agent.score_dimension * (int(fit.releases) - 1)
    if degrees <= 0:
        return None
    statistic = float(fit.total)
    return ModelFit(statistic, degrees, float(chi2.sf(statistic, degrees)))


def signal_to_noise(agent: ScoreLearner, released: np.ndarray, sigma: float) -> Signal:
    """How far the parts of a released vector ``(D,)`` rise above noise of standard deviation ``sigma``."""
    cut = agent.moving_groups * agent.coordinates.size

    def figures(part: np.ndarray, groups: int) -> tuple[np.ndarray, float]:
        if not part.size or sigma == 0:
            return np.full(max(groups, 1), math.nan), math.nan
        blocks = part.reshape(groups, -1)
        each = np.linalg.norm(blocks, axis=1) / (sigma * math.sqrt(blocks.shape[1]))
        return each, float(np.linalg.norm(part) / (sigma * math.sqrt(part.size)))

    (each_p, together_p), (each_r, together_r) = (
        figures(released[:cut], agent.moving_groups),
        figures(released[cut:], agent.groups),
    )
    return Signal(each_p, each_r, together_p, together_r)


@jax.jit
def _value(agent: ScoreLearner, plan: Plan[ScorePlan], posteriors: Posteriors) -> tuple[Array, Array, Array]:
    """The greedy plan's value, its posterior standard deviation, and the value of the explorers' plan."""
    extension = plan.extension
    transitions = summarize(agent.coordinates, posteriors.blend[0])
    rewards = summarize(agent.reward_coordinates, posteriors.blend[1])
    starts = estimated_starts(agent.model, posteriors.starts)
    statistic = Statistic(agent.coordinates, agent.contrasts, extension.reference.theta)

    def value(eta: Array, reward_eta: Array) -> Array:
        estimate = estimate_from(agent, eta, reward_eta, starts, posteriors.residual)
        return forward_pass(agent.model, statistic, estimate, plan.policy, plan.values, agent.score, agent.floor).value

    worth, slopes = jax.value_and_grad(value, argnums=(0, 1))(transitions.mean, rewards.mean)
    variance = sum(
        jnp.einsum("gi,gij,gj->", slope, posterior.covariance, slope, precision=HIGHEST)
        for slope, posterior in zip(slopes, (transitions, rewards), strict=True)
    )
    # The plan's own moments are those of a round: explorers in their share, and the others.
    share = extension.share
    explorers = jnp.where(share > 0, (extension.moments.value - (1 - share) * worth) / share, worth)
    return worth, jnp.sqrt(jnp.maximum(variance, 0.0)), explorers
