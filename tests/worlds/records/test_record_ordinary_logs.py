# SPDX-License-Identifier: Apache-2.0
"""Logs as they come: timestamps, no step, gaps, long sessions, semicolons, decimal commas, rare values, frames, parts."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from made_up_logs import clicks, recorded, small_table

import reticent
from reticent.errors import InvalidInput, UnknownName
from reticent.worlds.records import Columns, read_log
from reticent.worlds.records.coding import Coding

FIELDS = ("user", "step", "state", "action", "following", "reward", "group")


def same_log(log, other):
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(log, field), getattr(other, field))


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M:%S%.f+00:00", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M", None]
)
def test_timestamps_order_the_rows_of_a_user(form):
    table = small_table()
    moments = [
        datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=9 * step, minutes=step) for step in table["step"]
    ]
    at = pl.Series("at", moments)
    table = table.with_columns(at if form is None else at.dt.strftime(form)).drop("step")[::-1]
    same_log(read_log(table, columns=Columns(time="at")), read_log(small_table()))


def test_what_is_no_time_is_refused_with_its_row():
    table = small_table(at=dict.fromkeys(range(1, 10), "2026-01-01 10:00") | {4: "soon"}).drop("step")
    with pytest.raises(InvalidInput, match=r"row 4: at is soon, but must be a number, a date or a timestamp"):
        read_log(table, columns=Columns(time="at"))


def test_without_step_and_user_every_row_is_a_user():
    table = clicks(50, items=3, rate=0.5)
    log = read_log(table.drop("step"))
    assert (log.users, log.rows) == (50, 50)
    same_log(read_log(table.drop("step", "user")), log)
    with pytest.raises(InvalidInput, match=r"row 2: user is 'ann' again.*--step.*--time"):
        read_log(small_table().drop("step"))


def gappy():
    """Bob's second step is missing."""
    return small_table().filter(~((pl.col("user") == "bob") & (pl.col("step") == 1)))


def test_gaps_are_dropped_split_or_filled():
    with pytest.raises(InvalidInput, match="--gaps drop, split or absent"):
        read_log(gappy())
    dropped = read_log(gappy(), gaps="drop")
    assert (dropped.users, dropped.rows) == (2, 6)
    assert dropped.notes == ("1 of 3 users have gaps and were dropped",)
    parted = read_log(gappy(), gaps="split")
    assert parted.user.tolist() == [0, 0, 0, 1, 2, 3, 3, 3]
    assert parted.following.tolist()[3:5] == [-1, -1]
    filled = read_log(gappy(), gaps="absent")
    assert filled.rows == 9
    assert filled.coding.state_names[filled.state[4]] == "absent"
    assert filled.reward[4] == 0
    assert filled.following[3] == filled.state[4]
    assert "1 missing steps" in filled.notes[0]


def test_rows_with_an_empty_cell_are_gaps_too():
    log = read_log(small_table(state={5: None}), gaps="split")
    assert log.notes[0] == "1 rows with an empty cell were left out"
    assert log.users == 4


def test_a_moment_recorded_twice_is_no_gap():
    with pytest.raises(InvalidInput, match="again, after row"):
        read_log(small_table(step={6: 1}), gaps="split")


def test_long_sessions_are_cut_or_split_and_it_is_said():
    cut = read_log(small_table(), longer="cut", horizon=2)
    assert (cut.users, cut.rows) == (3, 6)
    assert "3 sessions are longer than 2 steps and were cut there" in cut.notes
    parted = read_log(small_table(), longer="split", horizon=2)
    assert parted.step.tolist() == [0, 1, 0] * 3
    assert parted.users == 6
    with pytest.raises(InvalidInput, match="longer is halve"):
        read_log(small_table(), longer="halve", horizon=2)


def test_semicolons_decimal_commas_booleans_and_missing_cells(tmp_path):
    path = tmp_path / "log.csv"
    lines = [
        "user;step;state;action;reward;good",
        'ann;0;low;rest;"0,5";TRUE',
        "ann;1;high;push;1;FALSE",
        "bob;0;low;push;0,25;true",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_log(path).reward.tolist() == [0.5, 1.0, 0.25]
    assert read_log(path, columns=Columns(reward="good")).reward.tolist() == [1, 0, 1]
    path.write_text("\n".join([*lines, "bob;1;NA;rest;0;true"]), encoding="utf-8")
    with pytest.raises(InvalidInput, match="row 4: state is empty"):
        read_log(path)
    assert read_log(path, gaps="split").rows == 3


def test_rare_values_are_folded_and_unknown_ones_go_there_later():
    table = small_table(state={3: "odd", 9: "strange"})
    coding = read_log(table, rare=2).coding
    assert coding.state_names == ("high", "low", "other")
    assert int(coding.state_of(state="never seen")) == 2
    assert Coding.from_dict(coding.to_dict()) == coding
    assert read_log(small_table(state={1: "new"}), coding=coding).state[0] == 2


def test_numbers_are_cut_into_parts_of_equal_size():
    table = recorded(400, [0.5, 0.3, 0.2]).drop("next")
    table = table.with_columns(state=pl.Series(np.random.default_rng(0).gamma(2.0, size=len(table))))
    log = read_log(table, bins={"state": 4})
    np.testing.assert_allclose(np.bincount(log.state) / log.rows, 0.25, atol=0.01)
    constant = table.with_columns(state=pl.lit(1.0))
    with pytest.raises(InvalidInput, match="different numbers in column 'state' is 1"):
        read_log(constant, bins={"state": 4})


def test_frames_of_pandas_and_polars_and_parts_of_a_file_are_the_same_log(tmp_path):
    table = recorded(30, [0.5, 0.3, 0.2])
    expected = read_log(table)
    pandas = pytest.importorskip("pandas")
    same_log(read_log(pandas.DataFrame(table.to_dict(as_series=False))), expected)
    same_log(read_log(table.lazy()), expected)
    for number in range(3):
        table[number::3].write_parquet(tmp_path / f"part-{number}.parquet")
        table[number::3].write_csv(tmp_path / f"part-{number}.csv")
    same_log(read_log(tmp_path / "part-*.parquet"), expected)
    same_log(read_log(tmp_path / "part-*.csv"), expected)
    with pytest.raises(InvalidInput, match="does not exist"):
        read_log(tmp_path / "piece-*.csv")
    with pytest.raises(InvalidInput, match="log is dict"):
        read_log({"user": []})


def test_fit_is_at_the_top_and_says_what_reading_changed():
    table = recorded(300, [0.5, 0.3, 0.2]).drop("next")
    fitted = reticent.fit(table, origin="simulated", horizon=3, candidates=2, starts=1, longer="split")
    assert "reading: 300 sessions are longer than 3 steps" in str(fitted.report)
    assert fitted.report.users == 600


def test_columns_are_named_by_keywords():
    """As in a log of one's own, without an object of columns; a misspelled one is answered with the nearest."""
    options = {"horizon": 6, "origin": "simulated", "candidates": 2, "starts": 2}
    log = recorded(200, [0.5, 0.3, 0.2])
    expected = reticent.fit(log, **options)
    other = log.rename({"user": "who", "step": "t", "state": "mood", "reward": "paid"})
    for state in ("mood", ["mood"]):
        fitted = reticent.fit(other, user="who", step="t", state=state, reward="paid", **options)
        np.testing.assert_array_equal(fitted.model.transition_features, expected.model.transition_features)
    columns = Columns(user="who", step="t", state=("mood",), reward="other")
    fitted = reticent.fit(other, columns=columns, reward="paid", **options)
    np.testing.assert_array_equal(fitted.model.reward_features, expected.model.reward_features)
    with pytest.raises(UnknownName, match="unknown option of fit 'rewards'; did you mean 'reward'"):
        reticent.fit(other, rewards="paid", **options)
    with pytest.raises(UnknownName, match="did you mean 'candidates'"):
        reticent.fit(log, horizon=6, origin="simulated", candidate=2)


def test_a_misspelled_column_is_answered_with_all_there_are_and_the_nearest(tmp_path):
    """The table's, not only those of them that were asked for."""
    table = small_table().rename({"state": "mood"})
    table.write_csv(tmp_path / "log.csv")
    for log in (table, tmp_path / "log.csv"):
        with pytest.raises(InvalidInput, match=r"'moood'.*one of user, step, mood, .*did you mean 'mood'\?"):
            read_log(log, columns=Columns(state=("moood",)))
