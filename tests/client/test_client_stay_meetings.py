# SPDX-License-Identifier: Apache-2.0
"""Stays where they meet tickets, requests that are sent together, second devices, erasures and lost stores."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from running_service import ADMIN_KEY, APP_KEY, SHUFFLER_KEY
from test_client_score import releases
from test_client_stays import VISITS, agent, score, serving, visit

from reticent_client import Budget, Client, Connection, InvalidInput, MicroBatching, Shuffler, StayFile


def test_stays_of_a_backend_that_sends_requests_together_are_counted_once_each(tmp_path: Path) -> None:
    """One request admits all, and one submits all; nothing is sent between visits. One of them ends early."""
    asked: list[str] = []
    with (
        serving(tmp_path, "joint") as url,
        Client(
            url, APP_KEY, micro_batching=MicroBatching(), stays=StayFile(tmp_path / "stays.json"),
            observer=lambda route, _seconds, _status: asked.append(route),
        ) as client,
    ):  # fmt: skip
        episodes: dict[int, Any] = {}

        def live(user: int) -> None:
            for number in range(VISITS if user else 1):
                with client.resume_stay(f"user {user}") or client.episode(f"user {user}") as episode:
                    assert episode.visit == number
                    visit(episode, user)
                    episodes[user] = episode
            assert episode.status == ("counted" if user else "open")

        threads = [threading.Thread(target=live, args=(user,)) for user in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [episodes[user].status for user in range(4)] == ["open", "counted", "counted", "counted"]
        posts = {route for route in asked if route.startswith("POST")}
        assert posts <= {
            "POST /v1/groups/episodes", "POST /v1/groups/trajectories", "POST /v1/episodes",
            "POST /v1/episodes/{episode}/trajectory",
        }  # fmt: skip
        assert client.status()["admitted"] == 4
        assert list(client.stays.show()) == ["user 0"]  # type: ignore[union-attr]


def test_a_ticket_that_is_used_on_two_devices_counts_one_stay(tmp_path: Path) -> None:
    """Two devices know nothing of each other; the service counts what comes first, and answers both alike."""
    with serving(tmp_path, "joint") as url:
        with Client(url, APP_KEY) as backend:
            (ticket,) = backend.admit(["ann"])
        said = []
        for device, life in (("phone", 5), ("tablet", 6)):
            for number in range(VISITS):
                kept = StayFile(tmp_path / device / "stays.json")
                with Client(url, APP_KEY, stays=kept) as client, client.begin(ticket) as episode:
                    assert episode.visit == number
                    visit(episode, life)
            said.append((episode.status, episode.receipt))
        assert said[0] == said[1]
        assert said[0][0] == "counted"
        with Client(url, APP_KEY) as client:
            assert client.status()["admitted"] == 1


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
@pytest.mark.parametrize("acting", [agent, pytest.param(score, marks=pytest.mark.verify)])
def test_a_user_who_is_erased_between_two_visits_is_answered_as_any_other(
    tmp_path: Path, trust: str, acting: Any
) -> None:
    """The service adds nothing of them. A shuffler cannot know whose messages they are: the app erases what it keeps."""
    with (
        serving(tmp_path, trust, agent=acting(trust)) as url,
        contextlib.closing(Connection(url, ADMIN_KEY)) as operator,
        contextlib.ExitStack() as stack,
    ):
        handed: list[Any] = []
        given: dict[str, Any] = {"budget": Budget.in_memory()} if trust == "local" else {}
        if trust == "shuffle":
            given["shuffler"] = lambda *sent: handed.append(sent)
        stays = StayFile(tmp_path / "stays.json")
        client = stack.enter_context(Client(url, APP_KEY, trust=trust, stays=stays, **given))
        ends = []
        for user in ("ann", "bob", "cem"):  # erased by the operator; left alone; erased, and by the app too
            with client.episode(user) as episode:
                visit(episode, 1)
            if user != "bob":
                assert operator.post("/v1/admin/erase", {"user": user})["episodes"] == 1
            if user == "cem":
                stays.erase(user)
                assert client.resume_stay(user) is None
                continue
            while (again := client.resume_stay(user)) is not None:
                with again as episode:
                    visit(episode, 1)
            ends.append((episode.status, episode.reason))
        assert len(set(ends)) == 1
        assert len(handed) == (2 if trust == "shuffle" else 0)
        assert client.status()["admitted"] == 3
        with client.episode("ann") as new:  # under a new id they are served, and not learned from
            assert (new.learning, new.reason) == (False, "user-already-counted")
            for _ in range(VISITS):
                visit(new, 1)


def test_a_stay_of_before_a_restore_is_handed_to_no_shuffler_that_knows_of_it(tmp_path: Path) -> None:
    """Its user may be admitted again: the number of restores that the stay was begun under is kept with it."""
    with serving(tmp_path, "shuffle") as url, Shuffler(Connection(url, SHUFFLER_KEY), patience=60) as shuffler:
        stays = StayFile(tmp_path / "stays.json")
        with Client(url, APP_KEY, shuffler=shuffler, stays=stays) as client:
            with client.episode("ann") as episode:
                visit(episode, 1)
            shuffler._restores = 1  # as its next look would find it
            for number in range(1, VISITS):
                again = client.resume_stay("ann")
                assert again is not None
                visit(again, 1)
                if number < VISITS - 1:
                    continue
                with pytest.raises(InvalidInput, match="lost with the store"):
                    again.submit()
            assert not any(round_.places for held in shuffler._held.values() for round_ in held.values())
            assert stays.show() == {}
    assert releases(tmp_path) == []
