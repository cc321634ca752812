# SPDX-License-Identifier: Apache-2.0
r"""Valid counts from noisy ones: nonnegative, next states adding up to visits, rewards between 0 and visits.

Noise makes counts negative and inconsistent. Repairing them reads nothing but the noisy counts, so it costs no privacy.
The repair is the least change there is: for one pair (s, a) with noisy :math:`\hat n(s')` and total n,

.. math:: x(s')=\max(\hat n(s')+c,\,0),\qquad\sum_{s'}x(s')=n ,

with one number c for all next states. That is the Euclidean projection onto :math:`\{x\ge0,\sum x=n\}`, and for n > 0 no
feasible x has a smaller largest change :math:`\max_{s'}|x(s')-\hat n(s')|`. Proof. A negative :math:`\hat n` must move by
at least its size, and moves further only by c > 0. If all changes of some x were below \|c\|, then for c > 0
:math:`x\le\max(\hat n+c,0)` and for c < 0 :math:`x\ge\max(\hat n+c,0)`, strictly wherever the right side is positive,
so x could not sum to n. ∎ The linear program of Qiao and Wang (2023), its total fixed, thus has this closed form.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from reticent.agents.tabular.counts import Counts


def project_to_total(values: Array, total: Array) -> Array:
    """The nearest nonnegative numbers, along the last axis, that add up to ``total`` ≥ 0; unchanged if they do.

    >>> project_to_total(jnp.array([3.0, -1.0, 2.0]), jnp.array(3.0)).tolist()
    [2.0, 0.0, 1.0]
    """
    size = values.shape[-1]
    falling = -jnp.sort(-values, axis=-1)
    ranks = jnp.arange(1, size + 1, dtype=values.dtype)
    # c for every possible number of survivors; the true one keeps its smallest survivor above zero.
    shifts = (total[..., None] - jnp.cumsum(falling, axis=-1)) / ranks
    survivors = jnp.maximum((falling + shifts > 0).sum(axis=-1, keepdims=True), 1)
    shift = jnp.take_along_axis(shifts, survivors - 1, axis=-1)
    projected = jnp.maximum(values + shift, 0.0)
    valid = (values >= 0).all(axis=-1, keepdims=True) & (values.sum(axis=-1, keepdims=True) == total[..., None])
    return jnp.where(valid, values, projected)


def make_valid(noisy: Counts) -> Counts:
    """The counts that noisy ones are taken for; valid ones are taken as they are."""
    visits = jnp.maximum(noisy.visits, 0.0)
    transitions = project_to_total(noisy.transitions, visits)
    return Counts(visits, transitions, jnp.clip(noisy.rewards, 0.0, visits))
