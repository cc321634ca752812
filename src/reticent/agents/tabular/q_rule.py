# SPDX-License-Identifier: Apache-2.0
r"""Optimistic Q-learning (Jin, Allen-Zhu, Bubeck and Jordan 2018, with the Hoeffding bonus): no model, one table.

After the t-th visit of (h, s, a), with :math:`\alpha_t=(H+1)/(H+t)` and :math:`b_t=c\sqrt{H^3\iota/t}`,

.. math:: Q_h(s,a)\leftarrow(1-\alpha_t)Q_h(s,a)+\alpha_t\big(r+V_{h+1}(s')+b_t\big),\qquad
          V_h(s)=\min(H-h+1,\max_aQ_h(s,a)).

The algorithm updates while the episode goes on, but step h + 1 is updated after step h has read it, so updating all steps
at the end of the episode from the values before it is the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.worlds import Episode


class Table(NamedTuple):
    """The open round's episode, and visits and Q so far, ``(H, S, A)`` each."""

    open: Episode
    visits: Array
    action_values: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OneEpisode:
    """Hands the open round's episode over as it is; a round is one user.

    ``start`` is the table before the first user: Q at the most there is to get.
    """

    start: Table

    def init(self) -> Table:
        copied: Table = jax.tree.map(jnp.array, self.start)
        return copied

    def report(self, seen: Episode, noise: Any = None) -> Episode:
        del noise
        kinds = self.start.open
        return Episode(*(jnp.asarray(leaf).astype(kind.dtype) for leaf, kind in zip(seen, kinds, strict=True)))

    def absorb(self, state: Table, report: Episode) -> Table:
        return state._replace(open=jax.tree.map(jnp.add, state.open, report))

    def close(self, state: Table, noise: Any = None) -> Table:
        del noise
        return state._replace(open=jax.tree.map(jnp.zeros_like, state.open))

    def released(self, state: Table) -> Table:
        return state

    def simulate_user_noise(self, key: Array) -> None:
        del key

    def simulate_round_noise(self, key: Array) -> None:
        del key


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class QLearner(Learner[Episode, Episode, Table, None]):
    """Optimistic Q-learning; see the module docstring.

    Attributes:
      bonus_scale: c.
      iota: ln(SAT/α).
    """

    bonus_scale: Array
    iota: Array

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        return greedy(state.aggregate.action_values, action_values)

    def statistic(self, plan: Plan[None], episode: Episode) -> Episode:
        """The episode itself."""
        del plan
        return episode

    def close(self, state: AgentState, plan: Plan[None], users: Array | int, noise: Noise = None) -> AgentState:
        table: Table = state.aggregate
        learned = learn(table, plan.values, self.bonus_scale, self.iota)
        return super().close(state._replace(aggregate=learned), plan, users, noise)


def greedy(action_values: Array, keep: bool) -> Plan[None]:
    """The plan that is greedy in Q ``(H, S, A)``, what it publishes being within what there is to get."""
    horizon, states, _ = action_values.shape
    dtype = action_values.dtype
    left = jnp.arange(horizon, 0, -1).astype(dtype)[:, None, None]
    shown = jnp.clip(action_values, 0.0, left)
    values = jnp.concatenate([shown.max(axis=-1), jnp.zeros((1, states), dtype)])
    choices = action_values.argmax(axis=-1).astype(jnp.int32)
    return Plan(choices, values, None, shown if keep else None)


def learn(table: Table, values: Array, bonus_scale: Array, iota: Array) -> Table:
    """The table after the open episode, whose user was served the values ``(H + 1, S)``."""
    horizon = table.visits.shape[0]
    steps, (states, actions, rewards) = jnp.arange(horizon), table.open
    here, following = states[:-1], states[1:]
    visits = table.visits.at[steps, here, actions].add(1)
    t = visits[steps, here, actions]
    rate = (horizon + 1) / (horizon + t)
    bonus = bonus_scale * jnp.sqrt(horizon**3 * iota / jnp.maximum(t, 1))
    target = jnp.clip(rewards, 0.0, 1.0) + values[steps + 1, following] + bonus
    before = table.action_values[steps, here, actions]
    updated = table.action_values.at[steps, here, actions].set((1 - rate) * before + rate * target)
    return table._replace(visits=visits, action_values=updated)


def empty_table(horizon: int, states: int, actions: int, dtype: Any) -> Table:
    """Nothing seen; everything as good as it can be."""
    left = jnp.arange(horizon, 0, -1).astype(dtype)[:, None, None]
    empty = Episode(jnp.zeros(horizon + 1, jnp.int32), jnp.zeros(horizon, jnp.int32), jnp.zeros(horizon, dtype))
    shape = (horizon, states, actions)
    return Table(empty, jnp.zeros(shape, dtype), jnp.broadcast_to(left, shape))
