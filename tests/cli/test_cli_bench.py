# SPDX-License-Identifier: Apache-2.0
"""``reticent bench`` from the outside."""

from __future__ import annotations

import json

import pytest

from reticent.experiments.bench import CONTESTANTS

TINY = "random-blend:states=2,actions=2,horizon=1,d=2"
SMALL = ("--quick", "--world", TINY, "--episodes", 60, "--seeds", 2, "--repeats", 1)


@pytest.mark.verify
def test_one_run_measures_every_way_to_run(reticent, tmp_path):
    code, out, err = reticent("bench", *SMALL, "--json", "--out", tmp_path)
    assert code == 0
    found = json.loads(out)
    assert found["work"]["world"] == TINY
    assert found["machine"].keys() >= {"cpu", "cores", "device", "versions", "load_average"}
    rows = found["rows"]
    assert [row["spec"] for row in rows] == [contestant.spec for contestant in CONTESTANTS]
    assert {row["learners"] for row in rows} == {1, 2}
    for row in rows:
        rate = row["learner_episodes_per_second"]
        assert row["ratio_to_first_row"] == pytest.approx(rate / rows[0]["learner_episodes_per_second"])
        assert row["compile_seconds"] > 0
        assert len(row["rates"]) == 1
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert "measuring private-linopt-vi:counter=tree, 2 learners" in err

    code, out, _ = reticent("bench", *SMALL)  # for people; compiled already
    assert code == 0
    for word in (
        "the same learner as the loop",
        "compile s",
        "median of 1",
        "cores",
        "private-linopt-vi:counter=epochs",
    ):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", 0], "error: seeds is 0, but must be at least 1"),
        (["--repeats", 0], "error: repeats is 0, but must be at least 1"),
        (["--episodes", 1], "error: episodes is 1, but must be at least 2"),
        (["--world", "random"], "error: unknown world 'random'"),
    ],
)
def test_bad_input_is_one_line(reticent, arguments, message):
    code, out, err = reticent("bench", *arguments)
    assert (code, out) == (2, "")
    assert err.strip().splitlines()[-1].startswith(message)
