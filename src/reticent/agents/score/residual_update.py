# SPDX-License-Identifier: Apache-2.0
"""The end of a round for residuals: its release joins the others, and all of them are read anew, with the blend's block.

All of it is post-processing of releases.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
from jax import Array

from reticent.agents.score.dynamic_programming import Estimate
from reticent.agents.score.evidence import Evidence
from reticent.agents.score.first_states import estimated_starts
from reticent.agents.score.misfit import Slopes, coupled, slopes_of
from reticent.agents.score.model_moments import mean_rewards
from reticent.agents.score.posterior import Posteriors, summarize
from reticent.agents.score.residual_block import dense_rows, release_of
from reticent.agents.score.residual_likelihood import Likelihood, likelihood_of, remembered
from reticent.agents.score.residual_posterior import (
    ResidualEstimate,
    ResidualState,
    jointly,
    learn_scales,
    residuals_around,
)
from reticent.agents.score.round_plan import ScorePlan
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


def with_release(
    agent: ScoreLearner, posteriors: Posteriors, state: AgentState, plan: Plan[ScorePlan], released: Array, users: Array
) -> Posteriors:
    """The round's release among the others."""
    residual = posteriors.residual
    if agent.residual is None or residual is None or residual.releases is None:
        return posteriors
    own = released[agent.score_dimension : agent.score_dimension + agent.residual_dimension]
    newest = release_of(agent, agent.residual, plan, own, users)
    return posteriors._replace(residual=residual._replace(releases=remembered(residual.releases, newest, state.rounds)))


def learn_residuals(
    agent: ScoreLearner,
    posteriors: Posteriors,
    plan: Plan[ScorePlan],
    estimate: Estimate,
    evidence: tuple[Evidence, Evidence],
    before: ResidualState | None,
    *,
    scales: bool,
) -> Posteriors:
    """The residuals by all releases, and the blend that both blocks speak for; ``scales`` are learned, or as they were."""
    if agent.residual is None or before is None or posteriors.residual is None or posteriors.residual.releases is None:
        return posteriors
    coupling = coupled(before.coupling, agent, plan, estimate, evidence)
    residual = posteriors.residual._replace(coupling=coupling)
    # Compiled even where nothing else is (a replay): it sees releases alone, and one operation at a time it takes minutes.
    with jax.disable_jit(False):
        found = _believe(agent, posteriors._replace(residual=residual), scales)
    return posteriors._replace(residual=residual._replace(estimate=found))


@functools.partial(jax.jit, static_argnums=2)
def _believe(agent: ScoreLearner, posteriors: Posteriors, scales: bool) -> ResidualEstimate:
    block, residual = agent.residual, posteriors.residual
    assert block is not None
    assert residual is not None
    likelihood, slopes = _likelihood(agent, posteriors)
    own = posteriors.transitions, posteriors.rewards

    def blend(by: ResidualEstimate) -> tuple[ResidualEstimate, Array, Array]:
        transitions, rewards = jointly(likelihood, slopes, by, own, residual.coupling)
        theta = agent.coordinates.theta(summarize(agent.coordinates, transitions).mean)
        weights = agent.reward_coordinates.theta(summarize(agent.reward_coordinates, rewards).mean)
        rows = dense_rows(agent.model, theta, agent.coordinates.total is not None)
        table = mean_rewards(agent.model, weights).reshape(rows.shape[:2])
        return by._replace(transitions=transitions, rewards=rewards), rows, table

    believed, rows, table = blend(residual.estimate)
    if scales:
        believed, rows, table = blend(learn_scales(block.basis, likelihood, rows, table, believed))
    return residuals_around(block.basis, likelihood, rows, table, believed)


def believed_at(
    agent: ScoreLearner, posteriors: Posteriors, scaled: ResidualEstimate
) -> tuple[Likelihood, Slopes, ResidualEstimate]:
    """What the releases in ``posteriors`` say of cells, the candidates, and what is believed at other scales."""
    assert posteriors.residual is not None
    estimate = posteriors.residual.estimate._replace(
        covariance=scaled.covariance, scale=scaled.scale, reward_scale=scaled.reward_scale
    )
    posteriors = posteriors._replace(residual=posteriors.residual._replace(estimate=estimate))
    with jax.disable_jit(False):
        found = _believe(agent, posteriors, False)
    return *_likelihood(agent, posteriors), found


def _likelihood(agent: ScoreLearner, posteriors: Posteriors) -> tuple[Likelihood, Slopes]:
    """What all releases say of cells, with the visits of what was believed before; and the candidates."""
    block, residual = agent.residual, posteriors.residual
    assert block is not None
    assert residual is not None
    assert residual.releases is not None
    starts = estimated_starts(agent.model, posteriors.starts)
    likelihood = likelihood_of(block.basis, residual.releases, residual.estimate.estimated, starts, agent.floor)
    return likelihood, slopes_of(agent.model, agent.coordinates, agent.reward_coordinates, block.basis)
