# SPDX-License-Identifier: Apache-2.0
"""The billboard: what a learner publishes for its next users, and how they act on it."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.control import ControlPlaces
from reticent.short_repr import short

Extension = TypeVar("Extension")
"""What a family publishes beyond the tables that all have; None of one that publishes no more."""


class Plan(NamedTuple, Generic[Extension]):
    """The billboard: everything published for the next users. A function of regularized statistics only.

    Attributes:
      policy: greedy choices ``(H, S)``, integers (value iteration), or action probabilities ``(H, S, A)`` (policy
        optimization).
      values: optimistic V ``(H + 1, S)``, the last row zero.
      extension: what the agent's family publishes besides, a tuple of its own with named fields; None where the tables
        are all there is.
      action_values: optimistic Q ``(H, S, A)`` where it was asked for (policy optimization always does), else None.
    """

    policy: Array
    values: Array
    extension: Extension
    action_values: Array | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={short(value)}" for name, value in self._asdict().items() if value is not None)
        return f"Plan({shown})"

    def probabilities(self, actions: int) -> Array:
        """The policy as action probabilities ``(H, S, A)``, whichever form it has."""
        if is_greedy(self.policy):
            return jax.nn.one_hot(self.policy, actions, dtype=self.values.dtype)
        return self.policy


AnyPlan: TypeAlias = Plan[Any]
"""A plan of whatever family: what simulation, service and audit take."""


class ControlGroup(NamedTuple, Generic[Extension]):
    """The users of a round who were served another plan than the others: which one, and at which places."""

    plan: Plan[Extension]
    places: ControlPlaces


def is_greedy(policy: Array) -> bool:
    """Whether a policy is given as choices (integers) and not as probabilities."""
    return bool(jnp.issubdtype(policy.dtype, jnp.integer))


def act(plan: AnyPlan, step: Array, state: Array, uniform: Array) -> Array:
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
