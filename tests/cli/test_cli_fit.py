# SPDX-License-Identifier: Apache-2.0
"""``reticent fit`` from the outside: a small log to a model file, and nothing written where something is wrong."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from reticent.agents import make_agent
from reticent.worlds import load_model


@pytest.fixture
def log(tmp_path):
    """A made-up clinic: mood moves with the message, and two kinds of people like different messages."""
    random = np.random.default_rng(0)
    users, steps = 400, 5
    kind = np.repeat(random.random(users) < 0.4, steps)
    action = random.choice(["rest", "nudge", "push"], size=users * steps)
    likes = np.where(kind, action == "push", action == "nudge")
    table = pl.DataFrame(
        {
            "person": np.repeat(np.arange(users), steps),
            "moment": np.tile(np.arange(1, steps + 1), users),
            "mood": random.choice(["low", "high"], size=users * steps),
            "steps": random.gamma(2, 50, size=users * steps),
            "message": action,
            "gain": (random.random(users * steps) < np.where(likes, 0.8, 0.2)) * 2.0 - 1,
        }
    )
    path = tmp_path / "log.csv"
    table.write_csv(path)
    return path


COLUMNS = [
    "--user", "person", "--step", "moment", "--state", "mood", "--state", "steps", "--bins", "steps=40,120",
    "--action", "message", "--reward", "gain", "--reward-range", "-1,1",
    "--origin", "public",
]  # fmt: skip


def test_a_log_becomes_a_model_file(reticent, log, tmp_path):
    out = tmp_path / "model.npz"
    code, text, err = reticent(
        "fit", log, "--horizon", 5, "--candidates", "2-3", "--starts", 3, "-o", out, "--json", *COLUMNS
    )
    assert code == 0
    report = json.loads(text)
    assert report["model"] == str(out)
    assert report["candidates"] == 2
    assert report["misfit"]["transition"]["lower"] <= report["misfit"]["transition"]["upper"]
    assert "note: candidates come from public records (log.csv)" in err
    loaded = load_model(out)
    assert loaded.names.actions == ("nudge", "push", "rest")
    assert loaded.names.states[0] == "mood: high, steps < 40"
    assert loaded.model.horizon == 5
    assert loaded.coding.reward_range == (-1.0, 1.0)
    assert int(loaded.coding.state_of(mood="low", steps=50)) == 4
    assert loaded.report["users"] == 400


def test_the_text_says_what_it_rests_on(reticent, log, tmp_path):
    code, text, _ = reticent(
        "fit", log, "--horizon", 5, "--candidates", 2, "--starts", 2, "--out", tmp_path / "m.npz", *COLUMNS
    )
    assert code == 0
    assert "400 users, 2,000 rows" in text
    assert "misspecification ζ" in text
    assert str(tmp_path / "m.npz") in text


def test_no_candidates_are_the_table_of_the_log_itself(reticent, log, tmp_path):
    out = tmp_path / "m.npz"
    code, _, _ = reticent("fit", log, "--horizon", 5, "--candidates", "none", "-o", out, *COLUMNS)
    assert code == 0
    model = load_model(out).model
    assert model.d1 == 1
    assert make_agent("private-score-vi:residual=auto", model, 1_000).residual is not None


def test_where_the_log_comes_from_must_be_said(reticent, log, tmp_path):
    unsaid = [part for part in COLUMNS if part not in ("--origin", "public")]
    code, text, err = reticent("fit", log, "--horizon", 5, "-o", tmp_path / "m.npz", *unsaid)
    assert (code, text) == (2, "")
    assert "error: --origin is missing, but must be public, simulated or released" in err
    assert not (tmp_path / "m.npz").exists()


def test_the_pilot_may_not_be_among_the_protected(reticent, log, tmp_path):
    out = tmp_path / "m.npz"
    code, _, err = reticent("fit", log, "--horizon", 5, "-o", out, *COLUMNS, "--protected", log)
    assert code == 2
    assert "users is in both logs" in err
    assert not out.exists()


def test_a_release_states_its_price(reticent, log, tmp_path):
    released = ["--origin", "released", "--epsilon", "0.5", "--delta", "1e-6", "--source", "synthetic data"]
    out = tmp_path / "m.npz"
    _, _, err = reticent("fit", log, "--horizon", 2, "--candidates", 2, "--starts", 1, "-o", out, *COLUMNS, *released)
    assert "a private release (synthetic data) of ε = 0.5, δ = 1e-06" in err
    assert load_model(out).provenance.kind == "released"


def test_too_few_rewards_write_no_model_but_with_anyway(reticent, log, tmp_path):
    random = np.random.default_rng(0)
    few = pl.Series(random.random(2000) < 0.005).cast(pl.Float64) * 2 - 1
    pl.read_csv(log).with_columns(gain=few).write_csv(log)
    out = tmp_path / "m.npz"
    asked = ["fit", log, "--horizon", 5, "--candidates", 2, "--starts", 1, "-o", out, *COLUMNS]
    code, text, _ = reticent(*asked)
    assert code == 1
    assert "rewards for 18 pairs: too few to learn from" in text
    assert "none written" in text
    assert not out.exists()
    code, text, err = reticent(*asked, "--anyway")
    assert code == 0
    assert "too few to learn from" in err
    assert "too few to learn from" in load_model(out).provenance.doubt


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (pl.col("gain") * 3, [], "error: row 1: gain is "),
        (pl.col("gain"), ["--candidates", "many"], "error: --candidates is many"),
        (pl.col("gain"), ["--bins", "steps"], "error: --bins is steps"),
        (pl.col("gain"), ["--bins", "steps=low"], "error: --bins steps is low"),
        (pl.col("gain"), ["--reward-range", "1"], "error: --reward-range is 1"),
        (pl.col("gain"), ["--categories", "mood=low,odd"], "mood is 'high', but must be one of low, odd"),
        (pl.col("gain"), ["--user", "who"], "error: user column of log.csv is 'who', which is missing"),
        (pl.col("gain"), ["--origin", "stolen"], "protected users' own data"),
        (pl.col("moment").alias("moment") + pl.col("moment") // 3, [], "row 3: moment is 4 of user 0, but must be 3"),
        (pl.lit(7).alias("person"), [], "row 6: moment is 1 of user 7 again, after row 1"),
        (
            pl.when(pl.col("person") > 0).then(pl.col("mood")).alias("mood"),
            [],
            "row 1: mood is empty, but must be filled in; complete it, or say what to do about such rows (--gaps drop",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(reticent, log, tmp_path, change, arguments, message):
    pl.read_csv(log).with_columns(change).write_csv(log)
    out = tmp_path / "new" / "model.npz"
    code, text, err = reticent("fit", log, "--horizon", 5, "--candidates", 2, "-o", out, *COLUMNS, *arguments)
    assert code == 2
    assert text == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not out.parent.exists()


def test_history_and_entries_are_options(reticent, log, tmp_path):
    """The report says how much history is used and why; the model file carries how a device makes its states."""
    out = tmp_path / "model.npz"
    code, text, err = reticent(
        "fit", log, "--horizon", 5, "--candidates", "none", "-o", out, "--history", "auto", "--remember", "steps",
        "--entries", "mood: low, steps < 40=0.4", *COLUMNS,
    )  # fmt: skip
    assert code == 0, err
    assert "history does not matter" in text  # moods and steps are drawn anew at every moment
    assert "users were weighted to the declared entries" in text
    code, text, err = reticent(
        "fit", log, "--horizon", 5, "--candidates", "none", "-o", out, "--history", 2, "--remember", "steps", *COLUMNS
    )
    assert (code, err.count("error")) == (0, 0)
    history = load_model(out).model.about.names.history
    assert (history.depth, history.remembered, len(history.observations)) == (2, 3, 6)
    for option, value, message in (("--history", "two", "or auto"), ("--entries", "low", "STATE=SHARE")):
        code, _, err = reticent("fit", log, "--horizon", 5, "-o", out, option, value, *COLUMNS)
        assert code == 2
        assert message in err
