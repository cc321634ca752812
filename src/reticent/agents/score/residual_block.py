# SPDX-License-Identifier: Apache-2.0
r"""The blend is a prior, not a law: a second block of every user's vector, about what the blend leaves unexplained.

Candidates that were written down beforehand are never quite right. With :math:`\delta_q` the residual of a cell q (a
pair of state and action, of every step where steps have parameters of their own), rows are
:math:`P_{\theta}(\cdot\mid q)+\delta_qZ^\top` and rewards the blend's plus a shift; both are learned from users, and how
large they may be is learned as well:

* before a round, what it asks (:mod:`reticent.agents.score.residual_directions`) and what it spends on the answer
  (:mod:`reticent.agents.score.residual_share`) follow from earlier releases: :func:`plan_residual`;
* a user's block is formed by :mod:`reticent_wire.forms.score_residual`;
* after the round, every cell's posterior (:mod:`reticent.agents.score.residual_posterior`) gives rows to plan with.

**Sensitivity.** The stacked vector is clipped as a whole to the unit ball (:mod:`reticent.agents.score.unit_ball`), so that
the noise is the one without this block, whatever is asked and however much is spent on it. docs/privacy.md has the proof.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST, Doubt, Estimate, ResidualDoubt, chosen_rows
from reticent.agents.score.misfit import no_coupling
from reticent.agents.score.posterior import empty_posterior, project_on_simplex
from reticent.agents.score.residual_clip import ClippedMean, Lengths, clipped_mean, unclipped
from reticent.agents.score.residual_directions import round_directions
from reticent.agents.score.residual_likelihood import Release, no_releases
from reticent.agents.score.residual_posterior import ResidualEstimate, ResidualState, no_residual
from reticent.agents.score.residual_share import COUNT_SCALE, radius_of, reward_scale_of, share_of
from reticent.learning.plan import Plan
from reticent.worlds.models.model import Model
from reticent_wire.forms.score_residual import ResidualReference

if TYPE_CHECKING:
    from reticent.agents.score.learner import ScoreLearner
    from reticent.agents.score.round_plan import ScorePlan

POLICIES = 4
"""Different policies of a round's users: greedy and curious of its version, and of a control group's."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ResidualBlock:
    """What is chosen about residuals.

    Attributes:
      basis: Z, ``(S, z)``. directions: m.
      bonus: posterior standard deviations of residuals in the explorers' plan.
      hope: share of what a round hopes to gain by exploring that it may spend on it.
      least_share, most_share: ρ₀ and ρ₁. clip: κ of the radius.
      alone: whether there is no blend to learn, so that the block is all of the vector.
    """

    basis: Array
    directions: int = dataclasses.field(metadata={"static": True})
    bonus: float = dataclasses.field(metadata={"static": True})
    hope: float = dataclasses.field(metadata={"static": True})
    least_share: float = dataclasses.field(metadata={"static": True})
    most_share: float = dataclasses.field(metadata={"static": True})
    clip: float = dataclasses.field(metadata={"static": True})
    alone: bool = dataclasses.field(metadata={"static": True})


class ResidualPlan(NamedTuple):
    """What a round asks about residuals; all of it is published.

    Attributes:
      reference: what users' blocks are formed with.
      tilt: A, ``(m, z)``, so that the directions of the reference are :math:`ZA^\\top`.
      rows: the estimate's rows as distributions, ``(G, S, A, S)``.
      clip: what the clip does to the round's sums.
    """

    reference: ResidualReference
    tilt: Array
    rows: Array
    clip: ClippedMean


def dense_rows(model: Model, theta: Array, simplex: bool) -> Array:
    """The blend's rows of all pairs as distributions over all states, ``(G, S·A, S)``, at θ ``(G, d1)``."""
    psi = model.transition_features
    pairs, entries = model.states * model.actions, psi.shape[-1]
    flat = psi.reshape(psi.shape[0], pairs, entries)
    rows = jax.vmap(lambda own: chosen_rows(flat, own, simplex))(theta)
    if model.successors is None:
        return rows
    states = model.successors.reshape(pairs, entries)
    empty = jnp.zeros((theta.shape[0], pairs, model.states), rows.dtype)
    return empty.at[:, jnp.arange(pairs)[:, None], states].add(rows)


def initial_state(agent: ScoreLearner, block: ResidualBlock) -> ResidualState:
    """Before any release."""
    model, groups = agent.model, agent.groups
    theta = jnp.broadcast_to(agent.coordinates.centre, (groups, model.d1))
    blend = dense_rows(model, theta, agent.coordinates.total is not None)
    releases = no_releases(
        agent.schedule.rounds, (POLICIES, model.horizon, model.states), groups * blend.shape[1],
        (block.directions, block.basis.shape[1]), blend.dtype,
    )  # fmt: skip
    nothing = empty_posterior(agent.coordinates, groups), empty_posterior(agent.reward_coordinates, groups)
    coupling = no_coupling(agent, block.basis.shape[1])
    return ResidualState(releases, coupling, no_residual(block.basis, blend, *nothing))


def with_residual(agent: ScoreLearner, block: ResidualBlock, estimate: Estimate, own: ResidualEstimate) -> Estimate:
    """The estimate with residuals in rows and rewards."""
    model = agent.model
    shape = (estimate.theta.shape[0], model.states, model.actions)
    blend = dense_rows(model, estimate.theta, agent.coordinates.total is not None)
    linear = blend + jnp.matmul(own.delta, block.basis.T, precision=HIGHEST)
    rewards = estimate.rewards
    if model.known_rewards is None:
        rewards = jnp.clip(rewards + own.reward_shift.reshape(shape), 0.0, 1.0)
    return estimate._replace(
        rewards=rewards,
        linear=linear.reshape(*shape, -1),
        rows=project_on_simplex(linear, 1.0).reshape(*shape, -1),
    )


def with_residual_doubt(agent: ScoreLearner, block: ResidualBlock, doubt: Doubt, own: ResidualEstimate) -> Doubt:
    """The bonus with the standard deviations of residuals; variances add up."""
    model = agent.model
    shape = (own.root.shape[0], model.states, model.actions)
    rewards = doubt.rewards
    if model.known_rewards is None:
        rewards = jnp.sqrt(rewards**2 + (block.bonus * own.reward_deviation.reshape(shape)) ** 2)
    root = block.bonus * own.root.reshape(*shape, *own.root.shape[2:])
    return doubt._replace(rewards=rewards, residual=ResidualDoubt(block.basis, root))


def plan_residual(
    agent: ScoreLearner,
    block: ResidualBlock,
    own: ResidualEstimate,
    estimate: Estimate,
    values: Array,
    hoped: Array,
    users: Array,
) -> ResidualPlan:
    """What a round of so many users asks, in units of 1: :func:`with_radius` chooses the radius."""
    assert estimate.linear is not None  # with_residual() gave them
    assert estimate.rows is not None
    tilt = round_directions(block.basis, values, hoped, block.directions)
    directions = jnp.matmul(block.basis, tilt.T, precision=HIGHEST)
    one = jnp.ones((), values.dtype)
    known = agent.model.known_rewards is not None
    reference = ResidualReference(
        directions=directions,
        expected=jnp.matmul(estimate.linear, directions, precision=HIGHEST),
        rewards=estimate.rewards,
        reward_scale=0 * one if known else reward_scale_of(own.reward_scale),
        count_scale=COUNT_SCALE * one,
        radius=one,
        share=one if block.alone else share_of(users, own.scale, block.least_share, block.most_share),
    )
    return ResidualPlan(reference, tilt, estimate.rows, unclipped(reference))


def with_radius(
    agent: ScoreLearner, block: ResidualBlock, asked: ResidualPlan, lengths: Lengths, users: Array
) -> ResidualPlan:
    """The same with the radius for users of such ``lengths``, and with what the clip at that radius leaves of them."""
    numbers = asked.reference.rewards.size * (block.directions + 1)
    square = (lengths.weights * lengths.squares).sum()
    radius = radius_of(jnp.sqrt(square), asked.reference.share, users, agent.noise_scale, block.clip, numbers)
    reference = asked.reference._replace(radius=radius)
    return asked._replace(
        reference=reference, clip=clipped_mean(reference, asked.rows, lengths, agent.model.horizon)
    )  # fmt: skip


def release_of(
    agent: ScoreLearner, block: ResidualBlock, plan: Plan[ScorePlan], released: Array, users: Array
) -> Release:
    """A round's released block ``(Q·(m + 2),)`` in its own units, with whose it is."""
    asked = plan.extension.asked
    reference, size = asked.reference, block.directions
    unit = reference.radius / jnp.sqrt(reference.share) if agent.clipped else jnp.ones((), released.dtype)
    numbers = unit * released.reshape(-1, size + 2)
    deviation = unit * agent.noise_scale
    clip, counted = asked.clip, asked.clip.counts * reference.count_scale
    choices, at_random, shares = _policies(plan)
    return Release(
        choices=choices,
        at_random=at_random,
        users=users * shares,
        tilt=asked.tilt,
        # What the clip adds per visit is as if less had been expected.
        expected=(reference.expected - clip.offset).reshape(-1, size),
        expected_rewards=(reference.rewards - clip.reward_offset).ravel(),
        moved=numbers[:, :size] / clip.residuals,
        rewards=numbers[:, size] / clip.residuals,
        counts=numbers[:, size + 1] / counted,
        reward_scale=reference.reward_scale,
        count_noise=deviation / counted,
        variance=(deviation / clip.residuals) ** 2,
        weight=jnp.ones((), released.dtype),
    )


def _policies(plan: Plan[ScorePlan]) -> tuple[Array, Array, Array]:
    """The policies of a round's users: choices ``(C, H, S)``, whether at random ``(C,)``, and their shares ``(C,)``."""
    extension = plan.extension
    mixed = extension.mixed_policies
    if mixed is None:
        choices = jnp.stack([extension.curious, plan.policy])
        at_random = jnp.stack([extension.at_random, jnp.zeros_like(extension.at_random)])
        shares = jnp.stack([extension.share, 1 - extension.share])
    else:  # components in twos: the same policy, with vectors made of the explorers' values or not
        choices, at_random, shares = mixed.choices[::2], mixed.at_random[::2], mixed.share[::2] + mixed.share[1::2]
    missing = POLICIES - choices.shape[0]
    return (
        jnp.pad(choices, ((0, missing), (0, 0), (0, 0))),
        jnp.pad(at_random, (0, missing)),
        jnp.pad(shares, (0, missing)),
    )
