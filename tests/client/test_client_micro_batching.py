# SPDX-License-Identifier: Apache-2.0
"""Requests of many threads grouped, against the real service: each gets what it would have got alone."""

from __future__ import annotations

import collections
import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest
from running_service import APP_KEY, running_service

from reticent_client import Budget, Client, Episode, InvalidInput, MicroBatching, ServiceError
from reticent_client.connection import Connection
from reticent_client.micro_batching import ROUTES, MicroBatcher

USERS = 24


@pytest.fixture(scope="module", params=["joint", "local"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings: dict[str, Any] = {
        "world": "random-blend:states=4,actions=2,horizon=3,d=2", "episodes": 1000, "rate_limit": 0,
        "agent": f"private-linopt-vi:first=900,growth=1,trust={request.param}", "planning": "background",
    }  # fmt: skip
    with running_service(tmp_path_factory.mktemp("batching"), **settings) as url:
        yield url


def batching(url: str, asked: list[str], **given: Any) -> Client:
    return Client(
        url, APP_KEY, micro_batching=MicroBatching(seconds=0.2, most=8), budget=Budget.in_memory(),
        observer=lambda route, *_: asked.append(route), **given,
    )  # fmt: skip


def play(client: Client, user: str, episode: str | None = None) -> Episode:
    with client.episode(user, episode=episode) as playing:
        state = 0
        for _ in range(playing.horizon):
            playing.act(state)
            playing.observe(0.5, state)
    return playing


def together(client: Client, users: list[str]) -> list[Episode]:
    with concurrent.futures.ThreadPoolExecutor(len(users)) as threads:
        return list(threads.map(lambda user: play(client, user), users))


def test_threads_share_requests_and_each_is_counted_once(service: str) -> None:
    asked: list[str] = []
    with batching(service, asked) as client:
        before = client.status()["admitted"]
        played = together(client, [f"ann {number}" for number in range(USERS)])
        assert [one.status for one in played] == ["counted"] * USERS
        assert [one.receipt.episode for one in played if one.receipt] == [one.id for one in played]
        assert len({one.place for one in played}) == USERS
        assert client.status()["admitted"] == before + USERS
    posted = collections.Counter(route for route in asked if route.startswith("POST"))
    assert sum(posted.values()) <= USERS  # 6 if threads are as fast as they should be, 48 one by one
    assert posted["POST /v1/groups/episodes"] >= 3


def test_a_refused_member_is_refused_alone(service: str) -> None:
    asked: list[str] = []
    with batching(service, asked) as client:
        taken = play(client, "bob's first")
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            others = [threads.submit(play, client, f"bob {number}") for number in range(7)]
            refused = threads.submit(play, client, "another", taken.id)
            assert [one.result().status for one in others] == ["counted"] * 7
            with pytest.raises(ServiceError, match="another user") as problem:
                refused.result()
        assert problem.value.name == "episode-taken"


def test_a_group_that_is_refused_as_a_whole_is_sent_one_by_one(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older service that knows no groups, or a body that is too large for it."""
    asked: list[str] = []
    post = Connection.post

    def refusing(self: Connection, path: str, *given: Any, **more: Any) -> dict[str, Any]:
        if path.startswith("/v1/groups/"):
            asked.append(path)
            raise ServiceError(413, name="too-large")
        return post(self, path, *given, **more)

    monkeypatch.setattr(Connection, "post", refusing)
    with batching(service, []) as client:
        played = together(client, [f"cleo {number}" for number in range(6)])
        assert [one.status for one in played] == ["counted"] * 6
    assert asked


def test_a_lost_answer_counts_once(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group arrives, its answer does not; it is sent again and gets the same answers."""
    attempt, lost = Connection._attempt, []

    def losing(self: Connection, method: str, path: str, *given: Any) -> dict[str, Any]:
        answer = attempt(self, method, path, *given)
        if path.startswith("/v1/groups/") and path not in lost:
            lost.append(path)
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(Connection, "_attempt", losing)
    with batching(service, []) as client:
        before = client.status()["admitted"]
        played = together(client, [f"dora {number}" for number in range(8)])
        assert [one.status for one in played] == ["counted"] * 8
        assert client.status()["admitted"] == before + 8
    assert len(lost) == 2


def test_a_member_that_should_come_again_does_so_alone_and_strange_answers_are_not_believed() -> None:
    class Scripted:
        def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
            route = next(one for one in ROUTES.values() if one.path == path)
            return {route.answers: script(content[route.members])}

    script: Any = None

    def ask(members: int) -> list[Any]:
        batcher = MicroBatcher(Scripted(), MicroBatching(seconds=1.0, most=members))  # type: ignore[arg-type]
        with concurrent.futures.ThreadPoolExecutor(members) as threads:
            return list(threads.map(lambda n: batcher.ask("open", {"user": n}, lambda: {"alone": n}), range(members)))

    def busy(users: Any) -> Any:
        return [{"type": "x", "status": 503} if one["user"] == 1 else {"user": one["user"]} for one in users]

    script = busy
    assert ask(3) == [{"user": 0}, {"alone": 1}, {"user": 2}]
    for strange in (None, [], [{}], ["text"] * 3, "text"):
        script = lambda users, strange=strange: strange  # noqa: E731
        assert ask(3) == [{"alone": number} for number in range(3)]


@pytest.mark.parametrize("given", [{"seconds": -1.0}, {"seconds": 2.0}, {"most": 1}, {"most": 257}])
def test_micro_batching_is_bounded_in_time_and_number(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="micro_batching"):
        MicroBatching(**given)
