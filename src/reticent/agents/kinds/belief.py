# SPDX-License-Identifier: Apache-2.0
r"""A user's belief about their own kind: it stays on the device and costs no privacy.

With kinds z = 1…M of known laws, their blend as kind 0 (here the last one), and published shares w, a device keeps

.. math:: \ell_z\mathrel{+}=\log p_z(r,s'\mid s,a),\qquad b_z\propto w_ze^{\ell_z},

and acts by :math:`\arg\max_a\sum_zb_zQ_{z,h}(s,a)` (QMDP), where :math:`Q_z` is the optimal table of kind z. It does not
depend on w: a new w needs no new plan.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

LEAST = 1e-9
"""Added to probabilities before their logarithm: what a law calls impossible is very unlikely, and no more."""


class Laws(NamedTuple):
    """Transition rows ``(Z, S, A, n)`` and mean rewards ``(Z, S, A)`` of all kinds, the blend included."""

    rows: Array
    means: Array


def with_blend(kinds: Laws, shares: Array) -> Laws:
    """The kinds and, as the last one, their blend with these ``shares`` ``(M,)``."""
    rows, means = (jnp.tensordot(shares, table, axes=1)[None] for table in kinds)
    return Laws(jnp.concatenate([kinds.rows, rows]), jnp.concatenate([kinds.means, means]))


def log_likelihood(
    laws: Laws, successors: Array | None, state: Array, action: Array, reward: Array, following: Array
) -> Array:
    """:math:`\\log p_z(r,s'\\mid s,a)` of every kind, ``(Z,)``; a reward in [0, 1] counts as that share of a success."""
    chances = laws.rows[:, state, action]
    if successors is None:
        chance = chances[:, following]
    else:
        chance = (chances * (successors[state, action] == following)).sum(axis=-1)
    mean = laws.means[:, state, action]
    paid = reward * jnp.log(mean + LEAST) + (1 - reward) * jnp.log(1 - mean + LEAST)
    return paid + jnp.log(chance + LEAST)


def belief(shares: Array, likelihoods: Array) -> Array:
    """b ``(Z,)`` from the published shares and the episode's log-likelihoods."""
    return jax.nn.softmax(jnp.log(shares) + likelihoods)


def ratios(shares: Array, likelihoods: Array) -> Array:
    """:math:`L_z/\\langle w,L\\rangle` ``(..., Z)``, computed without overflow."""
    scaled = jnp.exp(likelihoods - likelihoods.max(axis=-1, keepdims=True))
    return scaled / (scaled @ shares)[..., None]
