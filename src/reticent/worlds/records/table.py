# SPDX-License-Identifier: Apache-2.0
"""A long table as it comes: which column is what, and whether every row can be read.

Complaints name the row, counted from 1 below the header, the column, the value, what it must be and what to do.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl

from reticent.errors import InvalidInput

ROW = "__row__"
"""The column of row numbers that is added."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column is what.

    ``probability`` is that with which the recorded action was drawn, and ``rewards_of`` the beginning of the names of
    columns that say what each action would have paid (``paid_`` for ``paid_rest``, ``paid_walk``); a fit reads neither.
    """

    user: str = "user"
    step: str = "step"
    state: tuple[str, ...] = ("state",)
    action: str = "action"
    reward: str = "reward"
    group: str | None = None
    probability: str | None = None
    rewards_of: str | None = None

    @property
    def following(self) -> tuple[str, ...]:
        """What the columns of the next state are called, if there are any."""
        return ("next",) if len(self.state) == 1 else tuple(f"next_{column}" for column in self.state)


def read_table(path: str | Path) -> pl.DataFrame:
    """A CSV (plain or ``.gz``) or Parquet file as it is.

    Raises:
      InvalidInput: there is no such file, or it is neither, or it cannot be read.
    """
    path = Path(path)
    kind = "".join(path.suffixes[-2:]).lower().removesuffix(".gz") or path.suffix.lower()
    kind = next((known for known in (".csv", ".tsv", ".parquet") if kind.endswith(known)), "")
    if not kind:
        raise InvalidInput("log", path, "a .csv, .tsv or .parquet file", "export the table in one of these forms")
    try:
        if kind == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema_length=None, separator="\t" if kind == ".tsv" else ",")
    except FileNotFoundError:
        raise InvalidInput("log", f"{path}, which does not exist", "a file", "correct the path") from None
    except pl.exceptions.NoDataError:
        raise InvalidInput(f"rows of {path.name}", 0, "at least 1", "the file is empty: export it again") from None
    except (OSError, pl.exceptions.PolarsError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise InvalidInput("log", f"{path} ({reason})", f"a readable {kind} file", "export it again") from None


def checked_columns(frame: pl.DataFrame, columns: Columns, name: str) -> tuple[pl.DataFrame, bool]:
    """The needed columns with row numbers, and whether next states are recorded."""
    wanted = {"user": columns.user, "step": columns.step, "action": columns.action, "reward": columns.reward}
    if not columns.state:
        raise InvalidInput("state columns", "none", "at least one", "name them with --state")
    needed = [*wanted.items(), *(("state", column) for column in columns.state)]
    needed += [("group", columns.group)] if columns.group is not None else []
    needed += [("probability", columns.probability)] if columns.probability is not None else []
    for role, column in needed:
        if column not in frame.columns:
            listed = ", ".join(frame.columns)
            raise InvalidInput(
                f"{role} column of {name}", f"{column!r}, which is missing", f"one of {listed}",
                f"name the column with --{role}",
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
    kept = list(dict.fromkeys([column for _, column in needed] + recorded + paid))
    return frame.select(kept).with_row_index(ROW, offset=1), bool(recorded)


def checked_values(frame: pl.DataFrame, columns: Columns, numbers: set[str]) -> pl.DataFrame:
    """The frame with no holes, and with numbers where there must be some."""
    following = dict(zip(columns.following, columns.state, strict=True))
    for column in frame.columns:
        if column == ROW:
            continue
        optional = column in following and column not in columns.state
        if not optional:
            _refuse(frame, frame[column].is_null(), column, "empty", "filled in", "complete it or remove the user")
        if column in numbers or following.get(column) in numbers:
            read = frame[column].cast(pl.Float64, strict=False).replace(float("nan"), None)
            wrong = read.is_null() & frame[column].is_not_null()
            _refuse(frame, wrong, column, None, "a number", "correct it")
            frame = frame.with_columns(read.alias(column))
    step = frame[columns.step]
    _refuse(frame, step != step.round(), columns.step, None, "a whole number", "number the steps of a user from 0 or 1")
    return frame.with_columns(step.cast(pl.Int64))


def _refuse(frame: pl.DataFrame, wrong: pl.Series, column: str, value: str | None, bound: str, remedy: str) -> None:
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
        field, f"{steps[at]} {who}", f"{expected}{before}", "steps are missing: complete the user's rows or remove them"
    )
