# SPDX-License-Identifier: Apache-2.0
r"""Returns with noise, published once: the server's side of a private policy evaluation.

A user sends which pair (s, a) they were in at each step and what they earned from there on, centred: a place per step, and
a number in :math:`[-\tfrac{H-h+1}2,\tfrac{H-h+1}2]`. The server counts visits and adds returns up; at the end of the
first round the value weights are published with noise (:mod:`reticent.agents.evaluation.policy_evaluation`), and never
again.

Formal guarantee. Whatever a user sends, they are in at most one place per step and their rewards are clipped to [0, 1]; so
two neighbouring populations are neighbours in the sense of :mod:`reticent.agents.evaluation.policy_evaluation`, whose
(ε, δ) the published weights keep. Visits, sums and the noise's scale are functions of raw data and leave nowhere.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.evaluation.policy_evaluation import Evaluation
from reticent.errors import InvalidInput
from reticent.privacy.clipping import clip_interval


class RewardsByPair(NamedTuple):
    """Where a user was at each step, ``(H,)`` numbers of pairs, and their rewards ``(H,)``."""

    pairs: Array
    rewards: Array


class ReturnSums(NamedTuple):
    """Visits and summed centred returns of every step and pair, ``(H, SA)`` each: raw."""

    visits: Array
    returns: Array


class ReturnState(NamedTuple):
    """Raw sums, which no plan reads; the weights ``(H, d)`` that were published of them; and the number of closed
    rounds."""

    sums: ReturnSums
    published: Array
    rounds: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PrivateReturns:
    """Takes users' returns, gives value weights ``(H, d)`` once."""

    evaluation: Evaluation
    horizon: int = dataclasses.field(metadata={"static": True})
    pairs: int = dataclasses.field(metadata={"static": True})

    def init(self) -> ReturnState:
        dtype = self.evaluation.features.dtype
        zero = jnp.zeros((self.horizon, self.pairs), dtype)
        nothing = jnp.zeros((self.horizon, self.evaluation.dimension // self.horizon), dtype)
        return ReturnState(ReturnSums(zero, zero), nothing, jnp.zeros((), jnp.int32))

    def report(self, seen: RewardsByPair, noise: None = None) -> ReturnSums:
        """One user's share: clipped, without noise of their own."""
        del noise
        rewards = clip_interval(seen.rewards, 0.0, 1.0)
        left = self.horizon - jnp.arange(self.horizon)
        # Summed from the end, so that the last return is the last reward.
        returns = jnp.cumsum(rewards[::-1])[::-1] - left / 2
        place = jax.nn.one_hot(seen.pairs, self.pairs, dtype=rewards.dtype)
        return ReturnSums(place, place * returns[:, None])

    def absorb(self, state: ReturnState, report: ReturnSums) -> ReturnState:
        return state._replace(sums=jax.tree.map(jnp.add, state.sums, report))

    def close(self, state: ReturnState, noise: Array | None) -> ReturnState:
        """End the round; only the first one publishes."""
        weights = jnp.where(state.rounds == 0, self.publish(state.sums, noise), state.published)
        return state._replace(published=weights, rounds=state.rounds + 1)

    def released(self, state: ReturnState) -> Array:
        """The published value weights ``(H, d)``; zero before the first round has ended."""
        return state.published

    def publish(self, state: ReturnSums, noise: Array | None) -> Array:
        """The value weights ``(H, d)`` with noise; to be called once in a run."""
        if noise is None:
            raise InvalidInput("noise", None, "given in the joint model", "pass fresh standard Gaussian noise")
        weights = self.evaluation.publish(state.visits.ravel(), state.returns.ravel(), noise)
        return weights.reshape(self.horizon, -1)

    def simulate_user_noise(self, key: Array) -> None:
        """None: the server is trusted."""
        del key

    def simulate_round_noise(self, key: Array) -> Array:
        """Standard Gaussian noise; its scale is a secret of :meth:`publish`."""
        return jax.random.normal(key, (self.evaluation.dimension,), self.evaluation.features.dtype)
