# SPDX-License-Identifier: Apache-2.0
r"""Whether a release says that users have changed, where candidates may be wrong.

A blend that is wrong is surprised by every release, and so is one whose users have changed. What tells the two apart is
the model of both blocks (:mod:`reticent.agents.score.joint_posterior`, whose symbols are used here): residuals are the
same in every release, and users who changed are not. The newest release of the blend's block is

.. math:: Y=J(\eta-\eta_0)+\sum_qG_q\delta_q+N(0,\Sigma),

and given the blend η the residual block has said :math:`\delta_q\sim N(C_q(r_q-\Lambda_q\Psi_q\eta),C_q)` of every cell,
the blend's block :math:`v-E\eta\sim N(\sum_qU_q(\delta_q-E\delta_q),\Lambda_D)` of all together. With
:math:`K=\sum_qG_qC_qU_q^\top` and :math:`D=J-\sum_qG_qC_q\Lambda_q\Psi_q-KT^{-1}E`, Y is expected to have the mean and
covariance

.. math:: D\hat\eta-J\eta_0+\sum_qG_qC_qr_q+KT^{-1}v,\qquad
          \Sigma+D\,\mathrm{Cov}(\eta)D^\top+\sum_qG_qC_qG_q^\top-KT^{-1}K^\top,

and the squared length of what is left of Y in that metric is the surprise: χ² with as many degrees of freedom as there are
numbers, if blend and residuals are as they are believed to be.

**How far rows may leave the blend** is taken as it is believed *with* the newest release: a blend that is refuted by this
release is no reason to forget. Users who changed from one blend to another move no row off a blend for long, so that the
scale stays small and the surprise large.

All of it is post-processing of releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import HIGHEST
from reticent.agents.score.estimates import estimate_of
from reticent.agents.score.evidence import Evidence, learn
from reticent.agents.score.joint_posterior import LEAST, conditional
from reticent.agents.score.misfit import response_of
from reticent.agents.score.model_moments import REWARD_VARIANCE
from reticent.agents.score.posterior import Posterior, Posteriors, precision, symmetric
from reticent.agents.score.residual_update import believed_at, learn_residuals, with_release
from reticent.agents.score.round_plan import ScorePlan
from reticent.agents.score.small_inverses import inverse, solved_transposed
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


def surprise_beyond_misfit(
    agent: ScoreLearner,
    state: AgentState,
    plan: Plan[ScorePlan],
    evidence: tuple[Evidence, Evidence],
    released: Array,
    users: Array,
) -> Array:
    """The squared length of what blend and residuals together did not let expect of the round's release."""
    before: Posteriors = state.past
    assert before.residual is not None
    assert agent.residual is not None
    added = with_release(agent, before, state, plan, released, users)
    added = added._replace(
        transitions=learn(before.transitions, evidence[0]), rewards=learn(before.rewards, evidence[1])
    )
    estimate = estimate_of(agent, plan.extension)
    added = learn_residuals(agent, added, plan, estimate, evidence, before.residual, scales=True)
    assert added.residual is not None
    scaled = added.residual.estimate
    likelihood, slopes, believed = believed_at(agent, before, scaled)
    response = response_of(agent, plan, estimate)
    known = before.residual.coupling
    cells = agent.groups, agent.model.states * agent.model.actions
    size = scaled.covariance.shape[0]
    paid = jnp.full((1, 1), REWARD_VARIANCE) * scaled.reward_scale**2
    transitions = Cells(
        likelihood.information.reshape(*cells, size, size), likelihood.moment.reshape(*cells, size),
        slopes.centre, slopes.rows, scaled.covariance, known.transitions, response[0],
    )  # fmt: skip
    rewards = Cells(
        likelihood.reward_information.reshape(*cells, 1, 1), likelihood.reward_moment.reshape(*cells, 1),
        slopes.reward_centre, slopes.rewards, paid, known.rewards, response[1],
    )  # fmt: skip
    own = surprise_of_cells(agent.coordinates, before.transitions, believed.transitions, evidence[0], transitions)
    return own + surprise_of_cells(agent.reward_coordinates, before.rewards, believed.rewards, evidence[1], rewards)


class Cells(NamedTuple):
    """What is known of one family's cells before the release, and how they move it.

    Attributes:
      information: Λ ``(G, P, z, z)``. moment: r before the centre is subtracted, ``(G, P, z)``.
      centre: ``(P, z)``. slopes: Ψ ``(P, z, k)``. covariance: Σ₀ ``(z, z)``. coupling: U ``(G, P, k, z)``.
      response: of a user of the newest release, ``(G, P, k, z)``: G without its gain.
    """

    information: Array
    moment: Array
    centre: Array
    slopes: Array
    covariance: Array
    coupling: Array
    response: Array


def surprise_of_cells(
    coordinates: Coordinates, own: Posterior, both: Posterior, evidence: Evidence, cells: Cells
) -> Array:
    """The squared length of what was not expected of one family's release.

    ``own`` is what the blend's block has said, and ``both`` what both blocks say, of the blend.
    """
    groups, size = evidence.released.shape
    if groups * size == 0:
        return jnp.zeros((), evidence.released.dtype)
    information, coupling = cells.information[:groups], cells.coupling[:groups]
    covariance = inverse(precision(coordinates, both)[:groups])
    mean = jnp.einsum("gij,gj->gi", covariance, both.moment[:groups], precision=HIGHEST)
    spread = jax.vmap(lambda one: conditional(one, cells.covariance)[0])(information)  # C
    known = jnp.matmul(spread, information, precision=HIGHEST)  # C Λ
    around = cells.moment[:groups] - jnp.einsum("gpij,pj->gpi", information, cells.centre, precision=HIGHEST)
    told = jnp.einsum("gpij,gpj->gpi", spread, around, precision=HIGHEST)  # C r

    moved = jnp.einsum("gij,gpjz->gpiz", evidence.gain, cells.response[:groups], precision=HIGHEST)  # G

    def through(left: Array, right: Array) -> Array:
        """Σ_q left_q C_q right_qᵀ."""
        return jnp.einsum("gpiz,gpzy,gpjy->gij", left, spread, right, precision=HIGHEST)

    def by_blend(left: Array) -> Array:
        """Σ_q left_q C_q Λ_q Ψ_q."""
        return jnp.einsum("gpiz,gpzy,pyj->gij", left, known, cells.slopes, precision=HIGHEST)

    response = own.information[:groups] - by_blend(coupling)  # E
    noise = symmetric(own.information[:groups] + through(coupling, coupling))  # T
    level = LEAST * (jnp.trace(noise, axis1=1, axis2=2) + 1.0)[:, None, None]
    noise = noise + level * jnp.eye(size, dtype=noise.dtype)
    weighed = solved_transposed(noise, through(coupling, moved))  # K T⁻¹
    rest = own.moment[:groups] - jnp.einsum("gpiz,gpz->gi", coupling, told, precision=HIGHEST)  # v
    direct = evidence.response - by_blend(moved) - jnp.matmul(weighed, response, precision=HIGHEST)  # D
    expected = (
        jnp.einsum("gij,gj->gi", direct, mean, precision=HIGHEST)
        - jnp.einsum("gij,gj->gi", evidence.response, evidence.start, precision=HIGHEST)
        + jnp.einsum("gpiz,gpz->gi", moved, told, precision=HIGHEST)
        + jnp.einsum("gij,gj->gi", weighed, rest, precision=HIGHEST)
    )
    variance = (
        evidence.noise
        + jnp.einsum("gij,gjl,gml->gim", direct, covariance, direct, precision=HIGHEST)
        + through(moved, moved)
        - jnp.matmul(weighed, through(coupling, moved), precision=HIGHEST)
    )
    left = evidence.released - expected
    return (solved_transposed(symmetric(variance), left[:, :, None])[:, 0] * left).sum()
