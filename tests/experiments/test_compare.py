# SPDX-License-Identifier: Apache-2.0
"""Comparisons: who takes part, who is told why not, the ranking, the advice, and the files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from reticent.agents import AGENTS
from reticent.cli import app
from reticent.errors import InvalidInput, ReticentError, UnknownName
from reticent.experiments.compare import Comparison, compare
from reticent.experiments.compare.field import gather, trusted_parties
from reticent.reports.comparison_page import comparison_html, rows
from reticent.reports.plots.comparison import draw_gaps, draw_regret
from reticent.worlds import make_world

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
SOME = ("ucrl-vtr", "private-linopt-vi:first=16", "ucbvi")


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(WORLD, (1.0, 4.0), agents=SOME, episodes=200, seeds=3)


@pytest.mark.verify
def test_the_field_is_every_agent_under_every_trust_model_it_offers() -> None:
    contestants, absent = gather(make_world(WORLD).model, 200, (1.0,), 1e-5)
    assert {who.name for who in contestants} | {who.name.partition(":")[0] for who in absent} == set(AGENTS)
    ours = {who.trust for who in contestants if who.name == "private-linopt-vi"}
    assert ours == {"joint", "local", "shuffle"}
    for who in contestants:
        assert who.trusted == trusted_parties()[who.trust]
        assert who.promise.sentence()
        promises_nothing = who.trust == "none"
        assert (who.kind == "none") == promises_nothing == (who.guarantee is None)
        if who.guarantee is not None:  # equal terms for all
            assert who.guarantee.epsilon == 1.0
            assert who.guarantee.delta in (0.0, 1e-5)
            assert who.kind == ("approximate" if who.guarantee.delta else "pure")
    free = {who.name for who in contestants if who.guarantee is None}
    assert {"ucrl-vtr", "ucbvi", "noisy-q-learning", "lsvi-ucb"} <= free
    assert not {name for name in free if name.startswith(("private", "ldp", "dp", "pucb", "lsw", "lsl"))}


def test_who_does_not_apply_says_why() -> None:
    """A bandit learner needs episodes of one step."""
    _, absent = gather(make_world(WORLD).model, 200, (1.0,), 1e-5, agents=["linucb"])
    assert [who.name for who in absent] == ["linucb"]
    assert absent[0].reason.startswith("horizon is 2, but must be 1")
    with pytest.raises(ReticentError, match="none that applies"):
        compare(WORLD, agents=["linucb"], episodes=50, seeds=1)


@pytest.mark.parametrize(("epsilons", "delta", "field"), [((1.0, -1.0), 1e-5, "epsilon"), ((1.0,), 2.0, "delta")])
def test_a_promise_that_is_none_is_refused_and_not_an_absence(epsilons, delta, field) -> None:
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        gather(make_world(WORLD).model, 200, epsilons, delta, agents=SOME)


@pytest.mark.verify
def test_nobody_is_run_who_is_not_compared() -> None:
    found = compare(WORLD, (1.0,), agents=["private-linopt-vi:first=16,trust=joint"], episodes=60, seeds=1)
    assert len(found.result.runs) == len(found.standings) == 1


def test_a_wrong_name_is_not_an_absence() -> None:
    model = make_world(WORLD).model
    with pytest.raises(UnknownName, match="ucrl-vtr"):
        gather(model, 200, (1.0,), 1e-5, agents=["ucrl"])
    with pytest.raises(UnknownName, match="joint"):
        gather(model, 200, (1.0,), 1e-5, trusts=["central"])


def test_the_field_can_be_narrowed_to_a_trust_model() -> None:
    contestants, _ = gather(make_world(WORLD).model, 200, (1.0,), 1e-5, agents=SOME, trusts=["local"])
    assert [(who.name, who.trust) for who in contestants] == [("private-linopt-vi", "local")]


@pytest.mark.verify
def test_standings_are_by_regret_and_have_every_epsilon(found: Comparison) -> None:
    means = [one.mean_regret for one in found.standings]
    assert means == sorted(means)
    for one in found.standings:
        assert set(one.gaps) == {1.0, 4.0}
        np.testing.assert_array_equal(one.gaps[1.0], one.gap)
    names = {one.contestant.name for one in found.standings}
    assert names == {"ucrl-vtr", "private-linopt-vi", "ucbvi"}


@pytest.mark.verify
def test_advice_is_the_least_regret_of_each_trust_model_with_its_paired_lead(found: Comparison) -> None:
    advice = {one.trust: one for one in found.advice}
    assert list(advice) == [trust for trust in reversed(trusted_parties()) if trust in advice]
    free = advice["none"]
    rivals = [one for one in found.standings if one.contestant.trust == "none"]
    assert free.best is rivals[0]
    assert free.second is rivals[1]
    difference = rivals[1].regret - rivals[0].regret
    assert free.lead == pytest.approx(difference.mean())
    assert free.lead_error == pytest.approx(difference.std(ddof=1) / np.sqrt(3))
    assert advice["local"].second is None
    assert "only one" in advice["local"].words


@pytest.mark.verify
def test_a_lead_within_two_standard_errors_is_not_called_a_win(found: Comparison) -> None:
    free = next(one for one in found.advice if one.trust == "none")
    assert "beats" in dataclasses.replace(free, lead=2.1, lead_error=1.0).words
    assert "not clearly" in dataclasses.replace(free, lead=1.9, lead_error=1.0).words


@pytest.mark.verify
def test_pictures_page_and_numbers(found: Comparison) -> None:
    pictures = draw_regret(found), draw_gaps(found)
    for picture in pictures:
        assert picture.startswith(b"\x89PNG")
    page = comparison_html(found, *pictures)
    for one in found.standings:
        assert one.contestant.promise.sentence()[:40] in page.replace("&#x27;", "'").replace("&quot;", '"')
    assert len(rows(found)) == len(found.standings)
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["recommended"]["local"] == "private-linopt-vi:first=16"
    assert {row["trusted"] for row in content["standings"] if row["trust"] == "local"} == {"no server"}


@pytest.mark.verify
def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    out = tmp_path / "found"
    line = ["compare", "--world", WORLD, "--agent", "ucrl-vtr", "--agent", "linucb", "--episodes", "60"]
    done = CliRunner().invoke(app, [*line, "--seeds", "2", "--epsilon", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "does not apply: linucb" in done.output
    assert "recommended, by trust model" in done.output
    assert {path.name for path in out.iterdir()} >= {"regret.png", "gap.png", "compare.html", "compare.json"}
