# SPDX-License-Identifier: Apache-2.0
"""The way from records to a private agent, as the README walks it: fit, rehearse, replay, serve, users."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from service_process import KEY, serving

from reticent.service.config import read_settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "make_log.py"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    made = [sys.executable, str(EXAMPLE), "--out", str(folder), "--pilot", "400", "--trial", "1200"]
    subprocess.run(made, check=True, capture_output=True)
    return folder


FIT = [
    "--origin",
    "simulated",
    "--horizon",
    3,
    "--candidates",
    2,
    "--starts",
    2,
    "--group",
    "clinic",
    "--state",
    "mood",
    "--action",
    "message",
]


@pytest.mark.verify
def test_five_commands(reticent, records, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = reticent("fit", records / "pilot.csv", *FIT, "--reward", "moved", "-o", "model.npz")
    assert code == 0, err
    code, out, err = reticent(
        "rehearse",
        "model.npz",
        "--epsilon",
        2,
        "--users",
        60,
        "--trust",
        "joint",
        "--truths",
        3,
        "--no-floor",
        "--json",
    )
    assert code == 0, err
    rehearsed = json.loads(out)
    assert read_settings(Path("deployment.yaml")).agent == rehearsed["chosen"]
    assert Path("rehearsal.html").exists()

    met = ["replay", records / "trial.csv", "--deployment", "deployment.yaml", "--reward", "moved", "--orders", 1]
    code, out, err = reticent(*met, "--probability", "probability", "--json")
    assert code == 0, err
    found = {row["name"].partition(":")[0]: row for row in json.loads(out)["rows"]}
    trial = pl.read_csv(records / "trial.csv")
    assert found["as logged"]["value"] == pytest.approx(trial["moved"].sum() / 1200)
    # Of 1200 episodes of three moments one in 27 is met: Binomial(1200, 1/27) is outside [21, 71] once in 10^4.
    assert 21 <= found["deployed"]["met"] <= 71
    assert found["deployed"]["remark"] == "real noise"
    assert set(found) == {
        "as logged", "best fixed action", "the plan of the candidates alone", "deployed",
        "the same learner without privacy", "private, from scratch (tabular)",
    }  # fmt: skip

    settings = yaml.safe_load(Path("deployment.yaml").read_text())
    with serving(settings | {"database": f"sqlite:///{Path('store.db').absolute()}"}) as service:
        monkeypatch.setenv("RETICENT_APP_KEY", KEY)
        url = f"http://127.0.0.1:{service.port}"
        code, out, err = reticent("users", "--url", url, "--model", "model.npz", "--users", 60, "--json")
        assert code == 0, err
        assert json.loads(out)["counted"] == 60


def replayed(reticent, records, tmp_path, table: pl.DataFrame, *arguments):
    """``reticent replay`` of another table with a deployment that was never rehearsed."""
    model, deployment, log = tmp_path / "model.npz", tmp_path / "deployment.yaml", tmp_path / "log.csv"
    code, _, err = reticent("fit", records / "pilot.csv", *FIT, "--reward", "moved", "-o", model)
    assert code == 0, err
    deployment.write_text(yaml.safe_dump({"model_file": str(model), "agent": "private-score-vi", "episodes": 50}))
    table.write_csv(log)
    return reticent("replay", log, "--deployment", deployment, "--reward", "moved", *arguments)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (pl.col("moved"), [], "it is unknown what these users would have done after other actions"),
        (pl.lit(0.0).alias("probability"), ["--probability", "probability"], "error: row 1: probability is 0"),
        (pl.col("moved"), ["--probability", "chance"], "probability column of log.csv is 'chance', which is missing"),
        (pl.col("moved"), ["--rewards-of", "paid_"], "error: column paid_nudge is missing"),
        (
            pl.lit("odd").alias("mood"),
            ["--probability", "probability"],
            "row 1: mood is 'odd', but must be one of fresh",
        ),
        (pl.col("moved") * 3, ["--probability", "probability"], "moved is 3, but must be in [0, 1]"),
    ],
)
def test_logs_that_cannot_be_replayed_say_why(reticent, records, tmp_path, change, arguments, message) -> None:
    table = pl.read_csv(records / "trial.csv").drop("next").with_columns(change)
    code, out, err = replayed(reticent, records, tmp_path, table, *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--longer", "split"], ["--gaps", "split"], []], ids=["longer", "gaps", "whole"])
def test_the_promise_about_pieces_of_people_is_not_told_as_one_about_people(
    reticent, records, tmp_path, arguments
) -> None:
    table = pl.read_csv(records / "trial.csv").drop("next")
    code, _, err = replayed(reticent, records, tmp_path, table, *arguments)
    assert code == 2  # it is unknown what these users would have done after other actions
    assert ("about one piece" in err) == bool(arguments)


def test_counterfactual_rewards_of_several_steps_need_a_declaration(reticent, records, tmp_path) -> None:
    paid = {f"paid_{action}": np.full(3_600, 0.5) for action in ("nudge", "push", "rest")}
    table = pl.read_csv(records / "trial.csv").with_columns(
        **{name: pl.Series(column) for name, column in paid.items()}
    )
    code, _, err = replayed(reticent, records, tmp_path, table, "--rewards-of", "paid_")
    assert code == 2
    assert "declared with --states-unaffected" in err


def test_a_deployment_that_cannot_be_read_is_named_by_its_option(reticent, tmp_path) -> None:
    code, out, err = reticent("replay", tmp_path / "log.csv", "--deployment", tmp_path / "missing.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("error: --deployment is ")


def test_a_log_in_the_place_of_a_model_is_sent_to_fit(reticent, records) -> None:
    code, out, err = reticent("rehearse", records / "pilot.csv")
    assert (code, out) == (2, "")
    assert "must be a model file (.npz) or the name of a world; make a model of a log first: reticent fit" in err


def test_an_origin_that_is_none_is_named_by_its_option(reticent, records) -> None:
    code, out, err = reticent("fit", records / "pilot.csv", "--horizon", 3, "--origin", "simulatd")
    assert (code, out) == (2, "")
    assert err.startswith("error: --origin is simulatd, but must be public, simulated or released")
