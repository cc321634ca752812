# SPDX-License-Identifier: Apache-2.0
r"""How far a blend of the candidates is from people who were not asked, and what that costs.

Held-out users have counts n(s, a, s'). With :math:`\hat P` their shares and B the blend that explains them best, the
misspecification is the total variation where they go,

.. math:: \zeta=\sum_{s,a}\frac{n(s,a)}n\;\tfrac12\sum_{s'}\big|P(s'\mid s,a)-B(s'\mid s,a)\big| ,

for their true P. Counts are not P. Put :math:`\hat P` in its place and, the absolute value being convex, the mean is
too high; so this *plug-in* is an upper estimate. For a lower one, halve the users: one half says where P is above B,
and the other half is asked whether it is, :math:`\tfrac12\sum_{s'}\operatorname{sign}(\hat P_1-B)(\hat P_2-B)`, whose
mean is at most ζ because no signs give more than the right ones. The estimate in between is the plug-in less the bias
that Poisson resampling of the counts shows. Rewards are rows of two outcomes and go the same way.

**Cost.** By the simulation lemma the value of a policy under B is off by at most
:math:`H\zeta_r+\tfrac{H(H-1)}2\zeta` per episode, if it visits what the log visits. The direct estimate is smaller
and more to the point: the held-out users' own Markov model is solved on one half of them, and that plan, the blend's
and the pilot's are valued in the model of the other half.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.kernel import Kernel, own_model
from reticent.worlds.records.mixture import best_blend

FOLDS, SPLITS, RESAMPLES = 20, 20, 20
"""Parts of the jackknife, halvings of the users, and Poisson resamples."""


@dataclasses.dataclass(frozen=True)
class Distance:
    """An average total variation: estimate, lower and upper estimate, and a 90 % interval around the latter two."""

    estimate: float
    lower: float
    upper: float
    interval: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Values:
    """Mean return per episode in the held-out users' own Markov model, of plans that were made without seeing it.

    Attributes:
      own: the plan of other held-out users' own model; ``blend``: of the best blend; ``pilot``: of the training
        users' shares.
      random: uniform actions.
      loss: own − blend, and ``loss_error``, its standard error over held-out users (jackknife).
    """

    own: float
    blend: float
    pilot: float
    random: float
    loss: float
    loss_error: float


@dataclasses.dataclass(frozen=True)
class Misfit:
    """What held-out users say about the candidates.

    Attributes:
      users, transitions: how many there are; ``unseen``: the share of transitions that no training user made.
      weights, reward_weights: the blends that explain them best.
      transition, reward: ζ and ζ_r.
      bound: what these may cost per episode by the simulation lemma, from the estimates.
      values: the direct estimate; None if the log has no rewards, as a log of movements.
    """

    users: int
    transitions: int
    unseen: float
    weights: tuple[float, ...]
    reward_weights: tuple[float, ...]
    transition: Distance
    reward: Distance
    bound: float
    values: Values | None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def misfit_of(log: Log, held: np.ndarray, kernel: Kernel, shares: np.ndarray, horizon: int, seed: int) -> Misfit:
    """Measure the candidates against the users ``held`` ``(users,)`` (truth values) of a log."""
    random = np.random.default_rng(seed)
    people = People(log, held, kernel)
    weights = best_blend(people.transition.chances, people.transition.totals)
    reward_weights = best_blend(people.reward.chances, people.reward.totals)
    transition = people.transition.distance(weights, random)
    reward = people.reward.distance(reward_weights, random)
    values = _values(people, kernel, shares, horizon, random) if kernel.rewards.max() > 0 else None
    bound = horizon * reward.estimate + horizon * (horizon - 1) / 2 * transition.estimate
    moves = int(people.transition.totals.sum())
    unseen = float(people.transition.totals[people.transition.chances.sum(axis=1) == 0].sum() / max(moves, 1))
    return Misfit(
        int(held.sum()), moves, unseen, tuple(weights.tolist()), tuple(reward_weights.tolist()), transition, reward,
        min(bound, float(horizon)), values,
    )  # fmt: skip


class _Rows:
    """Counts of users over the outcomes of rows, with each outcome's probability under every candidate."""

    def __init__(
        self, user: np.ndarray, key: np.ndarray, amount: np.ndarray, users: int, row_of: Any, find: Any
    ) -> None:
        import scipy.sparse

        self.keys, column = np.unique(key, return_inverse=True)
        shape = (users, len(self.keys))
        self.counts = scipy.sparse.coo_array((amount, (user, column)), shape=shape).tocsr()
        _, self.row = np.unique(row_of(self.keys), return_inverse=True)
        self.rows = int(self.row.max(initial=-1)) + 1
        self.chances = find(self.keys)
        self.totals = np.asarray(self.counts.sum(axis=0)).ravel()

    def distance(self, weights: np.ndarray, random: np.random.Generator) -> Distance:
        """How far the blend is from these people, see the module."""
        if self.totals.sum() == 0:
            return Distance(0.0, 0.0, 0.0, (0.0, 0.0))
        blend = self.chances @ weights
        users = self.counts.shape[0]
        upper = float(self._plugin(self.totals[None], blend)[0])
        again = self._plugin(random.poisson(self.totals, size=(RESAMPLES, len(self.totals))).astype(float), blend)
        halves = random.random((SPLITS, users)) < 0.5
        lower = float(np.mean(self._signed(halves.astype(float), blend)))
        fold = random.permutation(users) % min(FOLDS, users)
        without = np.stack([fold != number for number in range(min(FOLDS, users))]).astype(float)
        uppers = self._plugin(without @ self.counts, blend)
        lowers = np.array([np.mean(self._signed(halves[:4] * others, blend, others)) for others in without])
        lower = min(max(lower, 0.0), upper)
        estimate = float(np.clip(2 * upper - again.mean(), lower, upper))
        low, high = lower - 1.645 * jackknife(lowers), upper + 1.645 * jackknife(uppers)
        return Distance(estimate, lower, upper, (max(low, 0.0), min(high, 1.0)))

    def _shares(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares within rows and row sums of counts ``(B, outcomes)``."""
        sums = np.stack([np.bincount(self.row, weights=each, minlength=self.rows) for each in counts])
        return counts / np.maximum(sums[:, self.row], 1e-12), sums

    def _plugin(self, counts: np.ndarray, blend: np.ndarray) -> np.ndarray:
        shares, sums = self._shares(counts)
        missing = 1 - np.bincount(self.row, weights=blend, minlength=self.rows)
        apart = np.stack([np.bincount(self.row, weights=each, minlength=self.rows) for each in np.abs(shares - blend)])
        return np.asarray((0.5 * (apart + missing) * sums).sum(axis=1) / sums.sum(axis=1))

    def _signed(self, halves: np.ndarray, blend: np.ndarray, within: np.ndarray | float = 1.0) -> np.ndarray:
        first, sums = self._shares(halves @ self.counts)
        other, weight = self._shares((within - halves) @ self.counts)
        signs = np.sign(first - blend)
        missing = 1 - np.bincount(self.row, weights=blend, minlength=self.rows)
        gain = np.stack([np.bincount(self.row, weights=each, minlength=self.rows) for each in signs * (other - blend)])
        asked = np.where(sums > 0, weight, 0.0)
        return np.asarray((0.5 * (gain + missing) * asked).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-12))


class People:
    """The held-out users' transitions and rewards."""

    def __init__(self, log: Log, held: np.ndarray, kernel: Kernel) -> None:
        rows = held[log.user]
        number = np.cumsum(held) - 1
        user, pair = number[log.user[rows]], (log.state * kernel.actions + log.action)[rows]
        following, paid = log.following[rows], log.reward[rows]
        moved, users, pairs = following != UNKNOWN, int(held.sum()), kernel.states * kernel.actions
        weight = np.ones(users) if log.weight is None else log.weight[held]
        listed = kernel.keys

        def transition_chances(keys: np.ndarray) -> np.ndarray:
            place = np.minimum(np.searchsorted(listed, keys), len(listed) - 1)
            return np.where((listed[place] == keys)[:, None], kernel.chances[place], 0.0)

        def reward_chances(keys: np.ndarray) -> np.ndarray:
            mean = kernel.rewards[keys % pairs]
            return np.asarray(np.where((keys < pairs)[:, None], mean, 1 - mean))

        self.transition = _Rows(
            user[moved], pair[moved] * kernel.states + following[moved], weight[user[moved]], users,
            lambda keys: keys // kernel.states, transition_chances,
        )  # fmt: skip
        amount = np.concatenate([paid, 1 - paid]) * np.tile(weight[user], 2)
        self.reward = _Rows(
            np.concatenate([user, user]), np.concatenate([pair, pair + pairs]), amount, users,
            lambda keys: keys % pairs, reward_chances,
        )  # fmt: skip
        self.first = np.bincount(log.state[rows & log.first], weights=weight, minlength=kernel.states) / weight.sum()
        self.users, self.pairs = users, pairs


def _values(people: People, kernel: Kernel, shares: np.ndarray, horizon: int, random: np.random.Generator) -> Values:
    half = (random.permutation(people.users) % 2).astype(float)
    pilot, _ = kernel.blended(shares).plan(horizon)
    uniform = np.full((horizon, kernel.states, kernel.actions), 1 / kernel.actions)

    def measured(asked: np.ndarray) -> np.ndarray:
        """Values of the four plans, each half of the users ``asked`` being the truth for the other's plans."""
        models = [models_of(people, kernel, chosen * asked) for chosen in (half, 1 - half)]
        results = []
        for (blend, own), (_, truth) in (models, models[::-1]):
            plans = (own.plan(horizon)[0], blend.plan(horizon)[0], pilot, uniform)
            results.append([float(people.first @ truth.evaluate(plan)) for plan in plans])
        return np.asarray(np.mean(results, axis=0))

    own, blend, trained, chance = measured(np.ones(people.users)).tolist()
    folds = min(FOLDS // 2, people.users)
    fold = random.permutation(people.users) % folds
    losses = np.array([values[0] - values[1] for values in (measured((fold != part) * 1.0) for part in range(folds))])
    return Values(own, blend, trained, chance, own - blend, jackknife(losses))


def models_of(people: People, kernel: Kernel, chosen: np.ndarray) -> tuple[Kernel, Kernel]:
    """The best blend and the own model of some users."""
    moves, pays = chosen @ people.transition.counts, chosen @ people.reward.counts
    weights = best_blend(people.transition.chances, moves)
    paid_weights = best_blend(people.reward.chances, pays)
    blend = kernel.blended(weights, paid_weights)
    # Transitions that no training user made are left out here: they have no place in the list, and ζ counts them.
    place = np.searchsorted(kernel.keys, people.transition.keys)
    listed = people.transition.chances.sum(axis=1) > 0
    transitions = np.zeros(len(kernel.pair))
    transitions[place[listed]] = moves[listed]
    paid, tried = np.zeros(people.pairs), np.zeros(people.pairs)
    positive = people.reward.keys < people.pairs
    paid[people.reward.keys[positive]] = pays[positive]
    np.add.at(tried, people.reward.keys % people.pairs, pays)
    return blend, own_model(kernel, blend, transitions, paid, tried)


def jackknife(values: np.ndarray) -> float:
    """Standard error from estimates that each leave one part of the users out."""
    parts = len(values)
    return float(np.sqrt((parts - 1) / parts * ((values - values.mean()) ** 2).sum())) if parts > 1 else 0.0
