# SPDX-License-Identifier: Apache-2.0
r"""The one vector of a user, :math:`u=(\sqrt{1-\tau}\,(X-X_0)/R,\ \sqrt\tau\,(e-e_0)/R_e)`, and the plan's own constants.

X are the features of the episode in the coordinates of η, summed over the steps of a group;
:math:`e=\sum_hr_h-V_1(s_1)` is the return minus what the served model promised. By (1) of docs/theory/elimination.md,
:math:`e-\langle X,\eta-\tilde\eta\rangle` has the mean 0 at the truth. The bounds R and R_e hold for every episode in
which the plan's choices are taken, so that u is in the unit ball; the aggregator clips it all the same.

Everything here follows from the public plan.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.elimination.parameters import Parameters
from reticent.agents.score.dynamic_programming import HIGHEST, Backward, Estimate, chosen_rows, push
from reticent.worlds import Episode, Model

SMALLEST = 1e-9


class Scales(NamedTuple):
    """How vectors of a round are centred and scaled; public.

    Attributes:
      centre, radius: X₀ ``(D,)`` and R. error_centre, error_radius: e₀ and R_e.
      share: τ, the share of the squared length that belongs to e.
    """

    centre: Array
    radius: Array
    error_centre: Array
    error_radius: Array
    share: Array

    @property
    def feature_factor(self) -> Array:
        """By what the feature part of a vector is to be multiplied to be X − X₀."""
        return self.radius / jnp.sqrt(1 - self.share)

    @property
    def error_factor(self) -> Array:
        """By what the last number of a vector is to be multiplied to be e − e₀."""
        return self.error_radius / jnp.sqrt(self.share)


def feature_table(model: Model, parameters: Parameters, values: Array) -> Array:
    """Bᵀx of all steps and pairs, ``(H, k + r, S, A)``: transitions under V_{h+1}, then rewards."""
    moving = jax.vmap(model.value_features)(values[1:])
    moving = jnp.einsum("dk,hdsa->hksa", parameters.transitions.basis, moving, precision=HIGHEST)
    tables = parameters.reward_total * model.reward_features
    paying = jnp.einsum("dr,dsa->rsa", parameters.rewards.basis, tables, precision=HIGHEST)
    return jnp.concatenate([moving, jnp.broadcast_to(paying, (model.horizon, *paying.shape))], axis=1)


def gather(parameters: Parameters, steps: Array) -> Array:
    """Features of all steps ``(H, k + r)`` as one vector ``(D,)``: added up within a group, listed over groups."""
    cut = parameters.transitions.size
    moving, paying = steps[:, :cut], steps[:, cut:]
    if parameters.groups == 1:
        moving, paying = moving.sum(axis=0, keepdims=True), paying.sum(axis=0, keepdims=True)
    return jnp.concatenate([moving[: parameters.moving].reshape(-1), paying.reshape(-1)])


def scales_of(model: Model, parameters: Parameters, plan: Backward, table: Array) -> Scales:
    """The centres and radii that hold for all users who are served ``plan``."""
    steps, states = jnp.arange(model.horizon)[:, None], jnp.arange(model.states)
    chosen = table[steps, :, states, plan.choices]
    middle = (chosen.max(axis=1) + chosen.min(axis=1)) / 2
    centred, plain = (jnp.sqrt((part**2).sum(axis=-1)).max(axis=1) for part in (chosen - middle[:, None], chosen))
    # The middle of a box may be farther from its corners than the origin is; the theorem's R is that of the origin.
    middle = jnp.where((centred < plain)[:, None], middle, 0.0)
    reach = jnp.minimum(centred, plain)
    radius = reach.sum() if parameters.groups == 1 else jnp.sqrt((reach**2).sum())
    first = jnp.where(model.initial > 0, plan.values[0], jnp.nan)
    low, high = -jnp.nanmax(first), model.horizon - jnp.nanmin(first)
    radius, error_radius = jnp.maximum(radius, SMALLEST), (high - low) / 2
    share = error_radius / (error_radius + radius * parameters.diameter)
    return Scales(gather(parameters, middle), radius, (high + low) / 2, error_radius, share)


def user_vector(parameters: Parameters, scales: Scales, table: Array, first: Array, episode: Episode) -> Array:
    """The vector ``(D + 1,)`` of an episode, not clipped; ``first`` are the promised values of first states ``(S,)``."""
    steps = jnp.arange(table.shape[0])
    features = gather(parameters, table[steps, :, episode.states[:-1], episode.actions])
    error = episode.rewards.sum() - first[episode.states[0]]
    return jnp.concatenate(
        [
            (features - scales.centre) / scales.feature_factor,
            ((error - scales.error_centre) / scales.error_factor)[None],
        ]
    )


def mean_of(scales: Scales, summed: Array, users: Array) -> tuple[Array, Array]:
    """(X̂, ê): the means ``(D,)`` and ``()`` of ``users`` users whose vectors sum to ``summed`` ``(D + 1,)``."""
    mean = summed / users
    return scales.centre + scales.feature_factor * mean[:-1], scales.error_centre + scales.error_factor * mean[-1]


def spans(plan: Backward) -> Array:
    """ρ_h = max V_{h+1} − min V_{h+1}, ``(H,)``."""
    return plan.values[1:].max(axis=1) - plan.values[1:].min(axis=1)


def certain_variance(plan: Backward, scales: Scales) -> Array:
    """s² of Lemma 1: a bound on the sub-Gaussian parameter of one user, whatever the truth is."""
    return jnp.maximum(((1 + spans(plan)) ** 2).sum() / 4, scales.error_radius**2)


def expected_variance(model: Model, estimate: Estimate, plan: Backward) -> Array:
    """The variance of e if the served model were the truth and rewards were 0 or 1: a guess at s², not a bound."""
    here, groups = jnp.arange(model.states), estimate.theta.shape[0]

    def forward(occupancy: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        step, actions, later = at
        group = jnp.minimum(step, groups - 1)
        successors = None if model.successors is None else model.successors[here, actions]
        rows = chosen_rows(model.transition_features[:, here, actions], estimate.theta[group], True)
        after = jnp.broadcast_to(later if successors is None else later[successors], rows.shape)
        reward = estimate.rewards[group, here, actions]
        moved = jnp.maximum((rows * after**2).sum(axis=-1) - (rows * after).sum(axis=-1) ** 2, 0.0)
        return push(occupancy, rows, successors), (occupancy * (moved + reward * (1 - reward))).sum()

    steps = jnp.arange(model.horizon)
    _, variances = jax.lax.scan(forward, estimate.initial, (steps, plan.choices, plan.values[1:]))
    return variances.sum()
