# SPDX-License-Identifier: Apache-2.0
"""What held-out users decide: how far rows are pooled, how many candidates there are, how much these are smoothed.

All three are judged by the log-likelihood of users who were held out. The plain choice (one pseudo-count of pooling, the
fewest candidates, the least smoothing) is kept unless another is better by more than one standard error, paired over
held-out users.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from reticent.errors import ReticentError
from reticent.worlds.records.coded import Log
from reticent.worlds.records.mixture import Mixture, fit_mixture, refit_mixture
from reticent.worlds.records.report import Choice
from reticent.worlds.records.statistics import Outcomes, Pooling, Statistics, pooled, statistics_of

Told: TypeAlias = Callable[[int, int, str], None]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 10_000.0)
"""Pseudo-counts of pooling that are tried."""

ONE_MEAN = 1e9
"""Pseudo-counts with which no pair differs from all others."""

SMOOTHING = 5.0
MORE_SMOOTHING = (40.0, 320.0, 2_560.0, 20_480.0)
"""Pseudo-counts of the pooled row in every candidate: at first, and those tried after."""


IMMATERIAL = 1e-3
"""A share of the log-likelihood that is not worth another candidate, however sure it is."""


class Stopped(ReticentError):
    """The caller asked to stop; nothing was written."""


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What held-out users chose, and how well each number of candidates explains them.

    ``gain``: how much better rewards of pairs predict held-out users than one mean, per user, and its standard error;
    (0, 0) if no user was held out.
    """

    mixture: Mixture
    choices: tuple[Choice, ...]
    pooling: Pooling
    smoothing: float
    gain: tuple[float, float]


def held_out(log: Log, holdout: float, seed: int) -> np.ndarray:
    """Which users are held out: the same share of every group, never all of one."""
    random = np.random.default_rng([seed, 1])
    held = np.zeros(log.users, bool)
    if holdout == 0:
        return held
    order = random.permutation(log.users)
    order = order[np.argsort(log.group[order], kind="stable")]
    sizes = np.bincount(log.group)
    place = np.arange(log.users) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # A fractional number of a group's users is rounded at random, so that small groups are held out in proportion.
    least = np.floor(sizes * holdout + random.random(len(sizes)))
    held[order] = place < np.repeat(np.minimum(least, sizes - 1), sizes)
    if not held.any():
        held[order[0]] = True
    return held


def choose(
    log: Log, outcomes: Outcomes, train: Statistics, held: np.ndarray, lowest: int, highest: int,
    smoothing: float | None, starts: int, seed: int, progress: Told | None, should_stop: Callable[[], bool] | None,
) -> Chosen:  # fmt: skip
    """Pooling, number of candidates and smoothing by held-out users; see the module. A given smoothing is kept."""
    groups = len(log.group_names)
    test = statistics_of(log, outcomes, held) if held.any() else None
    pooling, gain = (Pooling(), (0.0, 0.0)) if test is None else chosen_pooling(train, test)
    wanted = list(range(lowest, highest + 1))
    tried = [1, *wanted] if test is not None and lowest > 1 else wanted
    total, done = sum((starts if d > 1 else 1) + 1 for d in tried), 0
    mixtures: list[Mixture] = []
    smoothings: list[float] = []
    for d in tried:

        def told(d: int = d) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total, f"{d} candidates")
            if should_stop is not None and should_stop():
                raise Stopped("stopped before the candidates were found; nothing was written")

        mixture, used = fit_mixture(
            train, d, smoothing=smoothing or SMOOTHING, starts=starts, seed=seed, groups=groups, pooling=pooling,
            told=told,
        ), smoothing or SMOOTHING  # fmt: skip
        # For every d, as d candidates have d times the pseudo-counts of one: else d would be chosen for its smoothing.
        for more in MORE_SMOOTHING if smoothing is None else ():
            other = refit_mixture(mixture, train, smoothing=more, groups=groups, pooling=pooling)
            if test is None or not _better(
                other.user_log_likelihood(test) - mixture.user_log_likelihood(test), test.weight
            ):
                break
            mixture, used = other, more
        mixtures.append(mixture)
        smoothings.append(used)
    if test is None:
        return Chosen(mixtures[-1], (), pooling, smoothings[-1], gain)
    choices, place = _number(mixtures, tried, test, lowest)
    return Chosen(mixtures[place], choices, pooling, smoothings[place], gain)


def chosen_pooling(train: Statistics, test: Statistics) -> tuple[Pooling, tuple[float, float]]:
    """Pseudo-counts of transitions, rewards and history, and what rewards of pairs gain over one mean."""
    moves, totals = train.outcomes.transitions, train.totals
    tried = {strength: Pooling(strength, strength) for strength in STRENGTHS}
    tried[ONE_MEAN] = Pooling(ONE_MEAN, ONE_MEAN, ONE_MEAN)
    by_strength = {
        strength: np.log(np.maximum(pooled(totals, train.outcomes, pooling), 1e-300))
        for strength, pooling in tried.items()
    }
    known = pooled(totals, train.outcomes) > 0
    chosen = []
    for part in (slice(None, moves), slice(moves, None)):
        counts = test.counts[:, part]
        each = {strength: counts @ np.where(known[part], logs[part], 0.0) for strength, logs in by_strength.items()}
        best = max(STRENGTHS, key=lambda strength: float(test.weight @ each[strength]))
        chosen.append(best if _better(each[best] - each[1.0], test.weight) else 1.0)
    # Of the last part, the rewards: what the best pooling gains over one mean for all.
    gain = each[best] - each[ONE_MEAN]
    pooling = Pooling(*chosen)
    if train.outcomes.up is not None:
        pooling = max(
            (pooling._replace(history=strength) for strength in STRENGTHS),
            key=lambda one: float(test.weight @ pooled_log_likelihood(train, test, one)),
        )
    return pooling, (float(gain @ test.weight / test.users), _error(gain, test.weight))


def pooled_log_likelihood(train: Statistics, test: Statistics, pooling: Pooling) -> np.ndarray:
    """Of each distinct user ``(n,)`` by what all training users did; outcomes that none of them had are left out."""
    prior = pooled(train.totals, train.outcomes, pooling)
    return np.asarray(test.counts @ np.log(np.where(prior > 0, prior, 1.0)))


def _number(mixtures: list[Mixture], tried: list[int], test: Statistics, lowest: int) -> tuple[tuple[Choice, ...], int]:
    """Held-out likelihood by number of candidates, and the place of the mixture to use."""
    users = test.users
    each = np.stack([mixture.user_log_likelihood(test) for mixture in mixtures])
    means = each @ test.weight / users
    best = int(means.argmax())
    choices = tuple(
        Choice(d, float(mean), float(means[best] - mean), _error(each[best] - own, test.weight))
        for d, mean, own in zip(tried, means, each, strict=True)
    )
    allowed = [place for place, d in enumerate(tried) if d >= lowest]
    peak = max(allowed, key=lambda place: means[place])
    slight = IMMATERIAL * abs(float(means[peak]))
    near = [
        place
        for place in allowed
        if means[peak] - means[place] <= _error(each[peak] - each[place], test.weight) + slight
    ]
    return choices, min([peak, *near], key=lambda place: tried[place])


def _better(gain: np.ndarray, weight: np.ndarray) -> bool:
    """Whether a gain per distinct user is positive by more than one standard error."""
    return float(gain @ weight / weight.sum()) > _error(gain, weight)


def _error(gap: np.ndarray, weight: np.ndarray) -> float:
    """Standard error of a weighted mean difference."""
    users = weight.sum()
    mean = gap @ weight / users
    return float(np.sqrt(max(((gap - mean) ** 2) @ weight, 0.0) / max(users - 1, 1) / users))
