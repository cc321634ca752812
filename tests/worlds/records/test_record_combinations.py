# SPDX-License-Identifier: Apache-2.0
"""Every combination of what ordinary logs have: the same log from a frame of pandas or polars, a CSV and a Parquet file.

What is expected is computed here from rows as Python tuples, without the reader.
"""

from __future__ import annotations

import datetime
import itertools
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds.records import Columns, read_log

FIELDS = ("user", "step", "state", "action", "following", "reward")
START = datetime.datetime(2026, 1, 1, 8)
KINDS = ("words", "truth", "numbers", "binned", "many")
CUTS = (0.5, 2.0)


def cell(kind: str, draw: int):
    """A recorded state of this kind."""
    return {
        "words": ("low", "mid", "high")[draw % 3],
        "truth": draw % 2 == 0,
        "numbers": draw % 3,
        "binned": (0.25, 0.5, 1.75, 3.0)[draw % 4],
        "many": f"place {draw % 40}",
    }[kind]


def name_of(kind: str, value) -> str:
    """What the state is called."""
    if kind == "binned":
        return ("state < 0.5", "0.5 ≤ state < 2", "state ≥ 2")[sum(value >= cut for cut in CUTS)]
    return str(value).lower() if kind == "truth" else str(value)


@st.composite
def tables(draw):
    """Rows (user, step, state or None, action, reward), what kind of state they have, and how they are to be read."""
    kind = draw(st.sampled_from(KINDS))
    rows = []
    for user in range(draw(st.integers(2, 5))):
        for step in range(draw(st.integers(1, 7))):
            state = None if draw(st.integers(0, 7)) == 0 else cell(kind, draw(st.integers(0, 79)))
            rows.append(
                (f"u{user}", step, state, ("rest", "push")[draw(st.integers(0, 1))], draw(st.integers(0, 4)) / 4)
            )
    gaps = draw(st.sampled_from(["drop", "split"] if kind == "binned" else ["drop", "split", "absent"]))
    how = {"gaps": gaps, "longer": draw(st.sampled_from([None, "cut", "split"])), "horizon": draw(st.integers(1, 5))}
    timed, leaves = draw(st.booleans()), draw(st.booleans())
    return kind, draw(st.permutations(rows)), how, timed, leaves


def expected(kind: str, rows, how, leaves: bool):
    """Sessions of (state's name, action, reward, next state's name), by hand."""
    found = []
    for _, of_user in itertools.groupby(sorted(rows, key=lambda row: row[:2]), key=lambda row: row[0]):
        moments = [(step, state, action, reward) for _, step, state, action, reward in of_user]
        while moments and moments[-1][1] is None:  # nothing shows that a step is missing behind the last one
            moments.pop()
        if not moments:
            continue
        if how["gaps"] == "drop":
            pieces = [] if any(state is None for _, state, *_ in moments) else [moments]
        elif how["gaps"] == "split":
            grouped = itertools.groupby(moments, key=lambda moment: moment[1] is None)
            pieces = [list(piece) for missing, piece in grouped if not missing]
        else:
            pieces = [moments]
        for number, piece in enumerate(pieces):
            h = how["horizon"]
            parts = [piece]
            if how["longer"] == "cut":
                parts = [piece[:h]]
            elif how["longer"] == "split":
                parts = [piece[at : at + h] for at in range(0, len(piece), h)]
            ended = number == len(pieces) - 1
            for place, part in enumerate(parts):
                final = ended and place == len(parts) - 1 and len(part) < h
                found.append((part, "over" if leaves and final else None))
    return found


def frames(kind: str, rows, timed: bool, folder: Path):
    """The same rows as frames and files."""
    columns = dict(zip(("user", "step", "state", "action", "reward"), map(list, zip(*rows, strict=True)), strict=True))
    if timed:
        columns["at"] = [START + datetime.timedelta(hours=7 * step) for step in columns.pop("step")]
    table = pl.DataFrame(columns, strict=False)
    table.write_csv(folder / "log.csv")
    table.write_parquet(folder / "log.parquet")
    texts = table.with_columns(pl.col("reward").cast(pl.String).str.replace(".", ",", literal=True))
    if kind == "binned":
        texts = texts.with_columns(pl.col("state").cast(pl.String).str.replace(".", ",", literal=True))
    if kind == "truth":
        texts = texts.with_columns(pl.col("state").cast(pl.String).str.to_uppercase())
    texts.write_csv(folder / "german.csv", separator=";", quote_style="non_numeric")
    yield "polars", table
    yield "categories", table.with_columns(pl.col(pl.String).cast(pl.Categorical))
    for name in ("log.csv", "german.csv", "log.parquet"):
        yield name, folder / name
    pandas = pytest.importorskip("pandas")
    plain = pandas.DataFrame(columns)
    yield "pandas", plain
    yield "pandas, nullable", plain.convert_dtypes()
    yield "pandas, categories", plain.astype({"user": "category", "action": "category"})
    if timed:
        yield "pandas, time zone", plain.assign(at=plain["at"].dt.tz_localize("UTC"))


@settings(max_examples=60, deadline=None)
@given(tables())
def test_every_form_of_a_log_is_the_same_log_and_the_right_one(given_table):
    kind, rows, how, timed, leaves = given_table
    columns = Columns(time="at") if timed else Columns()
    options = {"bins": {"state": CUTS}} if kind == "binned" else {}
    if leaves:
        options["leaves_before"] = how["horizon"]
    right = expected(kind, rows, how, leaves)
    with tempfile.TemporaryDirectory() as place:
        for form, table in frames(kind, rows, timed, Path(place)):
            try:
                log = read_log(table, columns=columns, **how, **options)
            except InvalidInput as problem:
                if len(right) >= 2:
                    raise
                said = str(problem)
            else:
                said = None
            if said is not None:  # too little is left
                assert any(word in said for word in ("users", "complete rows")), form
                continue
            names, actions = log.coding.state_names, log.coding.action_names
            met, following, counted = [], [], []
            for part, end in right:
                stated = ["absent" if state is None else name_of(kind, state) for _, state, *_ in part]
                met += zip(
                    stated,
                    [None if state is None else action for _, state, action, _ in part],
                    [0.0 if state is None else reward for _, state, _, reward in part],
                    strict=True,
                )
                following += [*stated[1:], end]
                counted.append(len(part))
            assert np.bincount(log.user).tolist() == counted, form
            assert [names[state] for state in log.state] == [state for state, *_ in met], form
            acted = [None if names[s] == "absent" else actions[a] for s, a in zip(log.state, log.action, strict=True)]
            assert acted == [action for _, action, _ in met], form
            assert log.reward.tolist() == [reward for *_, reward in met], form
            assert [None if state < 0 else names[state] for state in log.following] == following, form


TABLE = {
    "user": ["a", "a", "b", "b"],
    "step": [0, 1, 0, 1],
    "state": ["low", "high", "low", "low"],
    "action": ["rest", "push", "rest", "push"],
    "reward": [0.0, 1.0, 0.5, 0.25],
}


@pytest.mark.parametrize("form", ["pandas", "polars", "csv"])
@pytest.mark.parametrize(
    ("changed", "how", "message"),
    [
        ({"reward": ["0", "1", "much", "0"]}, {}, "row 3: reward is much, but must be a number"),
        ({"reward": [0.0, 7.0, 0.5, 1.0]}, {}, r"row 2: reward is 7, but must be in \[0, 1\].*--reward-range 0,7"),
        ({"step": [0, 2, 0, 1]}, {}, "row 2: step is 2 of user 'a', but must be 1.*--gaps drop, split or absent"),
        ({"step": ["0", "1", "first", "1"]}, {}, "row 3: step is first, but must be a number"),
        ({"state": ["low", None, "low", "low"]}, {}, "row 2: state is empty, but must be filled in"),
        ({"state": ["low", "", "low", "low"]}, {}, "row 2: state is empty, but must be filled in"),
        ({"user": ["a", None, "b", "b"]}, {}, "row 2: user is empty"),
        ({"state": [1, 2, 3, 4]}, {"gaps": "absent", "bins": {"state": [2]}}, "'state' has cut points"),
        ({}, {"bins": {"stat": [2]}}, "column of bins 'stat' is no state column, but must be one of state"),
        ({}, {"bins": {"state": [2]}}, "row 1: state is low, but must be a number"),
        (
            {},
            {"columns": Columns(time="when")},
            "time column of .* is 'when', which is missing, but must be one of user",
        ),
        ({"step": [0, 2, 0, 2]}, {"gaps": "drop"}, "users without gaps is 0"),
    ],
)
def test_a_bad_log_is_refused_by_column_and_row_in_every_form(tmp_path, form, changed, how, message):
    columns = {**TABLE, **changed}
    table = pl.DataFrame(columns)
    if form == "csv":
        table.write_csv(tmp_path / "log.csv")
        table = tmp_path / "log.csv"
    elif form == "pandas":
        table = pytest.importorskip("pandas").DataFrame(columns)
    with pytest.raises(InvalidInput, match=message):
        read_log(table, **how)


def test_cells_and_columns_that_are_no_values_are_named():
    pandas = pytest.importorskip("pandas")
    plain = pandas.DataFrame(TABLE)
    with pytest.raises(InvalidInput, match="column 'state' is there twice"):
        read_log(pandas.concat([plain, plain[["state"]]], axis=1))
    with pytest.raises(InvalidInput, match="column 'state' is list"):
        read_log(plain.assign(state=[[1], [2], [3], [4]]))


def test_a_missing_step_pays_the_least_and_is_no_rare_value():
    table = pl.DataFrame({**TABLE, "step": [0, 2, 0, 1], "reward": [1, 5, 3, 2]})
    log = read_log(table, gaps="absent", reward_range=(1, 5), rare=2)
    assert log.coding.state_names == ("absent", "low", "other")
    assert log.reward.tolist() == [0, 0, 1, 0.5, 0.25]


def test_a_user_who_goes_on_behind_a_gap_had_not_left():
    table = pl.DataFrame({**TABLE, "step": [0, 2, 0, 1]})
    log = read_log(table, gaps="split", leaves_before=2)
    assert log.user.tolist() == [0, 1, 2, 2]
    assert log.following.tolist() == [-1, log.coding.states - 1, int(log.state[3]), -1]
