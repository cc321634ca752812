# SPDX-License-Identifier: Apache-2.0
r"""Q-learning whose published table carries functional noise (after Wang and Hegde 2019).

Wang and Hegde add a Gaussian process over states to the values that deep Q-learning acts on and learns from, so that the
*reward function* is hidden. This is the tabular form. A round is an epoch of users; at its end every pair that was visited
moves towards the mean of its targets, which are made of the values *published* for that round,

.. math:: Q_h(s,a)\leftarrow(1-\alpha)Q_h(s,a)+\alpha\big(\bar r+\bar P V_{h+1}\big),\qquad
          \alpha=\frac{(H+1)\,m}{H\,+\,t},

capped at 1, for m of t visits so far, and :math:`Q+g` is published with a fresh path g: for every (h, a) a Gaussian vector
over states with covariance :math:`\sigma^2e^{-|s-s'|/\ell}`, the kernel of a Sobolev space.

Formal guarantee (about rewards, not about users). Let all realised rewards, of all users at all steps, change by at most c
each. Given the plans published so far, Q is a convex combination of its start and of targets that move by at most c, so no
entry of Q moves by more than c. One release is thus a Gaussian mechanism of

.. math:: \mu^2\le\frac{c^2}{\sigma^2}\,HA\sum_{s,s'}\big|K^{-1}\big|_{s,s'},

and n of them, adaptively, of n times that. Trajectories do not depend on rewards but through the plans. Nothing is promised
about a user's *states and actions*: visits enter without noise, so this is not joint differential privacy.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.tabular.counts import Counts, ExactCounts, unpack
from reticent.agents.tabular.q_rule import greedy
from reticent.errors import InvalidInput
from reticent.learning.aggregator import Noise
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.worlds import Episode


class NoisyTable(NamedTuple):
    """The open round's counts ``(H, D)``, and visits, Q and the published noise so far, ``(H, S, A)`` each."""

    open: Array
    visits: Array
    action_values: Array
    noise: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FunctionNoise:
    """Sums the open round's counts as they are, and draws the noise of the published table.

    Attributes:
      exact: forms the counts of an episode.
      root: a root of the noise's covariance over states, ``(S, S)``, σ included.
    """

    exact: ExactCounts
    root: Array

    def init(self) -> NoisyTable:
        horizon = self.exact.zero.shape[0]
        shape = (horizon, self.exact.states, self.exact.actions)
        left = jnp.arange(horizon, 0, -1).astype(self.root.dtype)[:, None, None]
        none = jnp.zeros(shape, self.root.dtype)
        return NoisyTable(jnp.zeros_like(self.exact.zero), none, jnp.broadcast_to(left, shape), none)

    def report(self, seen: Episode, noise: Any = None) -> Array:
        return self.exact.report(seen._replace(rewards=jnp.clip(seen.rewards, 0.0, 1.0)), noise)

    def absorb(self, state: NoisyTable, report: Array) -> NoisyTable:
        return state._replace(open=state.open + report)

    def close(self, state: NoisyTable, noise: Array | None) -> NoisyTable:
        if noise is None:
            raise InvalidInput("noise", None, "given for every release", "pass simulate_round_noise(key)")
        return state._replace(open=jnp.zeros_like(state.open), noise=noise)

    def released(self, state: NoisyTable) -> NoisyTable:
        return state

    def simulate_user_noise(self, key: Array) -> None:
        del key

    def simulate_round_noise(self, key: Array) -> Array:
        horizon, states, actions = self.exact.zero.shape[0], self.exact.states, self.exact.actions
        white = jax.random.normal(key, (horizon, states, actions), self.root.dtype)
        return jnp.einsum("st,hta->hsa", self.root, white, precision=jax.lax.Precision.HIGHEST)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyQLearner(Learner[Episode, Array, NoisyTable, None]):
    """Q-learning that publishes noisy tables; see the module docstring."""

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        table: NoisyTable = state.aggregate
        return greedy(table.action_values + table.noise, action_values)

    def statistic(self, plan: Plan[None], episode: Episode) -> Episode:
        """The episode itself."""
        del plan
        return episode

    def close(self, state: AgentState, plan: Plan[None], users: Array | int, noise: Noise = None) -> AgentState:
        table: NoisyTable = state.aggregate
        counts = unpack(table.open, self.model.states, self.model.actions)
        learned = learn_epoch(table, counts, plan.values)
        return super().close(state._replace(aggregate=learned), plan, users, noise)


def learn_epoch(table: NoisyTable, counts: Counts, values: Array) -> NoisyTable:
    """The table after an epoch with these counts, whose users were served the values ``(H + 1, S)``."""
    horizon = table.visits.shape[0]
    visits = table.visits + counts.visits
    seen = jnp.maximum(counts.visits, 1.0)
    onward = (counts.transitions * values[1:, None, None, :]).sum(axis=-1)
    target = (counts.rewards + onward) / seen
    rate = jnp.minimum((horizon + 1) * counts.visits / (horizon + jnp.maximum(visits, 1.0)), 1.0)
    return table._replace(visits=visits, action_values=(1 - rate) * table.action_values + rate * target)


def kernel(states: int, length: float) -> np.ndarray:
    """The covariance of a unit path over the states 0, 1, …, ``(S, S)``: exp(−|s − s′|/length)."""
    places = np.arange(states)
    return np.asarray(np.exp(-np.abs(places[:, None] - places) / length))


def release_power(horizon: int, states: int, actions: int, length: float) -> float:
    r"""μ² of one release per unit of (c/σ)²: :math:`HA\sum|K^{-1}|`."""
    return float(horizon * actions * np.abs(np.linalg.inv(kernel(states, length))).sum())
