# SPDX-License-Identifier: Apache-2.0
"""Stays through the real service: several visits on one belief, kept on the device in between, and one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played_episodes import client_of
from running_service import APP_KEY, running_service
from test_client_kinds import WORLD, belief_by_hand
from test_client_score import releases

import reticent_wire
from reticent.errors import InvalidInput as Refused
from reticent.service.deployable import make_deployable
from reticent.worlds import make_world
from reticent_client import Budget, Client, Episode, ServiceError, StayFile, discrete_gaussian
from reticent_wire import InvalidInput, Model, Trajectory
from reticent_wire.forms.score import ScoreVector

VISITS, HORIZON, USERS = 3, 3, 12


def agent(trust: str) -> str:
    """Rounds of four users, each with a stay."""
    return f"private-kinds:trust={trust},first=0.4,growth=1,epsilon=15,visits={VISITS}"


def score(trust: str) -> str:
    """The same, of users who act by the policy alone."""
    return f"private-score-vi:trust={trust},first=0.4,growth=1,epsilon=15,residual=off,visits={VISITS}"


BOTH = pytest.mark.parametrize("acting", [agent, score])


def lived(user: int) -> tuple[np.ndarray, np.ndarray]:
    """States ``(V, H + 1)`` and rewards ``(V, H)`` of a user."""
    draw = np.random.default_rng(user)
    return draw.integers(0, 4, (VISITS, HORIZON + 1)), draw.random((VISITS, HORIZON))


def visit(episode: Episode, user: int) -> list[int]:
    """One visit of a user: the next one of their stay."""
    states, rewards = (part[episode.visit] for part in lived(user))
    actions = []
    for step in range(episode.horizon):
        actions.append(episode.act(states[step]))
        episode.observe(rewards[step], states[step + 1])
    return actions


def stay(client: Client, user: int, submits: bool = True) -> tuple[Episode, Trajectory]:
    """All visits of a user in one process."""
    episode, actions = client.episode(f"user {user}").open(), []
    assert episode.visits == VISITS
    for _ in range(VISITS):
        actions += visit(episode, user)
    if submits:
        episode.submit()
    states, rewards = lived(user)
    return episode, Trajectory(states.ravel(), np.array(actions), rewards.ravel(), episode.place)


def without_gaps(seen: Trajectory) -> Any:
    """A view of a stay for plain loops: what was left and what was reached at every step."""
    states = seen.states.reshape(VISITS, -1)
    return states[:, :-1].ravel(), states[:, 1:].ravel()


def serving(tmp_path: Path, trust: str, **settings: Any) -> Any:
    given = {"ticket_lifetime": 3600, "agent": agent(trust), **settings}
    return running_service(tmp_path, world=WORLD, episodes=USERS, rate_limit=0, **given)


def weights_by_hand(client: Client, version: int, seen: Trajectory, steps: int) -> np.ndarray:
    """Bayes' rule over the first steps of a stay, one visit after another."""
    found = client.billboard(version).report["shares"].copy()
    for number in range(VISITS):
        here = min(max(steps - number * HORIZON, 0), HORIZON)
        part = slice(number * HORIZON, (number + 1) * HORIZON)
        own = Trajectory(seen.states.reshape(VISITS, -1)[number], seen.actions[part], seen.rewards[part])
        found *= belief_by_hand(client, version, own, here) / client.billboard(version).report["shares"]
    return found / found.sum()


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_visits_go_on_from_one_another_and_a_stay_is_counted_once(tmp_path: Path, trust: str) -> None:
    with serving(tmp_path, trust) as url, client_of(url, trust) as (client, post):
        assert client.model.visits == VISITS
        for user in range(USERS):
            episode, seen = stay(client, user)
            assert episode.status == ("sent" if trust == "shuffle" else "counted")
            board = client.billboard(episode.version)
            for count in range(VISITS * HORIZON):
                h, state = count % HORIZON, without_gaps(seen)[0][count]
                tables = np.concatenate([client.model.rules.bounds["tables"][h], board.report["blend_table"][h][None]])
                scores = weights_by_hand(client, episode.version, seen, count) @ tables[:, state]
                assert scores[seen.actions[count]] == pytest.approx(scores.max(), rel=1e-6)
            post()
        status = client.status()
        assert status["served_version"] >= 2
        assert "comes up to 3 times and reports once" in status["promise"]
        again = client.episode("user 1").open()
        assert not again.learning  # one stay per person


@pytest.mark.verify
@pytest.mark.guard
@BOTH
def test_a_release_is_the_sum_of_stays_each_clipped_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acting: Any
) -> None:
    """Local, without noise; one stay of the first round arrives in the second and is formed under that."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    budget, spec = Budget.in_memory(), acting("local")
    with serving(tmp_path, "local", agent=spec) as url, Client(url, APP_KEY, trust="local", budget=budget) as client:
        late, seen_late = stay(client, 100, submits=False)
        first = second = 0
        for user in range(3):
            seen = stay(client, user)[1]
            first = first + client.model.steps(client.billboard(0), seen)
        for user in range(3, 7):
            if user == 6:
                late.submit()
                second = second + client.model.steps(client.billboard(1), seen_late)
            seen = stay(client, user)[1]
            second = second + client.model.steps(client.billboard(1), seen)
        for user in range(7, 9):
            stay(client, user)
        made, grid = releases(tmp_path), client.model.rules.grid
        np.testing.assert_array_equal(made[0], np.ravel(first) * grid)
        np.testing.assert_array_equal(made[1], np.ravel(second) * grid)
        one = client.model.steps(client.billboard(0), seen_late) * grid
        assert np.linalg.norm(one) <= 1 + 2 * grid


def test_only_the_public_form_of_a_stay_is_refused(tmp_path: Path) -> None:
    """A stay of fewer visits is refused by its length, the same for all; numbers are clipped, not refused."""
    with serving(tmp_path, "joint") as url, Client(url, APP_KEY) as client:
        opened = client.connection.post("/v1/episodes", {"user": "ann", "episode": "a" * 32})
        path = f"/v1/episodes/{'a' * 32}/trajectory"

        def send(visits: int, state: int) -> Any:
            steps = visits * HORIZON
            content = {"states": [state] * (steps + visits), "actions": [0] * steps, "rewards": [1.0] * steps}
            return client.connection.post(path, {"token": opened["token"], **content})

        refusals = set()
        for state in (0, 3):
            with pytest.raises(ServiceError) as refused:
                send(1, state)
            refusals.add((refused.value.status, str(refused.value)))
        assert len(refusals) == 1
        assert send(VISITS, 10**6)["status"] == "counted"


@BOTH
def test_an_app_that_is_closed_between_visits_goes_on_and_reports_once(tmp_path: Path, acting: Any) -> None:
    """Each visit in a process of its own: the same trajectory as in one process, nothing sent in between."""
    with serving(tmp_path, "joint", agent=acting("joint")) as url:
        sent: list[str] = []
        kept = StayFile(tmp_path / "device" / "stays.json")
        actions: list[int] = []
        for number in range(VISITS):
            with Client(url, APP_KEY, stays=kept) as client:
                post = client.connection.post
                client.connection.post = lambda path, *rest, _post=post, **named: (  # type: ignore[method-assign]
                    sent.append(path),
                    _post(path, *rest, **named),
                )[1]
                with client.resume_stay("user 5") or client.episode("user 5") as episode:
                    assert episode.visit == number
                    actions += visit(episode, 5)
            if number < VISITS - 1:
                assert len(kept.show()["user 5"]["actions"]) == (number + 1) * HORIZON
        assert [path.rsplit("/", 1)[-1] for path in sent] == ["episodes", "trajectory"]
        assert episode.status == "counted"
        assert kept.show() == {}
        if acting is score:
            return
        with Client(url, APP_KEY) as client:
            states, rewards = lived(5)
            seen = Trajectory(states.ravel(), np.array(actions), rewards.ravel())
            for count in range(VISITS * HORIZON):
                board, h = client.billboard(0), count % HORIZON
                tables = np.concatenate([client.model.rules.bounds["tables"][h], board.report["blend_table"][h][None]])
                scores = weights_by_hand(client, 0, seen, count) @ tables[:, without_gaps(seen)[0][count]]
                assert scores[actions[count]] == pytest.approx(scores.max(), rel=1e-6)


def test_a_visit_that_is_broken_off_is_not_kept_and_the_stay_goes_on(tmp_path: Path) -> None:
    kept = StayFile(tmp_path / "stays.json")
    with serving(tmp_path, "joint") as url, Client(url, APP_KEY, stays=kept) as client:
        with client.episode("user 1") as episode:
            visit(episode, 1)
        with client.resume_stay("user 1") as episode:
            episode.act(0)  # and the app is closed
        again = client.resume_stay("user 1")
        assert again is not None
        assert again.step == HORIZON
        while not again.complete:
            visit(again, 1)
        assert again.submit().status == "counted"
        assert client.resume_stay("user 1") is None


@pytest.mark.parametrize("crash", ["before", "after"])
def test_after_a_crash_no_second_report_of_a_stay_leaves_the_device(tmp_path: Path, crash: str) -> None:
    """Local: the app dies while its report is sent, before or after the service has it. The report is lost or counted,
    and never formed again with other noise, even where the budget does not remember."""
    kept, left = StayFile(tmp_path / "stays.json"), []
    with serving(tmp_path, "local") as url:
        for _ in range(2):
            with Client(url, APP_KEY, trust="local", budget=Budget.in_memory(), stays=kept) as client:
                real = client.send

                def dying(submission: Any, _real: Any = real) -> Any:
                    left.append(submission.content["report"]["data"])
                    if crash == "after":
                        _real(submission)
                    raise KeyboardInterrupt

                client.send = dying  # type: ignore[method-assign]
                episode = client.resume_stay("user 2") or (None if left else client.episode("user 2").open())
                if episode is None:
                    continue
                while not episode.complete:
                    visit(episode, 2)
                with pytest.raises(KeyboardInterrupt):
                    episode.submit()
        assert len(left) == 1
        assert kept.show() == {}


def test_a_joint_stay_that_could_not_be_sent_is_sent_again_and_counted_once(tmp_path: Path) -> None:
    kept = StayFile(tmp_path / "stays.json")
    with serving(tmp_path, "joint") as url:
        for attempt in range(3):
            with Client(url, APP_KEY, stays=kept) as client:
                episode = client.resume_stay("user 3") or client.episode("user 3").open()
                while not episode.complete:
                    visit(episode, 3)
                if attempt == 0:
                    continue  # the process ends before it has sent anything
                receipt = client.send(episode.submission)
                assert receipt.status == "counted"
        with Client(url, APP_KEY) as client:
            assert client.status()["admitted"] == 1


@BOTH
def test_groups_carry_stays(tmp_path: Path, acting: Any) -> None:
    with serving(tmp_path, "joint", agent=acting("joint")) as url, Client(url, APP_KEY) as client:
        with client.group([f"user {number}" for number in range(4)]) as group:
            for number, episode in enumerate(group.episodes):
                for _ in range(VISITS):
                    visit(episode, number)
        assert {episode.status for episode in group.episodes} == {"counted"}


def example(form: str) -> dict[str, Any]:
    vectors = Path(reticent_wire.__file__).parent / "vectors"
    return Model.read(json.loads((vectors / f"{form}.json").read_text())["cases"][0]["model"]).to_json()


def test_a_device_refuses_stays_of_a_form_that_knows_none() -> None:
    content = example("kinds")
    assert "visits" not in content["report"]
    assert Model.read({**content, "report": {**content["report"], "visits": 5}}).visits == 5
    for wrong in (0, -1, True, 1.5, "3", 10**6):
        with pytest.raises(InvalidInput, match="visits"):
            Model.read({**content, "report": {**content["report"], "visits": wrong}})
    score = example("score")
    assert Model.read({**score, "report": {**score["report"], "visits": 2}}).visits == 2
    for form in ("score_start", "score_residual", "kinds_planned", "factors", "counts"):
        other = example(form)
        with pytest.raises(InvalidInput, match="visits"):
            Model.read({**other, "report": {**other["report"], "visits": 2}})


def test_stays_of_a_form_that_knows_none_are_not_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_world(WORLD).model
    for agent in ("private-kinds", "private-score-vi"):
        assert make_deployable(f"{agent}:visits=2", model, 100, 1.0).visits == 2
    monkeypatch.setattr(ScoreVector, "stays", False)
    with pytest.raises(Refused, match="report every visit"):
        make_deployable("private-score-vi:visits=2", model, 100, 1.0)


def test_a_ticket_that_is_begun_at_every_visit_goes_on_with_its_stay(tmp_path: Path) -> None:
    """A device that was closed between visits loses none of them, and sends one report of all."""
    sent: list[Any] = []
    with serving(tmp_path, "joint") as url:
        with Client(url, APP_KEY) as backend:
            (ticket,) = backend.admit(["user 1"])
        for number in range(VISITS):
            with Client(url, APP_KEY, stays=StayFile(tmp_path / "stays.json")) as client:
                post = client.connection.post
                client.connection.post = lambda path, content, post=post, **given: (  # type: ignore[method-assign]
                    sent.append((path, content)),
                    post(path, content, **given),
                )[1]
                with client.begin(ticket) as episode:
                    assert episode.visit == number
                    visit(episode, 1)
                    if number == VISITS - 1:
                        episode.submit()
                        assert episode.status == "counted"
        ((_, content),) = sent
        np.testing.assert_allclose(np.ravel(content["rewards"]), lived(1)[1].ravel())
