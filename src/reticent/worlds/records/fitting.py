# SPDX-License-Identifier: Apache-2.0
r"""From a table of past sessions to candidate models: ``fit(log, horizon=…)``.

The log is read and coded (:mod:`~reticent.worlds.records.log`, :mod:`~reticent.worlds.records.coding`), a share of
the users is held out, EM finds d candidates for the others (:mod:`~reticent.worlds.records.mixture`), held-out users decide
on d and on the shrinkage (:mod:`~reticent.worlds.records.choosing`), and say how far a blend is from people and what
that costs (:mod:`~reticent.worlds.records.misfit`). The candidates in the result are the ones that were measured. Whether
the log has enough rewards to learn from is weighed in :mod:`~reticent.worlds.records.evidence`.

**The log must be public** (:mod:`reticent.worlds.models.provenance`): whatever is in the candidates is published before the
first user comes, and no ε covers it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from reticent.errors import InvalidInput
from reticent.short_repr import ShortRepr
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.model import About, Model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.records.choosing import Stopped, Told, choose, held_out
from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.coding import Coding
from reticent.worlds.records.depth import DEEPEST, choose_depth, with_depth
from reticent.worlds.records.disjoint import require_disjoint
from reticent.worlds.records.entries import leaning, weigh, who_enter
from reticent.worlds.records.evidence import candidate_intervals, reward_evidence
from reticent.worlds.records.kernel import Kernel, kernel_of
from reticent.worlds.records.keywords import columns_and_options
from reticent.worlds.records.log import read_log
from reticent.worlds.records.misfit import misfit_of
from reticent.worlds.records.mixture import MOST_DISTINCT
from reticent.worlds.records.remembering import RARE, tree_of
from reticent.worlds.records.report import Depth, FitReport
from reticent.worlds.records.statistics import Outcomes, outcomes_of, statistics_of
from reticent.worlds.records.table import Columns
from reticent.worlds.transforms.availability import with_mask

__all__ = ["Fitted", "Stopped", "fit", "model_of"]

MOST_CANDIDATES = 64


@dataclasses.dataclass(frozen=True)
class Fitted(ShortRepr):
    """Candidate models and where they come from.

    Attributes:
      model: what a learner gets. ``names``, ``coding``: of its states and actions.
      kernel: the candidates as lists of transitions, for exact work without JAX.
      shares: of the candidates among training users, ``(d,)``; ``group_weights`` ``(groups, d)`` where there are
        groups.
      report: what it rests on. ``provenance``: where it comes from.
    """

    model: Model
    names: Names
    coding: Coding
    kernel: Kernel
    shares: np.ndarray
    group_weights: np.ndarray | None
    report: FitReport
    provenance: Provenance

    def save(self, path: str | Path, *, anyway: bool = False) -> Path:
        """Write the model file (:mod:`reticent.worlds.models.model_file`).

        Raises:
          InvalidInput: the log says too little to learn from (``report.doubt``), and ``anyway`` is not set; a file that
            is written all the same carries the doubt.
        """
        if self.report.doubt and not anyway:
            raise InvalidInput(
                "evidence", self.report.doubt, "enough to learn from",
                "record more, use fewer states or actions, or write the model anyway (--anyway)",
            )  # fmt: skip
        from reticent.worlds.models.model_file import (
            save_model,
        )  # not at the top: it reads codings, and so imports this package

        return save_model(
            path, self.model, names=self.names, coding=self.coding, provenance=self.provenance,
            report=self.report.to_dict(), shares=self.shares,
        )  # fmt: skip


def fit(
    log: Log | Any,
    *,
    horizon: int,
    origin: Provenance | Literal["public", "simulated"],
    candidates: int | tuple[int, int] = (2, 8),
    kinds: int | tuple[int, int] | None = None,
    columns: Columns | None = None,
    smoothing: float | None = None,
    starts: int = 8,
    holdout: float = 0.2,
    seed: int = 0,
    shared_rewards: bool = False,
    untried: str | None = None,
    bounds: Bounds = "tight",
    history: int | Literal["auto"] = 1,
    history_rare: int = RARE,
    remember: tuple[str, ...] = (),
    entries: Mapping[str, float] | None = None,
    protected: pl.DataFrame | str | Path | None = None,
    progress: Told | None = None,
    should_stop: Callable[[], bool] | None = None,
    **reading: Any,
) -> Fitted:
    """Estimate candidate models from a public log; see the module.

    Args:
      log: a checked log, a file, or a frame of polars or pandas; ``columns`` and ``reading`` are options of
        :func:`~reticent.worlds.records.read_log`, and a column may be named by itself: ``time="when"``,
        ``state=("mood", "hour")``. With a group, groups are populations that blend the candidates; without, users
        are of one kind each.
      horizon: number of steps H of the users' episodes.
      origin: where the records come from, which nothing can find out and which the guarantee rests on: a
        :class:`~reticent.worlds.models.provenance.Provenance`, or its kind where the log's name says the rest. No default.
      candidates: d, or the least and the most to choose from by held-out likelihood.
      kinds: M, or a range: candidates are hidden kinds of users, each with a law of its own, for an agent that acts on a
        belief about its user's kind (``private-kinds``). The log must have no groups; the report says how much knowing
        the kind would earn. It stands instead of ``candidates``.
      smoothing: pseudo-counts κ of the pooled row in every row of every candidate; by default 5, or more if held-out
        users are explained better (:mod:`~reticent.worlds.records.choosing`).
      starts: random starts of EM.
      holdout: share of the users who are held out; 0 for none, and then d must be given.
      seed: of starts and of who is held out.
      shared_rewards: all candidates pay the same table, as where rewards are known: nothing is learned about them.
      untried: the action that a pair that was never tried does instead, as where it is not possible there
        (:func:`~reticent.worlds.transforms.availability.with_mask`); by default such a pair does what its
        state's others do.
      bounds: as in :func:`reticent.worlds.blend`.
      history: how many observations are in the state, the present one included; ``auto`` lets held-out users choose
        (:mod:`~reticent.worlds.records.depth`).
      history_rare: contexts in fewer rows than this public number fold into shorter ones.
      remember: state columns that are remembered, the last ones; all by default.
      entries: declared shares of first states among the users of the service, by name; users are weighted to
        them (:mod:`~reticent.worlds.records.entries`).
      protected: a table of people who are to be protected later. None of them may be in ``log``, since what is fitted
        is published (:func:`~reticent.worlds.records.disjoint.require_disjoint`); nothing else of it is used.
      progress: told how many of how many pieces of work are done, and what is being done.
      should_stop: asked between pieces of work.

    Raises:
      InvalidInput: an option or a row of the log is bad, or a person is in both logs.
      Stopped: ``should_stop`` said so.
    """
    lowest, highest = _checked(horizon, candidates if kinds is None else kinds, smoothing, starts, holdout, seed)
    columns, options = columns_and_options(columns, reading, set(inspect.signature(fit).parameters) - {"reading"})
    if kinds is not None:
        _check_kinds(lowest, columns, shared_rewards)
    if protected is not None:
        if isinstance(log, Log):
            raise InvalidInput("log", "coded already", "a table where protected is given", "names are in tables only")
        require_disjoint(log, protected, columns.user)
    if not isinstance(log, Log):
        log = read_log(log, columns=columns, horizon=horizon, **options)
    provenance = origin if isinstance(origin, Provenance) else Provenance(origin, log.source)
    if entries is not None:
        log = weigh(log, entries)
    held = held_out(log, holdout, seed)
    log, depths, alike = _remembering(log, held, history, history_rare, remember, horizon)
    outcomes = outcomes_of(log)
    if horizon > 1 and not outcomes.transitions:
        raise InvalidInput(
            f"transitions of {log.source}", 0, "at least 1", "record several steps of a user, or the column next"
        )
    train = statistics_of(leaning(log, alike), outcomes, ~held)
    if highest > train.users:
        raise InvalidInput("candidates", highest, f"at most {train.users}, the training users", "use fewer")
    groups = len(log.group_names)
    chosen = choose(
        log, outcomes, train, held, lowest, highest, smoothing, starts, seed, progress, should_stop
    )  # fmt: skip
    mixture = chosen.mixture
    kernel = kernel_of(mixture, outcomes, train.totals)
    if shared_rewards:
        kernel = dataclasses.replace(
            kernel, rewards=np.repeat(kernel.rewards @ mixture.shares[:, None], mixture.d, axis=1)
        )
    misfit = misfit_of(log, held, kernel, mixture.shares, horizon, seed) if held.any() else None
    names = Names(log.coding.state_names, log.coding.action_names, log.coding.history)
    if untried is not None and untried not in names.actions:
        raise InvalidInput("untried", untried, f"one of {', '.join(names.actions)}", "name an action of the log")
    apart, rewards_apart = _apart(kernel, outcomes, train.totals)
    report = FitReport(
        source=log.source,
        users=log.users,
        rows=log.rows,
        transitions=int((log.following != UNKNOWN).sum()),
        groups=groups,
        horizon=horizon,
        states=log.coding.states,
        actions=log.coding.actions,
        shorter=int((np.bincount(log.user) < horizon).sum()),
        longer=int((np.bincount(log.user) > horizon).sum()),
        notes=(*log.notes, *_sampled(len(train.weight), groups)),
        trained=train.users,
        single=int((np.bincount(log.user) == 1).sum()),
        smoothing=chosen.smoothing,
        pooling=chosen.pooling,
        starts=starts,
        seed=seed,
        choices=chosen.choices,
        candidates=mixture.d,
        shares=tuple(mixture.shares.tolist()),
        intervals=candidate_intervals(mixture, train, outcomes),
        apart=apart,
        rewards_apart=rewards_apart,
        depths=depths,
        alike=None if log.weight is None else alike,
        room=None if kinds is None else _room(kernel, mixture.shares, log.entries, horizon),
        depth=1 if log.coding.history is None else log.coding.history.depth,
        evidence=reward_evidence(who_enter(log), mixture.d, chosen.gain),
        misfit=misfit,
        **_untried(outcomes, train.totals, names, log.coding),
    )
    if report.doubt:
        provenance = dataclasses.replace(provenance, doubt=report.doubt)
    model = model_of(kernel, horizon, log.entries, bounds=bounds, shared_rewards=shared_rewards)
    if untried is not None:
        instead = names.actions.index(untried)
        allowed = _visits(outcomes, train.totals) > 0
        allowed |= ~allowed[:, [instead]]  # where not even that was tried, nothing is known to be impossible
        model = with_mask(model, allowed, instead=instead)
    model = dataclasses.replace(model, about=About(names, provenance))
    return Fitted(model, names, log.coding, kernel, mixture.shares, mixture.group_weights, report, provenance)


def model_of(
    kernel: Kernel,
    horizon: int,
    initial: np.ndarray,
    *,
    bounds: Bounds = "tight",
    shared_rewards: bool = False,
    dense: bool = False,
) -> Model:
    """The learner's model of some candidates: sparse if few states follow any pair, unless it is to be ``dense``."""
    states, actions, d = kernel.states, kernel.actions, kernel.d
    count = np.bincount(kernel.pair, minlength=states * actions)
    width = int(count.max())
    column = np.arange(len(kernel.pair)) - np.repeat(np.cumsum(count) - count, count)
    successors = None
    if dense or 2 * width > states:
        features = np.zeros((d, states * actions, states))
        features[:, kernel.pair, kernel.following] = kernel.chances.T
    else:
        features = np.zeros((d, states * actions, width))
        features[:, kernel.pair, column] = kernel.chances.T
        listed = np.zeros((states * actions, width), np.int32)
        listed[kernel.pair, column] = kernel.following
        successors = listed.reshape(states, actions, width)
    tables = kernel.rewards.T.reshape(d, states, actions)[: 1 if shared_rewards else d]
    even = np.full(d, 1 / d)
    # What is known does not depend on the weights; a world needs some, and any will do.
    world = blend(
        features.reshape(d, states, actions, -1), tables, even, np.full(len(tables), 1 / len(tables)), horizon,
        initial=initial, bounds=bounds, successors=successors,
    )  # fmt: skip
    return world.model


def _checked(
    horizon: int, candidates: int | tuple[int, int], smoothing: float | None, starts: int, holdout: float, seed: int
) -> tuple[int, int]:
    lowest, highest = (candidates, candidates) if isinstance(candidates, int) else candidates
    checks = (
        ("horizon", horizon, horizon >= 1, "at least 1", "give the number of steps of an episode"),
        (
            "candidates", candidates, 1 <= lowest <= highest <= MOST_CANDIDATES,
            f"from 1 to {MOST_CANDIDATES}, least first", "few candidates that disagree are worth more than many",
        ),
        (
            "smoothing", smoothing, smoothing is None or 0 < smoothing < np.inf, "positive and finite",
            "5 pseudo-counts is a common choice",
        ),
        ("starts", starts, starts >= 1, "at least 1", "give the number of random starts"),
        ("holdout", holdout, 0 <= holdout < 1, "in [0, 1)", "0.2 holds out every fifth user"),
        ("seed", seed, seed >= 0, "not negative", "give a seed of at least 0"),
        (
            "holdout", holdout, holdout > 0 or lowest == highest, "positive where the number of candidates is to be chosen",
            "give one number of candidates, or hold users out",
        ),
    )  # fmt: skip
    for field, value, holds, bound, remedy in checks:
        if not holds:
            raise InvalidInput(field, value, bound, remedy)
    return lowest, highest


def _remembering(
    log: Log, held: np.ndarray, history: int | str, rare: int, columns: tuple[str, ...], horizon: int
) -> tuple[Log, tuple[Depth, ...], float]:
    """The log with its history in the state, what held-out users say of others, and the share of users counted alike."""
    if log.coding.history is not None:
        if history != 1:
            raise InvalidInput("history", history, "1 for a log that has one", "read the log without a history")
        return log, (), 0.0
    if history == "auto":
        if not held.any():
            raise InvalidInput("history", history, "a number where no user is held out", "hold users out")
        return choose_depth(log, held, range(1, min(DEEPEST, horizon) + 1), horizon, rare=rare, columns=columns)
    if not isinstance(history, int):
        raise InvalidInput("history", history, "a number of observations, or auto", "2 remembers the one before")
    if log.weight is not None and held.any():
        log, _, alike = choose_depth(log, held, (history,), horizon, rare=rare, columns=columns)
        return log, (), alike
    return with_depth(log, history, rare, columns), (), 0.0


def _check_kinds(lowest: int, columns: Columns, shared_rewards: bool) -> None:
    checks = (
        ("kinds", lowest, lowest >= 2, "at least 2", "one kind needs no belief: use candidates"),
        (
            "kinds", "with a column of groups", columns.group is None, "without",
            "kinds are of users and groups blend candidates: leave one of the two out",
        ),
        (
            "kinds", "with shared rewards", not shared_rewards, "with rewards of their own",
            "a kind is a law of transitions and rewards",
        ),
    )  # fmt: skip
    for field, value, holds, bound, remedy in checks:
        if not holds:
            raise InvalidInput(field, value, bound, remedy)


def _room(kernel: Kernel, shares: np.ndarray, initial: np.ndarray, horizon: int) -> tuple[float, float]:
    """What the blend's plan earns among the kinds, and what plans would that are told the kind."""
    plan, _ = kernel.blended(shares).plan(horizon)
    each = [kernel.blended(one) for one in np.eye(kernel.d)]
    blended = sum(share * float(initial @ kind.evaluate(plan)) for share, kind in zip(shares, each, strict=True))
    known = sum(share * float(initial @ kind.plan(horizon)[1]) for share, kind in zip(shares, each, strict=True))
    return float(blended), float(known)


def _sampled(distinct: int, groups: int) -> tuple[str, ...]:
    """That EM ran on some of the users, if it did."""
    if groups or distinct <= MOST_DISTINCT:
        return ()
    return (
        f"{distinct:,} training sessions differ; candidates were estimated from {MOST_DISTINCT:,} of them, at random",
    )


def _apart(kernel: Kernel, outcomes: Outcomes, totals: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Least and mean distance between two candidates, averaged over the pairs that were visited: of transitions (total
    variation) and of mean rewards."""
    if kernel.d == 1:
        return (0.0, 0.0), (0.0, 0.0)
    visits = _visits(outcomes, totals).ravel()
    weight = visits / visits.sum()
    moved, paid = [], []
    for first in range(kernel.d):
        for other in range(first):
            gap = np.abs(kernel.chances[:, first] - kernel.chances[:, other])
            moved.append(float(weight @ np.bincount(kernel.pair, weights=gap, minlength=len(weight))) / 2)
            paid.append(float(weight @ np.abs(kernel.rewards[:, first] - kernel.rewards[:, other])))
    return (min(moved), float(np.mean(moved))), (min(paid), float(np.mean(paid)))


def _untried(outcomes: Outcomes, totals: np.ndarray, names: Names, coding: Coding) -> dict[str, Any]:
    """Pairs that were never tried, and states that were never met; with a history, of single observations."""
    tree, table = tree_of(coding), _visits(outcomes, totals)
    if tree is not None:
        table = np.stack([np.bincount(tree.observed, weights=column) for column in table.T], axis=1)
    table, labels = table[: coding.moments], coding.observation_names
    met = table.sum(axis=1) > 0
    missing = np.argwhere((table == 0) & met[:, None])
    return {
        "untried": tuple(f"{labels[state]} → {names.actions[action]}" for state, action in missing),
        "untried_share": float(len(missing) / max(int(met.sum()) * outcomes.actions, 1)),
        "unmet": int((~met).sum()),
    }


def _visits(outcomes: Outcomes, totals: np.ndarray) -> np.ndarray:
    """How often training users were paid for each pair, ``(S, A)``."""
    number, moves = len(outcomes.paid_pair), outcomes.transitions
    visits = np.zeros(outcomes.states * outcomes.actions)
    visits[outcomes.paid_pair] = totals[moves : moves + number] + totals[moves + number :]
    return visits.reshape(outcomes.states, outcomes.actions)
