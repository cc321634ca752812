# SPDX-License-Identifier: Apache-2.0
r"""What a model-free learner keeps: sums whose value function can be chosen afterwards.

Least-squares value iteration regresses :math:`r+V_{h+1}(s')` on :math:`\phi(s,a)`, with a :math:`V_{h+1}` that is made
anew in every round, for *all* users so far. So the server keeps three sums per step,

.. math:: \sum\phi\phi^\top,\qquad\sum\phi\,r,\qquad\sum\phi\,e_{s'}^\top ,

from which the moment under any V follows: :math:`\sum\phi\,(r+V(s'))=\sum\phi\,r+(\sum\phi\,e_{s'}^\top)V`. A linear
mixture learner never needs this: its features hold the V that the user was served, and are summed once.

Moments are taken in a *frame*: :math:`\sum\phi\,(r+V(s')-c)/\rho` with :math:`c` the middle and :math:`\rho` half the
length of the interval :math:`[\min V,1+\max V]`, so that targets lie in [-1, 1] whatever V is. Nothing is lost, as
constants are linear in the features of every linear MDP: :math:`1=\sum_{s'}P_h(s'\mid s,a)=\langle\phi,\sum_{s'}
\mu_h(s')\rangle`.

A *regularizer* of moments turns the sums into a positive definite matrix and into moments, with or without noise:
:class:`FixedMoments` here, :class:`reticent.agents.linear_mdp.private_moments.PrivateMoments` where privacy is promised.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.aggregator import Aggregator, Noise


class Visits(NamedTuple):
    """What a user did, in the features' terms.

    Attributes:
      features: φ of the visited pairs, ``(H, d)``.
      rewards: ``(H,)``.
      following: the next states, ``(H,)`` integers.
    """

    features: Array
    rewards: Array
    following: Array


class MomentSums(NamedTuple):
    """Per step: Σφφᵀ ``(H, d, d)``, Σφr ``(H, d)``, and Σφe_{s'}ᵀ ``(H, d, S)``."""

    gram: Array
    rewards: Array
    arrivals: Array


class TargetFrame(NamedTuple):
    """Centre c and half-length ρ of the interval in which targets lie."""

    centre: Array
    scale: Array


def target_frame(values: Array) -> TargetFrame:
    """The frame of targets r + V(s') for ``values`` ``(S,)`` and rewards in [0, 1]; its scale is at least ½."""
    low, high = values.min(), 1 + values.max()
    return TargetFrame((low + high) / 2, (high - low) / 2)


def empty_sums(horizon: int, dimension: int, states: int, dtype: Any) -> MomentSums:
    """No users yet."""
    return MomentSums(
        jnp.zeros((horizon, dimension, dimension), dtype),
        jnp.zeros((horizon, dimension), dtype),
        jnp.zeros((horizon, dimension, states), dtype),
    )


def products(seen: Visits, states: int) -> MomentSums:
    """One user's share of the sums."""
    phi = seen.features
    arrived = jax.nn.one_hot(seen.following, states, dtype=phi.dtype)
    return MomentSums(
        phi[:, :, None] * phi[:, None, :], phi * seen.rewards[:, None], phi[:, :, None] * arrived[:, None, :]
    )


def framed_moment(rewards: Array, arrivals: Array, values: Array, frame: TargetFrame) -> Array:
    """Σφ(r + V(s') − c)/ρ of one step, ``(d,)``, from Σφr ``(d,)`` and Σφe_{s'}ᵀ ``(d, S)``."""
    return (rewards + jnp.matmul(arrivals, values - frame.centre, precision=jax.lax.Precision.HIGHEST)) / frame.scale


class MomentAggregator(Aggregator[Visits, MomentSums, Array], Protocol):
    """Users' visits in; positive definite matrices and moments out. All methods are pure."""

    def init(self) -> Any:
        """The state before any user."""
        ...

    def report(self, seen: Visits, noise: Noise) -> MomentSums:
        """What one user sends."""
        ...

    def absorb(self, state: Any, report: MomentSums) -> Any:
        """Add a report, or a sum of reports, to the open round."""
        ...

    def close(self, state: Any, noise: Noise) -> Any:
        """End the round: the open sums join the others, and the matrices are released."""
        ...

    def released(self, state: Any) -> Array:
        """Λ ``(H, d, d)``, positive definite, after the last closed round."""
        ...

    def moment(self, state: Any, step: Array, values: Array, frame: TargetFrame, noise: Noise) -> Array:
        """The moment of ``step`` under V_{h+1} = ``values``, with the round's noise; ``(d,)``."""
        ...

    def may_release(self, state: Any) -> Array:
        """Whether the round that is open may be released when it ends."""
        ...

    def simulate_user_noise(self, key: Array) -> Noise:
        """Noise for one report, for simulation only."""
        ...

    def simulate_round_noise(self, key: Array) -> Noise:
        """Noise for one round, for simulation only."""
        ...


class FixedMomentState(NamedTuple):
    """Sums over closed rounds, and over the open one."""

    closed: MomentSums
    open: MomentSums


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FixedMoments:
    """Λ = Σφφᵀ + λI and no noise: ordinary ridge regression, no privacy. Gives LSVI-UCB."""

    ridge: Array
    horizon: int = dataclasses.field(metadata={"static": True})
    dimension: int = dataclasses.field(metadata={"static": True})
    states: int = dataclasses.field(metadata={"static": True})

    def init(self) -> FixedMomentState:
        zero = empty_sums(self.horizon, self.dimension, self.states, self.ridge.dtype)
        return FixedMomentState(zero, zero)

    def report(self, seen: Visits, noise: Noise) -> MomentSums:
        del noise
        return products(seen, self.states)

    def absorb(self, state: FixedMomentState, report: MomentSums) -> FixedMomentState:
        return state._replace(open=jax.tree.map(jnp.add, state.open, report))

    def close(self, state: FixedMomentState, noise: Noise) -> FixedMomentState:
        del noise
        closed = jax.tree.map(jnp.add, state.closed, state.open)
        return FixedMomentState(closed, jax.tree.map(jnp.zeros_like, state.open))

    def released(self, state: FixedMomentState) -> Array:
        return state.closed.gram + self.ridge * jnp.eye(self.dimension, dtype=self.ridge.dtype)

    def moment(self, state: FixedMomentState, step: Array, values: Array, frame: TargetFrame, noise: Noise) -> Array:
        del noise
        return framed_moment(state.closed.rewards[step], state.closed.arrivals[step], values, frame)

    def may_release(self, state: FixedMomentState) -> Array:
        del state
        return jnp.asarray(True)

    def simulate_user_noise(self, key: Array) -> Noise:
        del key
        return None

    def simulate_round_noise(self, key: Array) -> Noise:
        del key
        return None
