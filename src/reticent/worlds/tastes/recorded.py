# SPDX-License-Identifier: Apache-2.0
"""Recorded people who rated every item: the reward of any item to any of them is known, so replay is exact."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.short_repr import ShortRepr
from reticent.worlds.tastes.model import TasteModel


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RecordedTastes(ShortRepr):
    """Users are drawn from recorded people, with replacement; the hidden state is the number of the person.

    Attributes:
      ratings: rewards of all items to all people, ``(n, A)``.
    """

    model: TasteModel
    ratings: Array
    name: str = dataclasses.field(metadata={"static": True})

    @property
    def people(self) -> int:
        """n."""
        return int(self.ratings.shape[0])

    @property
    def start_draws(self) -> int:
        """Uniform draws that :meth:`start` takes: which person."""
        return 1

    @property
    def step_draws(self) -> int:
        """Uniform draws that come with :meth:`step`; it needs none of them, and steps without draws have no shape."""
        return 1

    def start(self, uniforms: Array) -> Array:
        """A person."""
        return jnp.minimum((uniforms[0] * self.people).astype(int), self.people - 1)

    def draw_of(self, person: Array | int) -> Array:
        """The uniform draw ``(1,)`` at which :meth:`start` gives this person."""
        return (jnp.asarray(person, self.ratings.dtype)[None] + 0.5) / self.people

    def start_again(self, hidden: Array, uniforms: Array) -> Array:
        """The hidden state at the next visit: the same person."""
        del uniforms
        return hidden

    def observed(self, hidden: Array) -> Array:
        """The state that the learner sees: there is one."""
        return jnp.zeros_like(hidden)

    def step(self, step: Array, hidden: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """The same person, and their rating of an item."""
        del step, uniforms
        return hidden, self.ratings[hidden, action]

    def mean_reward(self, hidden: Array, action: Array) -> Array:
        """A person's rating of an item."""
        return self.ratings[hidden, action]

    def policy_value(self, policy: Array) -> Array:
        """Mean return of a fixed list ``(H, 1)`` of items, or of probabilities ``(H, 1, A)``."""
        policy, means = jnp.asarray(policy), self.ratings.mean(axis=0)
        if jnp.issubdtype(policy.dtype, jnp.integer):
            return means[policy[:, 0]].sum()
        return (policy[:, 0] @ means).sum()

    def optimal_policy_value(self) -> Array:
        """What a policy earns that knows every person's ratings."""
        return jax.lax.top_k(self.ratings, self.model.horizon)[0].sum(axis=1).mean()

    @property
    def optimal_value(self) -> float:
        return float(self.optimal_policy_value())

    @property
    def uniform_value(self) -> float:
        """What random items earn."""
        return float(self.model.horizon * self.ratings.mean())


@double_precision
def recorded_tastes(model: TasteModel, ratings: Any, *, name: str = "recorded-tastes") -> RecordedTastes:
    """People with these ``ratings`` ``(n, A)``, all known. The model must not have been fitted to them.

    Raises:
      InvalidInput: ratings are missing or outside [0, 1], or their items are not the model's.
    """
    table = np.asarray(ratings, np.float64)
    if table.ndim != 2 or table.shape[1] != model.actions or not len(table):
        raise InvalidInput(
            "ratings.shape", table.shape, f"(n, {model.actions})", "one row per person, one column per item"
        )
    if not ((table >= 0) & (table <= 1)).all():  # written so that NaN fails
        raise InvalidInput("ratings", "missing or out of range", "known, in [0, 1]", "keep those who rated every item")
    return RecordedTastes(model, on_device(table), name)
