# SPDX-License-Identifier: Apache-2.0
"""The command from the outside: output, errors, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import polars
import pytest

from reticent.cli import COMMANDS
from reticent.cli.interrupt import listening
from reticent.experiments.storage import CONFIG, METADATA, PICTURE, REPORT, RESULTS

TINY = "random-blend:states=3,actions=2,horizon=2,d=2"
HEAVY = ("jax", "numpy", "polars", "matplotlib", "gymnasium", "scipy")


def test_json_is_one_object_with_the_promised_keys(reticent, tmp_path):
    code, out, err = reticent(
        "run", "--world", TINY, "--agent", "ucrl-vtr", "--episodes", 60, "--seeds", 2, "--first-seed", 7,
        "--out", tmp_path, "--epsilon", 1, "--json",
    )  # fmt: skip
    assert code == 0
    content = json.loads(out)
    assert content.keys() >= {"world", "optimal_value", "uniform_value", "episodes", "seeds", "results"}
    assert (content["world"], content["episodes"], content["seeds"]) == (TINY, 60, 2)
    (row,) = content["results"]
    assert row.keys() >= {
        "agent", "regret_mean", "regret_stderr", "final_gap", "final_gap_share", "users_until_5_percent",
        "episodes_per_second", "seconds", "compile_seconds",
    }  # fmt: skip
    frame = polars.read_parquet(tmp_path / "results.parquet")
    assert set(frame["seed"]) == {7, 8}
    assert frame.filter(polars.col("episode") == 60)["regret"].mean() == pytest.approx(row["regret_mean"])
    assert "note: --epsilon had no effect" in err


@pytest.mark.verify
def test_people_get_a_table_and_the_files(reticent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = reticent("run", "--world", TINY, "--agent", "ucrl-vtr", "--episodes", 60, "--seeds", 2)
    assert code == 0
    assert "final gap" in out
    assert "ucrl-vtr" in out
    (directory,) = (tmp_path / "results").iterdir()
    assert f"results/{directory.name}/report.html" in out
    assert len(list(directory.iterdir())) == 5
    assert ":" not in directory.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world", "mobile"], "error: unknown world 'mobile'; did you mean 'mobile-health'?"),
        (["--agent", "opo"], "error: unknown agent 'opo'; did you mean 'oppo'?"),
        (["--agent", "oppo:bonus=1"], "error: unknown option of 'oppo' 'bonus'; did you mean 'bonus_scale'?"),
        (["--agent", "oppo:bonus_scale=much"], "error: oppo: bonus_scale is much, but must be of type float"),
        (["--agent", "oppo:bonus_scale=-1"], "error: bonus_scale is -1.0"),
        (["--episodes", "0"], "error: episodes is 0, but must be at least 1"),
        (["--seeds", "0"], "error: seeds is 0, but must be at least 1"),
        (["--seeds", "-2"], "error: seeds is -2, but must be at least 1"),
        (["--epsilon", "-1"], "error: epsilon is -1.0"),
        (["--delta", "2"], "error: delta is 2.0"),
        (["--trust", "nobody"], "error: unknown trust model 'nobody'"),
    ],
)
def test_wrong_input_is_one_clean_line(reticent, tmp_path, arguments, message):
    code, out, err = reticent("run", *arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_wrong_usage_is_answered_without_a_traceback(reticent):
    for arguments in (["run", "--episodes", "many"], ["fly"], ["run", "--wings"]):
        code, out, err = reticent(*arguments)
        assert (code, out) == (2, "")
        assert "Traceback" not in err


def test_all_about_one_world_with_what_states_and_actions_are_called(reticent):
    out = reticent("worlds", "mobile-health")[1]
    assert "actions: nothing; gentle; strong" in out
    assert "states: idle, fresh; idle, prompted" in out
    assert "optimal value 3.3219" in out
    sheet = json.loads(reticent("worlds", "riverswim:states=3", "--json")[1])
    assert (sheet["states"], sheet["names"]["actions"]) == (3, ["left", "right"])
    code, out, err = reticent("worlds", "rivers")
    assert (code, out) == (2, "")
    assert "did you mean 'riverswim'" in err


@pytest.mark.verify
def test_values_of_all_worlds(reticent):
    rows = json.loads(reticent("worlds", "--values", "--json")[1])
    assert all(row.keys() >= {"states", "needs", "optimal_value", "uniform_value"} for row in rows)


def test_worlds_and_agents_are_listed(reticent):
    rows = json.loads(reticent("worlds", "--json")[1])
    wanted = {"name", "summary", "options", "states", "actions", "horizon", "d1", "d2", "needs", "default_episodes"}
    assert all(row.keys() == wanted for row in rows)
    assert {row["name"] for row in rows} >= {"mobile-health", "random-blend", "riverswim"}
    rows = json.loads(reticent("agents", "--json")[1])
    assert all(row.keys() >= {"name", "summary", "options"} for row in rows)
    assert {row["name"] for row in rows} >= {"ucrl-vtr", "oppo"}
    assert "mobile-health" in reticent("worlds")[1]
    assert "ucrl-vtr" in reticent("agents")[1]


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], *(pytest.param([name], marks=pytest.mark.verify) for name in COMMANDS if name != "run")],
    ids=lambda given: given[0] if given else "",
)
def test_help_is_fast_and_imports_nothing_heavy(arguments):
    """Processor time, best of three: the machine may be busy with other tests."""
    program = (
        "import sys, time\n"
        "from reticent.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], time.process_time())\n"
    )
    spent = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments, "--help"], capture_output=True, text=True, check=True
        )
        loaded, _, seconds = done.stdout.splitlines()[-1].rpartition(" ")
        assert "Usage" in done.stdout
        assert loaded == "[]"
        spent.append(float(seconds))
    assert min(spent) < 0.5


def test_importing_the_library_is_light():
    program = f"import sys, reticent; dir(reticent); print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_librarys_names_are_there():
    import reticent as library

    for name in library.__all__:
        assert getattr(library, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = library.nothing


def test_version(reticent):
    import reticent as library

    assert reticent("--version")[1] == f"reticent {library.__version__}\n"


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    """For real: a process, a signal, and a directory that can be read afterwards.

    The first agent is quick; when its results are there, the second one is compiling or running.
    """
    out = tmp_path / "out"
    command = [sys.executable, "-m", "reticent", "run", "--world", TINY, "--episodes", "600000", "--seeds", "1"]
    process = subprocess.Popen(
        [*command, "--agent", "ucrl-vtr:replan=epoch", "--agent", "oppo", "--out", str(out), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "RETICENT_CACHE": "off"},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / "results.parquet").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "stopping: keeping what is finished" in stderr
    assert "interrupted; kept: ucrl-vtr:replan=epoch 600,000 of 600,000" in stderr
    content = json.loads(stdout)
    assert content["interrupted"] is True
    first, *second = content["results"]
    assert (first["episodes"], first["finished"]) == (600_000, True)
    frame = polars.read_parquet(out / "results.parquet")
    assert frame.filter(polars.col("agent") == "ucrl-vtr:replan=epoch")["episode"].max() == 600_000
    for row in second:
        assert 0 < row["episodes"] < 600_000
        assert 0 < frame.filter(polars.col("agent") == "oppo")["episode"].max() <= row["episodes"]
    assert {path.name for path in out.iterdir()} == {"checkpoints", CONFIG, RESULTS, METADATA, PICTURE, REPORT}


@pytest.fixture
def usual_ctrl_c():
    """SIGINT as in a terminal: a suite that a shell runs in the background inherits it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_ctrl_c")
def test_the_second_ctrl_c_stops_at_once(capsys):
    before = signal.getsignal(signal.SIGINT)
    with listening() as interrupt:
        assert not interrupt()
        signal.raise_signal(signal.SIGINT)
        assert interrupt()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
