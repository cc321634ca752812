# SPDX-License-Identifier: Apache-2.0
"""How much history belongs in the state: held-out users decide.

For every depth k the rows of contexts are estimated from training users, drawn towards shorter contexts by as many
pseudo-counts as held-out users are explained best with (:mod:`~reticent.worlds.records.statistics`). All depths predict
the same things, what is observed next and what is paid, so their held-out log-likelihoods can be compared user by user.
The shortest history is taken that is not worse than the best one by more than one standard error and a thousandth.

What it is worth is said beside: the plan of each depth, made from training users, is valued in held-out users' own model
with the longest history that was tried. That is an estimate within a model: a log whose actions were not drawn at random
cannot tell more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from reticent.worlds.records.choosing import IMMATERIAL, chosen_pooling, pooled_log_likelihood
from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.entries import leaning
from reticent.worlds.records.kernel import Kernel, kernel_of
from reticent.worlds.records.misfit import People, jackknife, models_of
from reticent.worlds.records.mixture import Mixture
from reticent.worlds.records.remembering import remember
from reticent.worlds.records.report import Depth
from reticent.worlds.records.statistics import Outcomes, outcomes_of, pooled, statistics_of

SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares λ of users counted alike that are tried where entries are declared."""

DEEPEST = 3
"""The longest history that is tried where none is given."""

FOLDS = 10


@dataclasses.dataclass(frozen=True)
class _Tried:
    log: Log
    kernel: Kernel
    each: np.ndarray
    share: float


def with_depth(log: Log, depth: int, rare: int, columns: tuple[str, ...]) -> Log:
    """The log with so much history in its states; as it is where the present observation is all."""
    return log if depth == 1 else remember(log, depth, rare=rare, columns=columns)


def choose_depth(
    log: Log, held: np.ndarray, depths: Sequence[int], horizon: int, *, rare: int, columns: tuple[str, ...] = ()
) -> tuple[Log, tuple[Depth, ...], float]:
    """The log with the history that held-out users want, what they say of each of ``depths``, rising, and the share λ of
    users who count alike (:mod:`~reticent.worlds.records.entries`)."""
    tried = {depth: _try(with_depth(log, depth, rare, columns), held) for depth in depths}
    weight = np.ones(int(held.sum())) if log.weight is None else log.weight[held]
    weight = weight / weight.sum()
    means = {depth: float(weight @ one.each) for depth, one in tried.items()}
    best = max(depths, key=lambda depth: means[depth])
    values = _values(held, tried, horizon)
    found = []
    for depth, one in tried.items():
        gap = tried[best].each - one.each
        spread = float(np.sqrt(weight**2 @ (gap - weight @ gap) ** 2))
        found.append(
            Depth(depth, one.log.coding.states, means[depth], means[best] - means[depth], spread, *values[depth])
        )
    slight = IMMATERIAL * abs(means[best])
    chosen = next(one.depth for one in found if one.behind <= one.error + slight)
    return tried[chosen].log, tuple(found), tried[chosen].share


def _try(log: Log, held: np.ndarray) -> _Tried:
    """One depth with the share of users counted alike that explains held-out users best."""
    outcomes = outcomes_of(log)
    test = statistics_of(log, outcomes, held)
    best, score = None, -np.inf
    for share in (1.0,) if log.weight is None else SHARES:
        train = statistics_of(leaning(log, share), outcomes, ~held)
        pooling, _ = chosen_pooling(train, test)
        found = float(test.weight @ pooled_log_likelihood(train, test, pooling))
        if found > score:
            best, score = (train, pooling, share), found
    assert best is not None
    train, pooling, share = best
    prior = pooled(train.totals, outcomes, pooling)
    kernel = kernel_of(Mixture(prior[:, None], np.ones(1), None, ()), outcomes, train.totals)
    return _Tried(log, kernel, _log_likelihood(log, outcomes, prior, held), share)


def _log_likelihood(log: Log, outcomes: Outcomes, prior: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Of every held-out user ``(n,)``; outcomes that no training user had are left out."""
    rows = np.flatnonzero(held[log.user])
    logs = np.log(np.where(prior > 0, prior, 1.0))
    pair, moves, number = (
        log.state[rows] * outcomes.actions + log.action[rows],
        outcomes.transitions,
        len(outcomes.paid_pair),
    )
    following = log.following[rows]
    keys = outcomes.pair * outcomes.states + outcomes.following
    place = np.minimum(np.searchsorted(keys, pair * outcomes.states + following), max(moves - 1, 0))
    moved = np.where(following == UNKNOWN, 0.0, logs[place]) if moves else 0.0
    paid = moves + np.searchsorted(outcomes.paid_pair, pair)
    each = moved + log.reward[rows] * logs[paid] + (1 - log.reward[rows]) * logs[paid + number]
    return np.asarray(np.bincount(log.user[rows], weights=each, minlength=log.users)[held])


def _values(
    held: np.ndarray, tried: dict[int, _Tried], horizon: int
) -> dict[int, tuple[float, float, float] | tuple[()]]:
    """Value, gain over no history and its error of each depth's plan, in held-out users' own model of the deepest one."""
    deepest = tried[max(tried)]
    if deepest.kernel.rewards.max() <= 0:
        return dict.fromkeys(tried, ())
    people = People(deepest.log, held, deepest.kernel)
    plans = {depth: one.kernel.plan(horizon)[0][:, _seen_as(deepest.log, one.log)] for depth, one in tried.items()}
    folds = min(FOLDS, people.users)
    fold = np.random.default_rng(0).permutation(people.users) % folds

    def measured(asked: np.ndarray) -> np.ndarray:
        _, own = models_of(people, deepest.kernel, asked)
        return np.array([float(people.first @ own.evaluate(plan)) for plan in plans.values()])

    whole = measured(np.ones(people.users))
    without = np.array([measured((fold != part) * 1.0) for part in range(folds)])
    return {
        depth: (whole[place], whole[place] - whole[0], jackknife(without[:, place] - without[:, 0]))
        for place, depth in enumerate(plans)
    }


def _seen_as(deep: Log, shallow: Log) -> np.ndarray:
    """Which state of a log with less history each state ``(S,)`` of one with more is."""
    history, less = deep.coding.history, shallow.coding.history
    if history is None:
        return np.arange(deep.coding.states)
    size, plain = len(history.contexts), len(history.observations) // history.remembered
    if less is None:
        last, width = np.array([context[-1] for context in history.contexts]), history.remembered
    else:
        last, width = (
            np.array([_ending(context, less.index, less.depth) for context in history.contexts]),
            len(less.contexts),
        )
    states = (np.arange(plain)[:, None] * width + last).ravel()
    assert len(states) == plain * size
    return np.append(states, shallow.coding.states - 1) if deep.coding.over else states


def _ending(context: tuple[int, ...], listed: dict[tuple[int, ...], int], depth: int) -> int:
    context = context[-depth:]
    while context not in listed:
        context = context[1:]
    return listed[context]
