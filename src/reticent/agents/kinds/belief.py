# SPDX-License-Identifier: Apache-2.0
r"""The laws of kinds, and what one step of an episode tells about the user's own kind.

With kinds z = 1…M of known laws, their blend as one more kind (the last), and published shares w, a device keeps

.. math:: \ell_z\mathrel{+}=\log p_z(r,s'\mid s,a),\qquad b_z\propto w_ze^{\ell_z},

and acts by :math:`\arg\max_a\sum_zb_zQ_{z,h}(s,a)` (QMDP), where :math:`Q_z` is the optimal table of kind z. It does not
depend on w: a new w needs no new plan. QMDP acts as if the kind became known after the action; a plan that does not is made
for every version (:mod:`reticent.agents.kinds.point_based`). The formulas are the device's own
(:mod:`reticent_wire.forms.kinds`, :mod:`reticent_wire.forms.kinds_planned`), run with JAX.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from reticent_wire.forms.kinds import belief, log_likelihoods


class Laws(NamedTuple):
    """Transition rows ``(Z, S, A, n)`` and mean rewards ``(Z, S, A)`` of kinds."""

    rows: Array
    means: Array


def with_blend(kinds: Laws, shares: Array) -> Laws:
    """The kinds and, as the last one, their blend with these ``shares`` ``(M,)``."""
    rows, means = (jnp.tensordot(shares, table, axes=1)[None] for table in kinds)
    return Laws(jnp.concatenate([kinds.rows, rows]), jnp.concatenate([kinds.means, means]))


def told(
    kinds: Laws, blend: Array, successors: Array | None, state: Array, action: Array, reward: Array, following: Array
) -> Array:
    """:math:`\\log p_z(r,s'\\mid s,a)` of every kind and of their ``blend``, ``(Z,)``."""
    chances = kinds.rows[:, state, action]
    if successors is None:
        chance = chances[:, following]
    else:
        chance = (chances * (successors[state, action] == following)).sum(axis=-1)
    found: Array = log_likelihoods(chance, kinds.means[:, state, action], blend, jnp.asarray(reward), jnp)
    return found


def best_action(shares: Array, likelihoods: Array, tables: Array, blend_table: Array) -> Array:
    """The action that is best on average over the belief; tables of the kinds ``(M, A)`` and of the blend ``(A,)``."""
    chances = belief(shares, likelihoods, jnp)
    scores: Array = chances[:-1] @ tables + chances[-1] * blend_table
    return scores.argmax()
