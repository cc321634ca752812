# SPDX-License-Identifier: Apache-2.0
r"""How much of a user's vector is spent on residuals: by what earlier releases say of the blend.

.. math:: \rho=\rho_0\frac n{n+300}+(\rho_1-\rho_0)\,\Big[\frac{\hat\tau-0.06}{0.14}\Big]_{[0,1]},

n the round's users: next to nothing is spent before there is something to see, ρ₀ while the blend explains what users do,
and ρ₁ once it is refuted. Without a blend ρ = 1. Rewards get the scale
:math:`g_r=0.15+0.55\min(1,\hat\tau_r/0.05)`: little while the blend's rewards are right. Counts have g_v = 0.15.

The radius is

.. math:: R_r=\max\Big(\kappa_n\bar u,\ \frac{\sqrt\rho}{\sigma}\,\bar u\sqrt{\frac n{Q(m+1)}}\Big),\qquad
          \kappa_n=\kappa\,\Big(1+(1-\rho)\Big[\frac n{10^4}-1\Big]_{[0,1]}\Big)

with :math:`\bar u` the root mean square length of replicas' residuals (users who are drawn from the public model), κ = 0.7
and σ the noise in units of the radius: the second term ends clipping where noise is smaller than sampling noise anyway.
κ is below 1 since noise grows with the radius and what a clip takes off the average is known
(:mod:`reticent.agents.score.residual_clip`). It is so to first order only, and where users are many and the blend nearly
right that is what is left of the error: the radius grows there.

**Radii may fall.** Nothing rests on it that they do not: a vector is formed in units of the radius of the round that counts
it and clipped to the unit ball, so that one that was formed for another round is within the same bound.

Everything here is a function of earlier releases and of public numbers.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

SLOW = 300.0
"""Users of a round at which half of ρ₀ is spent."""

MANY = 10_000.0
"""Users of a round beyond which the radius grows while the blend explains what users do, until there are twice as many."""

RIGHT, REFUTED = 0.06, 0.2
"""τ̂ up to which the blend counts as right, and from which on as refuted."""

REWARD_LEAST, REWARD_MOST, REWARD_REFUTED = 0.15, 0.7, 0.05
"""g_r at τ̂_r = 0, and from ``REWARD_REFUTED`` on."""

COUNT_SCALE = 0.15
"""g_v."""


def share_of(users: Array, scale: Array, least: float, most: float) -> Array:
    """ρ of a round of so many users, at τ̂."""
    refuted = jnp.clip((scale - RIGHT) / (REFUTED - RIGHT), 0.0, 1.0)
    return least * users / (users + SLOW) + (most - least) * refuted


def reward_scale_of(scale: Array) -> Array:
    """g_r at τ̂_r."""
    return REWARD_LEAST + (REWARD_MOST - REWARD_LEAST) * jnp.clip(scale / REWARD_REFUTED, 0.0, 1.0)


def radius_of(length: Array, share: Array, users: Array, noise: Array, clip: Array | float, numbers: int) -> Array:
    """R_r for residuals of this root mean square ``length``; ``noise`` is σ, ``numbers`` are Q(m + 1)."""
    clip = clip * (1 + (1 - share) * jnp.clip(users / MANY - 1, 0.0, 1.0))
    free = jnp.sqrt(share) / jnp.maximum(noise, 1e-12) * jnp.sqrt(users / numbers)
    return jnp.maximum(clip, free) * jnp.maximum(length, 1e-6)
