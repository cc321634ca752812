# SPDX-License-Identifier: Apache-2.0
r"""The end of a round: its released sum enters the posteriors of transitions, of rewards, of first states and of residuals.

With J = n·W·F the model's own Jacobian and :math:`\Sigma=\sigma^2I+n\,WCW^\top` the covariance of the release Y,

.. math:: \Lambda\leftarrow\Lambda+J^\top\Sigma^{-1}J,\qquad
          b\leftarrow b+J^\top\Sigma^{-1}(Y+J\eta_0),

once with the estimate that the round was planned with, and once more with the one that follows. Earlier releases may count
less with time (``half_life``), or not at all after a release that they did not let expect (``alarm``).

All of it is post-processing of releases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import Estimate, Moments, Statistic
from reticent.agents.score.estimates import corrected_by, estimate_by, estimate_of
from reticent.agents.score.evidence import Evidence, evidence_of, learn, surprise
from reticent.agents.score.first_states import StartPosterior, learn_starts
from reticent.agents.score.mixed_policies import moments_of
from reticent.agents.score.model_moments import REWARD_VARIANCE, root_of
from reticent.agents.score.planning import by_group, forward_moments
from reticent.agents.score.posterior import Fit, Posterior, Posteriors, summarize
from reticent.agents.score.replicas import ClipEffect, clip_effect, no_clip_effect
from reticent.agents.score.residual_likelihood import faded
from reticent.agents.score.residual_surprise import surprise_beyond_misfit
from reticent.agents.score.residual_update import learn_residuals, with_release
from reticent.agents.score.round_plan import ScorePlan
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


def learned(
    agent: ScoreLearner, state: AgentState, plan: Plan[ScorePlan], users: Array | int, released: Array
) -> Posteriors:
    """The posteriors after the round of ``state`` with so many ``users``, whose sum ``(D,)`` was ``released``."""
    extension = plan.extension
    radius, count = extension.reference.radius, jnp.asarray(users, agent.noise_scale.dtype)
    own_weight, start_weight = agent.part_weights
    weight: Array | float = own_weight
    if extension.residual is not None and agent.clipped:
        weight = own_weight * jnp.sqrt(jnp.maximum(1 - extension.residual.reference.share, 1e-12))
    noises = count if agent.noised_reports else 1.0
    summed = radius / weight * released[: agent.score_dimension]
    variance = (radius / weight * agent.noise_scale) ** 2 * noises
    effect = clip_effect_of(agent, state, plan)
    evidence = _evidence(agent, extension, extension.moments, summed, variance, effect, count)
    changed = None
    if math.isfinite(agent.alarm) and agent.residual is not None:
        changed = surprise_beyond_misfit(agent, state, plan, evidence, released, count)
    before = faded_posteriors(agent, state.past, evidence, count, changed)
    if agent.starts:
        users_at = released[-agent.starts :] / start_weight
        doubt = (agent.noise_scale / start_weight) ** 2 * noises
        before = before._replace(starts=learn_starts(before.starts, users_at, doubt, count))
    before = with_release(agent, before, state, plan, released, count)
    # The Jacobian follows the estimate: once more with the new one, but for the first round, whose users act at random.
    guessed = learn_residuals(
        agent, _learn(before, evidence), plan, estimate_of(agent, extension), evidence, before.residual, scales=False
    )
    estimate = corrected_by(agent, estimate_by(agent, guessed), guessed.residual)
    statistic = Statistic(agent.coordinates, agent.contrasts, extension.reference.theta)
    renewed = _renewed(agent, plan, statistic, estimate)
    again = _evidence(agent, extension, renewed, summed, variance, effect, count)
    posteriors = _learn(before, again)._replace(residual=guessed.residual)
    posteriors = learn_residuals(agent, posteriors, plan, estimate, again, before.residual, scales=True)
    return finite(agent, posteriors, state.past)


def finite(agent: ScoreLearner, posteriors: Posteriors, before: Posteriors) -> Posteriors:
    """The new posteriors, or those before them where a plan made from the new ones would not be finite."""
    summaries = (
        summarize(agent.coordinates, posteriors.transitions),
        summarize(agent.reward_coordinates, posteriors.rewards),
    )
    used = posteriors, summaries, [root_of(summary.covariance) for summary in summaries]
    sound = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(used)]).all()
    kept: Posteriors = jax.tree.map(lambda new, old: jnp.where(sound, new, old), posteriors, before)
    return kept


def faded_posteriors(
    agent: ScoreLearner,
    posteriors: Posteriors,
    evidence: tuple[Evidence, Evidence],
    users: Array,
    changed: Array | None = None,
) -> Posteriors:
    """What is left of earlier posteriors when a round of so many users ends: less with time, nothing after an alarm.

    The alarm looks at ``changed``, the surprise that residuals do not explain; without residuals at that of the blend.
    """
    kept = jnp.exp2(-users / agent.half_life)
    alarms = posteriors.alarms
    unexpected = surprise(agent.coordinates, posteriors.transitions, evidence[0])
    unexpected = unexpected + surprise(agent.reward_coordinates, posteriors.rewards, evidence[1])
    earlier = posteriors.fit
    fit = Fit(unexpected, earlier.total + jnp.where(earlier.releases > 0, unexpected, 0.0), earlier.releases + 1)
    if math.isfinite(agent.alarm):
        # The first release has nothing before it that could be given up.
        alarmed = ((unexpected if changed is None else changed) > agent.alarm) & (earlier.releases > 0)
        kept, alarms = jnp.where(alarmed, 0.0, kept), alarms + alarmed
        fit = Fit(unexpected, jnp.where(alarmed, 0.0, fit.total), jnp.where(alarmed, 1, fit.releases))
    less: tuple[Posterior, Posterior, StartPosterior | None] = jax.tree.map(
        lambda leaf: kept * leaf, (posteriors.transitions, posteriors.rewards, posteriors.starts)
    )
    residual = posteriors.residual
    if residual is not None and residual.releases is not None:
        coupling = jax.tree.map(lambda leaf: kept * leaf, residual.coupling)
        residual = residual._replace(releases=faded(residual.releases, kept), coupling=coupling)
    return Posteriors(*less[:2], fit, alarms, less[2], residual)


def clip_effect_of(agent: ScoreLearner, state: AgentState, plan: Plan[ScorePlan]) -> ClipEffect:
    """What the clip does to the blend's part of the round's vectors."""
    moving = agent.moving_groups, agent.coordinates.size
    paying = agent.groups, agent.reward_coordinates.size
    if not agent.clipped:
        return no_clip_effect((moving, paying), agent.noise_scale.dtype)
    return clip_effect(agent, plan, agent.public_key(state.rounds), (moving, paying))


def _renewed(agent: ScoreLearner, plan: Plan[ScorePlan], statistic: Statistic, estimate: Estimate) -> Moments:
    """The moments of a round's user by a new estimate."""
    extension = plan.extension
    if extension.mixed_policies is not None:
        return moments_of(agent, extension.mixed_policies, statistic, estimate, plan.values, extension.hoped)
    curious = forward_moments(agent, statistic, estimate, extension.curious, extension.hoped)
    greedy = forward_moments(agent, statistic, estimate, plan.policy, plan.values)
    renewed: Moments = jax.tree.map(
        lambda new, old: jnp.where(extension.at_random, old, new),
        curious.mixed(greedy, extension.share),
        extension.moments,
    )
    return renewed


def _evidence(
    agent: ScoreLearner,
    extension: ScorePlan,
    moments: Moments,
    summed: Array,
    variance: Array,
    effect: ClipEffect,
    users: Array,
) -> tuple[Evidence, Evidence]:
    """What a release says of transitions and of rewards, with these moments of a user."""
    reference = extension.reference
    moving, size = agent.moving_groups, agent.coordinates.size
    paying, reward_size = agent.groups, agent.reward_coordinates.size
    cut = moving * size
    centred = summed - users * effect.offset
    transitions = evidence_of(
        reference.whiten, by_group(agent, moments.jacobian, moving), by_group(agent, moments.spread, moving),
        centred[:cut].reshape(moving, size), effect.transitions, effect.doubt[:cut].reshape(moving, size),
        extension.eta, variance, users,
    )  # fmt: skip
    information = by_group(agent, moments.rewards, paying)
    rewards = evidence_of(
        reference.whiten_rewards, information, REWARD_VARIANCE * information,
        centred[cut:].reshape(paying, reward_size), effect.rewards, effect.doubt[cut:].reshape(paying, reward_size),
        extension.reward_eta, variance, users,
    )  # fmt: skip
    return transitions, rewards


def _learn(before: Posteriors, evidence: tuple[Evidence, Evidence]) -> Posteriors:
    """The posteriors after a release."""
    return before._replace(
        transitions=learn(before.transitions, evidence[0]), rewards=learn(before.rewards, evidence[1])
    )
