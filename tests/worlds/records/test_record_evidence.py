# SPDX-License-Identifier: Apache-2.0
"""Too little evidence is said, with what would suffice; held-out users choose the shrinkage."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from made_up_logs import clicks, recorded

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import guarantee_of
from reticent.worlds.models.model_file import load_model
from reticent.worlds.records import fit
from reticent.worlds.records.evidence import POWER

OPTIONS = {"origin": "simulated", "horizon": 1, "starts": 2}


@pytest.fixture(scope="module")
def doubtful():
    return fit(clicks(10_000, items=80, rate=0.004), candidates=(2, 4), **OPTIONS)


def test_few_clicks_are_too_few_and_what_would_suffice_is_said(doubtful):
    evidence = doubtful.report.evidence
    assert not evidence.enough
    assert (evidence.pairs, evidence.candidates) == (240, 2)
    assert f"{evidence.rewards} rewards for 240 pairs: too few to learn from" in doubtful.report.doubt
    # By hand: 42 rows a pair, and 2 · 15.7 · (1 − p) / p of them are needed for two candidates.
    rate = evidence.rewards / 10_000
    by_hand = 240 * 2 * 2 * POWER * (1 - rate) / rate
    assert by_hand <= evidence.rows_needed <= 1.12 * by_hand


def test_no_pair_is_believed_to_pay_much_more(doubtful):
    """Without shrinkage the best of 240 pairs seems to pay ten times the average."""
    table = doubtful.kernel.rewards
    assert table.max() < 1.2 * table.mean()
    assert doubtful.report.pooling.rewards > 100
    assert doubtful.report.candidates == 2


def test_the_words_name_rewards_and_why_kinds_cannot_be_found(doubtful):
    text = str(doubtful.report)
    assert "other than the usual one" in text
    assert "every user has one row" in text
    assert doubtful.report.intervals[0].error > 0


def test_no_model_is_written_unless_asked_and_it_carries_the_doubt(doubtful, tmp_path):
    path = tmp_path / "model.npz"
    with pytest.raises(InvalidInput, match=r"too few to learn from.*--anyway"):
        doubtful.save(path)
    assert not path.exists()
    loaded = load_model(doubtful.save(path, anyway=True))
    assert loaded.provenance.doubt == doubtful.report.doubt == loaded.report["doubt"]
    promise = guarantee_of(make_agent("private-score-vi", loaded.model, 20))
    assert "too few to learn from" in promise.sentence()  # what a dashboard shows


def test_a_pair_that_pays_twice_is_found_from_so_many_rows():
    """The criterion by simulation: of n* rows, 80 % of tests of level 5 % find a pair that pays 2p instead of p."""
    rate, random = 0.02, np.random.default_rng(0)
    needed = POWER * 2 * (1 - rate) / rate
    means = random.binomial(round(needed), 2 * rate, size=20_000) / round(needed)
    found = np.abs(means - rate) > 1.96 * np.sqrt(2 * rate * (1 - 2 * rate) / needed)
    assert 0.77 < found.mean() < 0.86


def test_many_rewards_are_enough():
    assert fit(recorded(600, [0.5, 0.3, 0.2]), origin="simulated", horizon=3, candidates=2, starts=2).report.doubt == ""


def test_held_out_users_may_overrule_the_criterion():
    """A few items that pay far more than twice the average are found from fewer rows than twice would take."""
    table = clicks(6_000, items=40, rate=0.01)
    random = np.random.default_rng(1)
    good = (pl.col("action") == "item 7") | (pl.col("action") == "item 9")
    paid = pl.Series(random.random(len(table)) < 0.6).cast(pl.Float64)
    table = table.with_columns(reward=pl.when(good).then(paid).otherwise("reward"))
    report = fit(table, candidates=2, **OPTIONS).report
    assert report.evidence.tried < report.evidence.candidates * report.evidence.needed
    assert report.evidence.enough


def test_chance_alone_seldom_overrules_it():
    """At level 5 %, 5 or more of 24 logs without any difference would be a false alarm of 0.6 %."""
    fits = [fit(clicks(800, items=10, rate=0.05, seed=seed), candidates=2, **OPTIONS).report for seed in range(24)]
    assert sum(report.evidence.enough for report in fits) < 5


def test_rewards_that_never_differ_are_doubted_as_well_as_few(tmp_path):
    table = recorded(200, [0.5, 0.3, 0.2]).with_columns(reward=pl.lit(0.0))
    fitted = fit(table, origin="simulated", horizon=3, candidates=2, starts=2)
    assert fitted.report.evidence is None
    assert fitted.report.doubt.startswith(f"all {table.height:,} rewards are the same")
    with pytest.raises(InvalidInput, match="rewards are the same"):
        fitted.save(tmp_path / "model.npz")
    assert load_model(fitted.save(tmp_path / "model.npz", anyway=True)).provenance.doubt == fitted.report.doubt


def test_little_at_stake_is_said():
    table = recorded(1500, [0.5, 0.3, 0.2]).with_columns(reward=0.5 + 0.01 * pl.col("reward"))
    report = fit(table, origin="simulated", horizon=3, candidates=2, starts=2).report
    assert "little is at stake" in " ".join(report.warnings())
