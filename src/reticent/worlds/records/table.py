# SPDX-License-Identifier: Apache-2.0
"""A long table as it comes: which column is what, and whether every row can be read.

Complaints name the row, counted from 1 below the header, the column, the value, what it must be and what to do.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import gzip
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reticent.errors import InvalidInput

NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
"""What is read as a number in a column of texts, with a decimal point or comma."""

ROW = "__row__"
"""The column of row numbers that is added."""

EMPTY = ("", "NA", "NaN", "nan")
"""Texts that are an empty cell, whether they come from a file or a frame."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column is what.

    ``step`` numbers a user's rows; ``time`` orders them instead, by anything that can be sorted. A log without either has
    one row per user, and one without a column of users has a user per row. ``probability`` is that with which the
    recorded action was drawn, and ``rewards_of`` the beginning of the names of columns that say what each action would
    have paid (``paid_`` for ``paid_rest``, ``paid_walk``); a fit reads neither.
    """

    user: str = "user"
    step: str | None = "step"
    state: tuple[str, ...] = ("state",)
    action: str = "action"
    reward: str = "reward"
    group: str | None = None
    probability: str | None = None
    rewards_of: str | None = None
    time: str | None = None

    @property
    def following(self) -> tuple[str, ...]:
        """What the columns of the next state are called, if there are any."""
        return ("next",) if len(self.state) == 1 else tuple(f"next_{column}" for column in self.state)


def read_table(
    table: Any, wanted: Collection[str] = (), prefix: str | None = None, plain: Collection[str] | None = None
) -> pl.DataFrame:
    """A CSV (plain or ``.gz``), TSV or Parquet file, the parts of one (a pattern such as ``parts/*.parquet``), or a frame.

    ``wanted`` columns alone are kept, and those that begin with ``prefix``; all if none are named. Texts become categories,
    which take a fifth of the memory, but for columns in ``plain`` (None: all stay texts). In CSV files the
    separator is found (comma, semicolon, tab). ``NA`` and what is not a number are empty cells, in frames as in files.

    Raises:
      InvalidInput: there is no such file, or it is neither, or it cannot be read.
    """
    if not isinstance(table, str | Path):
        return _compact(_kept(_frame(table).lazy(), wanted, prefix), plain).collect()
    path = Path(table)
    try:
        return _compact(_kept(_scan(path), wanted, prefix), plain).collect(engine="streaming")
    except pl.exceptions.NoDataError:
        raise InvalidInput(f"rows of {path.name}", 0, "at least 1", "the file is empty: export it again") from None
    except (OSError, pl.exceptions.PolarsError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise InvalidInput("log", f"{path} ({reason})", f"a readable {_form(path)} file", "export it again") from None


def column_names(table: Any) -> list[str]:
    """What the columns of a file or a frame are called."""
    return (_scan(Path(table)) if isinstance(table, str | Path) else _frame(table).lazy()).collect_schema().names()


def _form(path: Path) -> str:
    """What kind of file the name says it is; empty if none that is read."""
    ends = [end.lower() for end in path.suffixes]
    return next((known for known in (".csv", ".tsv", ".parquet") if known in ends), "")


def _scan(path: Path) -> pl.LazyFrame:
    kind = _form(path)
    if not kind:
        raise InvalidInput("log", path, "a .csv, .tsv or .parquet file", "export the table in one of these forms")
    parts = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    if not parts or not all(part.exists() for part in parts):
        raise InvalidInput("log", f"{path}, which does not exist", "a file", "correct the path") from None
    if kind == ".parquet":
        return pl.scan_parquet(parts)
    return pl.scan_csv(
        parts, infer_schema_length=None, separator=_separator(parts[0]), null_values=["NA"], encoding="utf8-lossy"
    )


def _kept(scan: pl.LazyFrame, wanted: Collection[str], prefix: str | None) -> pl.LazyFrame:
    if not wanted:
        return scan
    names = scan.collect_schema().names()
    kept = [name for name in names if name in wanted or (prefix is not None and name.startswith(prefix))]
    # A row is counted by its cells: with no column there would be none.
    return scan.select(kept) if kept else scan


def _compact(scan: pl.LazyFrame, plain: Collection[str] | None) -> pl.LazyFrame:
    """Empty cells as such, and texts as categories."""
    if plain is None:
        return scan
    kinds = scan.collect_schema()
    for name, kind in kinds.items():
        if kind == pl.Object or kind.is_nested():
            raise InvalidInput(
                f"column {name!r}",
                str(kind).lower(),
                "of numbers, truth values, texts or times",
                "write one value a cell",
            )
    texts = [name for name, kind in kinds.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    cells = [pl.col(name).cast(pl.String) for name in texts]
    filled = [pl.when(~cell.str.strip_chars().is_in(EMPTY)).then(cell) for cell in cells]
    kept = [
        (cell if name in plain else cell.cast(pl.Categorical)).alias(name)
        for name, cell in zip(texts, filled, strict=True)
    ]
    floats = [pl.col(name).fill_nan(None) for name, kind in kinds.items() if kind.is_float()]
    return scan.with_columns(*kept, *floats)


def _separator(path: Path) -> str:
    """Which of comma, semicolon and tab is most frequent in the first line, outside quotes."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        line = file.readline(1_000_000)
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def _frame(table: Any) -> pl.DataFrame:
    """A polars frame from one of polars or pandas."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect(engine="streaming")
    if not (hasattr(table, "columns") and hasattr(table, "to_numpy")):
        raise InvalidInput("log", type(table).__name__, "a file, or a frame of polars or pandas", "export the table")
    names = [str(name) for name in table.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"column {twice!r}", "there twice", "there once", "rename or remove one of the two")
    columns = {str(name): _cells(table[name]) for name in table.columns}
    return pl.DataFrame(columns, strict=False, nan_to_null=True)


def _cells(column: Any) -> Any:
    """A column of pandas, missing values as None."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufM":
        return column.to_numpy()
    filled = column.notna().to_numpy()
    return [value if there else None for value, there in zip(column.tolist(), filled, strict=True)]


def named_columns(columns: Columns) -> list[str]:
    """All columns that may be read."""
    named = (columns.user, columns.step, columns.time, *columns.state, columns.action, columns.reward, columns.group)
    return [name for name in (*named, columns.probability, *columns.following) if name is not None]


def checked_columns(
    frame: pl.DataFrame, columns: Columns, name: str, there: Callable[[], list[str]]
) -> tuple[pl.DataFrame, Columns, bool]:
    """The needed columns with row numbers, which column is what, and whether next states are recorded.

    The columns ``step`` and ``user`` may be missing if they were not named otherwise: then every row is a user. ``there``
    lists the table's columns, of which the frame has those that were asked for.
    """
    if not columns.state:
        raise InvalidInput("state columns", "none", "at least one", "name them with --state")
    if columns.time is not None or (columns.step == Columns.step and columns.step not in frame.columns):
        columns = dataclasses.replace(columns, step=None)
    frame = frame.with_row_index(ROW, offset=1)
    alone = columns.step is None and columns.time is None and columns.user not in frame.columns
    if alone and columns.user == Columns.user:
        frame = frame.with_columns(pl.col(ROW).alias(columns.user))
    roles = ("user", "step", "time", "action", "reward", "group", "probability")
    needed = [(role, getattr(columns, role)) for role in roles if getattr(columns, role) is not None]
    needed += [("state", column) for column in columns.state]
    for role, column in needed:
        if column not in frame.columns:
            near = difflib.get_close_matches(column, there(), n=1)
            raise InvalidInput(
                f"{role} column of {name}", f"{column!r}, which is missing", f"one of {', '.join(there())}",
                (f"did you mean {near[0]!r}? " if near else "") + f"name the column with --{role}",
            )  # fmt: skip
    if frame.height == 0:
        raise InvalidInput(f"rows of {name}", 0, "at least 1", "the table is empty: export it again")
    recorded = [column for column in columns.following if column in frame.columns]
    if recorded and len(recorded) < len(columns.following):
        missing = next(column for column in columns.following if column not in frame.columns)
        raise InvalidInput(
            f"next columns of {name}", ", ".join(recorded), f"complete ({missing!r} is missing)",
            "give the next value of every state column, or of none",
        )  # fmt: skip
    paid = [] if columns.rewards_of is None else [name for name in frame.columns if name.startswith(columns.rewards_of)]
    kept = list(dict.fromkeys([ROW, *(column for _, column in needed), *recorded, *paid]))
    return frame.select(kept), columns, bool(recorded)


def checked_values(frame: pl.DataFrame, columns: Columns, numbers: set[str], drop: bool = False) -> pl.DataFrame:
    """The frame with no holes, and with numbers where there must be some.

    ``drop``: leave rows with an empty cell out, as moments that were not recorded; else they are refused.
    """
    following = dict(zip(columns.following, columns.state, strict=True))
    required = [
        column
        for column in frame.columns
        if column != ROW and not (column in following and column not in columns.state)
    ]
    if drop:
        frame = frame.drop_nulls(required)
        if frame.height == 0:
            raise InvalidInput("complete rows", 0, "at least 1", "a column that is always empty is no column to use")
    for column in frame.columns:
        if column in required:
            remedy = "complete it, or say what to do about such rows (--gaps drop, split or absent)"
            refuse(frame, frame[column].is_null(), column, "empty", "filled in", remedy)
        if column in numbers or following.get(column) in numbers:
            read = as_numbers(frame[column])
            wrong = read.is_null() & frame[column].is_not_null()
            refuse(frame, wrong, column, None, "a number", "correct it")
            frame = frame.with_columns(read.alias(column))
    if columns.step is not None:
        step = frame[columns.step]
        remedy = "number the steps of a user from 0 or 1, or name a column of times with --time"
        refuse(frame, step != step.round(), columns.step, None, "a whole number", remedy)
        frame = frame.with_columns(step.cast(pl.Int64))
    return frame


def as_numbers(column: pl.Series) -> pl.Series:
    """Numbers from numbers, truth values, or texts with a decimal point or comma; empty where there is none.

    >>> as_numbers(pl.Series(["1,5", " 2 ", "TRUE", "much"])).to_list()
    [1.5, 2.0, 1.0, None]
    """
    if column.dtype in (pl.String, pl.Categorical):
        plain = column.cast(pl.String).str.strip_chars().str.to_lowercase()
        table = pl.DataFrame({"text": plain})
        looks = pl.col("text").str.contains(NUMBER)
        read = pl.when(looks).then(pl.col("text").str.replace(",", ".")).otherwise(
            pl.col("text").replace_strict({"true": "1", "false": "0", "nan": None}, default=None, return_dtype=pl.String)
        )  # fmt: skip
        column = table.select(read.alias(column.name)).to_series()
    return column.cast(pl.Float64, strict=False).fill_nan(None)


def refuse(frame: pl.DataFrame, wrong: pl.Series, column: str, value: str | None, bound: str, remedy: str) -> None:
    """Complain about the first row of the file where ``wrong`` holds."""
    if not wrong.any():
        return
    place = int(frame[ROW].filter(wrong).arg_min() or 0)
    shown = frame[column].filter(wrong)[place] if value is None else value
    raise InvalidInput(f"row {frame[ROW].filter(wrong)[place]}: {column}", shown, bound, remedy)


def same_as_before(users: pl.Series) -> np.ndarray:
    same = (users == users.shift(1)).fill_null(False).to_numpy()
    return np.array(same, dtype=bool)


def check_steps(frame: pl.DataFrame, columns: Columns, row: np.ndarray, same: np.ndarray) -> None:
    """Each user's steps count up by one from the same first number."""
    assert columns.step is not None
    steps = frame[columns.step].to_numpy()
    change = np.diff(steps, prepend=steps[0])
    start = int(steps.min())
    trouble = np.where(same, change != 1, steps != start)
    if not trouble.any():
        return
    at = np.flatnonzero(trouble)[row[trouble].argmin()]
    who = f"of user {frame[columns.user][int(at)]!r}"
    field = f"row {row[at]}: {columns.step}"
    if same[at] and change[at] == 0:
        raise InvalidInput(
            field, f"{steps[at]} {who} again, after row {row[at - 1]}", "there once",
            "remove one of the two rows, or make the user's second visit another user",
        )  # fmt: skip
    expected = steps[at - 1] + 1 if same[at] else start
    before = f", as row {row[at - 1]} has {steps[at - 1]}" if same[at] else ", the first of all users"
    raise InvalidInput(
        field,
        f"{steps[at]} {who}",
        f"{expected}{before}",
        "steps are missing: complete the user's rows, or say what to do about gaps (--gaps drop, split or absent)",
    )
