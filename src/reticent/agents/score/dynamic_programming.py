# SPDX-License-Identifier: Apache-2.0
r"""Backward and forward through the model: plans, and what a user of a plan would do if the estimate were the truth.

*Backward*: value iteration with the estimate, with or without a bonus of posterior standard deviations. *Forward*: the
occupancies :math:`o_h(s)` of a plan, and on the way the moments of one user's vector,

.. math:: F=\sum_h\sum_so_h(s)\,x x^\top,\qquad C=\sum_h\sum_so_h(s)\,\mathrm{Var}(\bar V(s'))\,xx^\top,\qquad
          E=\sum_h\sum_so_h(s)\,\varphi\varphi^\top,

which the paper's algorithm would have to release as noisy matrices. They follow from the public model and the public
estimate, so they cost nothing; where users begin is declared or part of the estimate. Both directions cost what a plan
costs; forward only the chosen actions are touched.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.score.coordinates import Coordinates
from reticent.worlds.models.model import Model

HIGHEST = jax.lax.Precision.HIGHEST
SMALLEST = 1e-300

Score = Literal["values", "likelihood"]


class Estimate(NamedTuple):
    """What is taken for the truth.

    Attributes:
      theta: of the blend, for all groups of steps, ``(G, d1)``. rewards: means ``(G, S, A)`` within [0, 1].
      initial: distribution of first states, ``(S,)``.
      linear: rows with their residuals ``(G, S, A, S)``, which plans are made from; they sum to one, but may be negative.
        rows: the nearest distributions, which users walk by. Both None where rows are the blend's own.
    """

    theta: Array
    rewards: Array
    initial: Array
    linear: Array | None = None
    rows: Array | None = None


class ResidualDoubt(NamedTuple):
    """The basis Z ``(S, z)`` of residuals, and a root of their covariance for every pair, ``(G, S, A, z, z)``."""

    basis: Array
    root: Array


class Doubt(NamedTuple):
    """Posterior standard deviations as roots: of transitions ``(G, d1, k)``, and by pair of rewards ``(G, S, A)``; of
    residuals where there are any."""

    root: Array
    rewards: Array
    residual: ResidualDoubt | None = None


class Moments(NamedTuple):
    """Per user of a plan, by the model: F, C ``(H, k, k)``, E ``(H, r, r)``, and the plan's value."""

    jacobian: Array
    spread: Array
    rewards: Array
    value: Array

    def mixed(self, other: Moments, share: Array) -> Moments:
        """Of a round in which ``share`` of the users are served this plan and the rest the ``other``."""
        mixed: Moments = jax.tree.map(lambda own, rest: share * own + (1 - share) * rest, self, other)
        return mixed

    def of_stay(self, visits: int) -> Moments:
        """Of the sum of so many independent visits; the value stays that of one."""
        if visits == 1:
            return self
        return Moments(visits * self.jacobian, visits * self.spread, visits * self.rewards, self.value)


def group_of(groups: int, step: Array) -> Array:
    """Which group of parameters a 0-based step belongs to: its own, or the only one."""
    return jnp.minimum(step, groups - 1)


class Backward(NamedTuple):
    """Greedy choices ``(H, S)``, values ``(H + 1, S)``, and the values of all actions before they are clipped."""

    choices: Array
    values: Array
    action_values: Array


def plan_backward(model: Model, estimate: Estimate, doubt: Doubt | None, simplex: bool, floor: float = 0.0) -> Backward:
    """Value iteration, optimistic where there is a ``doubt``; the best plan of those that take every action with a
    probability of at least ``floor``.

    The greedy choice is made on values that are not yet clipped: where several actions look perfect, the most promising of
    them is taken, and not the first.
    """
    groups, dtype = estimate.theta.shape[0], estimate.rewards.dtype

    def back(following: Array, step: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        group = group_of(groups, step)
        theta, table = estimate.theta[group], estimate.rewards[group]
        middle = (following.max() + following.min()) / 2
        features = model.value_features(following - middle)
        # Rows sum to one, so that a constant comes through as it is; at the last step all values are zero.
        if estimate.linear is None:
            table = table + middle + expected(model, theta, features, following - middle, simplex)
        else:
            table = table + corrected(estimate.linear[group], following)
        if doubt is not None:
            roots = jnp.einsum("dsa,dk->ksa", features, doubt.root[group], precision=HIGHEST)
            variance = (roots**2).sum(axis=0)
            if doubt.residual is not None:
                along = jnp.matmul(following - middle, doubt.residual.basis, precision=HIGHEST)
                own = jnp.einsum("i,saij->saj", along, doubt.residual.root[group], precision=HIGHEST)
                variance = variance + (own**2).sum(axis=-1)
            table = table + doubt.rewards[group] + jnp.sqrt(variance)
        choices = jax.lax.argmax(table, axis=1, index_dtype=jnp.int32)
        worth = table.max(axis=1)
        if floor:
            random = model.actions * floor
            worth = (1 - random) * worth + random * table.mean(axis=1)
        values = jnp.clip(worth, 0, model.horizon - step)
        return values, (choices, values, table)

    end = jnp.zeros(model.states, dtype)
    _, (choices, values, tables) = jax.lax.scan(back, end, jnp.arange(model.horizon), reverse=True)
    return Backward(choices, jnp.concatenate([values, end[None]]), tables)


def expected(model: Model, theta: Array, features: Array, values: Array, simplex: bool) -> Array:
    """P V for all pairs, ``(S, A)``; where θ is not declared a blend, rows are made distributions first."""
    if simplex:
        return jnp.einsum("d,dsa->sa", theta, features, precision=HIGHEST)
    rows = jnp.maximum(jnp.einsum("d,dsan->san", theta, model.transition_features, precision=HIGHEST), 0.0)
    after = values if model.successors is None else values[model.successors]
    return (rows * after).sum(axis=-1) / jnp.maximum(rows.sum(axis=-1), 1e-12)


def corrected(linear: Array, values: Array) -> Array:
    """P V for all pairs by rows with residuals ``(S, A, S)``, which may be negative: within the range of V all the same.

    Plans are made from these and not from the nearest distributions: a projection of noisy rows would be biased, always
    towards rows with many successors.
    """
    return jnp.clip(jnp.matmul(linear, values, precision=HIGHEST), values.min(), values.max())


def frame(values: Array) -> tuple[Array, Array]:
    """Values ``(..., S)`` shifted and scaled to [−1, 1], and the half-length; a constant becomes 0 with half-length 0."""
    top, bottom = values.max(axis=-1, keepdims=True), values.min(axis=-1, keepdims=True)
    half = (top - bottom) / 2
    framed = jnp.where(half > 1e-9, (values - (top + bottom) / 2) / jnp.where(half > 1e-9, half, 1.0), 0.0)
    return framed, half[..., 0]


class Statistic(NamedTuple):
    """What the statistic of a round refers to.

    Attributes:
      coordinates: of the transition parameters.
      contrasts: reward features in their coordinates, ``(r, S, A)``.
      reference: the transition parameter that the statistic refers to, ``(G, d1)``.
    """

    coordinates: Coordinates
    contrasts: Array
    reference: Array


def forward_pass(
    model: Model,
    statistic: Statistic,
    estimate: Estimate,
    choices: Array,
    values: Array,
    score: Score,
    floor: float = 0.0,
) -> Moments:
    """Moments of one user who is served ``choices`` ``(H, S)`` and whose statistic is made of ``values`` ``(H + 1, S)``.

    ``estimate`` is taken for the truth. They take every other action too, with the probability ``floor``: what a step adds
    and where it leads to are averages over their actions, as both are linear in their probabilities.
    """

    def forward(occupancy: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Moments]:
        step, actions, later = at
        chosen = _one_step(model, statistic, estimate, score, occupancy, step, actions, later)
        if not floor:
            return chosen
        share = model.actions * floor
        random = _random_step(model, statistic, estimate, score, occupancy, step, later)
        mixed: tuple[Array, Moments] = jax.tree.map(
            lambda own, other: (1 - share) * own + share * other, chosen, random
        )
        return mixed

    steps, framed = jnp.arange(model.horizon), frame(values[1:])[0]
    _, moments = jax.lax.scan(forward, estimate.initial, (steps, choices, framed))
    return moments._replace(value=moments.value.sum())


def forward_pass_uniform(
    model: Model, statistic: Statistic, estimate: Estimate, values: Array, score: Score
) -> Moments:
    """The same of users who act at random: the average over all actions at every step."""

    def forward(occupancy: Array, at: tuple[Array, Array]) -> tuple[Array, Moments]:
        step, later = at
        return _random_step(model, statistic, estimate, score, occupancy, step, later)

    steps, framed = jnp.arange(model.horizon), frame(values[1:])[0]
    _, moments = jax.lax.scan(forward, estimate.initial, (steps, framed))
    return moments._replace(value=moments.value.sum())


def _random_step(
    model: Model, statistic: Statistic, estimate: Estimate, score: Score, occupancy: Array, step: Array, later: Array
) -> tuple[Array, Moments]:
    """:func:`_one_step` of users who act at random: the average over actions."""

    def of_action(action: Array) -> tuple[Array, Moments]:
        actions = jnp.full(model.states, action)
        return _one_step(model, statistic, estimate, score, occupancy, step, actions, later)

    every = jax.lax.map(of_action, jnp.arange(model.actions))
    mean: tuple[Array, Moments] = jax.tree.map(lambda leaf: leaf.mean(axis=0), every)
    return mean


def _one_step(
    model: Model,
    statistic: Statistic,
    estimate: Estimate,
    score: Score,
    occupancy: Array,
    step: Array,
    actions: Array,
    later: Array,
) -> tuple[Array, Moments]:
    """Users who are distributed as ``occupancy`` take ``actions`` ``(S,)``: where they go, and what the step adds."""
    group, here = group_of(estimate.theta.shape[0], step), jnp.arange(model.states)
    coordinates = statistic.coordinates
    psi = model.transition_features[:, here, actions]
    successors = None if model.successors is None else model.successors[here, actions]
    contrasts = statistic.contrasts[:, here, actions]
    if estimate.rows is None:
        rows, onward = chosen_rows(psi, estimate.theta[group], coordinates.total is not None), successors
    else:
        rows, onward = estimate.rows[group, here, actions], None
    if score == "values":
        after = jnp.broadcast_to(later if successors is None else later[successors], psi.shape[1:])
        x = jnp.einsum("dk,dsn,sn->ks", coordinates.basis, psi, after, precision=HIGHEST)
        if estimate.rows is not None:
            after = jnp.broadcast_to(later, rows.shape)
        mean = (rows * after).sum(axis=-1)
        variance = jnp.maximum((rows * after**2).sum(axis=-1) - mean**2, 0.0)
        jacobian = jnp.einsum("s,is,js->ij", occupancy, x, x, precision=HIGHEST)
        spread = jnp.einsum("s,is,js->ij", occupancy * variance, x, x, precision=HIGHEST)
    else:
        stated = jnp.einsum("d,dsn->sn", statistic.reference[group], psi, precision=HIGHEST)
        c = jnp.einsum("dk,dsn->ksn", coordinates.basis, psi, precision=HIGHEST)
        weight = jnp.where(stated > SMALLEST, occupancy[:, None] / jnp.where(stated > SMALLEST, stated, 1.0), 0.0)
        jacobian = spread = jnp.einsum("isn,jsn,sn->ij", c, c, weight, precision=HIGHEST)
    rewards = jnp.einsum("s,is,js->ij", occupancy, contrasts, contrasts, precision=HIGHEST)
    value = (occupancy * estimate.rewards[group, here, actions]).sum()
    return push(occupancy, rows, onward), Moments(jacobian, spread, rewards, value)


def chosen_rows(psi: Array, theta: Array, simplex: bool) -> Array:
    """P(s'|s, π(s)) under θ from the chosen pairs' features ``(d, S, n)``; ``(S, n)``, distributions in any case."""
    rows = jnp.einsum("d,dsn->sn", theta, psi, precision=HIGHEST)
    if simplex:
        return rows
    rows = jnp.maximum(rows, 0.0)
    return rows / jnp.maximum(rows.sum(axis=-1, keepdims=True), 1e-12)


def push(occupancy: Array, rows: Array, successors: Array | None) -> Array:
    """Where users are one step later, ``(S,)``."""
    if successors is None:
        return jnp.matmul(occupancy, rows, precision=HIGHEST)
    return jnp.zeros_like(occupancy).at[successors].add(occupancy[:, None] * rows)
