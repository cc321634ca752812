# SPDX-License-Identifier: Apache-2.0
r"""Optimistic backward induction from counts: the loop over h that all tabular learners share.

For h = H, …, 1,

.. math:: Q_h=\big[\bar r_h+\bar P_hV_{h+1}+b_h(V_{h+1})\big]_{[0,\,H-h+1]}

where an estimate :math:`\bar r,\bar P` and a bonus b come from a paper's rule (:mod:`reticent.agents.tabular.rules`), and
:math:`V_h=\max_aQ_h` or, for policy optimization, :math:`V_h=\langle Q_h,\pi_h\rangle`. Where a rule says that a pair is
not known at all, Q is the most there is to get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.plan import Plan
from reticent.runtime import unrolling


class Widths(NamedTuple):
    """How far a noisy count may be from the truth, with high probability and for all cells and releases at once.

    One number per table; all are 0 where there is no noise.
    """

    visits: Array
    transitions: Array
    rewards: Array


class Estimate(NamedTuple):
    """What a rule makes of the counts, for every step ``(H, ...)`` or ``(1, ...)`` where all steps share it.

    Attributes:
      rewards: r̄, ``(H, S, A)``.
      transitions: P̄, ``(H, S, A, S)``; rows sum to at most 1.
      visits: what bonuses divide by, ``(H, S, A)``, at least 1.
      doubt: part of the bonus that does not depend on values, ``(H, S, A)``, in units of reward.
      known: where Q is estimated at all, ``(H, S, A)`` booleans.
    """

    rewards: Array
    transitions: Array
    visits: Array
    doubt: Array
    known: Array


Bonus = Callable[[Estimate, Array], Array]
"""``(estimate of one step, V of the next)`` to what is added to Q, ``(S, A)``, beyond the estimate's own doubt."""


def plan_with(
    estimate: Estimate,
    bonus: Bonus,
    bonus_scale: Array,
    horizon: int,
    policy: Array | None,
    action_values: bool = False,
) -> Plan[None]:
    """Plan optimistically: greedily if ``policy`` is None, else evaluating ``policy`` ``(H, S, A)``."""
    states = estimate.rewards.shape[1]
    dtype = estimate.rewards.dtype
    every = Estimate(*(jnp.broadcast_to(leaf, (horizon, *leaf.shape[1:])) for leaf in estimate))
    remaining = jnp.arange(horizon, 0, -1).astype(dtype)

    def backup(following: Array, at: tuple[Estimate, Array, Array | None]) -> tuple[Array, tuple[Array, Array]]:
        step, left, probabilities = at
        onward = jnp.matmul(step.transitions, following, precision=jax.lax.Precision.HIGHEST)
        hoped = step.rewards + onward + bonus_scale * (step.doubt + bonus(step, following))
        table = jnp.where(step.known, jnp.clip(hoped, 0.0, left), left)
        values = table.max(axis=-1) if probabilities is None else (probabilities * table).sum(axis=-1)
        return values, (values, table)

    end = jnp.zeros(states, dtype)
    _, (values, tables) = jax.lax.scan(backup, end, (every, remaining, policy), reverse=True, unroll=unrolling(horizon))
    chosen = tables.argmax(axis=-1).astype(jnp.int32) if policy is None else policy
    kept = tables if action_values or policy is not None else None
    return Plan(chosen, jnp.concatenate([values, end[None]]), None, kept)
