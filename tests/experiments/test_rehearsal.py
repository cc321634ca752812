# SPDX-License-Identifier: Apache-2.0
"""A rehearsal: numbers over truths, the choice, the file and the page."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from reticent.cli import main
from reticent.errors import InvalidInput
from reticent.experiments.rehearsal import Outcome, Rehearsal, Spread, rehearse
from reticent.experiments.rehearsal import rehearsal as rehearsal_module
from reticent.experiments.rehearsal.belief import WorthOfBelief, worth_of_belief
from reticent.experiments.rehearsal.deployment import answer, deployment_text
from reticent.reports.plots import rehearsal as rehearsal_picture
from reticent.reports.rehearsal_page import rehearsal_html, rows
from reticent.service.config import read_settings
from reticent.worlds import Names, blend, make_world
from reticent.worlds.asking import asking_kinds
from reticent.worlds.kinds import random_kinds
from reticent.worlds.models.model import About
from reticent.worlds.models.prior import draw_truths
from reticent.worlds.models.provenance import Provenance

MODEL = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model


def outcome(trust: str = "joint", gap: float = 0.01, epsilon: float | None = 1.0, regret: float = 10.0) -> Outcome:
    """A made-up outcome of four truths that fall to ``gap`` at the last of three points."""
    falling = np.tile([1.0, 0.5, gap], (4, 1))
    return Outcome(
        f"private-score-vi:trust={trust}", trust, epsilon, "kept", np.array([1, 50, 100]),
        np.tile([1.0, regret / 2, regret], (4, 1)), falling, np.full(4, gap), 0.0, 0.0,
    )  # fmt: skip


def rehearsal(*outcomes: Outcome) -> Rehearsal:
    return Rehearsal("made up", MODEL, 100, 4, 1e-5, 0.05, outcomes, (), np.ones(4), np.ones(4), np.full(4, 0.2))


def worth(private: float) -> WorthOfBelief:
    """Three truths in which one plan earns 10, knowing the kind 12 and privacy takes 0.1."""
    noise = np.array([-0.01, 0.0, 0.01])
    return WorthOfBelief(
        "private-kinds",
        500,
        np.full(3, 10.0),
        np.full(3, 12.0),
        private + 0.1 + noise,
        private + noise,
        np.full(3, 0.998),
    )


def test_a_rehearsal_says_whether_a_belief_pays_and_what_privacy_takes() -> None:
    words = worth(11.0).words()
    assert words.startswith("BELIEF PAYS: ")
    assert "earns +10.0% over the best plan that is the same for all" in words
    assert "would earn +20.0%" in words
    assert "Privacy takes +1.0%" in words
    assert "If users have no kind, the change is -0.2%" in words
    assert worth(10.0).words().startswith("BELIEF DOES NOT PAY: ")
    assert worth(9.0).words().startswith("BELIEF DOES NOT PAY: ")
    said = answer(dataclasses.replace(rehearsal(outcome()), belief=worth(11.0)))
    assert "BELIEF PAYS" in said
    assert json.loads(json.dumps(worth(11.0).to_dict()))["private"] == pytest.approx(11.0)
    assert rehearsal(outcome()).to_dict()["belief"] is None
    assert "plan=point-based" not in words
    planned = dataclasses.replace(worth(11.0), planning=np.array([0.2, 0.3, 0.4]))
    assert "(plan=point-based) pays: +3.0% (+2.0% to +4.0%) over plan=qmdp." in planned.words()
    assert planned.to_dict()["planning"] == pytest.approx(0.3)
    nothing = dataclasses.replace(planned, planning=np.zeros(3))
    assert "(plan=point-based) does not pay: +0.0%" in nothing.words()


@pytest.mark.verify
def test_a_belief_is_worth_something_exactly_where_kinds_differ() -> None:
    for apart, pays in ((0.9, True), (0.02, False)):
        model = random_kinds(states=4, actions=3, horizon=8, kinds=3, apart=apart, successors=3, seed=2).model
        found = worth_of_belief(model, "private-kinds:epsilon=2", 400, truths=3)
        assert (found.known >= found.private - 0.05).all()
        assert found.words().startswith("BELIEF PAYS") == pays, found.words()


@pytest.mark.verify
def test_a_rehearsal_says_where_planning_what_users_will_learn_pays() -> None:
    found = worth_of_belief(asking_kinds().model, "private-kinds:epsilon=2", 100, truths=2, concentration=50.0)
    assert found.planning is not None
    assert (found.planning > 0.1 * found.one_plan).all()
    assert "(plan=point-based) pays: +" in found.words()
    stays = worth_of_belief(asking_kinds(kinds=3).model, "private-kinds:epsilon=2,visits=2", 100, truths=2)
    assert stays.planning is None


def test_spread_is_of_order_statistics_and_knows_infinity() -> None:
    spread = Spread.of(np.array([1.0, 2.0, 3.0, math.inf]))
    assert (spread.median, spread.high, spread.low_end, spread.high_end) == (2.0, math.inf, 1.0, math.inf)
    assert spread.holds(2.5)
    assert not spread.holds(0.5)
    assert spread.to_dict()["mean"] is None


def test_users_until_the_gap_stays_below() -> None:
    gap = np.array([[1.0, 0.01, 0.2, 0.01], [0.01, 0.01, 0.01, 0.01], [1, 1, 0.01, 0.2], [1, 0.01, 0.01, 0.01]])
    measured = dataclasses.replace(outcome(), episodes=np.array([1, 10, 20, 30]), gap=gap)
    assert measured.users_until(0.05).tolist() == [30, 1, math.inf, 10]


def test_the_trust_that_asks_least_is_chosen_if_it_reaches_the_target() -> None:
    joint, shuffle = outcome("joint", regret=5.0), outcome("shuffle")
    local = outcome("local", gap=0.3)
    assert rehearsal(joint, outcome("local")).chosen.trust == "local"
    # What needs a shuffler beside the service is said, and chosen only if nothing else was asked for.
    assert rehearsal(joint, shuffle, local).chosen is joint
    assert "With a shuffler, trust=shuffle would ask less of users and lose 10" in answer(
        rehearsal(joint, shuffle, local)
    )
    assert "shuffler" not in answer(rehearsal(joint, shuffle, outcome("local")))
    assert rehearsal(shuffle).chosen is shuffle
    assert "It needs a shuffler beside the service" in answer(rehearsal(shuffle))
    # Only the first ε counts; another one is for comparison.
    assert rehearsal(joint, outcome("local", epsilon=3.0)).chosen is joint
    bad = rehearsal(outcome("joint", gap=0.2, regret=9.0), local)
    assert bad.chosen is not None
    assert bad.chosen.trust == "joint"
    assert "No trust model at ε = 1 ends below 5% in nine of ten truths" in answer(bad)
    assert rehearsal(outcome("none", epsilon=None)).chosen is None
    with pytest.raises(InvalidInput, match="without any private agent"):
        deployment_text(rehearsal(outcome("none", epsilon=None)), world="w")


def test_it_says_whether_learning_pays() -> None:
    """One plan for all loses 0.2 a user, 20 in all."""
    assert "would lose 20: learning pays, it saves 50% of that." in answer(rehearsal(outcome(regret=10.0)))
    assert "would lose 20: LEARNING DOES NOT PAY with 100 users" in answer(rehearsal(outcome(regret=20.0)))
    found = rehearsal(outcome())
    assert rows(found)[-1] == ("one plan, no learning", "none", "0", "20", "20 – 20", "20.00%", "20.00%", "–", "–")
    assert found.to_dict()["without_learning"]["regret"]["mean"] == pytest.approx(20)


def test_an_interrupted_rehearsal_does_not_say_that_nothing_applies() -> None:
    assert answer(rehearsal()) == "Nothing private applies to this model."
    assert answer(dataclasses.replace(rehearsal(), interrupted=True)).startswith("Nothing private was finished")


def test_a_doubt_of_the_candidates_comes_first() -> None:
    doubted = About(None, Provenance("public", "a log", doubt="3 rewards for 9 pairs"))
    found = dataclasses.replace(rehearsal(outcome()), model=dataclasses.replace(MODEL, about=doubted))
    assert answer(found).startswith("DO NOT RELY ON THIS: the candidates rest on too little (3 rewards for 9 pairs). ")
    assert "# DO NOT RELY ON THIS" in deployment_text(found, world="w")


def test_the_file_can_be_served_whatever_the_path(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text(deployment_text(rehearsal(outcome()), model_file="it's: a #file.npz"))
    settings = read_settings(path)
    assert str(settings.model_file) == "it's: a #file.npz"
    assert (settings.agent, settings.episodes) == ("private-score-vi:trust=joint", 100)


def test_the_page_escapes_and_names() -> None:
    named = dataclasses.replace(MODEL, about=About(Names(("tired", "<fresh>", "ill"), ("rest", "walk"))))
    found = dataclasses.replace(rehearsal(outcome()), model=named, name="<b>")
    page = rehearsal_html(found, answer(found), "x: <y>", b"")
    assert "&lt;b&gt;" in page
    assert "tired; &lt;fresh&gt;; ill" in page
    assert "rest; walk" in page
    assert "<fresh>" not in page


def test_a_picture_of_one_promise_has_no_panel_of_promises(monkeypatch) -> None:
    drawn = []
    monkeypatch.setattr(rehearsal_picture, "_by_epsilon", lambda axes, found: drawn.append(found.private))
    assert rehearsal_picture.draw_rehearsal(rehearsal(outcome(), outcome(epsilon=None))).startswith(b"\x89PNG")
    assert drawn == []
    two = rehearsal(outcome(), outcome(epsilon=3.0))
    rehearsal_picture.draw_rehearsal(two)
    assert drawn == [two.private]


def test_bad_numbers_are_refused() -> None:
    for options, message in (
        ({"users": 1}, "users is 1"),
        ({"epsilons": (0.0,)}, "epsilon is"),
        ({"target": 1.0}, "target is 1.0"),
        ({"trusts": ("nobody",)}, "nobody"),
        ({"trusts": ()}, "trust is none"),
        ({"agents": ("private-score-vi", "score-vi")}, "agent is score-vi, but must be one with a promise"),
    ):
        with pytest.raises(Exception, match=message):
            rehearse(MODEL, **{"users": 10, "truths": 1, **options})


@pytest.mark.verify
def test_what_does_not_apply_says_why_and_the_rest_goes_on() -> None:
    found = rehearse(
        MODEL, users=40, truths=3, epsilons=(2.0,), trusts=("joint",), floor=False,
        agents=("private-score-vi:clip=-1", "private-score-vi"),
    )  # fmt: skip
    assert [absent.agent for absent in found.absent] == ["private-score-vi:trust=joint,epsilon=2,delta=1e-05,clip=-1"]
    assert "clip is -1" in found.absent[0].reason
    (only,) = found.outcomes
    assert only.regret.shape[0] == found.truths == 3
    assert found.chosen is only
    assert only.sentence is not None
    assert "(2, 1e-05)-indistinguishable" in only.sentence


@pytest.mark.verify
def test_the_command_writes_what_can_be_served(tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "deployment.yaml"
    world = "random-blend:states=3,actions=2,horizon=2,d=2"
    arguments = ["rehearse", world, "--users", 40, "--truths", 3, "--epsilon", 2, "--trust", "joint", "--no-floor"]
    monkeypatch.setattr(sys, "argv", ["reticent", *map(str, arguments), "--out", str(out), "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"] == "private-score-vi:trust=joint,epsilon=2,delta=1e-05"
    assert told["outcomes"][0]["final_gap"]["high"] >= 0
    settings = read_settings(out)
    assert (settings.world, settings.agent, settings.episodes) == (world, told["chosen"], 40)
    assert "data:image/png;base64," in (tmp_path / "rehearsal.html").read_text()


@pytest.mark.verify
def test_truths_in_several_calls_are_the_same_truths(monkeypatch) -> None:
    options = {"users": 40, "truths": 3, "epsilons": (2.0,), "trusts": ("joint",), "floor": False}
    together = rehearse(MODEL, **options).outcomes[0]
    monkeypatch.setattr(rehearsal_module, "MOST_BYTES", 1)
    apart = rehearse(MODEL, **options).outcomes[0]
    np.testing.assert_allclose(apart.regret, together.regret, rtol=0, atol=1e-9)


@pytest.mark.verify
def test_bands_hold_what_is_measured() -> None:
    """Twelve worlds that nobody tuned on: their own regret lies in the band of 60 drawn truths.

    Where the prior is right each lies inside with probability 0.9 up to 1/60, so fewer than 8 of 12 do with probability
    0.004.
    """
    inside = 0
    for seed in range(12):
        random = np.random.default_rng(2_000 + seed)
        tables = random.uniform(size=(3, 5, 3))
        tables[:, 0, 0] = 1.0  # all worlds then have the same declared bounds, and are one program
        rows = random.dirichlet(np.full(5, 0.1), size=(3, 5, 3))
        world = blend(rows, tables, random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3)), 3)
        drawn = draw_truths(world.model, 60, seed=seed)
        found = rehearse(
            world.model, users=400, epsilons=(2.0,), trusts=("joint",), truths=[*drawn, world], floor=False, seed=seed
        )
        regret = found.outcomes[0].regret[:, -1]
        inside += Spread.of(regret[:-1]).holds(float(regret[-1]))
    assert inside >= 8


def test_truths_off_the_blend_cover_wrong_candidates() -> None:
    """A truth that is moved off every blend, by a coin for every pair: the same draw, and a rehearsal of it."""
    asked = {"users": 60, "epsilons": (8.0,), "trusts": ("joint",), "truths": 2, "floor": False}
    right, wrong = rehearse(MODEL, **asked), rehearse(MODEL, off=0.2, **asked)
    assert (np.abs(right.optimal - wrong.optimal) > 1e-3).all()
    assert np.isfinite(wrong.outcomes[0].total_regret.high)
