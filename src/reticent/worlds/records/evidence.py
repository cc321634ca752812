# SPDX-License-Identifier: Apache-2.0
r"""Whether a log says enough about rewards to learn from, and what would suffice.

**The criterion.** A plan prefers one action to another because it pays more. So a log must at least tell a pair (s, a)
that pays *twice* the average from the average. Call a reward *usual* if more than half of all rewards equal it (0
for clicks), let :math:`\Delta` be the mean distance of rewards from the usual one (at most ½ of their range), and
:math:`\sigma^2` their variance. A pair that pays twice as much has up to twice the variance, so a two-sided test of level
5 % finds it with probability 80 % from

.. math:: n^*=\frac{(z_{0.975}+z_{0.8})^2\,2\sigma^2}{\Delta^2}

rows of that pair; for rare rewards of 0 and 1 that is about 16 rewards other than 0. Each of d candidates has rewards of
its own, so a state with n(s) rows and A(s) tried actions is *known* if :math:`n(s)/A(s)\ge d\,n^*`, and the log suffices if
at least half of its rows are in known states.

**What may overrule it.** If held-out users' rewards are predicted better by what training users were paid for the
same pair than by one mean for all, by more than 1.645 standard errors, the log tells pairs apart whatever the
criterion says (a false alarm in 20).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from reticent.worlds.records.coded import Log
from reticent.worlds.records.mixture import Mixture, expected_counts
from reticent.worlds.records.statistics import Outcomes, Statistics

POWER = (1.959964 + 0.841621) ** 2
"""Of a two-sided test of level 5 % that finds a difference with probability 80 %."""

ONE_SIDED = 1.644854


def rows_to_tell(values: np.ndarray) -> tuple[float, float]:
    """The usual one of some values in [0, 1], and n*: how many of them tell a mean that is twice as far from it."""
    distinct, counts = np.unique(values, return_counts=True)
    most = int(counts.argmax())
    usual = float(distinct[most]) if 2 * counts[most] > len(values) else 0.0
    apart = min(float(np.abs(values - usual).mean()), 0.5)
    return usual, POWER * 2 * float(values.var()) / apart**2 if apart > 0 else math.inf


def two_digits(number: float) -> int:
    """Rounded up to two digits, for words.

    >>> two_digits(7), two_digits(1234.5)
    (7, 1300)
    """
    unit = int(10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0))
    return math.ceil(number / unit) * unit


@dataclasses.dataclass(frozen=True)
class RewardEvidence:
    """How much a log says about rewards; see the module.

    Attributes:
      rewards: rows whose reward is not the usual one. ``rows``: all. ``pairs``: that were tried. ``candidates``: d.
      tried: rows of one pair, the median over all rows of n(s)/A(s). ``needed``: n*.
      gain, gain_error: by how much held-out users' log-likelihood is better with rewards of pairs than with one mean,
        per user, and its standard error.
    """

    rewards: int
    rows: int
    pairs: int
    candidates: int
    tried: float
    needed: float
    gain: float
    gain_error: float

    @property
    def enough(self) -> bool:
        """Whether the log suffices, or held-out users show that it tells pairs apart."""
        return self.tried >= self.candidates * self.needed or self.gain > ONE_SIDED * self.gain_error > 0

    @property
    def rows_needed(self) -> int:
        """How many rows like these would suffice, rounded up to two digits."""
        wanted = self.rows * self.candidates * self.needed / self.tried
        return two_digits(wanted)

    def sentence(self) -> str:
        """What is missing, and what would suffice."""
        rewards = round(self.rewards * self.rows_needed / self.rows)
        return (
            f"{self.rewards:,} rewards for {self.pairs:,} pairs: too few to learn from; {self.rows_needed:,} rows "
            f"(about {rewards:,} rewards) would suffice to tell a pair that pays twice the average, for {self.candidates} "
            f"candidates"
        )


def reward_evidence(log: Log, candidates: int, gain: tuple[float, float]) -> RewardEvidence | None:
    """The evidence of a log for d candidates; None where rewards never differ, as in a log of movements."""
    reward = log.reward
    if reward.min() == reward.max():
        return None
    usual, needed = rows_to_tell(reward)
    actions = log.coding.actions
    pairs = np.unique(log.state * actions + log.action)
    of_state = np.bincount(log.state, minlength=log.coding.states)
    per_action = of_state / np.maximum(np.bincount(pairs // actions, minlength=log.coding.states), 1)
    order = np.argsort(-per_action, kind="stable")
    half = order[np.searchsorted(np.cumsum(of_state[order]), log.rows / 2)]
    return RewardEvidence(
        int((reward != usual).sum()), log.rows, len(pairs), candidates, float(per_action[half]), needed, *gain
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CandidateInterval:
    """What one candidate pays where training users went: the mean, and half of a 90 % interval.

    ``pair_error``: the same half for a single pair, averaged over where users went.
    """

    share: float
    reward: float
    error: float
    pair_error: float

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def candidate_intervals(mixture: Mixture, train: Statistics, outcomes: Outcomes) -> tuple[CandidateInterval, ...]:
    """Intervals from the counts that each candidate rests on, pairs being independent; shrinkage adds no evidence."""
    moves, number = outcomes.transitions, len(outcomes.paid_pair)
    counts = expected_counts(mixture, train)
    weight = train.totals[moves : moves + number] + train.totals[moves + number :]
    weight = weight / weight.sum()
    own = counts[moves : moves + number] + counts[moves + number :]
    mean = mixture.probabilities[moves : moves + number]
    spread = np.sqrt(mean * (1 - mean) / (own + 1))
    return tuple(
        CandidateInterval(
            float(share), float(weight @ mean[:, place]),
            ONE_SIDED * float(np.sqrt(((weight * spread[:, place]) ** 2).sum())),
            ONE_SIDED * float(weight @ spread[:, place]),
        )
        for place, share in enumerate(mixture.shares)
    )  # fmt: skip
