# SPDX-License-Identifier: Apache-2.0
r"""Candidates with a row for every pair, those never tried included, and small exact plans with them.

EM knows rows of pairs that training users tried. A model needs all: a pair that was never tried gets, under each
candidate, what follows its state under the actions that were tried, :math:`\sum_aN(s,a)P_i(\cdot\mid s,a)/N(s)`, and
so does its reward; a state without any recorded action leads to itself and pays nothing. Both are guesses, and the
report counts them.

Rows are kept as lists of (pair, next state, probability), so that everything costs in proportion to the transitions
that were ever seen.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.worlds.records.mixture import Mixture
from reticent.worlds.records.statistics import Outcomes, sum_by


@dataclasses.dataclass(frozen=True)
class Kernel:
    """d candidate models of S states and A actions.

    Attributes:
      pair, following: s·A + a and s' of every listed transition ``(E,)``, in rising order of (pair, s').
      chances: :math:`P_i(s'\\mid s,a)`, ``(E, d)``; the rows of every pair sum to one.
      rewards: ``(S·A, d)`` in [0, 1].
    """

    states: int
    actions: int
    pair: np.ndarray
    following: np.ndarray
    chances: np.ndarray
    rewards: np.ndarray

    @property
    def d(self) -> int:
        return int(self.chances.shape[1])

    @property
    def keys(self) -> np.ndarray:
        """pair·S + s' of every listed transition, rising."""
        return np.asarray(self.pair * self.states + self.following)

    def blended(self, weights: np.ndarray, reward_weights: np.ndarray | None = None) -> Kernel:
        """The one model that mixes the candidates."""
        paid = self.rewards @ (weights if reward_weights is None else reward_weights)
        return dataclasses.replace(self, chances=(self.chances @ weights)[:, None], rewards=paid[:, None])

    def action_values(self, values: np.ndarray, candidate: int = 0) -> np.ndarray:
        """One backup: Q ``(S, A)`` from the values ``(S,)`` of what follows."""
        expected = self.chances[:, candidate] * values[self.following]
        table = self.rewards[:, candidate] + np.bincount(self.pair, weights=expected, minlength=len(self.rewards))
        return np.asarray(table.reshape(self.states, self.actions))

    def plan(self, horizon: int) -> tuple[np.ndarray, np.ndarray]:
        """Optimal actions ``(H, S)`` and the values ``(S,)`` from the first step on, of a single model."""
        values, choices = np.zeros(self.states), np.zeros((horizon, self.states), np.int64)
        for step in reversed(range(horizon)):
            table = self.action_values(values)
            choices[step], values = table.argmax(axis=1), table.max(axis=1)
        return choices, values

    def evaluate(self, policy: np.ndarray) -> np.ndarray:
        """Values ``(S,)`` from the first step on of choices ``(H, S)`` or probabilities ``(H, S, A)``."""
        values = np.zeros(self.states)
        for choice in policy[::-1]:
            table = self.action_values(values)
            chosen = table[np.arange(self.states), choice] if choice.ndim == 1 else (table * choice).sum(axis=1)
            values = np.asarray(chosen)
        return values


def kernel_of(mixture: Mixture, outcomes: Outcomes, totals: np.ndarray) -> Kernel:
    """Candidates of all pairs from those that training users tried; ``totals`` are their counts ``(size,)``."""
    states, actions, moves = outcomes.states, outcomes.actions, outcomes.transitions
    pairs = states * actions
    pair, following = outcomes.pair, outcomes.following
    chances = mixture.probabilities[:moves]
    tried = _at_least_guessed(np.bincount(pair, weights=totals[:moves], minlength=pairs), pair, chances, outcomes)
    ruled = tried[pair] > 0

    # What follows a state under the actions that were tried, by candidate.
    state = pair // actions
    arrow, arrow_of = np.unique(state[ruled] * states + following[ruled], return_inverse=True)
    mass = chances[ruled] * tried[pair[ruled], None]
    common = sum_by(arrow_of, mass, len(arrow))
    acted = np.bincount(np.arange(pairs) // actions, weights=tried, minlength=states)
    common = common / np.maximum(acted, 1)[arrow // states, None]

    guessed = np.flatnonzero((tried == 0) & (acted[np.arange(pairs) // actions] > 0))
    first = np.searchsorted(arrow, np.arange(states) * states)
    count = np.diff(np.append(first, len(arrow)))[guessed // actions]
    place = (
        np.repeat(first[guessed // actions], count)
        + np.arange(count.sum())
        - np.repeat(np.cumsum(count) - count, count)
    )
    still = np.flatnonzero(acted[np.arange(pairs) // actions] == 0)

    all_pairs = np.concatenate([pair[ruled], np.repeat(guessed, count), still])
    all_following = np.concatenate([following[ruled], arrow[place] % states, still // actions])
    all_chances = np.concatenate([chances[ruled], common[place], np.ones((len(still), mixture.d))])
    kept = all_chances.sum(axis=1) > 0
    order = np.lexsort((all_following[kept], all_pairs[kept]))
    all_pairs, all_following, all_chances = (array[kept][order] for array in (all_pairs, all_following, all_chances))
    sums = sum_by(all_pairs, all_chances, pairs)
    return Kernel(
        states, actions, all_pairs, all_following, all_chances / sums[all_pairs], _rewards(mixture, outcomes, totals)
    )


def _at_least_guessed(tried: np.ndarray, pair: np.ndarray, chances: np.ndarray, outcomes: Outcomes) -> np.ndarray:
    """How often pairs were tried; hardly ever, but not never, where a shorter context says what happens."""
    if outcomes.up is None:
        return tried
    known = np.bincount(pair, weights=chances.sum(axis=1), minlength=len(tried)) > 0
    return np.asarray(np.where(known, np.maximum(tried, 1e-9), tried))


def _rewards(mixture: Mixture, outcomes: Outcomes, totals: np.ndarray) -> np.ndarray:
    """Mean rewards ``(S·A, d)`` of all pairs."""
    states, actions, moves = outcomes.states, outcomes.actions, outcomes.transitions
    number = len(outcomes.paid_pair)
    paid = mixture.probabilities[moves : moves + number]
    counts = totals[moves : moves + number] + totals[moves + number :]
    tried = np.bincount(outcomes.paid_pair, weights=counts, minlength=states * actions)
    tried = _at_least_guessed(tried, outcomes.paid_pair, paid, outcomes)
    counts = tried[outcomes.paid_pair]
    home = outcomes.paid_pair // actions
    mass = paid * counts[:, None]
    acted = np.bincount(home, weights=counts, minlength=states)
    mean = sum_by(home, mass, states)
    mean = mean / np.maximum(acted, 1e-12)[:, None]
    table = np.repeat(mean, actions, axis=0)
    known = tried[outcomes.paid_pair] > 0
    table[outcomes.paid_pair[known]] = paid[known]
    return np.clip(table, 0, 1)


def own_model(kernel: Kernel, blend: Kernel, transitions: np.ndarray, paid: np.ndarray, tried: np.ndarray) -> Kernel:
    """The model that counts say, completed by a blend where they say nothing.

    Args:
      kernel: its list of transitions is used; others have been counted into none of these.
      blend: a single model on the same list.
      transitions: counts ``(E,)`` on the list; ``paid``: sums of rewards ``(S·A,)`` over ``tried`` ``(S·A,)`` rewards.
    """
    total = np.bincount(kernel.pair, weights=transitions, minlength=len(kernel.rewards))
    counted = total[kernel.pair] > 0
    chances = np.where(counted, transitions / np.maximum(total[kernel.pair], 1), blend.chances[:, 0])
    rewards = np.where(tried > 0, paid / np.maximum(tried, 1e-12), blend.rewards[:, 0])
    return dataclasses.replace(kernel, chances=chances[:, None], rewards=np.clip(rewards, 0, 1)[:, None])
