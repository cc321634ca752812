# SPDX-License-Identifier: Apache-2.0
"""What a hostile service may publish, what a device does by it, and exactly what leaves in every trust model."""

from __future__ import annotations

import base64
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_vectors import example_billboard, example_model
from scripted_service import Sent, admitting, serving

from reticent_client import Billboard, Budget, Client, InvalidInput, Unreachable, discrete_gaussian
from reticent_client.budget_storage import default_path
from reticent_wire import plans
from reticent_wire.promise import report_epsilon

SCORE = example_model("score")


def play(
    client: Client, user: str, states: tuple[Any, ...] = (0, 1, 3, 2), rewards: tuple[Any, ...] = (0.5,) * 3
) -> Any:
    with client.episode(user) as episode:
        for step in range(3):
            episode.act(states[step])
            episode.observe(rewards[step], states[step + 1])
    return episode


def divided(**report: Any) -> Billboard:
    """A billboard of the form score whose explorers, the first two places, never act as its greedy policy does."""
    board = example_billboard(SCORE)
    policy = (np.arange(12).reshape(3, 4) % 2).astype(np.int32)
    parts = {**board.report, "curious": 1.0 - policy, "explorers": np.array(2.0), "at_random": np.array(0.0), **report}
    return dataclasses.replace(board, policy=policy, report=parts)


# -- the budget ---------------------------------------------------------------------------------------------------------


def test_a_budget_is_kept_by_default_and_a_restored_service_gets_no_second_report() -> None:
    """A second report with fresh noise would be ε = 1.47 where 1 was promised."""
    with serving(admitting(example_model("counts"))) as (url, sent):

        def visit(user: str) -> tuple[str, str | None]:
            with Client(url, "key", trust="local") as client:
                episode = play(client, user)
                return episode.status, episode.reason

        assert visit("ann") == ("counted", None)
        assert visit("ann") == ("served", "device-budget-spent")
        assert visit("bob") == ("counted", None)
        assert [one.kind for one in sent].count("report") == 2
        assert default_path().exists()
        assert "ann" not in default_path().read_text()


def test_a_budget_that_is_forgotten_must_be_asked_for() -> None:
    with serving(admitting(example_model("counts"))) as (url, sent):
        for _ in range(2):
            with Client(url, "key", budget=Budget.in_memory()) as client:
                assert play(client, "ann").status == "counted"
                assert play(client, "ann").status == "served"
        assert [one.kind for one in sent].count("report") == 2
        assert not default_path().exists()


def test_without_a_place_for_the_budget_no_user_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a file"))
    with serving(admitting(example_model("counts"))) as (url, sent), Client(url, "key") as client:
        with pytest.raises(InvalidInput, match=r"outlives this process; give budget=Budget\(path\)"):
            play(client, "ann")
        assert not [one for one in sent if one.method == "POST"]


def test_the_default_place_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for stated in ("relative", ""):
        monkeypatch.setenv("XDG_STATE_HOME", stated)
        assert default_path() == tmp_path / ".local/state/reticent/budget.json"


def test_what_is_demanded_of_epsilon_is_demanded_of_all_reports_together() -> None:
    epsilon = report_epsilon(SCORE, 1e-5)
    with serving(admitting(SCORE)) as (url, sent):
        for reports, demanded, refused in ((1, 1.0, False), (3, 1.0, True), (3, 3.0, False)):
            budget = Budget.in_memory(reports=reports)
            sent.clear()
            with Client(url, "key", epsilon=demanded * epsilon, budget=budget) as client:
                if refused:
                    with pytest.raises(InvalidInput, match=r"ε of 3 reports .*less noise"):
                        play(client, "ann")
                    assert not [one for one in sent if one.method == "POST"]
                else:
                    assert play(client, "ann").status == "counted"


@pytest.mark.parametrize("stale", [False, True])
def test_a_client_that_outlives_a_deployment_noises_by_the_rules_of_the_next(
    monkeypatch: pytest.MonkeyPatch, stale: bool
) -> None:
    """A new deployment comes to the address, whose devices add four times the noise. Reports are formed by its rules, or
    not at all where a cache on the way keeps the old ones (``stale``)."""
    scales: list[float] = []
    draw = discrete_gaussian.draw
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: scales.append(scale.max()) or draw(scale, grid))
    first, second = (
        dataclasses.replace(
            SCORE, rules=dataclasses.replace(SCORE.rules, noise_scale=times * SCORE.rules.noise_scale, digest=name)
        )
        for times, name in ((1.0, "first"), (4.0, "second"))
    )
    before, after = (admitting(one, rules=one.rules.digest) for one in (first, second))
    answering = [before]

    def answer(sent: Sent) -> Any:
        return (before if stale and sent.path == "/v1/model" else answering[0])(sent)

    with serving(answer) as (url, sent), Client(url, "key", budget=Budget.in_memory()) as client:
        play(client, "ann")
        answering[0] = after
        if stale:
            with pytest.raises(InvalidInput, match="another deployment's model"):
                play(client, "bob")
        else:
            assert play(client, "bob").status == "counted"
            play(client, "eve")
    largest = SCORE.rules.noise_scale.max()
    assert scales == [largest, *([] if stale else [4 * largest] * 2)]
    asked = [one.path for one in sent]
    assert asked.count("/v1/model") == 2
    assert asked.count("/v1/billboards/5") == (1 if stale else 2)  # the plans of the old one are no use either


def test_the_charge_is_on_the_disk_before_a_report_leaves(tmp_path: Path) -> None:
    """The device goes down when its report arrives: what is on the disk then is all that it will know."""
    path, left = tmp_path / "budget.json", []
    honest = admitting(SCORE)

    def crash(sent: Sent) -> Any:
        if sent.kind != "report":
            return honest(sent)
        left.append(Budget(path).left("ann"))
        return None

    with serving(crash) as (url, sent):
        with Client(url, "key", budget=Budget(path), deadline=0.3) as client, pytest.raises(Unreachable):
            play(client, "ann")
        assert left
        assert set(left) == {0}
        before = [one.body for one in sent if one.kind == "report"]
        assert len(set(before)) == 1
        with Client(url, "key", budget=Budget(path), deadline=0.3) as client:
            assert play(client, "ann").reason == "device-budget-spent"
        assert [one.body for one in sent if one.kind == "report"] == before


def test_a_service_that_does_not_say_its_round_costs_nothing(tmp_path: Path) -> None:
    """What must be asked before a report can be formed is asked before it is charged."""
    with serving(admitting(SCORE, changes={"/v1/round": None})) as (url, _):
        budget = Budget(tmp_path / "budget.json")
        with Client(url, "key", budget=budget, deadline=0.3) as client:
            episode = client.episode("ann").open()
            for state in (0, 1, 3):
                episode.act(state)
                episode.observe(0.5, {0: 1, 1: 3, 3: 2}[state])
            with pytest.raises(Unreachable):
                episode.submit()
            assert budget.left("ann") == 1


def test_two_episodes_of_one_user_at_once_send_one_report() -> None:
    with serving(admitting(example_model("counts"))) as (url, sent), Client(url, "key") as client:
        episodes = [client.episode("ann").open() for _ in range(3)]
        for episode in episodes:
            for state in (0, 1, 3):
                episode.act(state)
                episode.observe(0.5, {0: 1, 1: 3, 3: 2}[state])
            episode.submit()
        assert sorted(episode.status for episode in episodes) == ["counted", "served", "served"]
        assert [one.kind for one in sent].count("report") == 1
        with client.group(["bob", "bob", "carl"]) as together:
            for episode in together:
                for state in (0, 1, 3):
                    episode.act(state)
                    episode.observe(0.5, {0: 1, 1: 3, 3: 2}[state])
        assert [episode.status for episode in together.episodes] == ["counted", "served", "counted"]
        assert len(sent[-1].content["reports"]) == 2
        fields = {"episode", "token", "report", "reference"}
        assert all(set(one) == fields for one in sent[-1].content["reports"])


# -- plans ----------------------------------------------------------------------------------------------------------------


def planted() -> list[dict[str, Any]]:
    """Billboards with one wrong number in an array that users are served by."""
    wrong = []
    for entry in range(12):
        for value in (math.nan, 99.0, -1.0, 0.5, math.inf):
            curious = np.zeros(12)
            curious[entry] = value
            wrong.append(divided(curious=curious.reshape(3, 4)).to_json())
    wrong += [divided(explorers=np.array(value)).to_json() for value in (math.nan, -1.0, 0.5, math.inf)]
    wrong += [divided(at_random=np.array(value)).to_json() for value in (math.nan, -1.0, 0.5, 2.0)]
    wrong.append(divided(curious=np.zeros(12)).to_json())
    wrong.append(divided(explorers=np.zeros(2)).to_json())
    for value in (math.nan, 2.0, -0.5, 0.9):
        chances = np.full((3, 4, 2), 0.5)
        chances[-1, -1, -1] = value
        wrong.append(dataclasses.replace(divided(), policy=chances, form=None).to_json())
    policy = np.zeros((3, 4), np.int32)
    policy[2, 3] = 2
    wrong.append(dataclasses.replace(divided(), policy=policy).to_json())
    missing = divided().to_json()
    del missing["report"]["curious"]
    return [*wrong, missing]


def test_every_array_that_a_user_may_be_served_by_is_checked_when_it_is_read() -> None:
    for board in planted():
        with pytest.raises(InvalidInput):
            Billboard.read(board)
    Billboard.read(divided().to_json())
    fair = dataclasses.replace(divided(), policy=np.full((3, 4, 2), 0.5), form=None)
    Billboard.read(fair.to_json())


def test_the_checks_of_plans_take_their_ends_and_nothing_beyond() -> None:
    """Written after mutants of these checks had survived."""
    plans.require_actions("policy", np.array([0.0, 2.0]), 3)
    plans.require_probabilities("policy", np.array([[0.0, 1.0], [0.5, 0.5]]))
    plans.require_whole("share", 7, 7)
    for refused in (
        lambda: plans.require_actions("policy", np.array([0.0, 3.0]), 3),
        lambda: plans.require_actions("policy", np.array([0.5]), 3),
        lambda: plans.require_probabilities("policy", np.array([[-0.5, 1.5], [0.5, 0.5]])),
        lambda: plans.require_probabilities("policy", np.array([[-0.5, 0.75, 0.75], [0.0, 0.5, 0.5]])),
        lambda: plans.require_probabilities("policy", np.array([[0.5, 0.25], [0.5, 0.5]])),
        lambda: plans.require_whole("share", 8, 7),
        lambda: plans.require_whole("share", -1, 7),
    ):
        with pytest.raises(InvalidInput):
            refused()


@pytest.mark.parametrize("trust", ["local", "joint"])
def test_a_planted_action_refuses_the_episode_before_the_first_state(trust: str) -> None:
    curious = np.zeros((3, 4))
    curious[1, 3] = 99
    board = divided(curious=curious)
    with serving(admitting(SCORE, board, trust=trust)) as (url, sent), Client(url, "key") as client:
        with pytest.raises(InvalidInput, match="curious is an action that there is not"):
            client.episode("ann").open()
        assert [one.path for one in sent if one.method == "POST"] == ["/v1/episodes"]


@pytest.mark.parametrize("change", [{"states": 5}, {"horizon": 4}, {"actions": 3}])
def test_a_billboard_of_another_size_than_the_model_is_refused(change: dict[str, int]) -> None:
    """A device that lets a user be in a state that the model has no row for would stop there."""
    model = example_model("counts")
    larger = dataclasses.replace(model, **change)
    board = example_billboard(larger)
    horizon = model.horizon if "horizon" not in change else 4
    refused = pytest.raises(InvalidInput, match=rf"billboard\.{next(iter(change))}")
    with serving(admitting(model, board, horizon=horizon)) as (url, _), Client(url, "key") as client, refused:
        client.episode("ann").open()


def test_an_episode_of_another_length_than_its_billboard_is_refused() -> None:
    refused = pytest.raises(InvalidInput, match="horizon is 4")
    with serving(admitting(SCORE, horizon=4)) as (url, _), Client(url, "key") as client, refused:
        client.episode("ann").open()


# -- places and references --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "states"), [(0, (3, 2, 3, 3)), (1, (2, 3, 2, 2)), (2, (0, 1, 0, 0)), (3, (1, 0, 1, 1))]
)
@pytest.mark.parametrize("trust", ["local", "joint"])
def test_a_device_acts_and_reports_by_its_place(
    place: int, states: tuple[int, ...], trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explorers and others differ in every state; a state in the place's stead would act otherwise in each case here."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, _: np.zeros(scale.shape, np.int64))
    board = divided()
    with serving(admitting(SCORE, board, place=place, trust=trust)) as (url, _), Client(url, "key") as client:
        with client.episode("ann") as episode:
            taken = []
            for step in range(3):
                taken.append(episode.act(states[step]))
                assert episode.probability == 1.0
                episode.observe(0.5, states[step + 1])
            seen = episode.trajectory._value
        plan = board.report["curious"] if place < 2 else board.policy
        assert taken == [int(plan[step, state]) for step, state in enumerate(states[:3])]
        if trust == "local":
            own = SCORE.steps(board, seen._replace(place=place))
            assert not np.array_equal(own, SCORE.steps(board, seen._replace(place=2 if place < 2 else 0)))
            sent = np.frombuffer(base64.b64decode(episode.submission.content["report"]["data"]), "<i8")
            np.testing.assert_array_equal(sent, own.ravel())


def test_a_report_refers_to_the_round_that_is_open_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formed under another version it would count as nothing, silently."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, _: np.zeros(scale.shape, np.int64))
    board = example_billboard(SCORE)
    later = dataclasses.replace(example_billboard(SCORE, stretch=50.0), version=6)
    changes = {"/v1/round": {"reference": 6}, "/v1/billboards/6": later.to_json()}
    with serving(admitting(SCORE, board, changes)) as (url, sent), Client(url, "key") as client:
        with client.episode("ann") as episode:
            for state, there in ((0, 1), (1, 3), (3, 2)):
                episode.act(state)
                episode.observe(0.5, there)
            seen = episode.trajectory._value
        assert (episode.version, episode.receipt.version, episode.receipt.reference) == (5, 5, 6)
        assert sent[-1].content["reference"] == 6
        reported = np.frombuffer(base64.b64decode(sent[-1].content["report"]["data"]), "<i8")
        np.testing.assert_array_equal(reported, SCORE.steps(later, seen).ravel())
        assert not np.array_equal(reported, SCORE.steps(board, seen).ravel())


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["local", "joint"])
def test_values_that_are_missing_are_clipped_to_public_ones(trust: str) -> None:
    with serving(admitting(SCORE, trust=trust)) as (url, sent), Client(url, "key") as client:
        with client.episode("ann") as episode:
            for state, reward, there in ((None, None, math.nan), (0.0, math.nan, math.inf), (10**400, math.inf, "3")):
                episode.act(state)
                episode.observe(reward, there)
        assert episode.status == "counted"
        assert episode.clipped > 0
        if trust == "joint":
            assert (sent[-1].content["states"], sent[-1].content["rewards"]) == ([0, 0, 3, 0], [0.0, 0.0, 1.0])


# -- what leaves --------------------------------------------------------------------------------------------------------

DOCUMENTED = {
    "episodes": {"user", "episode"},
    "report": {"token", "report", "reference"},
    "trajectory": {"token", "states", "actions", "rewards"},
    "empty": {"token"},
    "actions": {"token", "step", "state"},
}
HEADERS = {"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "Host"}


@pytest.mark.parametrize(
    ("trust", "act", "leaves", "kinds"),
    [
        ("local", "device", False, ["episodes", "report"]),
        ("local", "device", True, ["episodes", "report"]),
        ("joint", "device", False, ["episodes", "trajectory"]),
        ("joint", "device", True, ["episodes", "empty"]),
        ("joint", "server", False, ["episodes", "actions", "actions", "actions", "trajectory"]),
        ("shuffle", "device", False, ["episodes"]),
        ("shuffle", "device", True, ["episodes"]),
    ],
)
def test_exactly_the_documented_fields_leave_the_device(trust: str, act: Any, leaves: bool, kinds: list[str]) -> None:
    model = example_model("regressions", shuffle=trust == "shuffle")
    changes = {"actions": {"action": 0, "probability": 1.0}}
    handed: list[Any] = []
    shuffler = (lambda *given: handed.append(given)) if trust == "shuffle" else None
    noted: list[Any] = []
    with (
        serving(admitting(model, changes=changes, trust=trust)) as (url, sent),
        Client(url, "key", act=act, shuffler=shuffler, decisions=noted.append) as client,
    ):
        if leaves:
            client.episode("ann").open().submit_empty()
        else:
            play(client, "ann")
        posts = [one for one in sent if one.method == "POST"]
        assert [one.kind for one in posts] == kinds
        for one in posts:
            assert set(one.content) == DOCUMENTED[one.kind], one.path
            if one.kind == "report":
                assert set(one.content["report"]) == {"dtype", "shape", "data"}
        for one in sent:
            assert set(one.headers) <= HEADERS
            assert "?" not in one.path
            assert one.method == "POST" or not one.body
        # round, place, ones, messages, restores
        assert [len(given) for given in handed] == ([5] if trust == "shuffle" else [])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"delta": 0.0}, "delta"), ({"delta": 1.0}, "delta"), ({"delta": math.nan}, "delta"), ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"), ({"act": "nobody"}, "act"), ({"shuffler": print, "trust": "local"}, "shuffler"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_device_can_demand_is_refused_before_it_asks(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        Client("http://127.0.0.1:1", "key", **wrong)
