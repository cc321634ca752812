# SPDX-License-Identifier: Apache-2.0
"""``reticent sweep`` from the outside: listing, output, errors, exit codes, being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars
import pytest
import yaml

from reticent.cli.sweep import Cells, seed_words
from reticent.experiments.sweep.grid import grid_of
from reticent.experiments.sweep.sweep import run_sweep
from reticent.experiments.sweep.work import Outcome
from reticent.reports import progress
from reticent.reports.progress import Bars, Lines

GRID = {
    "worlds": "random-blend:states=3,actions=2,horizon=2,d=2",
    "agents": "ucrl-vtr",
    "episodes": 60,
    "bonus_scales": [0.1, 0.3],
    "seeds": 4,
    "seeds_per_cell": 2,
}


@pytest.fixture
def sweep(reticent, monkeypatch, tmp_path):
    """Call ``reticent sweep`` on a grid, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def call(grid, *arguments):
        Path("grid.yaml").write_text(yaml.safe_dump(grid))
        return reticent("sweep", "grid.yaml", *arguments)

    return call


def test_a_dry_run_lists_the_cells_and_computes_nothing(sweep):
    code, out, err = sweep(GRID, "--dry-run")
    assert (code, err) == (0, "")
    assert out.count("to do") == 4
    assert "0–1" in out
    assert "4 cells of 2 settings, 8 runs, 480 learner-episodes; 0 cells are finished, 480" in out
    content = json.loads(sweep(GRID, "--dry-run", "--json")[1])
    assert (len(content["cells"]), content["learner_episodes"], content["learner_episodes_left"]) == (4, 480, 480)
    assert {cell["finished"] for cell in content["cells"]} == {False}
    assert not Path("results").exists()


@pytest.mark.verify
def test_people_get_a_table_and_the_files_and_the_same_command_does_nothing_more(sweep):
    code, out, _ = sweep(GRID)
    assert code == 0
    assert "ucrl-vtr:bonus_scale=0.1" in out
    assert "4 of 4 cells are finished, 4 of them now" in out
    assert "results/sweep-grid/report.html" in out
    assert polars.read_parquet("results/sweep-grid/cells/*.parquet")["seed"].n_unique() == 4
    code, out, err = sweep(GRID)
    assert (code, err) == (0, "4 of 4 cells were finished before\n")
    assert "4 of 4 cells are finished, 0 of them now" in out
    assert "finished" in sweep(GRID, "--dry-run")[1]
    content = json.loads(sweep(GRID, "--json")[1])
    assert (content["cells"], content["finished"], content["found"], content["failed"]) == (4, 4, 4, [])
    assert [row["agent"] for row in content["settings"]] == ["ucrl-vtr:bonus_scale=0.1", "ucrl-vtr:bonus_scale=0.3"]


def test_failed_cells_are_listed_and_make_the_exit_code(sweep):
    code, out, err = sweep({**GRID, "agents": ["ucrl-vtr", "oppo:bonus_scale=-1"], "seeds": 2}, "--json")
    assert code == 1
    content = json.loads(out)
    assert (content["cells"], content["finished"]) == (3, 2)
    (failed,) = content["failed"]
    assert failed["message"].startswith("bonus_scale is -1.0, but must be")
    assert "1 of 3 cells failed:" in err
    assert f"{failed['cell']} (oppo in random-blend:states=3,actions=2,horizon=2,d=2, seeds 0–1): bonus_scale is" in err


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"worlds": "mobile"}, [], "worlds: unknown world 'mobile'; did you mean 'mobile-health'?"),
        ({"agent": "oppo"}, [], "grid.yaml: unknown key 'agent'; did you mean 'agents'?"),
        ({"seeds": -1}, [], "grid.yaml: seeds is -1, but must be a whole number of at least 1"),
        ({}, ["--engine", "spark"], "unknown engine 'spark'"),
        ({}, ["--num-cpus", "0"], "--num-cpus is 0.0, but must be a finite number above 0"),
    ],
)
def test_wrong_input_is_one_clean_line(sweep, change, arguments, message):
    code, out, err = sweep({**GRID, **change}, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert not Path("results").exists()


def test_a_cluster_that_does_not_answer_is_one_clean_line(sweep):
    pytest.importorskip("ray")
    code, out, err = sweep(GRID, "--engine", "ray", "--address", "127.0.0.1:9")
    assert (code, out) == (2, "")
    assert err.startswith("error: --address is 127.0.0.1:9 (")
    assert "ray start --head" in err


@pytest.mark.verify
def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    """For real: a process that is killed with most of its cells to do, and the same command again."""
    grid = {**GRID, "episodes": 2000, "seeds": 20, "seeds_per_cell": 1}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "reticent", "sweep", str(tmp_path / "grid.yaml"), "--out", str(out), "--json"]
    environment = {**os.environ, "RETICENT_CACHE": str(Path(__file__).parents[2] / ".pytest_cache" / "jax")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 120
    while len(list(out.glob("cells/*.parquet"))) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat() for path in out.glob("cells/*.parquet")}
    assert 3 <= len(kept) < 40
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert (content["cells"], content["finished"], content["found"]) == (40, 40, len(kept))
    for path, stat in kept.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
    undisturbed = run_sweep(grid_of(grid), tmp_path / "undisturbed")
    assert content["settings"] == [setting.row() for setting in undisturbed.settings]
    for path in (tmp_path / "undisturbed" / "cells").iterdir():
        assert (out / "cells" / path.name).read_bytes() == path.read_bytes()


def test_seeds_in_short():
    assert [seed_words(seeds) for seeds in ((0,), (3, 4, 5), (1, 7), (2, 1))] == ["0", "3–5", "1, 7", "2, 1"]


def test_it_is_told_how_far_a_sweep_is(capsys, monkeypatch):
    now = [0.0]
    cells = Cells(Lines(clock=lambda: now[0]))
    cells.start(20, 10)
    for number in range(10):
        now[0] += 3.0
        cells.advance(Outcome("x", "failed" if number == 2 else "finished"))
    cells.close()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "10 of 20 cells were finished before"
    assert "sweep: 15 of 20 cells (75%), 1 failed, 0.33 cells/s, 15 s left" in said
    assert said[-1] == "sweep: done in 30 s"
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    bars = Bars()
    bars._timer.join()
    cells = Cells(bars)
    cells.start(3, 1)
    cells.advance(Outcome("x", "failed"))
    cells.advance(Outcome("y", "finished"))
    cells.close()
    assert "3/3 1 failed" in capsys.readouterr().err
