# SPDX-License-Identifier: Apache-2.0
r"""Candidate models from recorded people, by expectation maximisation.

d candidates share rows and outcomes (:mod:`reticent.worlds.records.statistics`); candidate i gives outcome e of row
ρ(e) the probability :math:`P_i(e)`. Two ways in which people may be made of candidates:

**Users are of one kind each** (:class:`UserMixture`), hidden, with shares w: a mixture of Markov decision models,

.. math:: \ell=\sum_u\log\sum_iw_i\prod_eP_i(e)^{c_u(e)} .

**Groups are populations** (:class:`GroupBlend`): each public group g (a clinic, an entry page, a person seen on many
days) is a linear mixture with weights :math:`W_g` of its own,

.. math:: \ell=\sum_g\sum_ec_g(e)\log\sum_iW_{gi}P_i(e) .

The second is the assumption of the whole library, one level down: every group is a blend with weights that do not
depend on the state. The first finds kinds of *people*, and a population of kinds is only close to such a blend: kinds
visit different states, so who is met in a state has other shares than who came. (A mix of groups has the same
trouble, but smaller: candidates are made so that groups need none of it.) Where groups are known, use them.

Both maximise :math:`\ell+\kappa\sum_{i,e}\Pi(e)\log P_i(e)+\sum\log w` (Dirichlet smoothing by κ pseudo-counts of the
pooled row Π, one of each weight), which no step of EM lowers.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from reticent.worlds.records.statistics import Pooling, Statistics, by_group, pooled, sum_by

Told: TypeAlias = Callable[[], None]

SHORT_RUN, LONG_RUN = 25, 400
"""Steps of EM of each start, and at most of the best one."""

FEW_DISTINCT, MOST_DISTINCT = 10_000, 50_000
"""Distinct users, drawn at random: those that starts run on, and those that the best one goes on with. Groups need none
of this."""

TOLERANCE = 1e-7
"""EM ends when a step gains less than this share of the objective."""


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Candidates and what the recorded people are made of.

    Attributes:
      probabilities: :math:`P_i(e)`, ``(size, d)``; 0 for outcomes that training users never had.
      shares: of the candidates among all training users, ``(d,)``, falling.
      group_weights: ``(groups, d)``, or None where users are of one kind each.
      objective: what was maximised, after each step of the best start.
    """

    probabilities: np.ndarray
    shares: np.ndarray
    group_weights: np.ndarray | None
    objective: tuple[float, ...]

    @property
    def d(self) -> int:
        return len(self.shares)

    def user_log_likelihood(self, statistics: Statistics) -> np.ndarray:
        """Log-likelihood of each distinct user ``(n,)``; outcomes that no training user had are left out."""
        logs = np.log(np.where(self.probabilities > 0, self.probabilities, 1.0))
        if self.group_weights is None:
            return log_sum_exp(statistics.counts @ logs + np.log(self.shares))
        counts = statistics.counts.tocoo()
        weights = self.group_weights[statistics.group[counts.row]]
        mixed = np.einsum("kd,kd->k", weights, self.probabilities[counts.col])
        gain = counts.data * np.log(np.where(mixed > 0, mixed, 1.0))
        return np.bincount(counts.row, weights=gain, minlength=len(statistics.weight))


def fit_mixture(
    statistics: Statistics,
    d: int,
    *,
    smoothing: float,
    starts: int,
    seed: int,
    groups: int = 0,
    pooling: Pooling = Pooling(),
    told: Told | None = None,
) -> Mixture:
    """The best of several starts of EM.

    Starts differ in random candidates and not in random users, so the order of users does not matter.

    Args:
      statistics: of the training users.
      d: number of candidates.
      smoothing: κ pseudo-counts, positive.
      starts: how many random starts run for :data:`SHORT_RUN` steps; the best one goes on.
      seed: of the starts.
      groups: how many groups there are; 0 for users of one kind each.
      pooling: how far the pooled row of a pair is drawn towards its state's.
      told: called after each start and at the end.
    """
    problem = _problem(statistics, smoothing, groups, pooling, FEW_DISTINCT)
    best, score = None, -np.inf
    for stream in np.random.SeedSequence([seed, d]).spawn(starts if d > 1 else 1):
        run = _steps(problem, problem.start(d, np.random.default_rng(stream)), SHORT_RUN)
        if run[1][-1] > score:
            best, score = run, run[1][-1]
        if told is not None:
            told()
    assert best is not None
    (chances, weights), trace = best
    if groups == 0 and len(statistics.weight) > FEW_DISTINCT:
        begun, (problem, trace) = problem, (_problem(statistics, smoothing, groups, pooling), [])
        chances = problem.normalised(
            0.9 * begun.whole(chances, np.arange(d))[problem.places] + 0.1 * problem.prior[:, None]
        )
    (chances, weights), more = _steps(problem, (chances, weights), LONG_RUN)
    if told is not None:
        told()
    return problem.finish(chances, weights, (*trace, *more))


def refit_mixture(
    mixture: Mixture, statistics: Statistics, *, smoothing: float, groups: int = 0, pooling: Pooling = Pooling()
) -> Mixture:
    """EM that goes on from another fit of the same statistics with other smoothing."""
    problem = _problem(statistics, smoothing, groups, pooling)
    weights = mixture.shares if mixture.group_weights is None else mixture.group_weights
    # A probability of 0 would stay 0 for ever.
    begun = 0.9 * mixture.probabilities[problem.places] + 0.1 * problem.prior[:, None]
    (chances, weights), trace = _steps(problem, (problem.normalised(begun), weights), LONG_RUN)
    return problem.finish(chances, weights, tuple(trace))


def expected_counts(mixture: Mixture, statistics: Statistics) -> np.ndarray:
    """How many of the statistics' outcomes each candidate accounts for, ``(size, d)``: what its rows rest on."""
    if mixture.group_weights is None:
        logs = np.log(np.where(mixture.probabilities > 0, mixture.probabilities, 1.0))
        each = statistics.counts @ logs + np.log(mixture.shares)
        belongs = np.exp(each - log_sum_exp(each)[:, None]) * statistics.weight[:, None]
        return np.asarray(statistics.counts.T @ belongs)
    cells = by_group(statistics, len(mixture.group_weights)).tocoo()
    mass = mixture.group_weights[cells.row] * mixture.probabilities[cells.col]
    mass = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300) * cells.data[:, None]
    return sum_by(cells.col, mass, statistics.outcomes.size)


@dataclasses.dataclass(frozen=True)
class _Problem(abc.ABC):
    """EM on the outcomes that are known and undecided; ``row`` numbers their rows from 0."""

    counts: Any
    weight: np.ndarray
    row: np.ndarray
    prior: np.ndarray
    smoothing: float
    places: np.ndarray
    whole_prior: np.ndarray

    def start(self, d: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random candidates around the pooled rows, and even weights."""
        spread = self.prior[:, None] * random.gamma(1.0, size=(len(self.prior), d)) if d > 1 else self.prior[:, None]
        # A tenth of the pooled row keeps what people did possible under every candidate.
        return self.normalised(0.9 * self.normalised(spread) + 0.1 * self.prior[:, None]), self.first_weights(d, random)

    @abc.abstractmethod
    def first_weights(self, d: int, random: np.random.Generator) -> np.ndarray:
        """Where EM begins."""

    @abc.abstractmethod
    def step(self, chances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """One step of EM, and the objective before it."""

    @abc.abstractmethod
    def finish(self, chances: np.ndarray, weights: np.ndarray, trace: tuple[float, ...]) -> Mixture:
        """The mixture that EM ended with."""

    def normalised(self, mass: np.ndarray) -> np.ndarray:
        """``mass`` ``(known, d)`` divided by the sums of its rows."""
        return np.asarray(mass / sum_by(self.row, mass, int(self.row.max(initial=0)) + 1)[self.row])

    def candidates(self, expected: np.ndarray) -> np.ndarray:
        """The M-step: smoothed shares of expected counts ``(known, d)``."""
        return self.normalised(expected + self.smoothing * self.prior[:, None])

    def penalty(self, chances: np.ndarray, weights: np.ndarray) -> float:
        """What the smoothing adds to the log-likelihood."""
        return float(self.smoothing * (self.prior @ np.log(chances)).sum() + np.log(weights).sum())

    def whole(self, chances: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Probabilities of all outcomes ``(size, d)``: decided rows are the prior."""
        full = np.repeat(self.whole_prior[:, None], len(order), axis=1)
        full[self.places] = chances[:, order]
        return full


class UserMixture(_Problem):
    """Each user is of one hidden kind."""

    def first_weights(self, d: int, random: np.random.Generator) -> np.ndarray:
        del random
        return np.full(d, 1 / d)

    def step(self, chances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        logs = self.counts @ np.log(chances) + np.log(weights)
        total = log_sum_exp(logs)
        belongs = np.exp(logs - total[:, None]) * self.weight[:, None]
        share = belongs.sum(axis=0) + 1
        objective = float(self.weight @ total) + self.penalty(chances, weights)
        return self.candidates(self.counts.T @ belongs), share / share.sum(), objective

    def finish(self, chances: np.ndarray, weights: np.ndarray, trace: tuple[float, ...]) -> Mixture:
        order = np.argsort(-weights, kind="stable")
        return Mixture(self.whole(chances, order), weights[order], None, trace)


class GroupBlend(_Problem):
    """Each group blends the candidates; ``counts`` has a row per group and ``weight`` is its number of outcomes."""

    def first_weights(self, d: int, random: np.random.Generator) -> np.ndarray:
        return random.dirichlet(np.full(d, 2.0), size=self.counts.shape[0]) if d > 1 else np.ones(
            (self.counts.shape[0], 1)
        )  # fmt: skip

    def step(self, chances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        cells = self.counts.tocoo()
        mixed = np.einsum("kd,kd->k", weights[cells.row], chances[cells.col])
        ratio = type(self.counts)((cells.data / mixed, (cells.row, cells.col)), shape=self.counts.shape)
        share = weights * (ratio @ chances) + 1
        objective = float(cells.data @ np.log(mixed)) + self.penalty(chances, weights)
        return self.candidates(chances * (ratio.T @ weights)), share / share.sum(axis=1, keepdims=True), objective

    def finish(self, chances: np.ndarray, weights: np.ndarray, trace: tuple[float, ...]) -> Mixture:
        shares = self.weight @ weights / self.weight.sum()
        order = np.argsort(-shares, kind="stable")
        return Mixture(self.whole(chances, order), shares[order], weights[:, order], trace)


def _problem(
    statistics: Statistics, smoothing: float, groups: int, pooling: Pooling, most: int = MOST_DISTINCT
) -> _Problem:
    """EM on at most so many distinct users; their weights are scaled up to those of all."""
    if groups == 0 and len(statistics.weight) > most:
        drawn = np.sort(np.random.default_rng([most, 1]).permutation(len(statistics.weight))[:most])
        weight = statistics.weight[drawn] * (statistics.weight.sum() / statistics.weight[drawn].sum())
        statistics = Statistics(statistics.outcomes, statistics.counts[drawn], weight, statistics.group[drawn])
    totals, row = statistics.totals, statistics.outcomes.row
    prior = pooled(totals, statistics.outcomes, pooling)
    # A row with one possible outcome says nothing about any user.
    _, place = np.unique(row, return_inverse=True)
    possible = np.bincount(place, weights=prior > 0)
    open_places = np.flatnonzero((prior > 0) & (possible[place] > 1))
    _, numbered = np.unique(row[open_places], return_inverse=True)
    shared = (numbered, prior[open_places], smoothing, open_places, prior)
    if groups:
        counts = by_group(statistics, groups)
        return GroupBlend(counts[:, open_places].tocsr(), np.asarray(counts.sum(axis=1)).ravel(), *shared)
    return UserMixture(statistics.counts[:, open_places].tocsr(), statistics.weight, *shared)


def _steps(
    problem: _Problem, at: tuple[np.ndarray, np.ndarray], most: int
) -> tuple[tuple[np.ndarray, np.ndarray], list[float]]:
    """EM for at most so many steps; where it got, and the objective along the way."""
    trace: list[float] = []
    for _ in range(most):
        chances, weights, objective = problem.step(*at)
        trace.append(objective)
        if len(trace) > 1 and objective - trace[-2] <= TOLERANCE * abs(objective):
            break
        at = (chances, weights)
    return at, trace


def log_sum_exp(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis."""
    most = logs.max(axis=-1)
    return np.asarray(most + np.log(np.exp(logs - most[..., None]).sum(axis=-1)))


def best_blend(chances: np.ndarray, counts: np.ndarray, steps: int = 500) -> np.ndarray:
    r"""The weights on the simplex that maximise :math:`\sum_ec(e)\log\sum_iw_iP_i(e)`, by EM; it is concave in w.

    ``chances`` ``(size, d)``, ``counts`` ``(size,)``; outcomes that are impossible under all candidates do not count.
    """
    d = chances.shape[1]
    used = (counts > 0) & (chances.sum(axis=1) > 0)
    chances, counts = chances[used], counts[used]
    weights = np.full(d, 1 / d)
    total = counts.sum()
    if d == 1 or total == 0:
        return weights
    for _ in range(steps):
        gain = chances.T @ (counts / (chances @ weights)) / total
        weights = weights * gain
        # max_i gain_i − 1 bounds the distance to the optimum, per outcome.
        if gain.max() - 1 < 1e-6:
            break
    return np.asarray(weights / weights.sum())
