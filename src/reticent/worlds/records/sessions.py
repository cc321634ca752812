# SPDX-License-Identifier: Apache-2.0
"""From rows to sessions: their order, what is done about gaps, and about sessions longer than an episode.

The order of a user's rows is a column of whole numbers (``step``), in which a missing number is a gap, or any column that
can be sorted (``time``: numbers, dates, timestamps), in which rows with an empty cell are the gaps. With neither, every
user has one row.
Whatever is changed is said in a note, and nothing is changed without being asked for.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.records.table import ROW, Columns, check_steps, refuse, same_as_before

Gaps = Literal["drop", "split", "absent"]
Longer = Literal["cut", "split"]
ABSENT = "absent"
"""What the state at a missing step is called."""

SESSION, STEP, ORDER = "__session__", "__step__", "__order__"
"""Columns that are added: the session's number, the step within it from 0, and a row's place among the user's times."""


def into_sessions(
    frame: pl.DataFrame,
    columns: Columns,
    *,
    gaps: Gaps | None,
    longer: Longer | None,
    horizon: int | None,
    recorded_next: bool,
    least: float = 0.0,
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows in order with their session and step, and what was changed.

    Args:
      gaps: ``drop`` users who have one, ``split`` their rows there, or fill in a state ``absent``; None refuses gaps.
      least: what a missing step pays, the least reward.
      longer: ``cut`` sessions after ``horizon`` steps, or ``split`` them into pieces of so many; None keeps them whole.

    Raises:
      InvalidInput: the rows of a user have no order, a gap is not allowed, or an option does not apply.
    """
    for field, value, known in (("gaps", gaps, ("drop", "split", "absent")), ("longer", longer, ("cut", "split"))):
        if value is not None and value not in known:
            raise InvalidInput(field, value, " or ".join(known), "see docs/from-records.md")
    notes: list[str] = []
    if columns.time is not None:
        frame = _by_time(frame, columns)
        frame = _numbered(frame, same_as_before(frame[columns.user]))
    elif columns.step is None:
        frame = frame.sort(columns.user, ROW)
        same = same_as_before(frame[columns.user])
        if same.any():
            at = int(np.flatnonzero(same)[0])
            raise InvalidInput(
                f"row {frame[ROW][at]}: user", f"{frame[columns.user][at]!r} again", "there once without an order of rows",
                "name the column of steps with --step, or of times with --time",
            )  # fmt: skip
        frame = _numbered(frame, same)
    else:
        frame = frame.sort(columns.user, columns.step, ROW)
        if gaps is None:
            same = same_as_before(frame[columns.user])
            check_steps(frame, columns, frame[ROW].to_numpy(), same)
            frame = _numbered(frame, same)
        else:
            frame = _without_gaps(frame, columns, gaps, recorded_next, least, notes)
    if longer is not None:
        frame = _shortened(frame, longer, horizon, notes)
    return frame, tuple(notes)


def in_order(frame: pl.DataFrame, columns: Columns) -> tuple[pl.DataFrame, Columns]:
    """Rows numbered by their times, before rows with an empty cell are left out: those are the gaps of such a log."""
    assert columns.time is not None
    frame = _by_time(frame.drop_nulls([columns.user, columns.time]), columns)
    order = _numbered(frame, same_as_before(frame[columns.user]))[STEP]
    step = dataclasses.replace(columns, step=ORDER, time=None)
    return frame.with_columns(order.cast(pl.Int64).alias(ORDER)), step


def _numbered(frame: pl.DataFrame, same: np.ndarray) -> pl.DataFrame:
    """With the number of the session, which goes on where ``same`` holds, and of the step."""
    session = np.cumsum(~same, dtype=np.int32) - np.int32(1)
    step = np.arange(len(same), dtype=np.int32) - np.flatnonzero(~same).astype(np.int32)[session]
    return frame.with_columns(pl.Series(SESSION, session), pl.Series(STEP, step))


def _by_time(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    assert columns.time is not None
    times = frame[columns.time]
    if times.dtype == pl.String:
        read = times.cast(pl.Float64, strict=False)
        if read.is_null().any():
            read = _dates(times)
        refuse(
            frame, read.is_null(), columns.time, None, "a number, a date or a timestamp", "write dates as 2026-11-18"
        )
        times = read
    return frame.with_columns(times.alias(columns.time)).sort(columns.user, columns.time, ROW)


def _dates(times: pl.Series) -> pl.Series:
    """Texts as timestamps; empty where they are none."""
    try:
        return times.str.to_datetime(strict=False, time_zone="UTC")
    except pl.exceptions.ComputeError:
        pass
    for form in ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y"):
        read = times.str.to_datetime(form, strict=False)
        if not read.is_null().any():
            return read
    return pl.Series(times.name, [None] * len(times), dtype=pl.Datetime)


def _without_gaps(
    frame: pl.DataFrame, columns: Columns, gaps: Gaps, recorded_next: bool, least: float, notes: list[str]
) -> pl.DataFrame:
    assert columns.step is not None
    same = same_as_before(frame[columns.user])
    steps = frame[columns.step].to_numpy()
    change = np.diff(steps, prepend=steps[0])
    if (same & (change == 0)).any():  # two rows of one moment: no gap, and which one holds is not known
        check_steps(frame, columns, frame[ROW].to_numpy(), same)
    begun, start = np.flatnonzero(~same), int(steps.min())
    number = np.cumsum(~same) - 1
    gap = same & (change > 1)
    broken = np.zeros(len(begun), bool)
    broken[number[gap]] = True
    if gaps == "split":
        notes.append(f"{int(broken.sum()):,} users' rows were split at {int(gap.sum()):,} gaps")
        return _numbered(frame, same & ~gap)
    broken |= steps[begun] != start
    if gaps == "drop":
        notes.append(f"{int(broken.sum()):,} of {len(begun):,} users have gaps and were dropped")
        kept = ~broken[number]
        if not kept.any():
            raise InvalidInput("users without gaps", 0, "at least 2", "split at gaps instead: --gaps split")
        return _numbered(frame.filter(pl.Series(kept)), same[kept])
    if recorded_next:
        raise InvalidInput("gaps", gaps, "without columns of next states", "leave these out, or use --gaps split")
    frame = _filled(frame, columns, start, least)
    notes.append(
        f"{frame[ROW].is_null().sum():,} missing steps were filled in with a state {ABSENT!r} that pays nothing"
    )
    same = same_as_before(frame[columns.user])
    return _numbered(frame.with_columns(pl.col(ROW).fill_null(0)), same)


def _filled(frame: pl.DataFrame, columns: Columns, start: int, least: float) -> pl.DataFrame:
    """Every user's steps from the first of all to their own last, missing ones absent, with the log's first action."""
    user, step = columns.user, columns.step
    assert step is not None
    ends = frame.group_by(user).agg(pl.int_ranges(start, pl.col(step).max() + 1).alias(step)).explode(step)
    whole = (
        ends.with_columns(pl.col(step).cast(frame[step].dtype))
        .join(frame, on=[user, step], how="left")
        .sort(user, step)
    )
    missing = pl.col(ROW).is_null()
    paid = [
        columns.reward,
        *(name for name in frame.columns if columns.rewards_of and name.startswith(columns.rewards_of)),
    ]
    filled = {
        **{column: pl.lit(ABSENT, dtype=pl.String) for column in columns.state},
        **{column: pl.lit(least) for column in paid},
        columns.action: pl.lit(frame[columns.action].min(), dtype=frame[columns.action].dtype),
    }
    if columns.probability is not None:
        filled[columns.probability] = pl.lit(1.0)
    whole = whole.with_columns(
        pl.when(missing).then(value).otherwise(pl.col(column)).alias(column) for column, value in filled.items()
    )
    if columns.group is not None and columns.group != user:
        whole = whole.with_columns(pl.col(columns.group).fill_null(strategy="backward").over(user))
    return whole


def _shortened(frame: pl.DataFrame, longer: Longer, horizon: int | None, notes: list[str]) -> pl.DataFrame:
    if horizon is None:
        raise InvalidInput("longer", longer, "with a horizon", "give the number of steps of an episode")
    step = frame[STEP].to_numpy()
    beyond = int((step == horizon).sum())
    if longer == "cut":
        notes.append(f"{beyond:,} sessions are longer than {horizon} steps and were cut there")
        return frame.filter(pl.Series(step < horizon))
    notes.append(f"{beyond:,} sessions are longer than {horizon} steps and were split into pieces of {horizon}")
    return _numbered(frame, np.asarray(step % horizon != 0))
