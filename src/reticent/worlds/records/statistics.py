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

the pooled row of the pair, with one pseudo-count (:class:`Pooling`) for what followed the state under any action. Rewards
go the same way, from the pair to the state to the whole log.

With a history in the state (:mod:`~reticent.worlds.records.remembering`) that holds for single observations, with the
counts of all contexts that end with them; a longer context begins with the row of the next shorter one,

.. math:: \Pi(o'\mid c,a)=\frac{N^+(c,a,o')+\eta\,\Pi(o'\mid\operatorname{parent}(c),a)}{N^+(c,a)+\eta},

where :math:`N^+` counts c and all longer contexts that end with it. So a context that no training user met has the row of
what is known of its end.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.remembering import Tree, next_states, tree_of

PART = 100_000
"""Users who are counted at a time."""


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """The outcomes that are told apart: first transitions, then rewards (paid and not paid of each pair).

    Attributes:
      states, actions: sizes S and A.
      pair: s·A + a of each transition outcome ``(E,)``, rising; ``following``: its next state ``(E,)``.
      paid_pair: the pairs ``(Q,)`` with recorded rewards, rising.
      up: with a history, the same outcome after the next shorter context ``(size,)``, −1 after single observations; and
        ``length``, how many observations the context has ``(size,)``. None without.
    """

    states: int
    actions: int
    pair: np.ndarray
    following: np.ndarray
    paid_pair: np.ndarray
    up: np.ndarray | None = None
    length: np.ndarray | None = None

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


class Pooling(NamedTuple):
    """Pseudo-counts with which a pair's row is drawn towards its state's, a state's rewards towards all, and a context's
    rows towards those of the next shorter one."""

    transitions: float = 1.0
    rewards: float = 1.0
    history: float = 10.0


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
    tree = tree_of(log.coding)
    if tree is not None:
        return _outcomes_of_contexts(log, tree)
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


def _outcomes_of_contexts(log: Log, tree: Tree) -> Outcomes:
    """Every context with all that was tried, and all that followed, in contexts that end with the same observation."""
    states, actions, coding = log.coding.states, log.coding.actions, log.coding
    number = int(tree.observed.max()) + 1
    known = log.following != UNKNOWN
    seen, tried = np.zeros((number, number), bool), np.zeros((number, actions), bool)
    moved = np.zeros((number, actions), bool)
    here = tree.observed[log.state]
    seen[here[known], tree.observed[log.following[known]]] = True
    tried[here, log.action] = True
    moved[here[known], log.action[known]] = True
    state, action, then = np.nonzero(moved[tree.observed][:, :, None] & seen[tree.observed][:, None, :])
    following = next_states(coding, state, then)
    key = (state * actions + action) * states + following
    order = np.argsort(key)
    state, action, then, key = (array[order] for array in (state, action, then, key))
    home, chosen = np.nonzero(tried[tree.observed])
    paid_pair = home * actions + chosen
    above = tree.parent[state]
    up = np.searchsorted(key, (above * actions + action) * states + next_states(coding, np.maximum(above, 0), then))
    paid_up = len(key) + np.searchsorted(paid_pair, tree.parent[home] * actions + chosen)
    paid_up = np.where(tree.parent[home] < 0, -1, paid_up)
    length = tree.length[home]
    return Outcomes(
        states, actions, key // states, key % states, paid_pair,
        np.concatenate([np.where(above < 0, -1, up), paid_up, np.where(paid_up < 0, -1, paid_up + len(paid_pair))]),
        np.concatenate([tree.length[state], length, length]),
    )  # fmt: skip


def statistics_of(log: Log, outcomes: Outcomes, chosen: np.ndarray | None = None) -> Statistics:
    """Counts of the ``chosen`` users (``(users,)`` truth values; all by default)."""
    import scipy.sparse

    members = np.arange(log.users) if chosen is None else np.flatnonzero(chosen)
    start = np.searchsorted(log.user, members)
    end = np.searchsorted(log.user, members, side="right")
    # In parts, so that what is in between takes little memory however long the log is.
    parts = [slice(first, first + PART) for first in range(0, len(members), PART)]
    counted = [_counts(log, outcomes, start[part], end[part]) for part in parts]
    each = [
        collapsed(Statistics(outcomes, counts, _weights(log, members[part]), log.group[members[part]]))
        for part, counts in zip(parts, counted, strict=True)
    ]
    if len(each) == 1:
        return each[0]
    whole = Statistics(
        outcomes,
        scipy.sparse.vstack([one.counts for one in each]).tocsr(),
        np.concatenate([one.weight for one in each]),
        np.concatenate([one.group for one in each]),
    )
    return collapsed(whole)


def _weights(log: Log, members: np.ndarray) -> np.ndarray:
    return np.ones(len(members)) if log.weight is None else log.weight[members]


def _counts(log: Log, outcomes: Outcomes, start: np.ndarray, end: np.ndarray) -> Any:
    """Sparse counts ``(n, size)`` of users whose rows go from ``start`` to ``end``."""
    import scipy.sparse

    length = end - start
    user = np.repeat(np.arange(len(start)), length)
    rows = np.arange(length.sum()) + np.repeat(start - (np.cumsum(length) - length), length)
    pair = log.state[rows] * outcomes.actions + log.action[rows]
    following, reward = log.following[rows], log.reward[rows]
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
        shape=(len(start), outcomes.size),
    ).tocsr()
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts


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


def pooled(totals: np.ndarray, outcomes: Outcomes, pooling: Pooling = Pooling()) -> np.ndarray:
    """The prior Π of every outcome, ``(size,)``; 0 for an outcome that is not in ``totals`` anywhere in its state, or after
    the observation that its context ends with."""
    if outcomes.up is None or outcomes.length is None:
        return _pooled(totals, outcomes, pooling)
    levels = [np.flatnonzero(outcomes.length == length) for length in range(2, int(outcomes.length.max()) + 1)]
    counts = totals.copy()
    for level in reversed(levels):
        np.add.at(counts, outcomes.up[level], counts[level])
    prior = _pooled(counts, outcomes, pooling)
    row, strength = outcomes.row, pooling.history
    sums = np.bincount(row, weights=counts)
    for level in levels:
        prior[level] = (counts[level] + strength * prior[outcomes.up[level]]) / (sums[row[level]] + strength)
    return prior


def _pooled(totals: np.ndarray, outcomes: Outcomes, pooling: Pooling) -> np.ndarray:
    """The prior from pairs to states to the whole log."""
    states, actions, moves = outcomes.states, outcomes.actions, outcomes.transitions
    state = outcomes.pair // actions
    arrow, arrow_of = np.unique(state * states + outcomes.following, return_inverse=True)
    seen = np.bincount(arrow_of, weights=totals[:moves], minlength=len(arrow))
    of_state = np.bincount(state, weights=totals[:moves], minlength=states)
    common = seen[arrow_of] / np.maximum(of_state[state], 1)
    of_pair = np.bincount(outcomes.pair, weights=totals[:moves], minlength=states * actions)
    strength = pooling.transitions
    transitions = (totals[:moves] + strength * common) / (of_pair[outcomes.pair] + strength)

    strength = pooling.rewards
    paid, unpaid = np.split(totals[moves:], 2)
    home = outcomes.paid_pair // actions
    overall = paid.sum() / max(paid.sum() + unpaid.sum(), 1)
    of_states = (np.bincount(home, weights=part, minlength=states) for part in (paid, unpaid))
    state_paid, state_unpaid = of_states
    mean = (state_paid + strength * overall) / (state_paid + state_unpaid + strength)
    mean_paid = (paid + strength * mean[home]) / (paid + unpaid + strength)
    return np.concatenate([transitions, mean_paid, 1 - mean_paid])
