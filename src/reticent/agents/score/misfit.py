# SPDX-License-Identifier: Apache-2.0
r"""How residuals move what users say about the blend.

A user of the blend's block adds :math:`W\,x_h(q)\,(V_{h+1}(s')-\hat P V_{h+1})` at every step. Where the row of q is off
the blend by :math:`\delta_qZ^\top`, the mean of a round moves by :math:`\sum_qG_q\delta_q` with

.. math:: G_q=n\,a\,W\sum_h\mu_h(q)\,x_h(q)\,V_{h+1}^\top Z,

μ the round's occupancies and a the clip's effect; of rewards by :math:`n\,a\,W_r\,\mu(q)\,x_r(q)`. For the score
``likelihood`` the contrast of the ratios takes the place of :math:`x_hV_{h+1}^\top`.

All of it follows from plans and earlier releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.dynamic_programming import HIGHEST, SMALLEST, Estimate, frame
from reticent.agents.score.evidence import Evidence, told
from reticent.agents.score.mixed_policies import MixedPolicies
from reticent.agents.score.round_plan import ScorePlan
from reticent.learning.plan import Plan
from reticent.worlds.models.model import Model

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner


class Coupling(NamedTuple):
    """U of all cells: of transitions ``(G, S·A, k, z)``, of rewards ``(G, S·A, r, 1)``."""

    transitions: Array
    rewards: Array


class Slopes(NamedTuple):
    """What a cell is by the blend, ``centre + slope·η``: rows along Z ``(S·A, z)`` and ``(S·A, z, k)``, mean rewards
    ``(S·A, 1)`` and ``(S·A, 1, r)``."""

    centre: Array
    rows: Array
    reward_centre: Array
    rewards: Array


def slopes_of(model: Model, coordinates: Coordinates, reward_coordinates: Coordinates, basis: Array) -> Slopes:
    """The candidates along Z."""
    pairs = model.states * model.actions
    along = jax.vmap(model.value_features, in_axes=1, out_axes=-1)(basis).reshape(model.d1, pairs, -1)
    table = model.reward_features.reshape(model.d2, pairs)
    if model.known_rewards is not None:
        table = jnp.zeros_like(table)
    return Slopes(
        jnp.einsum("d,dpz->pz", coordinates.centre, along, precision=HIGHEST),
        jnp.einsum("dk,dpz->pzk", coordinates.basis, along, precision=HIGHEST),
        jnp.einsum("d,dp->p", reward_coordinates.centre, table, precision=HIGHEST)[:, None],
        jnp.einsum("dr,dp->pr", reward_coordinates.basis, table, precision=HIGHEST)[:, None, :],
    )


def no_coupling(agent: ScoreLearner, directions: int) -> Coupling:
    """Before any release."""
    pairs, dtype = agent.model.states * agent.model.actions, agent.noise_scale.dtype
    return Coupling(
        jnp.zeros((agent.groups, pairs, agent.coordinates.size, directions), dtype),
        jnp.zeros((agent.groups, pairs, agent.reward_coordinates.size, 1), dtype),
    )


def coupled(
    before: Coupling,
    agent: ScoreLearner,
    plan: Plan[ScorePlan],
    estimate: Estimate,
    evidence: tuple[Evidence, Evidence],
) -> Coupling:
    """U with one more release, whose users are distributed as the ``estimate`` says."""
    added = []
    for earlier, response, own in zip(before, response_of(agent, plan, estimate), evidence, strict=True):
        groups = own.released.shape[0]
        if own.released.size == 0:
            added.append(earlier)
            continue
        weighted = told(own)[0]
        gained = jnp.einsum("gij,gjl,gplz->gpiz", weighted, own.gain, response[:groups], precision=HIGHEST)
        added.append(earlier.at[:groups].add(gained))
    return Coupling(*added)


def response_of(agent: ScoreLearner, plan: Plan[ScorePlan], estimate: Estimate) -> tuple[Array, Array]:
    """:math:`\\sum_h\\mu_h(q)x_h(q)V_{h+1}^\\top Z` per user ``(G, S·A, k, z)``, and the same of rewards."""
    extension, model = plan.extension, agent.model
    assert agent.residual is not None
    basis, groups = agent.residual.basis, agent.groups
    framed, hoped = frame(plan.values[1:])[0], frame(extension.hoped[1:])[0]
    pairs = model.states * model.actions

    def of_component(component: MixedPolicies) -> tuple[Array, Array]:
        acting = component.share * _acting(agent, estimate, component)  # (H, S·A)
        by_group = acting.sum(axis=0, keepdims=True) if groups == 1 else acting
        if agent.score == "values":
            values = jnp.where(component.hopeful, hoped, framed)
            features = jax.vmap(model.value_features)(values).reshape(model.horizon, model.d1, pairs)
            x = jnp.einsum("dk,hdp->hkp", agent.coordinates.basis, features, precision=HIGHEST)
            along = jnp.matmul(values, basis, precision=HIGHEST)
            moved = jnp.einsum(f"hp,hkp,hz->{'' if groups == 1 else 'h'}pkz", acting, x, along, precision=HIGHEST)
            moved = moved.reshape(groups, *moved.shape[-3:])
        else:
            moved = by_group[:, :, None, None] * _ratios(agent, extension.reference.theta)
        return moved, by_group[:, :, None, None] * agent.contrasts.reshape(-1, pairs).T[:, :, None]

    moved, paid = jax.lax.map(of_component, _components(plan))
    return moved.sum(axis=0), paid.sum(axis=0)


def _ratios(agent: ScoreLearner, theta: Array) -> Array:
    """Of ``likelihood``: :math:`\\sum_{s'}c(s')/p(s')Z(s')` of every cell, ``(G, S·A, k, z)``."""
    model = agent.model
    assert agent.residual is not None
    psi = model.transition_features.reshape(model.d1, model.states * model.actions, -1)
    stated = jnp.einsum("gd,dpn->gpn", theta, psi, precision=HIGHEST)
    contrast = jnp.einsum("dk,dpn->kpn", agent.coordinates.basis, psi, precision=HIGHEST)
    basis, ratios = agent.residual.basis, jnp.where(stated > SMALLEST, 1 / jnp.maximum(stated, SMALLEST), 0.0)
    successors = jnp.arange(model.states) if model.successors is None else model.successors.reshape(psi.shape[1:])
    after = jnp.broadcast_to(basis[successors], (*psi.shape[1:], basis.shape[1]))
    return jnp.einsum("kpn,gpn,pnz->gpkz", contrast, ratios, after, precision=HIGHEST)


def _acting(agent: ScoreLearner, estimate: Estimate, component: MixedPolicies) -> Array:
    """How often a user of this component takes every pair at every step, ``(H, S·A)``."""
    model, floor = agent.model, agent.floor
    assert estimate.rows is not None
    rows = estimate.rows
    policy = floor + (1 - model.actions * floor) * jax.nn.one_hot(component.choices, model.actions, dtype=rows.dtype)
    policy = jnp.where(component.at_random, 1 / model.actions, policy)

    def forward(occupancy: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        step, chances = at
        acting = occupancy[:, None] * chances
        group = jnp.minimum(step, rows.shape[0] - 1)
        return jnp.einsum("sa,san->n", acting, rows[group], precision=HIGHEST), acting.ravel()

    _, acting = jax.lax.scan(forward, estimate.initial, (jnp.arange(model.horizon), policy))
    return acting


def _components(plan: Plan[ScorePlan]) -> MixedPolicies:
    """The policies of a round's users, with whose values their vectors are made of."""
    extension = plan.extension
    if extension.mixed_policies is not None:
        return extension.mixed_policies
    at_random = jnp.asarray(extension.at_random)
    return MixedPolicies(
        jnp.stack([extension.curious, plan.policy]),
        jnp.stack([at_random, jnp.zeros_like(at_random)]),
        jnp.asarray([True, False]),
        jnp.stack([extension.share, 1 - extension.share]),
    )
