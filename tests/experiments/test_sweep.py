# SPDX-License-Identifier: Apache-2.0
"""A sweep in one process: the grid, the names of cells, what is stored, resuming, failures, the summary."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading

import numpy as np
import polars
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidInput, MissingExtra, ReticentError, UnknownName
from reticent.experiments.run import run
from reticent.experiments.sweep import storage, work
from reticent.experiments.sweep.cells import Cell, cells_of, chunks, full_world, short_world
from reticent.experiments.sweep.grid import Grid, grid_of, read_grid
from reticent.experiments.sweep.summary import CountedTwice, settings_of
from reticent.experiments.sweep.sweep import run_sweep
from reticent.reports.plots.sweep import draw_sweep, horizontal_axis

TINY = "random-blend:states=3,actions=2,horizon=2,d=2"
GRID = {
    "worlds": TINY,
    "agents": ["private-linopt-vi", "ucrl-vtr"],
    "episodes": 60,
    "privacy": {"epsilon": [0.5, "1e1"]},
    "bonus_scales": [0.05, 0.2],
    "seeds": 6,
    "seeds_per_cell": 3,
}
"""Two agents, four and two settings, two chunks of seeds: 12 cells and two compiled programs."""


def contents(directory):
    """Every cell's file, byte for byte."""
    return {path.name: path.read_bytes() for path in (directory / storage.CELLS).iterdir()}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("sweeps") / "one"


@pytest.fixture(scope="module")
def result(directory):
    return run_sweep(grid_of(GRID), directory)


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"world": TINY}, UnknownName, "unknown key 'world'; did you mean 'worlds'"),
        ({"worlds": []}, InvalidInput, "worlds is empty, but must be at least one value"),
        ({"worlds": [TINY, 3]}, InvalidInput, r"worlds\[1\] is 3, but must be a name"),
        ({"worlds": [[TINY]]}, InvalidInput, "worlds is .*, but must be a single value"),
        ({"agents": ["ucrl-vtr", "opo"]}, ReticentError, r"agents\[1\]: unknown agent 'opo'; did you mean 'oppo'"),
        ({"agents": "oppo:bonus=1"}, ReticentError, "agents: unknown option of 'oppo' 'bonus'"),
        ({"episodes": [10, 0]}, InvalidInput, r"episodes\[1\] is 0, but must be a whole number of at least 1"),
        ({"episodes": 2.5}, InvalidInput, "episodes is 2.5"),
        ({"seeds": 0}, InvalidInput, "seeds is 0"),
        ({"seeds": [0, -1]}, InvalidInput, r"seeds\[1\] is -1"),
        ({"seeds": {"last": 3}}, UnknownName, "unknown key of seeds 'last'"),
        ({"seeds_per_cell": "few"}, InvalidInput, "seeds_per_cell is few"),
        ({"seeds_per_cell": True}, InvalidInput, "seeds_per_cell is True"),
        ({"privacy": {"epsilon": [1, "much"]}}, ReticentError, r"privacy.epsilon\[1\]: private-linopt-vi: epsilon is much"),
        ({"privacy": {"trust": "nobody"}}, ReticentError, "privacy.trust: unknown value of .* 'nobody'"),
        ({"privacy": {"epsilonn": 1}}, UnknownName, "privacy.epsilonn: .*did you mean 'epsilon'"),
        ({"privacy": [1]}, InvalidInput, "privacy is .*, but must be a mapping"),
        ({"options": {"bonus_scale": 1}}, InvalidInput, "bonus_scales is given twice"),
        ({"ray": {"cpus": 1}}, UnknownName, "unknown key of ray 'cpus'"),
        ({"ray": {"num_cpus": -1}}, InvalidInput, "ray.num_cpus is -1"),
        ({"ray": {"num_cpus": 0}}, InvalidInput, "ray.num_cpus is 0"),
        ({"ray": {"max_retries": 0.5}}, InvalidInput, "ray.max_retries is 0.5"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(change, error, message):
    with pytest.raises(error, match=message):
        grid_of({**GRID, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worlds": [TINY, "riverswimm"]}, r"worlds\[1\]: unknown world 'riverswimm'; did you mean 'riverswim'"),
        ({"worlds": "riverswim:states=1"}, "worlds: riverswim: states is 1"),
        ({"privacy": {"epsilon": [1, -2]}}, r"privacy.epsilon\[1\]: epsilon is -2.0, but must be"),
        ({"privacy": {"delta": 2}}, "privacy.delta: delta is 2.0, but must be"),
        ({"bonus_scales": [0.1, -1]}, r"bonus_scales\[1\]: bonus_scale is -1.0, but must be"),
        ({"seeds": [4, 4]}, "seeds is .*, but must be different"),
    ],
)
def test_what_no_cell_can_be_is_refused_before_anything_is_written(change, message, tmp_path):
    with pytest.raises(ReticentError, match=message):
        run_sweep(grid_of({**GRID, **change}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worlds: a\nworlds: b\n", "line 2: the key 'worlds' is there twice"),
        ("worlds: [a\n", "line 2: .*must be valid YAML"),
        ("- a\n", "sweep.yaml: the file is list, but must be a mapping"),
        ("", "sweep.yaml: the file is NoneType"),
        ("worlds: nowhere\nagents: nobody\n", "sweep.yaml: agents: unknown agent 'nobody'"),
    ],
)
def test_an_unreadable_file_is_said_with_its_line(text, message, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(ReticentError, match=message):
        read_grid(path)
    with pytest.raises(InvalidInput, match=r"CONFIG is .*No such file"):
        read_grid(tmp_path / "missing.yaml")


@pytest.mark.verify
def test_the_stored_grid_is_the_same_grid(directory, result):
    stored = yaml.safe_load((directory / storage.GRID).read_text())
    del stored["reticent"]
    assert [cell.id for cell in cells_of(grid_of(stored))] == [cell.id for cell in result.cells]


# -- cells -------------------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_once():
    cells = cells_of(grid_of(GRID))
    found = {(c.agent, c.options.get("epsilon"), c.options["bonus_scale"], c.seeds) for c in cells}
    scales, seeds = (0.05, 0.2), ((0, 1, 2), (3, 4, 5))
    wanted = {("private-linopt-vi", *rest) for rest in itertools.product((0.5, 10.0), scales, seeds)}
    wanted |= {("ucrl-vtr", None, *rest) for rest in itertools.product(scales, seeds)}
    assert found == wanted
    assert len(cells) == len({cell.id for cell in cells}) == len(wanted)


def test_no_trust_model_is_the_non_private_learner_and_local_noise_has_no_counter():
    privacy = {"trust": ["none", "joint", "local"], "counter": ["epochs", "tree"]}
    cells = cells_of(grid_of({**GRID, "agents": "private-linopt-po", "bonus_scales": None, "privacy": privacy}))
    found = {(cell.agent, cell.options.get("trust"), cell.options.get("counter")) for cell in cells}
    assert found == {
        ("oppo", None, None), ("private-linopt-po", "local", None),
        ("private-linopt-po", "joint", "epochs"), ("private-linopt-po", "joint", "tree"),
    }  # fmt: skip


def test_an_agents_own_options_win_and_a_private_one_brings_its_learner():
    cells = cells_of(grid_of({**GRID, "agents": ["private-linopt-vi:epsilon=3"], "seeds": 1}))
    assert {(cell.agent, cell.options.get("epsilon")) for cell in cells} == {
        ("private-linopt-vi", 3.0), ("ucrl-vtr", None),
    }  # fmt: skip
    assert len(cells) == 3  # two bonus scales, and the learner at the world's own


def test_one_world_has_one_name_however_it_is_written():
    written = ["riverswim:states=4", "riverswim: states=4", "riverswim:states=4,features=tabular"]
    assert len({full_world(spec) for spec in written}) == 1
    assert {short_world(full_world(spec)) for spec in written} == {"riverswim:states=4"}
    grids = [grid_of({**GRID, "worlds": spec, "episodes": 10}) for spec in written]
    assert len({tuple(cell.id for cell in cells_of(grid)) for grid in grids}) == 1


values = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=4))
configs = st.builds(
    Cell,
    world=st.text(max_size=8),
    agent=st.sampled_from(["a", "b"]),
    options=st.dictionaries(st.text(max_size=3), values, max_size=3),
    episodes=st.integers(1, 9),
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
)


@given(configs, configs)
def test_cells_have_the_same_id_exactly_if_they_are_the_same(one, other):
    same = json.dumps(one.config(), sort_keys=True) == json.dumps(other.config(), sort_keys=True)
    assert (one.id == other.id) == same
    assert Cell.of(json.loads(json.dumps(one.config()))).id == one.id


def test_another_version_of_the_library_is_another_cell(monkeypatch):
    config = cells_of(grid_of(GRID))[0].config()
    before = Cell.of(config).id
    monkeypatch.setattr("reticent.__version__", "99.0")
    assert Cell.of(config).id != before


@given(st.lists(st.integers(0, 99), unique=True, max_size=20), st.integers(1, 7), st.integers(0, 5))
def test_chunks_share_out_all_seeds_and_more_seeds_leave_full_chunks_alone(seeds, size, more):
    found = list(chunks(seeds, size))
    assert [seed for chunk in found for seed in chunk] == seeds
    assert all(len(chunk) == size for chunk in found[:-1])
    longer = list(chunks([*seeds, *range(100, 100 + more)], size))
    full = len(seeds) // size
    assert longer[:full] == found[:full]


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_cells_file_holds_what_a_run_of_its_seeds_finds(directory, result):
    cell = next(c for c in result.cells if c.options.get("epsilon") == 0.5 and c.options["bonus_scale"] == 0.2)
    frame = polars.read_parquet(storage.partition(directory, cell))
    same = run(TINY, ["private-linopt-vi:epsilon=0.5,bonus_scale=0.2"], 60, cell.seeds)
    curves = same.curves["private-linopt-vi:epsilon=0.5,bonus_scale=0.2"]
    assert frame["cell"].unique().to_list() == [cell.id]
    for number, seed in enumerate(cell.seeds):
        one = frame.filter(polars.col("seed") == seed)
        np.testing.assert_array_equal(one["episode"], curves.episodes)
        np.testing.assert_array_equal(one["regret"], curves.regret[number])
        np.testing.assert_array_equal(one["value"], curves.value[number])
        assert one["final_gap"].unique().to_list() == [curves.tail_regret[number]]
    row = frame.row(0, named=True)
    assert (row["optimal_value"], row["uniform_value"]) == (same.optimal_value, same.uniform_value)
    assert row["epsilon_spent"] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.verify
def test_the_summary_is_that_of_all_files_taken_together(directory, result):
    frame = polars.read_parquet(directory / storage.CELLS / "*.parquet")
    ends = frame.filter(polars.col("episode") == 60)
    assert len(result.settings) == 6
    for setting in result.settings:
        row = setting.row()
        mine = ends.filter(polars.col("agent") == row["spec"]).sort("seed")
        assert mine["seed"].to_list() == list(range(6))
        assert row["regret_mean"] == pytest.approx(mine["regret"].mean())
        assert row["regret_stderr"] == pytest.approx(mine["regret"].std() / np.sqrt(6))
        assert row["final_gap"] == pytest.approx(mine["final_gap"].mean())
        scale = (mine["optimal_value"] - mine["uniform_value"])[0]
        assert row["regret_share"] == pytest.approx(mine["regret"].mean() / (60 * scale))
        assert row["final_gap_share"] == pytest.approx(mine["final_gap"].mean() / scale)
    labels = {setting.label for setting in result.settings}
    assert "private-linopt-vi:epsilon=10,bonus_scale=0.05" in labels
    assert "ucrl-vtr:bonus_scale=0.2" in labels
    summary = polars.read_parquet(directory / storage.SUMMARY)
    assert summary.height == 6
    assert summary["option_epsilon"].to_list().count("10.0") == 2
    assert polars.read_csv(directory / storage.TABLE)["regret_mean"].to_list() == pytest.approx(
        summary["regret_mean"].to_list()
    )


def test_the_directory_has_a_picture_and_a_report_that_state_the_promise(directory, result):
    assert (directory / storage.PICTURE).read_bytes().startswith(b"\x89PNG")
    page = (directory / storage.REPORT).read_text()
    assert "6 settings in 1 world<" in page
    assert "joint (0.5, 1e-05), spends 0.5" in page
    facts = json.loads((directory / storage.METADATA).read_text())
    assert (facts["cells"], facts["finished"], facts["found"], facts["failed"]) == (12, 12, 0, 0)
    assert facts["engine"] == "local"


def test_the_axis_of_the_picture_is_the_number_that_is_varied(result):
    assert horizontal_axis(result.settings) == "epsilon"
    plain = [setting for setting in result.settings if setting.agent == "ucrl-vtr"]
    assert horizontal_axis(plain) == "bonus_scale"
    assert horizontal_axis(plain[:1]) is None
    assert draw_sweep(plain[:1]).startswith(b"\x89PNG")


# -- once and only once ------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_finished_cells_are_not_run_again_and_missing_ones_come_back_the_same(directory, result, tmp_path, monkeypatch):
    before = contents(directory)
    for name in before:
        (tmp_path / storage.CELLS).mkdir(exist_ok=True)
        (tmp_path / storage.CELLS / name).write_bytes(before[name])
    missing = [storage.partition(tmp_path, cell) for cell in result.cells[1::5]]
    for path in missing:
        path.unlink()
    ran = []
    original = work.simulate_cell
    monkeypatch.setattr(work, "simulate_cell", lambda cell, stop: ran.append(cell.id) or original(cell, stop))
    again = run_sweep(grid_of(GRID), tmp_path)
    assert sorted(ran) == sorted(path.stem for path in missing)
    assert contents(tmp_path) == before
    assert (again.found, len(again.finished)) == (12 - len(missing), 12)
    assert [setting.row() for setting in again.settings] == [setting.row() for setting in result.settings]


@pytest.mark.verify
def test_more_seeds_use_what_is_there_and_other_chunks_are_not_counted_too(directory, result):
    """The directory may hold cells of other grids: 9 seeds in threes share two chunks with 6, in sixes none."""
    more = run_sweep(grid_of({**GRID, "seeds": 9, "agents": "ucrl-vtr", "privacy": None}), directory)
    assert (more.found, len(more.cells)) == (4, 6)
    other = run_sweep(grid_of({**GRID, "seeds_per_cell": 6, "agents": "ucrl-vtr", "privacy": None}), directory)
    assert (other.found, len(other.cells)) == (0, 2)
    before = {setting.label: setting for setting in result.settings}
    for found, seeds in ((more, 9), (other, 6)):
        for setting in found.settings:
            assert setting.seeds.tolist() == list(range(seeds))
            np.testing.assert_allclose(setting.regret[:6], before[setting.label].regret, rtol=1e-9)


def test_a_seed_that_is_there_twice_is_not_averaged_over(directory, result):
    cell = result.cells[0]
    overlapping = Cell(cell.world, cell.agent, cell.options, cell.episodes, (2, 7, 8))
    work.run_cell(overlapping, directory)
    with pytest.raises(CountedTwice, match="more than one cell"):
        settings_of(directory, [cell, overlapping], [cell, overlapping])


def test_a_stopped_sweep_keeps_what_is_finished_and_goes_on(result, directory, tmp_path):
    asked = itertools.count()
    grid = grid_of({**GRID, "agents": "ucrl-vtr", "privacy": None})
    stopped = run_sweep(grid, tmp_path, should_stop=lambda: next(asked) > 50)
    assert stopped.interrupted
    assert 0 < len(stopped.finished) < len(stopped.cells) == 4
    assert not stopped.failures
    rest = run_sweep(grid, tmp_path)
    assert (rest.found, len(rest.finished), rest.interrupted) == (len(stopped.finished), 4, False)
    everything = contents(directory)
    assert all(everything[name] == content for name, content in contents(tmp_path).items())


def test_a_file_is_whole_whoever_writes_it_at_the_same_time(tmp_path):
    target, content = tmp_path / "file", bytes(300_000)
    seen = []

    def write():
        for _ in range(20):
            storage.write_whole(target, content)
            seen.append(len(target.read_bytes()))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {len(content)}
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_worker_left_behind_is_no_result_and_is_swept_up(tmp_path):
    grid = grid_of(GRID)
    cell = cells_of(grid)[0]
    storage.prepare(tmp_path, grid)
    folder = tmp_path / storage.CELLS
    old, young = (folder / f".{cell.id}.parquet.{name}{storage.UNFINISHED}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half a file")
    os.utime(old, (0, 0))
    assert storage.finished(tmp_path, [cell]) == []
    storage.prepare(tmp_path, grid)
    assert not old.exists()
    assert young.exists()


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_cell_that_cannot_be_run_does_not_stop_the_others(tmp_path, monkeypatch):
    """One agent's own option is wrong; another cell hits a defect."""
    grid = grid_of({**GRID, "agents": ["ucrl-vtr", "oppo:bonus_scale=-3"], "privacy": None, "seeds_per_cell": 6})
    original, broken = work.simulate_cell, cells_of(grid)[-1].id

    def fragile(cell, stop):
        if cell.id == broken:
            raise MemoryError("no room")
        return original(cell, stop)

    monkeypatch.setattr(work, "simulate_cell", fragile)
    found = run_sweep(grid, tmp_path)
    assert len(found.cells) == 3
    assert len(found.finished) == 1
    messages = {cell.agent: found.failures[cell.id] for cell in found.failed}
    assert messages["oppo"].startswith("bonus_scale is -3.0, but must be")
    records = {path.stem: json.loads(path.read_text()) for path in (tmp_path / storage.FAILED).iterdir()}
    assert {name: record["message"] for name, record in records.items()} == found.failures
    assert Cell.of(records[broken]["cell"]).id == broken
    assert found.failures[broken] == "MemoryError: no room"
    page = (tmp_path / storage.REPORT).read_text()
    assert "Of 3 cells 2 failed" in page
    assert "MemoryError: no room" in page
    monkeypatch.setattr(work, "simulate_cell", original)
    again = run_sweep(grid, tmp_path)
    assert [cell.agent for cell in again.failed] == ["oppo"]
    assert [path.stem for path in (tmp_path / storage.FAILED).iterdir()] == [again.failed[0].id]


def test_a_worker_that_does_not_see_the_directory_says_so(tmp_path):
    cell = cells_of(grid_of(GRID))[0]
    outcome = work.run_cell(cell, tmp_path / "elsewhere")
    assert outcome.status == "failed"
    assert "storage that all nodes share" in outcome.message


def test_engine_and_directory_are_checked_first(tmp_path):
    grid = Grid((TINY,), ("ucrl-vtr",), (10,), (), (0,))
    with pytest.raises(UnknownName, match="unknown engine 'rai'; did you mean 'ray'"):
        run_sweep(grid, tmp_path / "out", "rai")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="a directory that can be written to"):
        run_sweep(grid, tmp_path / "file" / "below")


def test_without_ray_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'reticent\[ray\]'"):
        run_sweep(grid_of(GRID), tmp_path, "ray")
