# SPDX-License-Identifier: Apache-2.0
r"""The plans of a round: greedy in the posterior mean for most users, curious for the explorers, and what both refer to.

**Exploration.** In the first round every user acts at random. In later ones the users at the first places are *explorers*,
in number :math:`\min(n,\max(n_1,\beta\sqrt n/\Delta))` with Δ the predicted loss of exploring; the others are
served the greedy plan. Who explores follows from the place, never from data. With residuals explorers are as many as the
larger of that and :math:`0.1\,n\cdot\text{hope}/\Delta`, with hope the explorers' optimistic value less the greedy plan's:
a round may spend on exploring a tenth of what it hopes to gain.

All of it is a function of earlier releases and of public numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import Estimate, Moments, Statistic, forward_pass, plan_backward
from reticent.agents.score.estimates import doubt_of, estimate_from
from reticent.agents.score.first_states import estimated_starts
from reticent.agents.score.model_moments import MIXING, REWARD_VARIANCE, whitening
from reticent.agents.score.posterior import Posteriors, summarize
from reticent.agents.score.replicas import residual_lengths
from reticent.agents.score.residual_block import plan_residual, with_radius
from reticent.agents.score.round_plan import ScorePlan
from reticent.agents.score.vector import Reference
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


def plan_round(agent: ScoreLearner, state: AgentState, action_values: bool) -> Plan[ScorePlan]:
    """What the coming round publishes; ``action_values`` keeps the values of all actions in it."""
    posteriors: Posteriors = state.past
    transitions = summarize(agent.coordinates, posteriors.blend[0])
    rewards = summarize(agent.reward_coordinates, posteriors.blend[1])
    first = state.rounds == 0
    starts = estimated_starts(agent.model, posteriors.starts)
    estimate = estimate_from(agent, transitions.mean, rewards.mean, starts, posteriors.residual)
    simplex = agent.coordinates.total is not None
    greedy, values, table = plan_backward(agent.model, estimate, None, simplex, agent.floor)
    doubt = doubt_of(agent, transitions, rewards, posteriors.residual)
    curious, hoped, hopes = plan_backward(agent.model, estimate, doubt, simplex, agent.floor)
    hoped = jnp.where(first, values, hoped)

    theta = agent.coordinates.theta(transitions.mean)
    if agent.score == "likelihood":
        theta = MIXING * theta + (1 - MIXING) * agent.coordinates.centre
    statistic = Statistic(agent.coordinates, agent.contrasts, theta)
    index = jnp.minimum(state.rounds, agent.sizes.shape[0] - 1)
    users = agent.sizes[index]
    exploiting = forward_moments(agent, statistic, estimate, greedy, values)
    exploring: Moments = jax.tree.map(
        lambda known, new: jnp.where(first, known, new),
        agent.first_moments,
        forward_moments(agent, statistic, estimate, curious, hoped),
    )
    loss = jnp.maximum(exploiting.value - exploring.value, 1e-9)
    spent = agent.explore * jnp.sqrt(users)
    if agent.residual is not None:
        hope = jnp.maximum(((hoped[0] - values[0]) * starts).sum(), 0.0)
        spent = jnp.maximum(spent, agent.residual.hope * users * hope)
    explorers = jnp.clip(spent / loss, agent.sizes[0], users)
    explorers = jnp.where(first, users, jnp.floor(explorers))
    moments = exploring.mixed(exploiting, explorers / users)
    whiten = whitening(by_group(agent, moments.spread, agent.moving_groups), agent.ridge)
    whiten_rewards = whitening(REWARD_VARIANCE * by_group(agent, moments.rewards, agent.groups), agent.ridge)
    radius, asked = agent.radii[index], None
    if agent.residual is not None and posteriors.residual is not None:
        believed = posteriors.residual.estimate
        asked = plan_residual(agent, agent.residual, believed, estimate, values, hoped, users)
        radius = jnp.maximum(agent.radii[0], jnp.sqrt(1 - asked.reference.share) * radius)
    reference = Reference(theta, agent.reward_coordinates.theta(rewards.mean), whiten, whiten_rewards, radius)
    extension = ScorePlan(
        curious, hoped, explorers.astype(jnp.int32), explorers / users, first, reference,
        agent.coordinates.eta(theta), rewards.mean, moments, hopes if action_values else None,
        initial=starts if agent.starts else None, residual=asked,
    )  # fmt: skip
    plan = Plan(greedy, values, extension, table if action_values else None)
    if agent.residual is not None and asked is not None and agent.clipped:
        lengths = residual_lengths(agent, plan, jax.random.fold_in(agent.public_key(state.rounds), 1))
        asked = with_radius(agent, agent.residual, asked, lengths, users)
        plan = plan._replace(extension=extension._replace(residual=asked))
    return plan


def by_group(agent: ScoreLearner, steps: Array, groups: int) -> Array:
    """Matrices of all steps ``(H, k, k)`` added up (stationary) or those of the first ``groups`` steps."""
    return steps.sum(axis=0, keepdims=True)[:groups] if agent.groups == 1 else steps[:groups]


def forward_moments(
    agent: ScoreLearner, statistic: Statistic, estimate: Estimate, choices: Array, values: Array
) -> Moments:
    """The moments of a user who is served these choices, as randomised as they are."""
    once = forward_pass(agent.model, statistic, estimate, choices, values, agent.score, agent.floor)
    return once.of_stay(agent.visits)
