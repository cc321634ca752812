# SPDX-License-Identifier: Apache-2.0
r"""History in the state: what a log's users observed last becomes part of their state.

Sessions are rarely Markov in what is seen now. :func:`remember` replaces the states of a log by *contexts*
(:class:`reticent_wire.history.History`): the last k observations, if so many rows of the log have them that they can
be learned about, else the longest end of them that is frequent enough. Contexts are ends of one another, and make a
tree (:class:`Tree`) along which estimates are drawn from the long to the short
(:mod:`~reticent.worlds.records.statistics`): what is known of (front page, news) begins with what is known of (news).

**Why the next state is known from the state and the next observation.** If (w, x, y) is listed, (w, x) is frequent
enough too, since each of its occurrences that y follows is one. So the longest listed end of the user's observations, y
appended, is the longest listed end of (state, y).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.coding import Coding
from reticent_wire.history import MOST_DEPTH, START, History

RARE = 5
"""Rows below which a context folds into a shorter one, if no other number is given."""

MOST_PAIRS = 50_000
"""Contexts times actions above which the threshold is raised."""


def remember(log: Log, depth: int, *, rare: int = RARE, columns: tuple[str, ...] = ()) -> Log:
    """The log with the last ``depth`` observations as its states; a log that is read without a history.

    Args:
      rare: contexts in fewer rows than this public number fold into shorter ones.
      columns: of the state that are remembered, the last ones of the coding; all by default.

    Raises:
      InvalidInput: the depth, the threshold or a column is not usable.
    """
    coding = log.coding
    if not 1 <= depth <= MOST_DEPTH:
        raise InvalidInput("history", depth, f"from 1 to {MOST_DEPTH}", "2 remembers the observation before")
    if rare < 1:
        raise InvalidInput("history_rare", rare, "at least 1", f"{RARE} rows are a common choice")
    remembered = _remembered(coding, columns)
    code = log.state % remembered
    windows = _windows(code, log.step, depth)
    history = History(
        depth, remembered, coding.observation_names, _listed(windows, depth, remembered, rare, MOST_PAIRS // coding.actions)
    )  # fmt: skip
    return recode(log, history)


def recode(log: Log, history: History) -> Log:
    """The log with a history that is known already, such as a model's."""
    coding = dataclasses.replace(log.coding, history=history)
    over = log.coding.moments
    state = states_of(history, log.state, log.step)
    following = log.following
    moved = (following != UNKNOWN) & (following < over)
    # What follows a row, with what came before it: its window moved on by one.
    window = _windows(log.state % history.remembered, log.step, history.depth)
    after = np.concatenate([window, (following % history.remembered)[:, None]], axis=1)[:, 1:]
    after = _from_start(after, log.step + 1)
    then = np.where(following == over, coding.states - 1, UNKNOWN)
    then[moved] = following[moved] // history.remembered * len(history.contexts) + _find(history, after[moved])
    return dataclasses.replace(log, coding=coding, state=state, following=then)


def states_of(history: History, observations: np.ndarray, step: np.ndarray) -> np.ndarray:
    """States of observations ``(N,)`` in the order of users and steps, as :meth:`History.state` has them one by one."""
    found = _find(history, _windows(observations % history.remembered, step, history.depth))
    return np.asarray(observations // history.remembered * len(history.contexts) + found)


@dataclasses.dataclass(frozen=True)
class Tree:
    """How states with a history hang together.

    Attributes:
      parent: the state with one observation less, ``(S,)``; −1 where there is none.
      length: how many codes a state's context has, ``(S,)``; 0 for users who have left.
      observed: which observation a state ends with, ``(S,)``; one more than there are for users who have left.
    """

    parent: np.ndarray
    length: np.ndarray
    observed: np.ndarray

    @property
    def depth(self) -> int:
        return int(self.length.max())


def tree_of(coding: Coding) -> Tree | None:
    """The tree of a coding with a history; None where states are single observations."""
    history = coding.history
    if history is None:
        return None
    contexts, size = history.contexts, len(history.contexts)
    up = np.full(size, -1)
    for place, context in enumerate(contexts):
        shorter = context[1:]
        while shorter and shorter not in history.index:
            shorter = shorter[1:]
        if shorter:
            up[place] = history.index[shorter]
    plain = len(history.observations) // history.remembered
    parent = np.where(up < 0, -1, up + np.arange(plain)[:, None] * size).ravel()
    last = np.array([context[-1] for context in contexts])
    observed = (np.arange(plain)[:, None] * history.remembered + last).ravel()
    length = np.tile([len(context) for context in contexts], plain)
    if coding.over:
        parent, length = np.append(parent, -1), np.append(length, 0)
        observed = np.append(observed, len(history.observations))
    return Tree(parent, length, observed)


def next_states(coding: Coding, state: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Which states ``(n,)`` follow states ``(n,)`` in which a user observes something next; ``over`` is observed last."""
    history = coding.history
    assert history is not None
    padded = [(_NOTHING,) * (history.depth - len(context)) + context for context in history.contexts]
    windows = np.array(padded)[np.minimum(state, coding.states - 1 - coding.over) % len(padded)]
    after = np.concatenate([windows, (observation % history.remembered)[:, None]], axis=1)[:, 1:]
    found = observation // history.remembered * len(padded) + _find(history, after)
    return np.asarray(np.where(observation == len(history.observations), coding.states - 1, found))


def _remembered(coding: Coding, columns: tuple[str, ...]) -> int:
    """How many codes the remembered columns have together."""
    names = tuple(part.column for part in coding.parts)
    if not columns:
        return coding.moments
    if names[-len(columns) :] != columns:
        raise InvalidInput(
            "remember", ", ".join(columns), f"the last of the state columns {', '.join(names)}, in their order",
            "name the state's columns so that those to be remembered come last",
        )  # fmt: skip
    return int(np.prod([part.size for part in coding.parts[-len(columns) :]]))


def _windows(code: np.ndarray, step: np.ndarray, depth: int) -> np.ndarray:
    """The last ``depth`` codes of every row ``(N, depth)``, the present one last; ``START`` once before the first one,
    and :data:`_NOTHING` before that."""
    columns = [np.roll(code, back) for back in range(depth - 1, -1, -1)]
    return _from_start(np.stack(columns, axis=1), step)


def _from_start(windows: np.ndarray, step: np.ndarray) -> np.ndarray:
    back = windows.shape[1] - 1 - np.arange(windows.shape[1])
    before = back[None, :] - step[:, None]
    return np.where(before <= 0, windows, np.where(before == 1, START, _NOTHING))


_NOTHING = -2
"""What stands before ``START``: a window that reaches there is of no context."""


def _key(windows: np.ndarray, base: int) -> np.ndarray:
    """One number for each window of the same length; −1 for one that reaches before the start."""
    number = np.zeros(len(windows), np.int64)
    for column in windows.T:
        number = number * base + column - START
    return np.where((windows == _NOTHING).any(axis=1), -1, number)


def _listed(windows: np.ndarray, depth: int, remembered: int, rare: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Every code by itself, and the longer contexts that are frequent enough; the threshold rises if they are too many."""
    base = remembered + 1
    longer: list[tuple[int, np.ndarray, np.ndarray]] = []
    for length in range(2, depth + 1):
        keys = _key(windows[:, -length:], base)
        found, count = np.unique(keys[keys >= 0], return_counts=True)
        longer.append((length, found, count))
    while rare < len(windows) and sum(int((count >= rare).sum()) for _, _, count in longer) > most:
        rare *= 2
    listed = [(code,) for code in range(remembered)]
    for length, found, count in longer:
        powers = base ** np.arange(length - 1, -1, -1)
        listed += [tuple(row) for row in (found[count >= rare, None] // powers % base + START).tolist()]
    return tuple(listed)


def _find(history: History, windows: np.ndarray) -> np.ndarray:
    """The longest listed context of each window."""
    base = history.remembered + 1
    result = np.zeros(len(windows), np.int64)  # every code is listed by itself, so that all are found
    for length in range(1, history.depth + 1):
        listed = [(place, context) for place, context in enumerate(history.contexts) if len(context) == length]
        if not listed:
            continue
        places = np.array([place for place, _ in listed])
        keys = _key(np.array([context for _, context in listed]), base)
        order = np.argsort(keys)
        wanted = _key(windows[:, -length:], base)
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        hit = keys[order][at] == wanted
        result = np.where(hit, places[order][at], result)
    return np.asarray(result)
