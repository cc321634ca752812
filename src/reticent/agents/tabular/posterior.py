# SPDX-License-Identifier: Apache-2.0
r"""Posterior sampling: plan for one world drawn from what is believed of all of them (Osband, Russo and Van Roy 2013).

Next states have a Dirichlet posterior, rewards a Beta posterior as if each were the mean of coin flips. After every round
one world is drawn and solved; what is not yet known varies from draw to draw, and that is all the exploration there is.

The draw's randomness comes in as the round's noise: ``simulate_round_noise`` gives the data of a key, ``close`` stores it,
and ``plan`` is a function of the state like any other. Before the first round the key is a constant.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.tabular.counts import Counts, ExactCounts, ExactState
from reticent.agents.tabular.planning import Estimate, plan_with
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState, Learner
from reticent.learning.plan import Plan
from reticent.worlds import Episode

SMALLEST = 1e-30
"""Least weight of a next state in a draw."""


class DrawnState(NamedTuple):
    """Exact counts, and the data of the key that the next plan is drawn with."""

    counts: ExactState
    key: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountsAndKey:
    """Exact counts whose rounds end with a fresh key."""

    exact: ExactCounts

    def init(self) -> DrawnState:
        return DrawnState(self.exact.init(), jax.random.key_data(jax.random.key(0)))

    def report(self, seen: Episode, noise: Any = None) -> Array:
        return self.exact.report(seen, noise)

    def absorb(self, state: DrawnState, report: Array) -> DrawnState:
        return state._replace(counts=self.exact.absorb(state.counts, report))

    def close(self, state: DrawnState, noise: Array | None) -> DrawnState:
        if noise is None:
            raise InvalidInput("noise", None, "the data of a key", "pass simulate_round_noise(key)")
        return DrawnState(self.exact.close(state.counts), noise)

    def released(self, state: DrawnState) -> Counts:
        return self.exact.released(state.counts)

    def simulate_user_noise(self, key: Array) -> None:
        del key

    def simulate_round_noise(self, key: Array) -> Array:
        return jax.random.key_data(key)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class PosteriorLearner(Learner[Episode, Array, Counts, None]):
    """A learner that plans for a sampled world.

    Attributes:
      prior: weight of the uniform prior on next states, in visits.
    """

    prior: Array

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan[None]:
        sums: DrawnState = state.aggregate
        counts = self.aggregator.released(sums)
        rewards, transitions = draw_world(jax.random.wrap_key_data(sums.key), counts, self.prior)
        ones = jnp.ones_like(rewards)
        drawn = Estimate(rewards, transitions, ones, 0 * ones, ones > 0)
        none = jnp.zeros((), rewards.dtype)
        return plan_with(drawn, lambda step, _: 0 * step.visits, none, self.model.horizon, None, action_values)

    def statistic(self, plan: Plan[None], episode: Episode) -> Episode:
        """The episode itself."""
        del plan
        return episode


def draw_world(key: Array, counts: Counts, prior: Array) -> tuple[Array, Array]:
    """Mean rewards ``(H, S, A)`` and transitions ``(H, S, A, S)`` drawn from the posterior."""
    onward, reward = jax.random.split(key)
    states = counts.transitions.shape[-1]
    weights = jax.random.gamma(onward, counts.transitions + prior / states)
    # Gamma draws of tiny shape may all underflow; such a row is as good as uniform.
    weights = jnp.maximum(weights, SMALLEST)
    failures = jnp.maximum(counts.visits - counts.rewards, 0.0)
    means = jax.random.beta(reward, 1 + counts.rewards, 1 + failures)
    return means, weights / weights.sum(axis=-1, keepdims=True)
