# SPDX-License-Identifier: Apache-2.0
r"""Changing regularizers: where learning and privacy meet (section 3 of the paper).

The learner never reads raw sums. It hands each user's regression pairs to a *regularizer* and gets back regularized
statistics :math:`\Lambda=G+Z`, :math:`u=g+z` for every step. Which Z and z — a fixed λI, or shifted Gaussian noise — is
the regularizer's business; all the learner needs is the :class:`Certificate` of Assumption 2.

Data flow of one *round* (one user, or a fixed public number of them)::

    report(observation)      on the user's side: clip, form products, add local noise if that is the trust model
    absorb(state, report)    on the server: add to the open round's sum
    close(state, noise)      end of the round: the sum enters the running total with its noise
    released(state)          (Λ, u) as released after the last closed round
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.statistics import Observation, Statistics, products
from reticent.errors import InvalidInput
from reticent.learning.aggregator import Aggregator, Noise

Sent = TypeVar("Sent")


@dataclasses.dataclass(frozen=True)
class Certificate:
    r"""The constants of Assumption 2, one row per round and one column per step.

    With probability at least 1−α, for all rounds and steps, :math:`\lambda_{\min}I\preceq Z\preceq\lambda_{\max}I` and
    :math:`\|z\|_{Z^{-1}}\le\nu`. Row t holds after t closed rounds; a single row holds for all of them.
    """

    transition_lambda_min: np.ndarray
    transition_lambda_max: np.ndarray
    transition_nu: np.ndarray
    reward_lambda_min: np.ndarray
    reward_lambda_max: np.ndarray
    reward_nu: np.ndarray


class Regularizer(Aggregator[Observation, Sent, Statistics], Protocol[Sent]):
    """An aggregator of regression pairs: regularized statistics (Λ_p, u_p, Λ_r, u_r) come out."""

    @property
    def pooled(self) -> bool:
        """Whether :meth:`released` gives every step the same sums, those of all steps together."""
        ...


class FixedState(NamedTuple):
    """Sums over closed rounds, and over the open one."""

    closed: Statistics
    open: Statistics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FixedRegularizer:
    """Z = λI and z = 0: ordinary ridge regression, no privacy. Gives UCRL-VTR and OPPO.

    λ is counted in the units of the features: the transition Gram of the paper's frame grows with H², so
    ``transition_lambda`` and ``reward_lambda`` are separate. ``pooled`` adds up the sums of all steps, for models whose
    parameters do not depend on the step.
    """

    transition_lambda: Array
    reward_lambda: Array
    horizon: int = dataclasses.field(metadata={"static": True})
    d1: int = dataclasses.field(metadata={"static": True})
    d2: int = dataclasses.field(metadata={"static": True})
    pooled: bool = dataclasses.field(default=False, metadata={"static": True})

    def certificate(self) -> Certificate:
        ones = np.ones((1, self.horizon))
        lam_p, lam_r = float(self.transition_lambda) * ones, float(self.reward_lambda) * ones
        return Certificate(lam_p, lam_p, 0 * ones, lam_r, lam_r, 0 * ones)

    def init(self) -> FixedState:
        dtype = self.transition_lambda.dtype
        zero = Statistics(
            jnp.zeros((self.horizon, self.d1, self.d1), dtype),
            jnp.zeros((self.horizon, self.d1), dtype),
            jnp.zeros((self.horizon, self.d2, self.d2), dtype),
            jnp.zeros((self.horizon, self.d2), dtype),
        )
        return FixedState(closed=zero, open=zero)

    def report(self, seen: Observation, noise: Noise) -> Statistics:
        del noise
        return products(seen)

    def absorb(self, state: FixedState, report: Statistics) -> FixedState:
        return state._replace(open=jax.tree.map(jnp.add, state.open, report))

    def close(self, state: FixedState, noise: Noise) -> FixedState:
        del noise
        closed = jax.tree.map(jnp.add, state.closed, state.open)
        return FixedState(closed=closed, open=jax.tree.map(jnp.zeros_like, state.open))

    def released(self, state: FixedState) -> Statistics:
        dtype = self.transition_lambda.dtype
        sums = state.closed
        if self.pooled:
            sums = for_every_step(jax.tree.map(lambda leaf: leaf.sum(axis=0, keepdims=True), sums), self.horizon)
        return sums._replace(
            transition_gram=sums.transition_gram + self.transition_lambda * jnp.eye(self.d1, dtype=dtype),
            reward_gram=sums.reward_gram + self.reward_lambda * jnp.eye(self.d2, dtype=dtype),
        )

    def simulate_user_noise(self, key: Array) -> Noise:
        del key
        return None

    def simulate_round_noise(self, key: Array) -> Noise:
        del key
        return None


def for_every_step(sums: Statistics, horizon: int) -> Statistics:
    """Statistics of one step, ``(1, ...)``, repeated for all of them; unchanged if there are ``horizon`` already."""
    return Statistics(*(jnp.broadcast_to(leaf, (horizon, *leaf.shape[1:])) for leaf in sums))


def make_fixed_regularizer(
    horizon: int, d1: int, d2: int, transition_lambda: float = 1.0, reward_lambda: float = 1.0, pooled: bool = False
) -> FixedRegularizer:
    """Check λ > 0 and build a :class:`FixedRegularizer`."""
    for field, value in (("transition_lambda", transition_lambda), ("reward_lambda", reward_lambda)):
        if not (np.isfinite(value) and value > 0):
            raise InvalidInput(field, value, "a finite number above 0", "use 1.0 if in doubt")
    lambdas = jnp.asarray(float(transition_lambda)), jnp.asarray(float(reward_lambda))
    return FixedRegularizer(*lambdas, horizon, d1, d2, pooled)
