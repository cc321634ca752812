# SPDX-License-Identifier: Apache-2.0
r"""Moments with noise: how model-free regressions are released in the joint model.

The Gram matrix of a step is a sum over users, released by the epoch counter: noised once per epoch, and larger epochs
count for more. The *moments* cannot be: their targets :math:`r+V_{h+1}(s')` hold the value function of the round, so in
round t they are computed anew over all users so far and noised afresh. With epochs of public sizes :math:`n_1\le n_2\le
\dots` and the counter's weights :math:`w_i(t)=n_i/n_t`, round t releases for h = H, …, 1

.. math:: \sum_{i\le t}w_i(t)\Big(\sum_{u\in i}\phi_u\phi_u^\top+Z_i\Big),\qquad
          \sum_{i\le t}w_i(t)\sum_{u\in i}\phi_u\frac{r_u+V_{t,h+1}(s'_u)-c}{\rho}+z_{t,h} .

A user is thus in the moments of every later round, with less and less weight
(:mod:`reticent.agents.linear_mdp.linear_mdp_plan` has the theorem and the noise).

Formal guarantee. Whatever a user sends, features have norm at most 1, rewards are in [0, 1] and next states are states,
all by clipping in :meth:`PrivateMoments.report`; hence targets in the frame of any V lie in [-1, 1]. The matrices are a
function of the counter's releases and a moment is never returned without its round's noise. Nothing is released after
the counter's last round.

The local model needs another algorithm: a user's report would have to carry noise on all dS numbers
:math:`\phi e_{s'}^\top`, because they cannot know the value functions of later rounds, and the moments would inherit the
noise of all of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.linear_mdp.moments import MomentSums, TargetFrame, Visits, empty_sums, framed_moment, products
from reticent.agents.linear_mixture.privatizer import lift
from reticent.errors import InvalidInput
from reticent.privacy.clipping import clip_interval, clip_norm
from reticent.privacy.counters.epochs import EpochCounter
from reticent.privacy.packing import pack_symmetric, unpack_symmetric


class RoundNoise(NamedTuple):
    """The noise of one round: on the packed matrices ``(H, d(d+1)/2)`` and on the moments ``(H, d)``."""

    gram: Array
    moment: Array


class PrivateMomentState(NamedTuple):
    """The matrices' counter (noisy), and raw sums that must not leave the server.

    Attributes:
      counter: the epoch counter's state.
      weighted: Σ nᵢ·(Σφr) ``(H, d)`` and Σ nᵢ·(Σφe_{s'}ᵀ) ``(H, d, S)`` over closed epochs: raw.
      open: the open epoch's sums: raw.
      rounds: number of closed epochs.
    """

    counter: Any
    weighted: tuple[Array, Array]
    open: MomentSums
    rounds: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PrivateMoments:
    """A :class:`~reticent.agents.linear_mdp.moments.MomentAggregator` with Gaussian noise.

    Attributes:
      gram_scale: σ on the packed matrices per step, ``(H,)``.
      moment_scale: σ on a round's moments per step, ``(H,)``.
      shift, floor: what is added to the matrices' diagonals after t rounds, and their least eigenvalue, ``(rounds+1, H)``.
      counter: the epochs.
    """

    gram_scale: Array
    moment_scale: Array
    shift: Array
    floor: Array
    counter: EpochCounter = dataclasses.field(metadata={"static": True})
    dimension: int = dataclasses.field(metadata={"static": True})
    states: int = dataclasses.field(metadata={"static": True})

    @property
    def horizon(self) -> int:
        return int(self.gram_scale.shape[0])

    @property
    def packed(self) -> int:
        return self.dimension * (self.dimension + 1) // 2

    def clip(self, seen: Visits) -> Visits:
        """The visits within their declared bounds; unchanged if they were."""
        return Visits(
            clip_norm(seen.features, 1.0),
            clip_interval(seen.rewards, 0.0, 1.0),
            jnp.clip(seen.following, 0, self.states - 1),
        )

    def report(self, seen: Visits, noise: Any) -> MomentSums:
        """One user's sums, clipped; in the joint model they add no noise."""
        del noise
        return products(self.clip(seen), self.states)

    def init(self) -> PrivateMomentState:
        dtype = self.gram_scale.dtype
        zero = empty_sums(self.horizon, self.dimension, self.states, dtype)
        counter = self.counter.init((self.horizon, self.packed), dtype)
        return PrivateMomentState(counter, (zero.rewards, zero.arrivals), zero, jnp.zeros((), jnp.int32))

    def absorb(self, state: PrivateMomentState, report: MomentSums) -> PrivateMomentState:
        return state._replace(open=jax.tree.map(jnp.add, state.open, report))

    def close(self, state: PrivateMomentState, noise: RoundNoise | None) -> PrivateMomentState:
        noise = _given(noise)
        size = self._size(state.rounds)
        rewards, arrivals = state.weighted
        return PrivateMomentState(
            counter=self.counter.close(state.counter, pack_symmetric(state.open.gram), noise.gram),
            weighted=(rewards + size * state.open.rewards, arrivals + size * state.open.arrivals),
            open=jax.tree.map(jnp.zeros_like, state.open),
            rounds=jnp.minimum(state.rounds + 1, self.counter.rounds),
        )

    def released(self, state: PrivateMomentState) -> Array:
        released = unpack_symmetric(self.counter.release(state.counter))
        return lift(released, self.shift[state.rounds], self.floor[state.rounds])

    def moment(
        self, state: PrivateMomentState, step: Array, values: Array, frame: TargetFrame, noise: RoundNoise | None
    ) -> Array:
        rewards, arrivals = state.weighted
        exact = framed_moment(rewards[step], arrivals[step], values, frame) / self._size(state.rounds - 1)
        return exact + _given(noise).moment[step]

    def may_release(self, state: PrivateMomentState) -> Array:
        return state.rounds < self.counter.rounds

    def simulate_user_noise(self, key: Array) -> None:
        """None: the server is trusted."""
        del key

    def simulate_round_noise(self, key: Array) -> RoundNoise:
        gram, moment = jax.random.split(key)
        shape, dtype = (self.horizon, self.packed), self.gram_scale.dtype
        return RoundNoise(
            self.gram_scale[:, None] * jax.random.normal(gram, shape, dtype),
            self.moment_scale[:, None] * jax.random.normal(moment, (self.horizon, self.dimension), dtype),
        )

    def _size(self, index: Array) -> Array:
        """Users of the epoch with this 0-based number; of the last one beyond it."""
        sizes = jnp.asarray(self.counter.sizes, self.gram_scale.dtype)
        return sizes[jnp.clip(index, 0, len(self.counter.sizes) - 1)]


def _given(noise: RoundNoise | None) -> RoundNoise:
    if noise is None:
        raise InvalidInput("noise", None, "given in the joint model", "pass fresh noise for every round")
    return noise
