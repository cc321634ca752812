# SPDX-License-Identifier: Apache-2.0
"""A run that is stopped or killed goes on where it was, and ends with the numbers of one that never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

import reticent
from reticent.experiments import checkpoint
from reticent.experiments.storage import RESULTS

AGENTS = ["private-linopt-vi:epsilon=1", "private-linopt-vi:epsilon=4", "ucrl-vtr:replan=epoch"]
WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
SHORT = {"world": WORLD, "agents": AGENTS, "episodes": 3000, "seeds": 2}


class StopsAfter:
    """Asks to stop at the n-th question."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def frame(directory: Path) -> polars.DataFrame:
    return polars.read_parquet(directory / RESULTS)


@pytest.mark.verify
def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    whole = reticent.run(**SHORT, out=tmp_path / "whole")
    stopped = reticent.run(**SHORT, out=tmp_path / "parts", should_stop=StopsAfter(30), checkpoint_seconds=0.0)
    assert stopped.interrupted
    assert list((tmp_path / "parts" / checkpoint.FOLDER).glob("*.npz"))
    gone_on = reticent.run(**SHORT, out=tmp_path / "parts")
    assert not gone_on.interrupted
    assert not (tmp_path / "parts" / checkpoint.FOLDER).exists()
    assert frame(tmp_path / "parts").equals(frame(tmp_path / "whole"))
    for label, curves in whole.curves.items():
        np.testing.assert_array_equal(gone_on.curves[label].tail_regret, curves.tail_regret)
    assert list(gone_on.curves) == list(whole.curves)


@pytest.mark.verify
def test_a_checkpoint_of_another_run_is_not_used(tmp_path: Path) -> None:
    reticent.run(**SHORT, out=tmp_path, should_stop=StopsAfter(20), checkpoint_seconds=0.0)
    other = {**SHORT, "episodes": 2000}
    result = reticent.run(**other, out=tmp_path)
    fresh = reticent.run(**other)
    for label, curves in fresh.curves.items():
        np.testing.assert_array_equal(result.curves[label].regret, curves.regret)


@pytest.mark.verify
def test_a_damaged_checkpoint_is_not_used(tmp_path: Path) -> None:
    reticent.run(**SHORT, out=tmp_path / "parts", should_stop=StopsAfter(20), checkpoint_seconds=0.0)
    for path in (tmp_path / "parts" / checkpoint.FOLDER).glob("*.npz"):
        path.write_bytes(path.read_bytes()[:200])
    reticent.run(**SHORT, out=tmp_path / "whole")
    reticent.run(**SHORT, out=tmp_path / "parts")
    assert frame(tmp_path / "parts").equals(frame(tmp_path / "whole"))


@pytest.mark.verify
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """SIGKILL as soon as there is a checkpoint; the rest is the same call again."""
    call = {**SHORT, "agents": ["private-linopt-vi:counter=tree"], "episodes": 4000}
    script = (
        "import json, sys, reticent\n"
        "call = json.loads(sys.argv[1])\n"
        "reticent.run(**call, out=sys.argv[2], checkpoint_seconds=0.0)\n"
    )
    out = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", script, json.dumps(call), str(out)], env={**os.environ})
    deadline = time.monotonic() + 120
    while not list(out.glob(f"{checkpoint.FOLDER}/*.npz")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "report.html").exists()
    reticent.run(**call, out=out)
    reticent.run(**call, out=tmp_path / "whole")
    assert frame(out).equals(frame(tmp_path / "whole"))
