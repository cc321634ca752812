# SPDX-License-Identifier: Apache-2.0
"""A run from end to end: its numbers, its files, its report."""

from __future__ import annotations

import dataclasses
import json
import re

import jax
import numpy as np
import polars
import pytest
import yaml

import reticent
from reticent.errors import InvalidInput, UnknownName
from reticent.experiments import storage
from reticent.experiments.config import resolve
from reticent.reports import run_page
from reticent.reports.plots import Reference, band, band_words, gaps
from reticent.worlds import default_episodes, make_world

TINY = "random-blend:states=3,actions=2,horizon=2,d=2"
AGENTS = ["ucrl-vtr", "oppo:bonus_scale=0.3"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run, and where it is kept: tests of either may be the first of their worker."""
    directory = tmp_path_factory.mktemp("runs") / "one" / "deep"
    return reticent.run(TINY, AGENTS, episodes=120, seeds=3, out=directory), directory


@pytest.fixture
def result(kept):
    return kept[0]


@pytest.fixture
def directory(kept):
    return kept[1]


def test_summary_agrees_with_the_curves(result):
    assert list(result.curves) == AGENTS
    for row, curves in zip(result.summary(), result.curves.values(), strict=True):
        final = curves.regret[:, -1]
        assert row["regret_mean"] == pytest.approx(final.mean())
        assert row["regret_stderr"] == pytest.approx(final.std(ddof=1) / np.sqrt(3))
        at = curves.regret[:, np.flatnonzero(curves.episodes == 114)[0]]
        assert row["final_gap"] == pytest.approx(((final - at) / 6).mean())
        assert row["final_gap_share"] == pytest.approx(row["final_gap"] / result.scale)
        assert row["episodes_per_second"] == pytest.approx(3 * 120 / curves.seconds)
        assert (row["episodes"], row["finished"]) == (120, True)
        below = (result.optimal_value - curves.value) / result.scale <= 0.05
        each = sorted(next((k for i, k in enumerate(curves.episodes) if b[i:].all()), np.inf) for b in below)
        assert row["users_until_5_percent"] == (None if np.isinf(each[1]) else each[1])


def test_frame_has_the_promised_columns_and_the_curves_numbers(result, directory):
    frame = polars.read_parquet(directory / storage.RESULTS)
    assert frame.equals(result.to_frame())
    assert dict(frame.schema) == {
        "agent": polars.String, "seed": polars.Int64, "episode": polars.Int64,
        "value": polars.Float64, "regret": polars.Float64,
    }  # fmt: skip
    curves = result.curves["ucrl-vtr"]
    one = frame.filter((polars.col("agent") == "ucrl-vtr") & (polars.col("seed") == 2))
    np.testing.assert_array_equal(one["episode"], curves.episodes)
    np.testing.assert_array_equal(one["regret"], curves.regret[2])
    np.testing.assert_array_equal(one["value"], curves.value[2])


def test_config_is_resolved_and_makes_the_same_run(result, directory):
    config = yaml.safe_load((directory / storage.CONFIG).read_text())
    assert config["reticent"] == reticent.__version__
    assert (config["world"], config["episodes"], config["seeds"]) == (TINY, 120, [0, 1, 2])
    oppo = config["agents"][1]
    assert oppo["options"]["bonus_scale"] == 0.3
    assert oppo["options"].keys() >= {"bonus_scale", "alpha", "regularization", "replan", "learning_rate"}
    again = reticent.make_agent(result.runs[1].config.spec, result.world.model, 120)
    given = result.agents[AGENTS[1]]
    assert again.name == given.name == result.runs[1].config.spec
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_metadata_says_how_and_not_where(directory):
    text = (directory / storage.METADATA).read_text()
    facts = json.loads(text)
    assert facts["versions"].keys() == {"reticent", "python", "jax", "numpy"}
    assert facts["seeds"] == [0, 1, 2]
    assert facts["seconds"] > 0
    assert not re.search(r'"[^"]*/(work|home|root|tmp|usr)/', text)


def test_no_temporary_file_is_left(directory):
    assert sorted(path.name for path in directory.iterdir()) == sorted(
        [storage.CONFIG, storage.RESULTS, storage.METADATA, storage.PICTURE, storage.REPORT]
    )


def test_picture_is_a_wide_png(directory):
    content = (directory / storage.PICTURE).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == pytest.approx(1600, abs=10)


def test_picture_takes_references_and_other_formats(result, tmp_path):
    bound = Reference("a bound", np.array([1, 120]), np.array([1.0, 20.0]))
    assert "a bound" not in result.plot(tmp_path / "plain.svg").read_text()
    drawn = result.plot(tmp_path / "bound.svg", [bound]).read_text()
    assert drawn.startswith("<?xml")
    assert "a bound" in drawn or len(drawn) > 10_000  # text may be drawn as paths


def test_report_needs_nothing_else_and_says_what_was_found(directory):
    page = (directory / storage.REPORT).read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"']?(?!data:)[a-z./]", page)
    assert not re.search(r"https?://|@import|url\(", page)
    assert 'src="data:image/png;base64,' in page
    assert 'name="viewport"' in page
    assert "120 users of the simulated world" in page
    for heading in ("Results", "The agents", "Configuration", "Circumstances"):
        assert heading in page


def test_report_escapes_names(result):
    named = dataclasses.replace(result, config=dataclasses.replace(result.config, world="<script>"))
    page = run_page.report_html(named, b"png", {"<b>": "<i>"})
    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page
    assert "<h2>Results</h2>" in page


def test_summary_sentence_names_those_that_learned_nothing(result, monkeypatch):
    rows = [{"agent": name, "final_gap": gap, "final_gap_share": gap, "episodes": 7}
            for name, gap in (("a", 0.5), ("b", 1.2), ("c", 0.25))]  # fmt: skip
    monkeypatch.setattr(type(result), "summary", lambda self: rows)
    assert run_page.summary_sentence(result) == (
        f"After 7 users of the simulated world “{TINY}”, c had covered 75.0% and a 50.0% of the way from acting at "
        "random to the best possible policy; b did no better than acting at random."
    )


@pytest.mark.verify
def test_a_run_can_be_stopped_and_keeps_what_is_finished(tmp_path):
    asked = []

    def stop():
        asked.append(True)
        return len(asked) > 3  # once before the agent, then after each segment

    stopped = reticent.run(TINY, AGENTS, episodes=120, seeds=1, out=tmp_path, should_stop=stop)
    assert stopped.interrupted
    assert list(stopped.curves) == AGENTS[:1]
    (row,) = stopped.summary()
    assert (row["episodes"], row["finished"], row["regret_stderr"]) == (9, False, None)
    assert polars.read_parquet(tmp_path / storage.RESULTS)["episode"].max() == 9
    assert "stopped early" in (tmp_path / storage.REPORT).read_text()


def test_nothing_is_written_if_a_run_is_stopped_before_it_begins(tmp_path):
    stopped = reticent.run(TINY, AGENTS, episodes=120, seeds=1, out=tmp_path, should_stop=lambda: True)
    assert (stopped.runs, stopped.interrupted, stopped.summary()) == ((), True, [])
    assert stopped.to_frame().is_empty()


# -- resolving ---------------------------------------------------------------------------------------------------------


def test_the_world_says_how_many_users_and_the_agent_the_rest():
    config, _ = resolve("mobile-health", ["ucrl-vtr", "oppo:bonus_scale=2"])
    assert config.episodes == default_episodes("mobile-health")
    assert config.seeds == tuple(range(16))
    assert config.agents[0].options["bonus_scale"] == 0.1
    assert config.agents[1].options["bonus_scale"] == 2.0


def test_a_private_agent_brings_its_non_private_learner():
    flags = {"epsilon": 2.0, "trust": "local"}
    config, _ = resolve(TINY, ["private-linopt-vi:epsilon=3", "private-linopt-po"], 10, flags=flags)
    assert [agent.name for agent in config.agents] == ["private-linopt-vi", "private-linopt-po", "ucrl-vtr", "oppo"]
    assert [agent.options.get("epsilon") for agent in config.agents] == [3.0, 2.0, None, None]
    assert config.agents[0].options["trust"] == "local"
    config, _ = resolve(TINY, ["ucrl-vtr:alpha=0.1", "private-linopt-vi"], 10)
    assert [agent.label for agent in config.agents] == ["ucrl-vtr:alpha=0.1", "private-linopt-vi"]


def test_trusting_nobody_else_means_the_non_private_learner():
    config, _ = resolve(TINY, ["private-linopt-vi", "ucrl-vtr", "private-linopt-po"], 10, flags={"trust": "none"})
    assert [agent.label for agent in config.agents] == ["ucrl-vtr (fair)", "ucrl-vtr", "oppo (fair)"]
    assert [agent.options["span"] for agent in config.agents] == ["seen", "horizon", "seen"]
    assert [agent.comparator for agent in config.agents] == [True, True, True]


def test_repeated_agents_are_run_once():
    config, _ = resolve(TINY, ["oppo", "oppo"], 10)
    assert [agent.label for agent in config.agents] == ["oppo"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"world": "riverswimm"}, UnknownName, "did you mean 'riverswim'"),
        ({"agents": ["ucrl"]}, UnknownName, "did you mean 'ucrl-vtr'"),
        ({"agents": ["ucrl-vtr:bonus=1"]}, UnknownName, "did you mean 'bonus_scale'"),
        ({"agents": []}, InvalidInput, "at least one agent"),
        ({"episodes": 0}, InvalidInput, "episodes is 0"),
        ({"seeds": 0}, InvalidInput, "seeds is 0"),
        ({"seeds": [1, 1]}, InvalidInput, "different"),
        ({"seeds": [-1]}, InvalidInput, "from 0"),
        ({"epsilon": 0.0}, InvalidInput, "epsilon is 0.0"),
        ({"epsilon": float("nan")}, InvalidInput, "epsilon is nan"),
        ({"delta": 1.0}, InvalidInput, "delta is 1.0"),
        ({"trust": "central"}, UnknownName, "trust model 'central'"),
        ({"agents": ["private-linopt-vi"], "counter": "abacus"}, UnknownName, "abacus"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(given, error, message, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(error, match=message):
        reticent.run(**{"world": TINY, "episodes": 10, "agents": ["ucrl-vtr"], **given}, out=out)
    assert not out.exists()


def test_a_place_that_cannot_be_written_to_is_found_out_first(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="a directory that can be written to"):
        reticent.run(TINY, ["oppo"], episodes=10, out=tmp_path / "file" / "below")


def test_an_unnamed_world_needs_a_number_of_episodes():
    with pytest.raises(InvalidInput, match="episodes is None"):
        reticent.run(dataclasses.replace(make_world(TINY), name="of my own"), ["oppo"])


# -- bands -------------------------------------------------------------------------------------------------------------


def test_bands_are_what_their_words_say():
    samples = np.arange(32.0).reshape(16, 2) ** 1.5
    many, few, one = band(samples), band(samples[:3]), band(samples[:1])
    np.testing.assert_allclose(many.high - many.mean, 1.96 * samples.std(axis=0, ddof=1) / 4)
    np.testing.assert_array_equal(few.low, samples[:3].min(axis=0))
    assert one.low is None
    assert "1.96 standard errors over 16 seeds" in band_words(16)
    assert "least and greatest of 3 seeds" in band_words(3)
    assert "single seed" in band_words(1)


def test_gaps_add_up_to_the_regret(result):
    curves = result.curves["ucrl-vtr"]
    episodes, samples = gaps(curves)
    np.testing.assert_allclose((samples * np.diff(episodes, prepend=0)).sum(axis=1), curves.regret[:, -1])


def test_an_audit_becomes_a_section_of_the_report_once() -> None:
    from reticent.reports.run_page import AUDIT_PLACE, with_audit

    page = f"<main>results {AUDIT_PLACE} settings</main>"
    once = with_audit(page, "first")
    twice = with_audit(once, "second")
    assert "first" in once
    assert "first" not in twice
    assert twice.count("<h2>Audit</h2>") == 1
    assert twice.startswith("<main>results ")
    assert twice.endswith(" settings</main>")


def test_a_picture_that_cannot_be_drawn_costs_a_sentence_and_not_the_run(result, tmp_path, monkeypatch):
    spoiled = [
        dataclasses.replace(run, curves=dataclasses.replace(run.curves, regret=np.full_like(run.curves.regret, np.nan)))
        for run in result.runs
    ]
    lost = dataclasses.replace(result, runs=spoiled)

    def stumble(*_, **__):
        raise StopIteration

    monkeypatch.setattr(type(lost), "plot", stumble)
    (tmp_path / storage.PICTURE).write_bytes(b"of an earlier run")
    storage.write_run(lost, tmp_path)
    assert not (tmp_path / storage.PICTURE).exists()
    assert "The picture could not be drawn (StopIteration" in (tmp_path / storage.REPORT).read_text()
    assert (tmp_path / storage.RESULTS).exists()
    assert (tmp_path / storage.METADATA).exists()
    rows = json.loads(json.dumps(lost.to_dict(), allow_nan=False))["results"]
    assert [row["regret_mean"] for row in rows] == [None, None]
