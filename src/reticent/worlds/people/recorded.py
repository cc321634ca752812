# SPDX-License-Identifier: Apache-2.0
r"""Recorded people as users that an agent can meet, without asking what cannot be known.

Two kinds of records allow an honest replay. If what a person does next does not depend on the action, or the answer
to *every* action was recorded, then the whole episode under any policy is known: :class:`RecordedUsers`. If actions
were drawn with known probabilities, episodes can be reweighted, :math:`\hat
V^\pi=\tfrac1n\sum_u\prod_h\frac{\pi_h(a_{uh}\mid s_{uh})} {p_{uh}}\sum_hr_{uh}`, which is unbiased:
:class:`RandomisedRecords`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from reticent.worlds.records.kernel import Kernel
from reticent.worlds.records.mixture import best_blend


class Estimate(NamedTuple):
    """A mean over recorded people and its standard error."""

    value: float
    error: float


@dataclasses.dataclass(frozen=True)
class RecordedUsers:
    """People whose episodes are known under every policy.

    ``first`` and ``respond`` are arithmetic on arrays with any leading axes, NumPy's or JAX's: they work on all users
    at once, and on one user inside a compiled program.

    Attributes:
      answers: arrays whose first axis is the user.
      first: the first state, from a user's answers.
      respond: next state and reward, from a user's answers, the 0-based step, the state and the action.
      states, actions, horizon: sizes, as the model's.
      why: why this is exact, in one sentence.
    """

    answers: Mapping[str, np.ndarray]
    first: Callable[[Mapping[str, Any]], Any]
    respond: Callable[[Mapping[str, Any], int, Any, Any], tuple[Any, Any]]
    states: int
    actions: int
    horizon: int
    why: str

    @property
    def users(self) -> int:
        return len(next(iter(self.answers.values())))

    def subset(self, chosen: np.ndarray) -> RecordedUsers:
        """Some of the users, in the order of ``chosen`` (indices or truth values)."""
        return dataclasses.replace(self, answers={key: array[chosen] for key, array in self.answers.items()})

    def returns(self, policy: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
        """Each user's return ``(users,)`` under choices ``(H, S)``, or under draws from probabilities ``(H, S, A)``."""
        state = np.asarray(self.first(self.answers))
        total = np.zeros(self.users)
        for step in range(self.horizon):
            if policy.ndim == 2:
                action = policy[step][state]
            else:
                draw = (random or np.random.default_rng(0)).random(self.users)
                action = (draw[:, None] > np.cumsum(policy[step], axis=1)[state, :-1]).sum(axis=1)
            state, reward = self.respond(self.answers, step, state, action)
            total += reward
        return total

    def value(self, policy: np.ndarray, random: np.random.Generator | None = None) -> Estimate:
        """The mean return under a policy, and its standard error."""
        return mean_of(self.returns(policy, random))

    def own_model(self, *, passes: int, seed: int) -> OwnModel:
        """These users' own Markov model, counted while they meet uniform actions ``passes`` times."""
        random = np.random.default_rng(seed)
        counts = np.zeros((self.states * self.actions, self.states))
        paid = np.zeros(len(counts))
        for _ in range(passes):
            state = np.asarray(self.first(self.answers))
            for step in range(self.horizon):
                action = random.integers(self.actions, size=self.users)
                following, reward = self.respond(self.answers, step, state, action)
                np.add.at(counts, (state * self.actions + action, following), 1)
                np.add.at(paid, state * self.actions + action, reward)
                state = following
        return OwnModel.of(counts, paid, self.states, self.actions)

    def uniform_value(self, seed: int = 0) -> Estimate:
        """The mean return of uniform actions, by drawing them."""
        even = np.full((self.horizon, self.states, self.actions), 1 / self.actions)
        return self.value(even, np.random.default_rng(seed))


@dataclasses.dataclass(frozen=True)
class OwnModel:
    """A Markov model of recorded people: its ``kernel``, and the ``counts`` ``(S·A, S)`` behind it."""

    kernel: Kernel
    counts: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, paid: np.ndarray, states: int, actions: int) -> OwnModel:
        """From counts ``(S·A, S)`` and sums of rewards ``(S·A,)``; a pair that never occurred stays and pays nothing."""
        number = counts.sum(axis=1)
        rows = counts / np.maximum(number, 1)[:, None]
        rows[number == 0, np.flatnonzero(number == 0) // actions] = 1
        pair, following = np.nonzero(rows)
        rewards = paid / np.maximum(number, 1)
        return cls(Kernel(states, actions, pair, following, rows[pair, following][:, None], rewards[:, None]), counts)

    def nearest_blend(self, candidates: Kernel) -> np.ndarray:
        """The weights of candidates that explain best what these people did."""
        return best_blend(candidates.chances, self.counts[candidates.pair, candidates.following])


@dataclasses.dataclass(frozen=True)
class RandomisedRecords:
    """Episodes whose actions were drawn with known probabilities.

    Attributes:
      states, actions, rewards: ``(n, H)``.
      probabilities: with which the recorded action was drawn, ``(n, H)``.
      allowed: where a choice existed, ``(n, H)``; elsewhere every policy does what was done.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    probabilities: np.ndarray
    allowed: np.ndarray

    @property
    def users(self) -> int:
        return len(self.states)

    def value(self, policy: np.ndarray) -> Estimate:
        """An unbiased estimate of the mean return of choices ``(H, S)`` or probabilities ``(H, S, A)``.

        Rewards are weighted by the choices up to their step, which is unbiased as well and varies less.
        """
        steps = np.arange(self.states.shape[1])
        if policy.ndim == 2:
            chance = (policy[steps, self.states] == self.actions).astype(np.float64)
        else:
            chance = policy[steps, self.states, self.actions]
        ratio = np.where(self.allowed, chance / self.probabilities, 1.0)
        return mean_of((np.cumprod(ratio, axis=1) * self.rewards).sum(axis=1))


def mean_of(returns: np.ndarray) -> Estimate:
    """Mean and standard error."""
    return Estimate(float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(len(returns))))
