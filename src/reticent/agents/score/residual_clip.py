# SPDX-License-Identifier: Apache-2.0
r"""What the clip does to the average residual block, by the public model.

A block u is sent as :math:`fu` with :math:`f=\min(1,R_r/\|u\|)`. The radius is below the length of a typical block, since
what noise costs grows with it; so f is known well, and its mean effect is undone.

*Attenuation.* Of sums :math:`E[f\|u\|^2]/E\|u\|^2` is left, and of counts :math:`E f`. Both are averages over replicas.

*Offset.* Rare outcomes are far from what is expected and are shortened most, so that a clipped residual has a mean where u
has none. With :math:`x_q(s')=D_{s'}-D^\top\hat P(\cdot\mid q)` what a step at q tells,

.. math:: o_q=\sum_{s'}\hat P(s'\mid q)\,\big(\bar f(\|x_q(s')\|^2+c_q)-a\big)\,x_q(s'),\qquad
          \bar f(y)=E\min\big(1,R_r/\sqrt{\ell^2+y}\big),

where a is the attenuation, ℓ² the squared length of the other steps and :math:`c_q` the expected rest of this one; of
rewards likewise, with the outcomes 0 and 1. The distribution of ℓ² is that of
replicas, in quantiles, so that no cell needs replicas of its own.

No user is in any of it: it follows from the plan, the model and public random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from reticent.agents.score.dynamic_programming import HIGHEST
from reticent_wire.forms.score_residual import ResidualReference

QUANTILES = 16
"""Points that stand for the distribution of lengths."""


class Lengths(NamedTuple):
    """Squared lengths of replicas' blocks ``(n,)``, and how much every replica counts ``(n,)``, 1 in all."""

    squares: Array
    weights: Array


class ClippedMean(NamedTuple):
    """By what the clip multiplies sums of residuals, and counts of visits; and what it adds per visit of a cell, after that
    factor is divided out: to directions ``(G, S, A, m)``, and to rewards ``(G, S, A)``, in units of 1."""

    residuals: Array
    counts: Array
    offset: Array
    reward_offset: Array


def unclipped(reference: ResidualReference) -> ClippedMean:
    """Of blocks that are sent as they are."""
    one = jnp.ones((), reference.rewards.dtype)
    return ClippedMean(one, one, jnp.zeros_like(reference.expected), jnp.zeros_like(reference.rewards))


def clipped_mean(reference: ResidualReference, rows: Array, lengths: Lengths, horizon: int) -> ClippedMean:
    """The effect at the radius of ``reference``, if ``rows`` ``(G, S, A, S)`` and its rewards are the truth."""
    radius, squares, weights = reference.radius, lengths.squares, lengths.weights

    def left(square: Array) -> Array:
        return jnp.minimum(1.0, radius / jnp.sqrt(jnp.maximum(square, 1e-24)))

    shrunk = left(squares)
    residuals = (weights * shrunk * squares).sum() / jnp.maximum((weights * squares).sum(), 1e-12)
    counts = (weights * shrunk).sum()
    other = _quantiles(lengths) * (1 - 1 / horizon)

    def average(own: Array) -> Array:
        return left(own[..., None] + other).mean(axis=-1)

    # ‖x_q(s')‖² = ‖D_s'‖² − 2⟨D_s', e_q⟩ + ‖e_q‖²
    directions, expected, rewards = reference.directions, reference.expected, reference.rewards
    along = jnp.einsum("nm,gsam->gsan", directions, expected, precision=HIGHEST)
    moved = (directions**2).sum(axis=1) - 2 * along + (expected**2).sum(axis=-1, keepdims=True)
    paid = (reference.reward_scale**2 * rewards * (1 - rewards))[..., None]
    counted = reference.count_scale**2
    # Less the attenuation: expectations are those of rows that need not be distributions, and may differ from these.
    weight = rows * (average(jnp.maximum(moved, 0.0) + paid + counted) - residuals)
    offset = jnp.einsum("gsan,nm->gsam", weight, directions, precision=HIGHEST)
    offset = offset - weight.sum(axis=-1, keepdims=True) * expected
    rest = (rows * jnp.maximum(moved, 0.0)).sum(axis=-1) + counted
    best, worst = (rest + (reference.reward_scale * away) ** 2 for away in (1 - rewards, rewards))
    reward_offset = rewards * (1 - rewards) * (average(best) - average(worst))
    return ClippedMean(residuals, counts, offset / residuals, reward_offset / residuals)


def _quantiles(lengths: Lengths) -> Array:
    """Squared lengths that stand for equal parts of the replicas, ``(QUANTILES,)``."""
    order = jnp.argsort(lengths.squares)
    cumulated = jnp.cumsum(lengths.weights[order])
    at = (jnp.arange(QUANTILES) + 0.5) / QUANTILES
    return lengths.squares[order][jnp.minimum(jnp.searchsorted(cumulated, at), order.size - 1)]
