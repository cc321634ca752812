# SPDX-License-Identifier: Apache-2.0
r"""What a device knows of its own user's vector, and what it shows next.

With :math:`f\sim N(\mu,I)` and :math:`r=c_a+\lambda_a^\top f+e`, :math:`e\sim N(0,\psi_a)`, one reward moves mean and
covariance of f to

.. math:: m\leftarrow m+g\,(r-c_a-\lambda_a^\top m)/v,\qquad C\leftarrow C-gg^\top/v,\qquad g=C\lambda_a,\;
          v=\lambda_a^\top g+\psi_a,

in closed form. The device shows that item, of those not shown yet, whose expected reward :math:`c_a+\lambda_a^\top m` (and
a bonus of b standard deviations of it) is highest.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Items(NamedTuple):
    """What is public of items: intercepts ``(A,)``, loadings ``(A, m)``, variances ``(A,)``."""

    intercepts: Array
    loadings: Array
    noise: Array


class Taste(NamedTuple):
    """A device's memory: mean ``(m,)`` and covariance ``(m, m)`` of its user's vector, and items ``shown`` ``(A,)``."""

    mean: Array
    covariance: Array
    shown: Array


def newcomer(mean: Array, items: int) -> Taste:
    """Before the first reward: the published mean, the covariance I, and nothing shown."""
    return Taste(mean, jnp.eye(mean.shape[0], dtype=mean.dtype), jnp.zeros(items, bool))


def observed(items: Items, taste: Taste, action: Array, reward: Array) -> Taste:
    """After one more reward, which is clipped to [0, 1]."""
    loading = items.loadings[action]
    reach = taste.covariance @ loading
    variance = loading @ reach + items.noise[action]
    surprise = jnp.clip(reward, 0.0, 1.0) - items.intercepts[action] - loading @ taste.mean
    return Taste(
        taste.mean + reach * surprise / variance,
        taste.covariance - jnp.outer(reach, reach) / variance,
        taste.shown.at[action].set(True),
    )


def best_item(items: Items, taste: Taste, bonus: float) -> Array:
    """The item to show next; among equals the first."""
    score = items.intercepts + items.loadings @ taste.mean
    if bonus:
        spread = ((items.loadings @ taste.covariance) * items.loadings).sum(axis=1)
        score = score + bonus * jnp.sqrt(jnp.maximum(spread, 0.0))
    return jnp.where(taste.shown, -jnp.inf, score).argmax()


def after_episode(items: Items, mean: Array, actions: Array, rewards: Array) -> Taste:
    """What a whole episode tells of a user, from a published mean on."""

    def step(taste: Taste, at: tuple[Array, Array]) -> tuple[Taste, None]:
        return observed(items, taste, *at), None

    begin = newcomer(mean, items.noise.shape[0])
    return jax.lax.scan(step, begin, (actions, rewards))[0]
