# SPDX-License-Identifier: Apache-2.0
r"""A plan between the nodes: what is published determines Q, V and the policy at every real state.

On a :class:`~reticent.worlds.continuous.ContinuousModel` the planner fills tables at the quadrature nodes. Users are at
other states. Nothing is interpolated: the planner's own formula only needs the features at (s, a), and those exist
everywhere, so

.. math::

   Q_h(s,a)=\Big[\varphi^\top\hat\theta_{h,r}+\beta_r\|\varphi\|_{\Lambda_{h,r}^{-1}}
      +c_h+\rho_h\big(\phi_h^\top\hat\theta_{h,p}+\beta_p\|\phi_h\|_{\Lambda_{h,p}^{-1}}\big)\Big]_{[0,\,H-h+1]},
   \qquad\phi_h=\phi_{(V_{h+1}-c_h)/\rho_h}(s,a)

with :math:`V_{h+1}` on the nodes. :class:`Published` holds the numbers that enter; all of them are released or public, so
a user's device computes Q from the billboard and the user's own state, and privacy is as on the nodes. Value iteration
takes an action whose sum in the brackets is largest, which decides between those at the ceiling too. Policy optimization
acts by :math:`\pi_h(a\mid s)\propto\exp\sum_v\eta n_vQ^v_h(s,a)` over the versions v of the plan that it has stepped
along (its own is among them if the step is taken ahead), n_v users being served each; its :class:`Past` keeps these
versions, which takes bounded memory because the schedule of rounds is fixed and public.

At a node everything here equals the planner's tables, up to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.linear_mixture.frame import LinOptPlan
from reticent.agents.linear_mixture.statistics import Observation
from reticent.errors import InvalidInput
from reticent.learning.plan import Plan
from reticent.learning.ridge import Estimate, width
from reticent.worlds import Episode
from reticent.worlds.continuous.model import ContinuousModel, Rows

MOST_VERSIONS = 256
"""Policy optimization off the nodes keeps every version of its plan; schedules with more rounds than this are refused."""


class Published(NamedTuple):
    """The numbers behind one plan; ``H`` leads every field.

    Attributes:
      theta_p, factor_p, radius_p: transition estimates ``(H, d1)``, Cholesky factors ``(H, d1, d1)``, radii ``(H,)``
        (already multiplied by the bonus scale).
      theta_r, factor_r, radius_r: the same of the rewards.
      values: V on the nodes, ``(H + 1, S)``.
      centres, scales: the frame of V_{h+1} at each step, ``(H,)``.
    """

    theta_p: Array
    factor_p: Array
    radius_p: Array
    theta_r: Array
    factor_r: Array
    radius_r: Array
    values: Array
    centres: Array
    scales: Array


class Past(NamedTuple):
    """The plans that policy optimization has stepped along: ``versions`` with a leading axis, ``weights`` η·n_v of each.

    Versions that are still to come have weight zero.
    """

    versions: Published
    weights: Array


class Between(NamedTuple):
    """How a plan goes on between the nodes: its own numbers, and the past of policy optimization (else None)."""

    published: Published
    past: Past | None


# -- keeping ----------------------------------------------------------------------------------------------------------


def publish(
    transition: Estimate,
    reward: Estimate,
    transition_radius: Array,
    reward_radius: Array,
    plan: Plan[LinOptPlan],
) -> Published:
    """Gather what the planner used (estimates, radii times bonus scale) and what it found (V, frames).

    Estimates that all steps share, ``(1, ...)``, are repeated for each step.
    """
    values, frame = plan.values, plan.extension
    horizon = frame.centres.shape[0]

    def every(leaf: Array) -> Array:
        return jnp.broadcast_to(leaf, (horizon, *leaf.shape[1:]))

    return Published(
        every(transition.theta), every(transition.factor), transition_radius,
        every(reward.theta), every(reward.factor), reward_radius,
        values, frame.centres, frame.scales,
    )  # fmt: skip


def empty_past(model: ContinuousModel, rounds: int) -> Past:
    """Room for the versions of ``rounds`` rounds, and for the plan after the last one, which may step ahead too.

    Raises:
      InvalidInput: more rounds than :data:`MOST_VERSIONS`.
    """
    if rounds > MOST_VERSIONS:
        raise InvalidInput(
            "rounds", rounds, f"at most {MOST_VERSIONS} for policy optimization on real states",
            "replan at the ends of epochs, or use value iteration",
        )  # fmt: skip
    horizon, d1, d2, dtype = model.horizon, model.d1, model.d2, model.reward_features.dtype

    def room(*shape: int) -> Array:
        return jnp.zeros((rounds + 1, *shape), dtype)

    # Identity factors: a version that never came must not divide by zero before its weight of zero removes it.
    eye_p, eye_r = (jnp.broadcast_to(jnp.eye(d, dtype=dtype), (rounds + 1, horizon, d, d)) for d in (d1, d2))
    versions = Published(
        room(horizon, d1), eye_p, room(horizon),
        room(horizon, d2), eye_r, room(horizon),
        room(horizon + 1, model.states), room(horizon), 1 + room(horizon),
    )  # fmt: skip
    return Past(versions, room())


def record(past: Past, number: Array, published: Published, weight: Array) -> Past:
    """The past after round ``number`` (0-based), whose users were served ``published``; ``weight`` is η·n."""
    versions = jax.tree.map(lambda all_, one: all_.at[number].set(one), past.versions, published)
    return Past(versions, past.weights.at[number].set(weight))


# -- at one real state ------------------------------------------------------------------------------------------------


def action_values(published: Published, step: Array, rows: Rows) -> Array:
    """Q_h of all actions ``(A,)`` at the state with feature ``rows``; ``step`` is 0-based."""
    return jnp.clip(unclipped_values(published, step, rows), 0, published.centres.shape[0] - step)


def unclipped_values(published: Published, step: Array, rows: Rows) -> Array:
    """What :func:`action_values` clips: by this the greedy action is chosen."""
    theta_p, factor_p, radius_p, theta_r, factor_r, radius_r, _, centre, scale = jax.tree.map(
        lambda leaf: leaf[step], published
    )
    features = rows.transition @ ((published.values[step + 1] - centre) / scale)
    future = centre + scale * (theta_p @ features + radius_p * width(factor_p, features))
    value: Array = theta_r @ rows.reward + radius_r * width(factor_r, rows.reward) + future
    return value


def log_policy(past: Past, step: Array, rows: Rows) -> Array:
    """The unnormalised log-policy ``(A,)`` of policy optimization: Σ_v η n_v Q^v over the versions stepped along."""
    versions = jax.vmap(action_values, in_axes=(0, None, None))(past.versions, step, rows)
    return past.weights @ versions


def value(model: ContinuousModel, between: Between, step: Array, state: Array) -> Array:
    """V_h at a real state: max_a Q_h or ⟨Q_h, π_h⟩; zero at ``step`` H, after the last action."""
    within, rows = jnp.minimum(step, model.horizon - 1), model.rows_at(state)
    table = action_values(between.published, within, rows)
    past = between.past
    reached = table.max() if past is None else jax.nn.softmax(log_policy(past, within, rows)) @ table
    return jnp.where(step < model.horizon, reached, 0.0)


def act(model: ContinuousModel, between: Between, step: Array, state: Array, uniform: Array) -> Array:
    """The action at 0-based ``step`` in a real state; ``uniform`` in [0, 1) decides where the policy is random."""
    rows = model.rows_at(state)
    if between.past is None:
        return unclipped_values(between.published, step, rows).argmax().astype(jnp.int32)
    cumulative = jnp.cumsum(jax.nn.softmax(log_policy(between.past, step, rows)))
    # The last entry may round to below 1; an action past the end must never come out.
    return jnp.minimum((uniform >= cumulative).sum(), cumulative.shape[0] - 1).astype(jnp.int32)


# -- at many ----------------------------------------------------------------------------------------------------------


def policy_on(model: ContinuousModel, between: Between, states: Array) -> Array:
    """The policy at real ``states`` ``(n, m)``, for a world to judge: choices ``(H, n)`` or probabilities ``(H, n, A)``.

    As in a :class:`~reticent.learning.Plan`, value iteration gives choices and policy optimization probabilities.
    """
    steps = jnp.arange(model.horizon)

    def at(state: Array) -> Array:
        rows = model.rows_at(state)
        if between.past is None:
            tables = jax.vmap(unclipped_values, in_axes=(None, 0, None))(between.published, steps, rows)
            return tables.argmax(axis=-1).astype(jnp.int32)
        return jax.nn.softmax(jax.vmap(log_policy, in_axes=(None, 0, None))(between.past, steps, rows), axis=-1)

    # A few states at a time: the rows of all of them at once would be as large as the judge's own transition table. And
    # without a remainder, for which the same would be compiled again.
    together = max(size for size in range(1, 33) if states.shape[0] % size == 0)
    return jnp.swapaxes(jax.lax.map(at, states, batch_size=together), 0, 1)


def observe(model: ContinuousModel, between: Between, framed_values: Array, episode: Episode) -> Observation:
    """Regression pairs of an episode with real states ``(H + 1, m)``; the target is V_{h+1} at the real next state.

    ``framed_values`` ``(H, S)`` are V_{h+1} on the nodes, in their frames: what the features integrate.
    """
    here, there = episode.states[:-1], episode.states[1:]
    later = jnp.arange(1, model.horizon + 1)
    reached = jax.vmap(value, in_axes=(None, None, 0, 0))(model, between, later, there)
    return Observation(
        value_features=jax.vmap(model.value_features_at)(framed_values, here, episode.actions),
        targets=(reached - between.published.centres) / between.published.scales,
        reward_features=jax.vmap(model.reward_features_at)(here, episode.actions),
        rewards=episode.rewards,
    )
