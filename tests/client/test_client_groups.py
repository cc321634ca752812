# SPDX-License-Identifier: Apache-2.0
"""A backend's group against the real service: two requests for all, and every member an episode like any other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_service import APP_KEY, running_service

from reticent_client import Client, Episode, EpisodeAbandoned, ServiceError

WORLD = "random-blend:states=4,actions=3,horizon=3,d=2"
AGENTS = {"joint": "private-linopt-vi:epsilon=2", "local": "private-linopt-po:epsilon=2,trust=local"}


@pytest.fixture(scope="module", params=AGENTS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"world": WORLD, "episodes": 400, "agent": AGENTS[request.param], "rate_limit": 0}
    with running_service(tmp_path_factory.mktemp("groups"), **settings) as url:
        yield url


def play(episode: Episode, steps: int = 3) -> None:
    for step in range(steps):
        episode.act(step)
        episode.observe(0.5, step + 1)


def test_a_group_is_two_requests(service: str) -> None:
    asked: list[str] = []
    with Client(service, APP_KEY, observer=lambda route, *_: asked.append(route)) as client:
        with client.group([f"two requests {n}" for n in range(5)]) as episodes:
            asked.clear()
            for episode in episodes:
                play(episode)
        kind = {"joint": "trajectories", "local": "reports"}[client.trust]
        assert [route for route in asked if route.startswith("POST")] == [f"POST /v1/groups/{kind}"]
        assert [one.status for one in episodes] == ["counted"] * 5
        assert [one.receipt.episode for one in episodes if one.receipt is not None] == [one.id for one in episodes]
        assert not episodes.refused
        again = client.group([f"two requests {n}" for n in range(5)])
        with again:
            for episode in again:
                assert episode.reason == "user-already-counted"
                play(episode)
        assert [one.status for one in again] == ["served"] * 5


def test_members_are_refused_and_leave_by_themselves(service: str) -> None:
    with Client(service, APP_KEY) as client:
        taken = client.episode("who has the id")
        taken.open()
        group = client.group(["refused", "stays", "leaves", "late"])
        group.episodes[0].id = taken.id
        with pytest.warns(EpisodeAbandoned, match="after 1 of 3"), group:  # noqa: PT031
            assert isinstance(group.refused["refused"], ServiceError)
            assert group.refused["refused"].name == "episode-taken"
            assert [episode.user for episode in group] == ["stays", "leaves", "late"]
            for episode, steps in zip(group, (3, 1, 3), strict=True):
                play(episode, steps)
            group.episodes[3]._token = taken._token  # another episode's
        left = "abandoned" if client.trust == "joint" else "empty"
        assert [one.status for one in group.episodes] == ["new", "counted", left, "open"]
        assert set(group.refused) == {"refused", "late"}


def test_an_exception_of_one_member_keeps_no_other_from_being_counted(service: str) -> None:
    """Else all the others' contributions would be missing because of what one user did: item 1 of promises.md again."""

    def steps(episode: Episode) -> None:
        play(episode, 1 if episode.user == "odd 1" else 3)
        if episode.user == "odd 1":
            raise ZeroDivisionError

    with Client(service, APP_KEY) as client:
        group = client.group([f"odd {number}" for number in range(4)])
        with pytest.raises(ExceptionGroup, match="1 of 4 members") as caught, group:
            group.play(steps)
        left = "abandoned" if client.trust == "joint" else "empty"
        assert [one.status for one in group] == ["counted", left, "counted", "counted"]
        assert len(caught.value.__notes__) == 1
        group = client.group(["cut off 0", "cut off 1"])
        with pytest.raises(ZeroDivisionError) as stopped, group:  # noqa: PT012
            for episode in group:
                play(episode)
                raise ZeroDivisionError
        assert [one.status for one in group] == ["counted", left]
        assert len(stopped.value.__notes__) == 1


def test_a_group_that_is_interrupted_waits_for_no_network(service: str) -> None:
    with Client(service, APP_KEY) as client:
        group = client.group(["interrupted 0", "interrupted 1"])
        with pytest.raises(KeyboardInterrupt), group:  # noqa: PT012
            play(group.episodes[0])
            raise KeyboardInterrupt
        assert [one.status for one in group] == ["abandoned"] * 2


@pytest.mark.parametrize("service", ["local"], indirect=True)
def test_who_leaves_a_group_sends_what_those_send_who_stay(service: str) -> None:
    """Same requests, in the same order: an empty submission by itself, after the group's, says who has left."""
    asked: list[str] = []
    with Client(service, APP_KEY, observer=lambda route, *_: asked.append(route)) as client:
        sent = []
        for leaver in (None, "0", "2"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EpisodeAbandoned)
                with client.group([f"{leaver} {number}" for number in "012"]) as group:
                    asked.clear()
                    group.play(lambda episode, who=leaver: play(episode, 1 if episode.user[-1] == who else 3))
            sent.append([route for route in asked if route.startswith("POST")])
            assert [one.status for one in group] == ["empty" if n == leaver else "counted" for n in "012"]
        assert sent == [["POST /v1/groups/reports"]] * 3


def test_a_large_group_has_more_requests(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent_client.group.LARGEST_GROUP", 2)
    asked: list[str] = []
    with Client(service, APP_KEY, observer=lambda route, *_: asked.append(route)) as client:
        with client.group([f"in parts {n}" for n in range(5)]) as episodes:
            for episode in episodes:
                play(episode)
        assert len([route for route in asked if "/v1/groups/" in route]) == 6
        assert [one.status for one in episodes] == ["counted"] * 5


def test_a_lost_answer_is_asked_for_again(service: str, tmp_path: Path) -> None:
    from faulty_proxy import LOSE_ANSWER, proxied

    with proxied(service) as proxy, Client(proxy.url, APP_KEY) as client:
        group = client.group(["lost answer 0", "lost answer 1"])
        client.require_trustworthy()
        proxy.faults.append(LOSE_ANSWER)
        with group:
            for episode in group:
                play(episode)
            proxy.faults.append(LOSE_ANSWER)
        assert [one.status for one in group] == ["counted"] * 2
        assert not group.refused
