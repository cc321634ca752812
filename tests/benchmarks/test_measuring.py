# SPDX-License-Identifier: Apache-2.0
"""Measurements of this library: timings say what they timed, rows compare medians, figures are drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import speed
from measuring import CONTESTANTS, Row, Work, machine
from measuring.figure import draw_scaling
from measuring.memory import Peak, measure_peaks
from measuring.rows import HEAD, cells
from measuring.scaling import AGENTS, WORDS, Line, Scaling, seconds_per_episode
from measuring.work import EPOCHS, SEGMENT, TREE, time_agent
from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.worlds import make_world

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = "random-blend:states=2,actions=2,horizon=1,d=1"


# -- what is timed ----------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_timing_says_how_many_episodes_it_timed() -> None:
    world = make_world(TINY)
    every = time_agent(make_agent(TREE, world.model, 3 * SEGMENT), world, 2, repeats=2, seconds=0.0)
    assert every.episodes == SEGMENT
    whole = time_agent(make_agent(EPOCHS, world.model, 700), world, 2, repeats=1, seconds=0.0)
    assert whole.episodes == 700
    for timing in (every, whole):
        assert min(timing.seconds) > 0
        assert timing.compile_seconds > 0
    assert len(every.seconds) == 2


@pytest.mark.verify
def test_all_measurements_run_on_a_bare_machine() -> None:
    """Without Gymnasium, and without any package of the command line, reports or pictures."""
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"gymnasium", "rich", "typer", "click", "polars", "matplotlib", "yaml", "opendp"}}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import json
sys.path.insert(0, {str(BENCHMARKS)!r})
import speed
from measuring import bench, CONTESTANTS, Work
work = Work({TINY!r}, episodes=60, seeds=2, repeats=1, seconds=0.01)
print(json.dumps(bench(work, contestants=CONTESTANTS[:2]).to_dict()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    rates = [row["learner_episodes_per_second"] for row in found["rows"]]
    assert min(rates) > 0
    assert found["rows"][1]["ratio_to_first_row"] == pytest.approx(rates[1] / rates[0])
    assert [row["learners"] for row in found["rows"]] == [2, 1]
    assert {"cpu", "cores", "device", "versions", "load_average"} <= found["machine"].keys()


@pytest.mark.parametrize(
    ("field", "value"), [("seeds", 0), ("repeats", 0), ("episodes", 1)]
)  # fmt: skip
def test_bad_work_is_refused(field: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=f"{field} is {value}"):
        Work(**{field: value})


# -- what is said -----------------------------------------------------------------------------------------------------


def test_rows_compare_medians() -> None:
    base, fast = Row("loop", rates=(1.0, 2.0, 30.0)), Row("fast", "spec", 4, 10, (100.0, 50.0, 60.0), 1.25)
    assert fast.ratio(base) == 30
    assert cells(fast, base) == ("fast (spec)", "4", "60", "30", "1.2")
    absent = Row("peer", remark="not installed")
    assert absent.ratio(base) is None
    assert cells(absent, base)[0] == "peer: not installed"
    assert cells(fast, absent)[3] == "–"
    assert len(HEAD) == len(cells(fast, base))


def test_a_busy_machine_is_mentioned() -> None:
    assert machine.busy({"load_average": 0.2}) is None
    assert machine.busy({"load_average": None}) is None
    assert "3.5" in str(machine.busy({"load_average": 3.5}))


@given(exponent=st.floats(-2, 3), factor=st.floats(1e-9, 1e3), start=st.integers(1, 50), count=st.integers(2, 6))
def test_a_power_law_has_its_exponent_as_slope(exponent: float, factor: float, start: int, count: int) -> None:
    values = tuple(start * 3**index for index in range(count))
    line = Line("tree", "S", values, tuple(factor * value**exponent for value in values))
    assert line.slope == pytest.approx(exponent, abs=1e-6)
    assert line.worst_doubling == pytest.approx(2**exponent, rel=1e-6)


def test_learners_that_slow_each_other_down_are_seen() -> None:
    """Two learners that take five times as long as one: more than twice, whatever comes after."""
    slow = Line("tree", "learners", (1, 2, 4), (1.0, 2.5, 2.0))
    assert Scaling((slow,), (), {}).worst_seed_doubling == pytest.approx(5)


# -- scaling ----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_time_of_an_episode_is_measured() -> None:
    sizes = {"S": 2, "A": 2, "d": 1, "H": 1, "K": 700, "learners": 2}  # compiled above already
    assert 0 < seconds_per_episode(EPOCHS, sizes, repeats=1, seconds=0.0) < 1


@pytest.mark.verify
def test_memory_does_not_grow_with_the_number_of_users() -> None:
    """Ten times the users: the same peak but for the thinned curve and the allocator's mood (64 MiB).

    What this process holds while it waits is not counted as theirs.
    """
    ballast = np.ones(2**27)
    small, large = measure_peaks([(EPOCHS, 20_000, 4), (EPOCHS, 200_000, 4)], world=TINY)
    assert 2**26 < small.peak_bytes < ballast.nbytes
    assert large.peak_bytes - small.peak_bytes < 2**26


@pytest.mark.verify
def test_a_run_that_fails_has_no_peak() -> None:
    with pytest.raises(RuntimeError, match="unknown agent 'no-such-agent'"):
        measure_peaks([("no-such-agent", 10, 1)])


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    values = (1_000, 10_000, 100_000)
    lines = [Line(agent, size, values, (1e-5, 3e-5, 9e-5)) for size in WORDS for agent in AGENTS]
    found = Scaling(tuple(lines), (Peak(EPOCHS, 1_000_000, 64, 2**30, 60.0),), machine.describe())
    draw_scaling(found, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert len(found.table()) == 2 * len(WORDS)
    assert found.to_dict()["peaks"][0]["peak_bytes"] == 2**30


# -- the program ----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_the_program_measures_every_way_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--quick", "--world", "random-blend:states=2,actions=2,horizon=1,d=2", "--episodes", "60", "--seeds", "2"]
    assert speed.main([*small, "--repeats", "1", "--json", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [row["spec"] for row in found["rows"]] == [contestant.spec for contestant in CONTESTANTS]
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert "measuring private-linopt-vi:counter=tree, 2 learners" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "error: seeds is 0, but must be at least 1"),
        (["--repeats", "0"], "error: repeats is 0, but must be at least 1"),
        (["--world", "random"], "error: unknown world 'random'"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert speed.main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)
