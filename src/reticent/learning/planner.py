r"""Optimistic backward induction: the loop over h that Algorithms 1 and 2 share.

For h = H, …, 1, with :math:`\phi_h` built from :math:`V_{h+1}`,

.. math::

   Q_h=\Big[\varphi^\top\hat\theta_{h,r}+\phi_h^\top\hat\theta_{h,p}
       +\beta_p\|\phi_h\|_{\Lambda_{h,p}^{-1}}+\beta_r\|\varphi\|_{\Lambda_{h,r}^{-1}}\Big]_{[0,\,H-h+1]}

and :math:`V_h=\max_aQ_h` (LinOpt-VI-Reg) or :math:`V_h=\langle Q_h,\pi_h\rangle` (LinOpt-PO-Reg).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.frame import Frame
from reticent.learning.ridge import Estimate, width
from reticent.worlds import Model


class Plan(NamedTuple):
    """The billboard: everything published for the next users. A function of regularized statistics only.

    Attributes:
      policy: action probabilities ``(H, S, A)``.
      values: optimistic V ``(H + 1, S)``, the last row zero.
      action_values: optimistic Q ``(H, S, A)``.
      centres, scales: the frame (c, ρ) of V_{h+1} at each step, ``(H,)``.
    """

    policy: Array
    values: Array
    action_values: Array
    centres: Array
    scales: Array

    def framed_values(self) -> Array:
        """V_{h+1} in its frame, ``(H, S)``: what features and targets of this plan's users are made of."""
        return (self.values[1:] - self.centres[:, None]) / self.scales[:, None]


def act(plan: Plan, step: Array, state: Array, uniform: Array) -> Array:
    """The action of the plan at 0-based ``step``, by inversion of one uniform draw."""
    cumulative = jnp.cumsum(plan.policy[step, state])
    # The last entry may round to below 1; an action past the end must never come out.
    return jnp.minimum((uniform >= cumulative).sum(), cumulative.shape[0] - 1)


def backward_induction(
    model: Model,
    frame: Frame,
    transition: Estimate,
    reward: Estimate,
    transition_radius: Array,
    reward_radius: Array,
    policy: Array | None,
) -> Plan:
    """Plan optimistically: greedily if ``policy`` is None (LinOpt-VI), else evaluating ``policy`` (LinOpt-PO)."""
    dtype = model.reward_features.dtype
    flat = model.reward_features.reshape(model.d2, -1)
    immediate = jnp.einsum("hd,dn->hn", reward.theta, flat).reshape(-1, model.states, model.actions)
    doubt = jax.vmap(width, in_axes=(0, None))(reward.factor, model.reward_features)
    optimistic_reward = immediate + reward_radius[:, None, None] * doubt
    remaining = jnp.arange(model.horizon - 1, -1, -1).astype(dtype)

    class Step(NamedTuple):
        reward: Array
        theta: Array
        factor: Array
        radius: Array
        remaining: Array
        policy: Array | None

    def one(following: Array, at: Step) -> tuple[Array, tuple[Array, Array, Array, Array, Array]]:
        features, centre, scale = frame.features(model, following, at.remaining)
        expected = jnp.tensordot(at.theta, features, axes=1)
        bonus = at.radius * width(at.factor, features)
        action_values = jnp.clip(at.reward + centre + scale * (expected + bonus), 0, at.remaining + 1)
        if at.policy is None:
            choice = jax.nn.one_hot(action_values.argmax(axis=-1), model.actions, dtype=dtype)
            values = action_values.max(axis=-1)
        else:
            choice = at.policy
            values = (action_values * choice).sum(axis=-1)
        return values, (choice, values, action_values, centre, scale)

    steps = Step(optimistic_reward, transition.theta, transition.factor, transition_radius, remaining, policy)
    end = jnp.zeros(model.states, dtype)
    _, (choices, values, action_values, centres, scales) = jax.lax.scan(one, end, steps, reverse=True)
    return Plan(choices, jnp.concatenate([values, end[None]]), action_values, centres, scales)
