# SPDX-License-Identifier: Apache-2.0
r"""What a log says about each user, as counts: all that the mixture needs, and small.

Everything recorded is an *outcome of a row*: a transition is outcome s' of the row (s, a); a reward r ∈ [0, 1] at (s,
a) is r of the outcome *paid* and 1 − r of the outcome *not paid* of another row, which for 0/1 rewards is what
happened and for others has the same mean. A model is then one distribution per row, and a user is a sparse vector of
counts :math:`c_u(e)` over outcomes e. Users with the same vector are kept once, with a weight: of a million short
sessions few are different.

A candidate is smoothed towards what all training users did (:func:`pooled`), by a chain that ends where nothing is
known:

.. math:: \Pi(s'\mid s,a)=\frac{N(s,a,s')+N(s,s')/N(s)}{N(s,a)+1},

the pooled row of the pair, with one pseudo-count for what followed the state under any action. Rewards go the same
way, from the pair to the state to the whole log.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from reticent.worlds.records.log import UNKNOWN, Log


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """The outcomes that are told apart: first transitions, then rewards (paid and not paid of each pair).

    Attributes:
      states, actions: sizes S and A.
      pair: s·A + a of each transition outcome ``(E,)``, rising; ``following``: its next state ``(E,)``.
      paid_pair: the pairs ``(Q,)`` with recorded rewards, rising.
    """

    states: int
    actions: int
    pair: np.ndarray
    following: np.ndarray
    paid_pair: np.ndarray

    @property
    def transitions(self) -> int:
        return len(self.pair)

    @property
    def size(self) -> int:
        return len(self.pair) + 2 * len(self.paid_pair)

    @property
    def row(self) -> np.ndarray:
        """The row of each outcome ``(size,)``: pairs for transitions, S·A + pair for rewards."""
        rewards = self.states * self.actions + self.paid_pair
        return np.concatenate([self.pair, rewards, rewards])


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts of users, each distinct vector once.

    Attributes:
      outcomes: what the columns are.
      counts: sparse ``(n, size)``; ``weight`` ``(n,)``: how many users have this vector; ``group`` ``(n,)``: of which
        group.
    """

    outcomes: Outcomes
    counts: Any
    weight: np.ndarray
    group: np.ndarray

    @property
    def users(self) -> int:
        return int(self.weight.sum())

    @property
    def totals(self) -> np.ndarray:
        """Counts of all users together, ``(size,)``."""
        return np.asarray(self.counts.T @ self.weight)


def outcomes_of(log: Log) -> Outcomes:
    """All outcomes that may have followed a tried pair: what followed its state under any action."""
    states, actions = log.coding.states, log.coding.actions
    known = log.following != UNKNOWN
    arrows = np.unique(log.state[known] * states + log.following[known])
    tried = np.unique(log.state[known] * actions + log.action[known])
    # Every tried pair with every arrow of its state.
    first = np.searchsorted(arrows, np.arange(states) * states)
    count = np.diff(np.append(first, len(arrows)))[tried // actions]
    pair = np.repeat(tried, count)
    place = (
        np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first[tried // actions], count)
    )
    return Outcomes(states, actions, pair, arrows[place] % states, np.unique(log.state * actions + log.action))


def statistics_of(log: Log, outcomes: Outcomes, chosen: np.ndarray | None = None) -> Statistics:
    """Counts of the ``chosen`` users (``(users,)`` truth values; all by default)."""
    import scipy.sparse

    kept = np.ones(log.rows, bool) if chosen is None else chosen[log.user]
    numbers = np.zeros(log.users, np.int64)
    members = np.arange(log.users) if chosen is None else np.flatnonzero(chosen)
    numbers[members] = np.arange(len(members))
    user, pair = numbers[log.user[kept]], (log.state * outcomes.actions + log.action)[kept]
    following, reward = log.following[kept], log.reward[kept]
    moved = following != UNKNOWN
    keys = outcomes.pair * outcomes.states + outcomes.following
    transition = np.searchsorted(keys, pair[moved] * outcomes.states + following[moved])
    paid = outcomes.transitions + np.searchsorted(outcomes.paid_pair, pair)
    counts = scipy.sparse.coo_array(
        (
            np.concatenate([np.ones(len(transition)), reward, 1 - reward]),
            (
                np.concatenate([user[moved], user, user]),
                np.concatenate([transition, paid, paid + len(outcomes.paid_pair)]),
            ),
        ),
        shape=(len(members), outcomes.size),
    ).tocsr()
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return collapsed(Statistics(outcomes, counts, np.ones(len(members)), log.group[members]))


def collapsed(statistics: Statistics) -> Statistics:
    """The same statistics with equal vectors of one group joined."""
    # Two random projections tell vectors apart; equal vectors, with sorted columns, have equal ones to the last bit.
    random = np.random.default_rng(0).random((statistics.counts.shape[1], 2))
    marks = np.column_stack([statistics.group, statistics.counts @ random])
    _, kept, place = np.unique(marks, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(place.ravel(), weights=statistics.weight)
    return Statistics(statistics.outcomes, statistics.counts[kept], weight, statistics.group[kept])


def by_group(statistics: Statistics, groups: int) -> Any:
    """Counts of each group's users together, sparse ``(groups, size)``."""
    import scipy.sparse

    users = len(statistics.weight)
    shape = (groups, users)
    adder = scipy.sparse.csr_array((statistics.weight, (statistics.group, np.arange(users))), shape=shape)
    return (adder @ statistics.counts).tocsr()


def sum_by(place: np.ndarray, mass: np.ndarray, size: int) -> np.ndarray:
    """Sums ``(size, d)`` of the rows of ``mass`` ``(n, d)`` that have the same ``place`` ``(n,)``."""
    columns = [np.bincount(place, weights=column, minlength=size) for column in mass.T]
    return np.stack(columns, axis=1).astype(np.float64)


def pooled(totals: np.ndarray, outcomes: Outcomes) -> np.ndarray:
    """The prior Π of every outcome, ``(size,)``; 0 for an outcome that is not in ``totals`` anywhere in its state."""
    states, actions, moves = outcomes.states, outcomes.actions, outcomes.transitions
    state = outcomes.pair // actions
    arrow, arrow_of = np.unique(state * states + outcomes.following, return_inverse=True)
    seen = np.bincount(arrow_of, weights=totals[:moves], minlength=len(arrow))
    of_state = np.bincount(state, weights=totals[:moves], minlength=states)
    common = seen[arrow_of] / np.maximum(of_state[state], 1)
    of_pair = np.bincount(outcomes.pair, weights=totals[:moves], minlength=states * actions)
    transitions = (totals[:moves] + common) / (of_pair[outcomes.pair] + 1)

    paid, unpaid = np.split(totals[moves:], 2)
    home = outcomes.paid_pair // actions
    overall = paid.sum() / max(paid.sum() + unpaid.sum(), 1)
    of_states = (np.bincount(home, weights=part, minlength=states) for part in (paid, unpaid))
    state_paid, state_unpaid = of_states
    mean = (state_paid + overall) / (state_paid + state_unpaid + 1)
    mean_paid = (paid + mean[home]) / (paid + unpaid + 1)
    return np.concatenate([transitions, mean_paid, 1 - mean_paid])
