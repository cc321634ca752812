# SPDX-License-Identifier: Apache-2.0
"""Stays of users who act by the policy alone, through the real service: the sum of their visits' vectors, clipped once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from running_service import ADMIN_KEY, APP_KEY, SHUFFLER_KEY
from test_client_score import releases
from test_client_stays import HORIZON, USERS, VISITS, lived, serving, stay, visit

from reticent_client import Budget, Client, Connection, InvalidInput, Shuffler, StayFile, discrete_gaussian


def score(trust: str) -> str:
    """Rounds of four users, each with a stay."""
    return f"private-score-vi:trust={trust},first=0.4,growth=1,epsilon=15,residual=off,visits={VISITS}"


def deployed(tmp_path: Path, trust: str) -> Any:
    return serving(tmp_path, trust, agent=score(trust))


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_every_visit_is_by_the_served_policy_and_a_stay_is_counted_once(tmp_path: Path, trust: str) -> None:
    with deployed(tmp_path, trust) as url:
        shuffler = Shuffler(Connection(url, SHUFFLER_KEY), patience=0) if trust == "shuffle" else None
        if shuffler is not None:
            shuffler.post_due()  # before the first user
        with Client(url, APP_KEY, trust=trust, shuffler=shuffler) as client:
            for user in range(USERS):
                episode, seen = stay(client, user)
                assert (episode.visits, episode.belief) == (VISITS, None)
                assert episode.status == ("sent" if trust == "shuffle" else "counted")
                board = client.billboard(episode.version)
                here = seen.states.reshape(VISITS, -1)[:, :-1]
                for number, actions in enumerate(seen.actions.reshape(VISITS, -1)):
                    for step in range(HORIZON):
                        state = int(here[number, step])
                        assert board.probability(step, state, episode.place, int(actions[step])) > 0
                if shuffler is not None:
                    shuffler.post_due()
            status = client.status()
            assert status["served_version"] >= 2
            assert status["device_acts"] is True
            assert "comes up to 3 times and reports once" in status["promise"]
            assert not client.episode("user 1").open().learning  # one stay per person
        if shuffler is not None:
            shuffler.close()


@pytest.mark.verify
@pytest.mark.guard
def test_a_release_is_the_sum_of_stays_each_clipped_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local, without noise; one stay of the first round arrives in the second and is formed under that."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    with deployed(tmp_path, "local") as url, Client(url, APP_KEY, trust="local", budget=Budget.in_memory()) as client:
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
        one = client.model.steps(client.billboard(1), seen_late) * grid
        assert np.linalg.norm(one) <= 1 + 2 * grid


def test_an_app_that_is_closed_between_visits_goes_on_and_reports_once(tmp_path: Path) -> None:
    """Each visit in a process of its own; nothing is sent in between, and the service is asked for no action."""
    with deployed(tmp_path, "joint") as url:
        sent: list[str] = []
        kept = StayFile(tmp_path / "device" / "stays.json")
        for number in range(VISITS):
            with Client(url, APP_KEY, stays=kept) as client:
                post = client.connection.post
                client.connection.post = lambda path, *rest, _post=post, **named: (  # type: ignore[method-assign]
                    sent.append(path),
                    _post(path, *rest, **named),
                )[1]
                with client.resume_stay("user 5") or client.episode("user 5") as episode:
                    assert episode.visit == number
                    visit(episode, 5)
        assert [path.rsplit("/", 1)[-1] for path in sent] == ["episodes", "trajectory"]
        assert episode.status == "counted"
        assert kept.show() == {}


def test_no_server_acts_for_a_user_with_a_stay(tmp_path: Path) -> None:
    with deployed(tmp_path, "joint") as url:
        with Client(url, APP_KEY, act="server") as asking, pytest.raises(InvalidInput, match="report a whole stay"):
            asking.episode("bob").open()
        with contextlib.closing(Connection(url, APP_KEY)) as app:
            opened = app.post("/v1/episodes", {"user": "ann", "episode": "b" * 32})
            answers = set()
            for state in (0, 3, 10**30):
                answer = httpx.post(
                    f"{url}/v1/episodes/{'b' * 32}/actions",
                    json={"token": opened["token"], "step": 0, "state": state},
                    headers={"Authorization": f"Bearer {APP_KEY}"},
                )
                answers.add((answer.status_code, answer.text))
            ((status, text),) = answers
            assert status == 422
            assert "act='device'" in text
            assert app.get("/v1/status")["admitted"] == 1


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_user_who_is_erased_between_two_visits_is_answered_as_any_other(tmp_path: Path, trust: str) -> None:
    with (
        deployed(tmp_path, trust) as url,
        contextlib.closing(Connection(url, ADMIN_KEY)) as operator,
        contextlib.ExitStack() as stack,
    ):
        given: dict[str, Any] = {"budget": Budget.in_memory()} if trust == "local" else {}
        stays = StayFile(tmp_path / "stays.json")
        client = stack.enter_context(Client(url, APP_KEY, trust=trust, stays=stays, **given))
        ends = []
        for user in ("ann", "bob"):  # erased by the operator; left alone
            with client.episode(user) as episode:
                visit(episode, 1)
            if user == "ann":
                assert operator.post("/v1/admin/erase", {"user": user})["episodes"] == 1
            while (again := client.resume_stay(user)) is not None:
                with again as episode:
                    visit(episode, 1)
            ends.append((episode.status, episode.reason))
        assert len(set(ends)) == 1


def test_groups_carry_stays(tmp_path: Path) -> None:
    with deployed(tmp_path, "joint") as url, Client(url, APP_KEY) as client:
        with client.group([f"user {number}" for number in range(4)]) as group:
            for number, episode in enumerate(group.episodes):
                for _ in range(VISITS):
                    visit(episode, number)
        assert {episode.status for episode in group.episodes} == {"counted"}
        assert lived(0)[0].shape == (VISITS, HORIZON + 1)
