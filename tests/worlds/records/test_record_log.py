# SPDX-License-Identifier: Apache-2.0
"""Reading logs: what a good one becomes, and a clear sentence with the row number for every kind of bad one."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_logs import small_table

from reticent.errors import InvalidInput
from reticent.worlds.records import Bins, Categories, Coding, Columns, read_log


def test_a_small_log_is_coded():
    log = read_log(small_table())
    assert (log.users, log.rows) == (3, 9)
    assert log.coding.state_names == ("high", "low")
    assert log.coding.action_names == ("push", "rest")
    assert log.state.tolist() == [1, 0, 1, 1, 1, 0, 0, 0, 1]
    assert log.following.tolist() == [0, 1, -1, 1, 0, -1, 0, 1, -1]
    assert log.first.tolist() == [True, False, False] * 3
    assert log.reward.tolist() == [0, 1, 0.5] * 3


@settings(max_examples=30)
@given(st.permutations(range(9)))
def test_the_order_of_rows_does_not_matter(order):
    expected, log = read_log(small_table()), read_log(small_table()[order])
    for field in ("user", "step", "state", "action", "following", "reward", "group"):
        np.testing.assert_array_equal(getattr(log, field), getattr(expected, field))


def test_files_are_read_in_three_forms(tmp_path):
    table = small_table()
    table.write_csv(tmp_path / "log.csv")
    table.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress((tmp_path / "log.csv").read_bytes()))
    for name in ("log.csv", "log.parquet", "log.csv.gz"):
        log = read_log(tmp_path / name)
        assert log.source == name
        np.testing.assert_array_equal(log.state, read_log(table).state)


def test_steps_may_begin_at_one_and_columns_have_other_names():
    table = small_table().with_columns(pl.col("step") + 1).rename({"user": "person", "state": "mood", "reward": "gain"})
    log = read_log(table, columns=Columns(user="person", state=("mood",), reward="gain"))
    assert log.step.tolist() == [0, 1, 2] * 3


def test_those_who_leave_go_to_a_state_of_their_own():
    table = small_table().filter(~((pl.col("user") == "bob") & (pl.col("step") == 2)))
    log = read_log(table, leaves_before=3)
    assert log.coding.over
    assert log.coding.state_names[-1] == "over"
    assert log.following.tolist() == [0, 1, -1, 1, 2, 0, 1, -1]
    stated = table.with_columns(next=pl.Series(["high", "low", "low", "low", None, "high", "low", "high"]))
    assert read_log(stated).following.tolist() == [0, 1, 1, 1, 2, 0, 1, 0]


def test_numbers_are_binned_and_columns_multiply():
    table = small_table().with_columns(steps=pl.Series(np.arange(9) * 10.0))
    log = read_log(table, columns=Columns(state=("state", "steps")), bins={"steps": [25, 60]})
    assert log.coding.states == 6
    assert log.coding.state_names[log.state[3]] == "state: low, 25 ≤ steps < 60"


def test_rewards_are_rescaled_from_a_declared_range():
    log = read_log(small_table(reward={2: 3.0, 3: -1.0}), reward_range=(-1, 3))
    assert log.reward[:3].tolist() == [0.25, 1.0, 0.0]


BAD = {
    "empty cell": (small_table(state={5: None}), r"row 5: state is empty, but must be filled in"),
    "no number": (small_table(reward={6: "much"}), r"row 6: reward is much, but must be a number"),
    "reward too large": (small_table(reward={4: 7.0}), r"row 4: reward is 7, but must be in \[0, 1\].*--reward-range 0,7"),
    "reward negative": (small_table(reward={9: -0.5}), r"row 9: reward is -0.5, but must be in \[0, 1\]"),
    "reward not a number": (small_table(reward={2: float("nan")}), r"row 2: reward is empty, but must be filled in"),
    "a gap": (small_table(step={6: 3}), r"row 6: step is 3 of user 'bob', but must be 2, as row 5 has 1"),
    "a late start": (small_table(step={7: 1, 8: 2, 9: 3}), r"row 7: step is 1 of user 'cy', but must be 0, the first"),
    "a step twice": (
        small_table(step={6: 1}),
        r"row 6: step is 1 of user 'bob' again, after row 5, but must be there once",
    ),
    "half a step": (small_table(step={3: 1.5}), r"row 3: step is 1.5, but must be a whole number"),
    "one user": (small_table().head(3), r"users of the table is 1 \('ann'\), but must be at least 2"),
    "no rows": (small_table().head(0), r"rows of the table is 0, but must be at least 1"),
    "no reward": (
        small_table().drop("reward"),
        r"reward column of the table is 'reward', which is missing, but must be one of user, step, state, action; "
        r"name the column with --reward",
    ),
    "another next state": (
        small_table(next={1: "high", 2: "high", 3: "low", 4: "low", 5: "high", 6: "low", 7: "high", 8: "low", 9: "low"}),
        r"row 2: next is 'high', but must be 'low', the state of the user's next step in row 3",
    ),
    "left and came back": (
        small_table(next={1: "high", 3: "low", 4: "low", 5: "high", 6: "low", 7: "high", 8: "low", 9: "low"}),
        r"row 2: next is empty, but must be filled in, as the user goes on",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_log_gets_a_sentence_with_the_row(kind):
    table, message = BAD[kind]
    with pytest.raises(InvalidInput, match=message):
        read_log(table)


def test_the_first_bad_row_of_the_file_is_named_whatever_the_order():
    table = small_table(reward={2: 5.0, 8: 7.0})[::-1]
    with pytest.raises(InvalidInput, match=r"row 2: reward is 7"):
        read_log(table)


def test_states_and_actions_outside_a_public_list_are_refused():
    with pytest.raises(InvalidInput, match=r"row 2: state is 'high', but must be one of low, middle"):
        read_log(small_table(), categories={"state": ["low", "middle"]})
    coding = Coding((Categories("state", ("low", "high")),), Categories("action", ("rest",)))
    with pytest.raises(InvalidInput, match=r"row 2: action is 'push', but must be one of rest; .*coding"):
        read_log(small_table(), coding=coding)
    binned = Coding((Bins("state", (1.0,)),), Categories("action", ("rest", "push")))
    with pytest.raises(InvalidInput, match=r"row 1: state is low, but must be a number"):
        read_log(small_table(), coding=binned)


def test_many_different_numbers_need_cut_points():
    table = pl.DataFrame(
        {"user": np.arange(100), "step": 0, "state": np.linspace(0, 1, 100), "action": "a", "reward": 0.0}
    )
    with pytest.raises(InvalidInput, match=r"different numbers in column 'state' is 100.*--bins state=CUT,CUT"):
        read_log(table)


def test_a_user_belongs_to_one_group():
    table = small_table(clinic=dict.fromkeys(range(1, 10), "north") | {6: "south"})
    with pytest.raises(InvalidInput, match=r"row 6: clinic is 'south', but must be 'north', as in the user's row 5"):
        read_log(table, columns=Columns(group="clinic"))


def test_files_that_are_no_logs(tmp_path):
    with pytest.raises(InvalidInput, match="does not exist"):
        read_log(tmp_path / "none.csv")
    (tmp_path / "log.xlsx").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match=r"\.csv, \.tsv or \.parquet"):
        read_log(tmp_path / "log.xlsx")
    (tmp_path / "log.csv").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"rows of log.csv is 0"):
        read_log(tmp_path / "log.csv")
    (tmp_path / "log.parquet").write_bytes(b"not at all")
    with pytest.raises(InvalidInput, match=r"a readable .parquet file"):
        read_log(tmp_path / "log.parquet")
