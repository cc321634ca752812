# SPDX-License-Identifier: Apache-2.0
r"""Simulated users with tastes: a model of tastes and the true mean of the users' hidden vectors.

What a learner sees of a user is one and the same state; the vector f is hidden. Values of fixed lists are exact. The
*known-taste value* is what a policy earns that is told f: no learner reaches it, and the distance to it from the best fixed
list is the room for personalisation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtri
from jax.scipy.stats import norm

from reticent.errors import InvalidInput
from reticent.runtime import double_precision, double_precision_methods, on_device
from reticent.short_repr import ShortRepr
from reticent.worlds.tastes.model import TasteModel, make_taste_model

VALUED = 8192
"""Simulated users behind the known-taste value."""

LEAST_UNIFORM = 1e-12
"""Uniform draws are kept this far from 0 and 1, whose normal quantiles are infinite."""


def normal(uniforms: Array) -> Array:
    """Standard normal draws from uniform ones."""
    return ndtri(jnp.clip(uniforms, LEAST_UNIFORM, 1 - LEAST_UNIFORM))


def mean_of_clipped(mean: Array, variance: Array) -> Array:
    """The mean of a normal variable that is clipped to [0, 1]."""
    spread = jnp.sqrt(variance)
    low, high = (0 - mean) / spread, (1 - mean) / spread
    inside = norm.cdf(high) - norm.cdf(low)
    return mean * inside + spread * (norm.pdf(low) - norm.pdf(high)) + norm.sf(high)


@double_precision_methods
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TasteWorld(ShortRepr):
    """A model of tastes and the truth; within an episode the hidden state is the user's vector f ``(m,)``.

    Attributes:
      mean: μ, the true mean of f, ``(m,)``. root: a square root of its true covariance, ``(m, m)``.
    """

    model: TasteModel
    mean: Array
    root: Array
    name: str = dataclasses.field(metadata={"static": True})

    # -- sampling -----------------------------------------------------------------------------------------------------

    @property
    def start_draws(self) -> int:
        """Uniform draws that :meth:`start` takes: one per factor."""
        return self.model.factors

    @property
    def step_draws(self) -> int:
        """Uniform draws that :meth:`step` takes: the scatter of one reward."""
        return 1

    def start(self, uniforms: Array) -> Array:
        """The hidden vector of a user."""
        return self.mean + self.root @ normal(uniforms)

    def start_again(self, hidden: Array, uniforms: Array) -> Array:
        """The hidden state at the next visit of the same user, whose tastes stay."""
        del uniforms
        return hidden

    def observed(self, hidden: Array) -> Array:
        """The state that the learner sees: there is one."""
        del hidden
        return jnp.zeros((), int)

    def step(self, step: Array, hidden: Array, action: Array, uniforms: Array) -> tuple[Array, Array]:
        """The same hidden vector, and the reward of an item."""
        del step
        model = self.model
        middle = model.intercepts[action] + model.loadings[action] @ hidden
        return hidden, jnp.clip(middle + jnp.sqrt(model.noise[action]) * normal(uniforms[0]), 0.0, 1.0)

    def mean_reward(self, hidden: Array, action: Array) -> Array:
        """The expected reward of an item to a user."""
        model = self.model
        return mean_of_clipped(model.intercepts[action] + model.loadings[action] @ hidden, model.noise[action])

    # -- values -------------------------------------------------------------------------------------------------------

    @property
    def item_means(self) -> Array:
        """The mean reward of every item over users, ``(A,)``."""
        model = self.model
        spread = ((model.loadings @ self.root) ** 2).sum(axis=1)
        return mean_of_clipped(model.intercepts + model.loadings @ self.mean, spread + model.noise)

    def policy_value(self, policy: Array) -> Array:
        """Expected return of a fixed list ``(H, 1)`` of items, or of probabilities ``(H, 1, A)``."""
        policy = jnp.asarray(policy)
        if jnp.issubdtype(policy.dtype, jnp.integer):
            return self.item_means[policy[:, 0]].sum()
        return (policy[:, 0] @ self.item_means).sum()

    def best_list(self) -> Array:
        """The items of the highest means, ``(H, 1)``: the best that can be shown to all users alike."""
        return jnp.argsort(-self.item_means)[: self.model.horizon, None].astype(jnp.int32)

    def optimal_policy_value(self) -> Array:
        """The known-taste value, by :data:`VALUED` users with the same random numbers every time."""
        uniforms = jax.random.uniform(jax.random.key(29), (VALUED, self.model.factors), self.mean.dtype)

        def best(uniform: Array) -> Array:
            hidden, items = self.start(uniform), jnp.arange(self.model.actions)
            means = jax.vmap(self.mean_reward, in_axes=(None, 0))(hidden, items)
            return jax.lax.top_k(means, self.model.horizon)[0].sum()

        known: Array = jax.lax.map(best, uniforms, batch_size=512).mean()
        return known

    @property
    def optimal_value(self) -> float:
        return float(self.optimal_policy_value())

    @property
    def uniform_value(self) -> float:
        """What random items earn."""
        return float(self.model.horizon * self.item_means.mean())


@double_precision
def taste_world(
    model: TasteModel, mean: Any | None = None, *, covariance: Any | None = None, name: str = "tastes"
) -> TasteWorld:
    """Users of this model whose vectors have this ``mean`` (default 0, the pilot's) and ``covariance`` (default I).

    Raises:
      InvalidInput: a shape does not fit, a number is not finite, or the covariance is not positive definite.
    """
    factors = model.factors
    middle = np.zeros(factors) if mean is None else np.asarray(mean, np.float64)
    if middle.shape != (factors,) or not np.isfinite(middle).all():
        raise InvalidInput("mean", middle.tolist(), f"{factors} finite numbers", "give one per factor")
    spread = np.eye(factors) if covariance is None else np.asarray(covariance, np.float64)
    try:
        root = np.linalg.cholesky(spread.reshape(factors, factors))
    except (ValueError, np.linalg.LinAlgError) as why:
        raise InvalidInput(
            "covariance", spread.shape, f"positive definite, ({factors}, {factors})", "leave it out for I"
        ) from why
    return TasteWorld(model, on_device(middle), on_device(root), name)


def random_tastes(
    *,
    items: int = 40,
    factors: int = 4,
    horizon: int = 10,
    shift: float = 0.0,
    strength: float = 0.12,
    scatter: float = 0.2,
    seed: int = 0,
) -> TasteWorld:
    """A seeded random world: intercepts around a half, loadings of length about ``strength``, and a shifted population.

    Its mean is ``shift`` away from the pilot's, in a random direction.
    """
    draw = np.random.default_rng(seed)
    intercepts = np.clip(draw.normal(0.5, 0.08, items), 0.1, 0.9)
    loadings = draw.normal(0, strength / np.sqrt(factors), (items, factors))
    direction = draw.normal(size=factors)
    model = make_taste_model(intercepts, loadings, scatter**2, horizon)
    return taste_world(model, shift * direction / np.linalg.norm(direction), name="random-tastes")
