# SPDX-License-Identifier: Apache-2.0
"""The billboard: what a learner publishes for its next users, and how they act on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.control import ControlPlaces
from reticent.short_repr import short


class Plan(NamedTuple):
    """The billboard: everything published for the next users. A function of regularized statistics only.

    Attributes:
      policy: greedy choices ``(H, S)``, integers (value iteration), or action probabilities ``(H, S, A)`` (policy
        optimization).
      values: optimistic V ``(H + 1, S)``, the last row zero.
      centres, scales: the frame (c, ρ) of V_{h+1} at each step, ``(H,)``.
      action_values: optimistic Q ``(H, S, A)`` where it was asked for (policy optimization always does), else None.
      extension: how the plan goes on between the nodes of a continuous model
      (:mod:`reticent.agents.linear_mixture.off_grid`); None
        where states are finitely many and the tables are all there is.
      features: the framed values' features of all pairs ``(H, d1, S, A)``, where many users are served the same plan and
        it pays to compute them once (:meth:`~reticent.learning.learner.Learner.for_many`); else None.
    """

    policy: Array
    values: Array
    centres: Array
    scales: Array
    action_values: Array | None = None
    extension: Any = None
    features: Array | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={short(value)}" for name, value in self._asdict().items() if value is not None)
        return f"Plan({shown})"

    def framed_values(self) -> Array:
        """V_{h+1} in its frame, ``(H, S)``: what features and targets of this plan's users are made of."""
        return (self.values[1:] - self.centres[:, None]) / self.scales[:, None]

    def probabilities(self, actions: int) -> Array:
        """The policy as action probabilities ``(H, S, A)``, whichever form it has."""
        if is_greedy(self.policy):
            return jax.nn.one_hot(self.policy, actions, dtype=self.values.dtype)
        return self.policy


class ControlGroup(NamedTuple):
    """The users of a round who were served another plan than the others: which one, and at which places."""

    plan: Plan
    places: ControlPlaces


def is_greedy(policy: Array) -> bool:
    """Whether a policy is given as choices (integers) and not as probabilities."""
    return bool(jnp.issubdtype(policy.dtype, jnp.integer))


def act(plan: Plan, step: Array, state: Array, uniform: Array) -> Array:
    """The action of the plan at 0-based ``step``, by inversion of one uniform draw where the policy is random."""
    if is_greedy(plan.policy):
        return plan.policy[step, state]
    cumulative = jnp.cumsum(plan.policy[step, state])
    # The last entry may round to below 1; an action past the end must never come out.
    return jnp.minimum((uniform >= cumulative).sum(), cumulative.shape[0] - 1)


def without_ties(choices: Array, action_values: Array | None, margin: float = 1e-5) -> Array:
    """Greedy choices with −1 where the second-best action is within ``margin`` of the best; as they are without values."""
    if action_values is None:
        return choices
    best = jnp.sort(action_values, axis=-1)
    apart = best[..., -1] - best[..., -2] if best.shape[-1] > 1 else jnp.full(best.shape[:-1], jnp.inf)
    return jnp.where(apart > margin, choices, -1)
