# SPDX-License-Identifier: Apache-2.0
r"""Optimistic backward induction: the loop over h that Algorithms 1 and 2 share.

For h = H, …, 1, with :math:`\phi_h` built from :math:`V_{h+1}`,

.. math::

   Q_h=\Big[\varphi^\top\hat\theta_{h,r}+\phi_h^\top\hat\theta_{h,p}
       +\beta_p\|\phi_h\|_{\Lambda_{h,p}^{-1}}+\beta_r\|\varphi\|_{\Lambda_{h,r}^{-1}}\Big]_{[0,\,H-h+1]}

and :math:`V_h=\max_aQ_h` (LinOpt-VI-Reg) or :math:`V_h=\langle Q_h,\pi_h\rangle` (LinOpt-PO-Reg).

**Ties.** Any maximiser of Q_h is a greedy action. While little is known many actions are at the ceiling H−h+1, and the one
taken among them is the one whose sum in the brackets is largest *before* it is clipped, not the first.

**The mirror step.** Policy optimization may step along the Q of the round that it is about to serve: going backward,
:math:`\pi_h\propto\tilde\pi_h\exp(\eta nQ_h)` before :math:`V_h=\langle Q_h,\pi_h\rangle`, where :math:`\tilde\pi` is
the policy of the round before (:class:`~reticent.agents.linear_mixture.learner.LinOptLearner`). With a rate of 0 it
evaluates :math:`\tilde\pi` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.linear_mixture.frame import Frame, LinOptPlan
from reticent.agents.linear_mixture.reward_coordinates import RewardCoordinates
from reticent.learning.plan import Plan
from reticent.learning.ridge import Estimate, width
from reticent.runtime import unrolling
from reticent.worlds import Model

MOST_FEATURES = 2**21
"""Numbers that a planner's features of one step may take (16 MB): beyond, it goes through the states in blocks."""


def backward_induction(
    model: Model,
    frame: Frame,
    transition: Estimate,
    reward: Estimate,
    transition_radius: Array,
    reward_radius: Array,
    log_policy: Array | None,
    rate: Array | float = 0.0,
    rewards: RewardCoordinates | None = None,
    action_values: bool = False,
) -> Plan[LinOptPlan]:
    """Plan optimistically: greedily if ``log_policy`` is None (LinOpt-VI), else a mirror step of ``rate`` from it
    (LinOpt-PO), or the policy itself if that is 0.

    The estimates are per step, ``(H, ...)``, or ``(1, ...)`` if all steps share them; the radii are ``(H,)``. Features are
    formed for :func:`states_at_once` states at a time, so that a large world needs no ``S × A × d`` array per step.
    ``rewards`` are the coordinates of the reward estimates, None the model's own.
    """
    dtype = model.reward_features.dtype
    steps, states = model.horizon, model.states
    block = states_at_once(model)

    def immediate(theta: Array, factor: Array, part: Model) -> tuple[Array, Array]:
        """Estimated rewards and their doubts, ``(S, A)`` each, of one step."""
        features = part.reward_features if rewards is None else rewards.features(part)
        mean = (theta[:, None, None] * features).sum(axis=0)
        return mean if rewards is None else rewards.baseline(part) + mean, width(factor, features)

    # Where all steps share their estimates, so they do what does not depend on V.
    shared = len(reward.theta) == 1
    payment = None
    if shared:
        payment = over_states(lambda part, _: immediate(reward.theta[0], reward.factor[0], part), model, block)

    class Step(NamedTuple):
        transition: Estimate
        reward: Estimate
        transition_radius: Array
        reward_radius: Array
        remaining: Array
        log_policy: Array | None

    class Row(NamedTuple):
        choice: Array
        values: Array
        table: Array | None
        centre: Array
        scale: Array

    def one(following: Array, at: Step, last: bool = False) -> tuple[Array, Row]:
        # Nothing follows the last step: its features are zero in every frame that is centred where values are.
        skip = last and frame.zero_at_the_end
        centre = frame.centre(model, following, at.remaining)
        shifted = following - centre

        def some(part: Model, pick: Slice) -> tuple[Array, Array, Array | None, Array]:
            mean, doubt = pick(payment) if payment is not None else immediate(*at.reward, part)
            table = mean + at.reward_radius * doubt
            longest = jnp.zeros(len(table), dtype)
            if not skip:
                # In the frame this is c + ρ(⟨φ/ρ, θ⟩ + β‖φ/ρ‖), and ρ cancels.
                features = part.value_features(shifted)
                expected = (at.transition.theta[:, None, None] * features).sum(axis=0)
                table = table + centre + expected + at.transition_radius * width(at.transition.factor, features)
                longest = (features**2).sum(axis=0).max(axis=-1)
            unclipped, table = table, jnp.clip(table, 0, at.remaining + 1)
            if at.log_policy is None:
                choice = jax.lax.argmax(unclipped, axis=1, index_dtype=jnp.int32)
                values = table.max(axis=-1)
            else:
                choice = jax.nn.softmax(pick(at.log_policy) + rate * table, axis=-1)
                values = (table * choice).sum(axis=-1)
            return choice, values, table if action_values else None, longest

        choice, values, table, longest = over_states(some, model, block)
        return values, Row(choice, values, table, centre, frame.scale(shifted, longest.max()))

    def every(estimate: Estimate) -> Estimate:
        return Estimate(*(jnp.broadcast_to(leaf, (steps, *leaf.shape[1:])) for leaf in estimate))

    remaining = jnp.arange(steps - 1, -1, -1).astype(dtype)
    table = Step(every(transition), every(reward), transition_radius, reward_radius, remaining, log_policy)
    end, final_step = jnp.zeros(states, dtype), jax.tree.map(lambda leaf: leaf[-1], table)
    following, final = one(end, final_step, last=True)
    before = jax.tree.map(lambda leaf: leaf[:-1], table)
    if steps == 1:  # a bandit: a scan of no steps cannot be run operation by operation
        rows = jax.tree.map(lambda leaf: leaf[None][:0], final)
    else:
        _, rows = jax.lax.scan(one, following, before, reverse=True, unroll=unrolling(steps - 1))
    choices, values, tables, centres, scales = jax.tree.map(
        lambda earlier, at_end: jnp.concatenate([earlier, at_end[None]]), rows, final
    )
    return Plan(choices, jnp.concatenate([values, end[None]]), LinOptPlan(centres, scales), tables)


# -- a few states at a time ------------------------------------------------------------------------------------------------

Slice: TypeAlias = Callable[[Any], Any]
"""Takes the leading (state) axis of arrays to the states at hand."""


def states_at_once(model: Model) -> int:
    """How many states' features a planner forms at a time: all of them unless they take more than :data:`MOST_FEATURES`."""
    return max(1, min(model.states, MOST_FEATURES // (model.actions * model.d1)))


def over_states(function: Callable[[Model, Slice], Any], model: Model, block: int) -> Any:
    """``function(part of the model, slice)`` over ``block`` states at a time, its results joined along their state axis."""
    states = model.states
    if block >= states:
        return function(model, lambda tree: tree)
    count = -(-states // block)

    def one(start: Array) -> Any:
        def pick(tree: Any) -> Any:
            return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, block), tree)

        return function(model.some_states(start, block), pick)

    # The last block begins earlier, so that all are of one length; what it repeats is left out again.
    parts = jax.lax.map(one, jnp.minimum(jnp.arange(count) * block, states - block))
    left = states - (count - 1) * block
    return jax.tree.map(
        lambda part: jnp.concatenate([part[:-1].reshape(-1, *part.shape[2:]), part[-1, block - left :]]), parts
    )
