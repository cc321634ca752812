# SPDX-License-Identifier: Apache-2.0
"""Read a long table of past sessions: one row per user and step, checked before anything is computed.

The columns are a user, a step or a time (:mod:`~reticent.worlds.records.sessions`), one or several columns that make up the
state, the action, the reward, and optionally the next state (``next``, or ``next_COLUMN`` for each of several state
columns) and a public group. Rows may come in any order. Without next columns, the state after a row is the one of the
user's next row, and what follows the last row is unknown.

Every complaint names the row, counted from 1 below the header, the column, the value, what it must be and what to do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.records.coded import UNKNOWN, Log
from reticent.worlds.records.coding import Bins, Categories, Coding, Part, sorted_values, text_of
from reticent.worlds.records.remembering import recode
from reticent.worlds.records.sessions import ABSENT, SESSION, STEP, Gaps, Longer, in_order, into_sessions
from reticent.worlds.records.table import (
    ROW,
    Columns,
    checked_columns,
    checked_values,
    column_names,
    named_columns,
    read_table,
    same_as_before,
)

MOST_NUMBERS = 50
"""Distinct values up to which a column of numbers is taken for categories if no cut points are given."""

OTHER = "other"
"""What rare values of a state column are called together."""

MOST_CATEGORIES = 5_000
MOST_PAIRS = 1_000_000


def read_log(
    table: Any,
    *,
    columns: Columns | None = None,
    bins: Mapping[str, Sequence[float] | int] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    coding: Coding | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    leaves_before: int | None = None,
    rare: int = 0,
    gaps: Gaps | None = None,
    longer: Longer | None = None,
    horizon: int | None = None,
    source: str | None = None,
) -> Log:
    """Check and code a long table.

    Args:
      table: a file, the parts of one (a pattern), or a frame of polars or pandas.
      columns: which column is what.
      bins: public cut points of numeric state columns, or into how many parts of equal size this log is cut.
      categories: public lists of values of state or action columns; others are listed as they occur.
      coding: a whole coding from elsewhere, such as another model's; then ``bins``, ``categories`` and ``reward_range``
        are not read.
      reward_range: rewards lie in here, and are mapped to [0, 1].
      leaves_before: if H, users with fewer than H rows have left after their last one: they go to a state of their own,
        ``over``, which keeps to itself and pays nothing. None: what became of them is unknown.
      rare: values of a state column in fewer rows than this public number are one value, ``other``, and so are values
        that are met later and are not in the list.
      gaps, longer, horizon: as in :func:`~reticent.worlds.records.sessions.into_sessions`; with ``gaps``, rows with an
        empty cell are left out and are gaps too.
      source: what the table is called in messages and reports; by default the file's name.

    Raises:
      InvalidInput: see the module.
    """
    columns = columns or Columns()
    name = source or (Path(table).name if isinstance(table, str | Path) else "the table")
    frame = read_table(table, named_columns(columns), columns.rewards_of, plain=(columns.user, columns.time or ""))
    frame, columns, recorded_next = checked_columns(frame, columns, name, lambda: column_names(table))
    _check_bins(bins, columns)
    rows = frame.height
    if columns.time is not None and gaps is not None:
        frame, columns = in_order(frame, columns)
    numbers = {columns.reward, *(bins or {})}
    numbers |= {column for column in (columns.step, columns.probability) if column is not None}
    if columns.rewards_of is not None:
        numbers |= {column for column in frame.columns if column.startswith(columns.rewards_of)}
    if coding is not None:
        numbers |= {part.column for part in coding.parts if isinstance(part, Bins)}
    frame = checked_values(frame, columns, numbers, drop=gaps is not None)
    incomplete = rows - frame.height
    if gaps == "absent":
        frame = _as_words(frame, columns, numbers)
    low, _ = reward_range if coding is None else coding.reward_range
    frame, notes = into_sessions(
        frame, columns, gaps=gaps, longer=longer, horizon=horizon, recorded_next=recorded_next, least=float(low)
    )  # fmt: skip
    if incomplete:
        notes = (f"{incomplete:,} rows with an empty cell were left out", *notes)
    row = frame[ROW].to_numpy()
    user, step = (frame[column].to_numpy() for column in (SESSION, STEP))
    same = step > 0
    if user[-1] == 0:
        raise InvalidInput(
            f"users of {name}", f"1 ({frame[columns.user][0]!r})", "at least 2",
            "a blend is about how users differ: give the column of users with --user",
        )  # fmt: skip

    last = np.append(~same[1:], True)
    gone = _gone(frame, columns, last, user, leaves_before, recorded_next)
    if coding is None:
        parts = tuple(_part(frame, column, columns, bins, categories, recorded_next, rare) for column in columns.state)
        action = _categories(frame, [columns.action], columns.action, (categories or {}).get(columns.action))
        coding = Coding(parts, action, bool(gone.any()), _range(reward_range))
    elif gone.any() and not coding.over:
        raise InvalidInput(
            f"row {row[gone][0]}: next state", "over", "a state of the coding", "use a coding that has the state 'over'"
        )
    # Rows are coded as observations first; a history makes states of them at the end.
    history, coding = coding.history, dataclasses.replace(coding, history=None)
    if coding.states * coding.actions > MOST_PAIRS:
        raise InvalidInput(
            "pairs of states and actions", f"{coding.states:,} × {coding.actions:,}", f"at most {MOST_PAIRS:,}",
            "use fewer state columns or fewer cut points",
        )  # fmt: skip
    state = _states(frame, columns.state, coding, row)
    action_index = _codes(frame, columns.action, coding.action, row)
    following = np.append(state[1:], UNKNOWN)
    following[last] = UNKNOWN
    if recorded_next:
        stated = _states(frame, columns.following, coding, row, skip=gone)
        _check_next(columns, coding, row, last, stated, following)
        following = stated
    following[gone] = coding.states - 1
    group, group_names = _groups(frame, columns, row, same)
    log = Log(
        coding, user, step, state, action_index, following, _rewards(frame, columns.reward, coding, row), group,
        group_names, name, _probabilities(frame, columns, row), _paid(frame, columns, coding, row), notes,
    )  # fmt: skip
    return log if history is None else recode(log, history)


def _check_bins(bins: Mapping[str, Sequence[float] | int] | None, columns: Columns) -> None:
    for column in bins or {}:
        if column not in columns.state:
            raise InvalidInput(
                f"column of bins {column!r}", "no state column", f"one of {', '.join(columns.state)}",
                f"correct its name, or name it as a state column too: --state {column}",
            )  # fmt: skip


def _as_words(frame: pl.DataFrame, columns: Columns, numbers: set[str]) -> pl.DataFrame:
    """State columns as categories, to which ``absent`` can be added; those with cut points cannot have it."""
    binned = [column for column in columns.state if column in numbers]
    if binned:
        raise InvalidInput(
            "gaps", ABSENT, f"with state columns of categories ({binned[0]!r} has cut points)",
            f"use --gaps split, or make categories of {binned[0]!r} in the table",
        )  # fmt: skip
    found = {}
    for column in columns.state:
        distinct = frame[column].unique().to_list()
        words = {value: text_of(value) for value in distinct}
        found[column] = pl.col(column).replace_strict(list(words), list(words.values()), return_dtype=pl.String)
    return frame.with_columns(**found)


def _gone(
    frame: pl.DataFrame, columns: Columns, last: np.ndarray, user: np.ndarray, horizon: int | None, recorded: bool
) -> np.ndarray:
    """After which rows the user had left."""
    if recorded:
        empty = np.array(
            frame.select(pl.all_horizontal(pl.col(columns.following).is_null())).to_series().to_numpy(), bool
        )
        if (empty & ~last).any():
            at = np.flatnonzero(empty & ~last)[0]
            raise InvalidInput(
                f"row {frame[ROW][int(at)]}: {columns.following[0]}", "empty", "filled in, as the user goes on",
                "an empty next state says that the user has left",
            )  # fmt: skip
        return empty
    if horizon is None:
        return np.zeros(len(last), bool)
    # Rows of the same user go on behind a gap: what came in between is unknown, and the user had not left.
    goes_on = np.append(same_as_before(frame[columns.user])[1:], False)
    return np.asarray(last & ~goes_on & (np.bincount(user)[user] < horizon))


def _part(
    frame: pl.DataFrame,
    column: str,
    columns: Columns,
    bins: Mapping[str, Sequence[float] | int] | None,
    categories: Mapping[str, Sequence[str]] | None,
    recorded_next: bool,
    rare: int,
) -> Part:
    if bins and column in bins:
        cuts = bins[column]
        return Bins(column, _quantiles(frame[column], cuts) if isinstance(cuts, int) else tuple(map(float, cuts)))
    where = [column]
    if recorded_next:
        where.append(columns.following[columns.state.index(column)])
    return _categories(frame, where, column, (categories or {}).get(column), rare)


def _quantiles(column: pl.Series, parts: int) -> tuple[float, ...]:
    """Cut points that divide this log into parts of about equal size; fewer where many values are equal."""
    if parts < 2:
        raise InvalidInput(f"parts of {column.name!r}", parts, "at least 2", "two halves are the fewest")
    cuts = [column.quantile(number / parts, "lower") for number in range(1, parts)]
    found = sorted({float(cut) for cut in cuts if cut is not None} - {float(column.min())})  # type: ignore[arg-type]
    if not found:
        raise InvalidInput(f"different numbers in column {column.name!r}", "1", "several", "leave this column out")
    return tuple(found)


def _categories(
    frame: pl.DataFrame, where: list[str], column: str, listed: Sequence[str] | None, rare: int = 0
) -> Categories:
    if listed is not None:
        return Categories(column, tuple(text_of(value) for value in listed))
    seen = {text_of(value) for each in where for value in frame[each].drop_nulls().unique().to_list()}
    if rare > 0:
        counts = frame[column].value_counts()
        often = {text_of(value) for value, count in counts.iter_rows() if count >= rare and value is not None}
        kept = often | ({ABSENT} & seen)  # a missing step is no rare value
        return Categories(column, (*sorted_values(sorted(kept - {OTHER})), OTHER), OTHER)
    if frame[column].dtype.is_float() and len(seen) > MOST_NUMBERS:
        raise InvalidInput(
            f"different numbers in column {column!r}", f"{len(seen):,}", f"at most {MOST_NUMBERS} without cut points",
            f"give public cut points: --bins {column}=CUT,CUT, or parts of equal size: --bins {column}=q4",
        )  # fmt: skip
    if len(seen) > MOST_CATEGORIES:
        raise InvalidInput(
            f"different values in column {column!r}", f"{len(seen):,}", f"at most {MOST_CATEGORIES:,}",
            "fold rare ones (--rare 1000), or give public cut points with --bins",
        )  # fmt: skip
    return Categories(column, sorted_values(sorted(seen)))


def _codes(frame: pl.DataFrame, column: str, part: Part, row: np.ndarray, skip: np.ndarray | None = None) -> np.ndarray:
    """Codes of one column; each distinct value is looked up once."""
    distinct = frame[column].unique().drop_nulls()
    table = pl.DataFrame({column: distinct, "__code__": part.encode(np.array(distinct.to_list()))})
    codes = frame.select(column).join(table, on=column, how="left", maintain_order="left")["__code__"]
    result = np.array(codes.fill_null(-1).to_numpy(), dtype=np.int64)
    wrong = result < 0 if skip is None else (result < 0) & ~skip
    if wrong.any():
        at = np.flatnonzero(wrong)[row[wrong].argmin()]
        labels = part.labels if isinstance(part, Categories) else ("a number",)
        shown = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
        value = frame[column][int(at)]
        raise InvalidInput(
            f"row {row[at]}: {column}", "empty" if value is None else repr(value), f"one of {shown}",
            "correct it, or use a coding that has it",
        )  # fmt: skip
    return result


def _states(
    frame: pl.DataFrame, where: tuple[str, ...], coding: Coding, row: np.ndarray, skip: np.ndarray | None = None
) -> np.ndarray:
    codes = [_codes(frame, column, part, row, skip) for column, part in zip(where, coding.parts, strict=True)]
    return coding.join(np.stack(codes))


def _check_next(
    columns: Columns, coding: Coding, row: np.ndarray, last: np.ndarray, stated: np.ndarray,
    met: np.ndarray,
) -> None:  # fmt: skip
    """What is stated as the next state is the state of the user's next row."""
    wrong = ~last & (stated != met)
    if wrong.any():
        at = np.flatnonzero(wrong)[row[wrong].argmin()]
        names = coding.state_names
        raise InvalidInput(
            f"row {row[at]}: {', '.join(columns.following)}", repr(names[stated[at]]),
            f"{names[met[at]]!r}, the state of the user's next step in row {row[at + 1]}",
            f"correct one of the two, or leave out the column {columns.following[0]}",
        )  # fmt: skip


def _range(reward_range: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(end) for end in reward_range)
    return low, high


def _probabilities(frame: pl.DataFrame, columns: Columns, row: np.ndarray) -> np.ndarray | None:
    """With which recorded actions were drawn."""
    if columns.probability is None:
        return None
    chance = np.array(frame[columns.probability].to_numpy(), dtype=np.float64)
    wrong = ~((chance > 0) & (chance <= 1))
    if wrong.any():
        at = np.flatnonzero(wrong)[row[wrong].argmin()]
        raise InvalidInput(
            f"row {row[at]}: {columns.probability}", f"{chance[at]:g}", "above 0 and at most 1",
            "give the probability with which the recorded action was drawn",
        )  # fmt: skip
    return chance


def _paid(frame: pl.DataFrame, columns: Columns, coding: Coding, row: np.ndarray) -> np.ndarray | None:
    """What every action would have paid; the recorded one paid what was recorded."""
    if columns.rewards_of is None:
        return None
    for label in coding.action_names:
        if f"{columns.rewards_of}{label}" not in frame.columns:
            raise InvalidInput(
                f"column {columns.rewards_of}{label}", "missing", "there, one for each action",
                "record what every action would have paid, or leave out --rewards-of",
            )  # fmt: skip
    return np.stack(
        [_rewards(frame, f"{columns.rewards_of}{label}", coding, row) for label in coding.action_names], axis=1
    )


def _rewards(frame: pl.DataFrame, column: str, coding: Coding, row: np.ndarray) -> np.ndarray:
    low, high = coding.reward_range
    paid = np.array(frame[column].to_numpy(), dtype=np.float64)
    wrong = ~((paid >= low) & (paid <= high))
    if wrong.any():
        met = paid[np.isfinite(paid)]
        at = np.flatnonzero(wrong)[row[wrong].argmin()]
        raise InvalidInput(
            f"row {row[at]}: {column}", f"{paid[at]:g}", f"in [{low:g}, {high:g}]",
            f"correct it, or declare their public range: --reward-range {min(low, met.min()):g},{max(high, met.max()):g}",
        )  # fmt: skip
    return np.asarray((paid - low) / (high - low))


def _groups(
    frame: pl.DataFrame, columns: Columns, row: np.ndarray, same: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The group of each user, and the groups' names."""
    if columns.group is None:
        return np.zeros(int((~same).sum()), np.int64), ()
    part = _categories(frame, [columns.group], columns.group, None)
    codes = _codes(frame, columns.group, part, row)
    moved = same & (np.diff(codes, prepend=codes[0]) != 0)
    if moved.any():
        at = np.flatnonzero(moved)[row[moved].argmin()]
        raise InvalidInput(
            f"row {row[at]}: {columns.group}", repr(part.values[codes[at]]),
            f"{part.values[codes[at - 1]]!r}, as in the user's row {row[at - 1]}", "a user belongs to one group",
        )  # fmt: skip
    return codes[~same], part.values
