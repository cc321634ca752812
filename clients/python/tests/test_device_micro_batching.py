# SPDX-License-Identifier: Apache-2.0
"""A report that was sent in a group and is asked for again is sent as it was: noise is drawn once."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import pytest
from make_vectors import example_model
from scripted_service import Answer, Sent, admitting, serving

from reticent_client import Budget, Client, InvalidInput, MicroBatching, ServiceError, Ticket
from reticent_client.micro_batching import MicroBatcher

MODEL = example_model("score")


def play(client: Client, user: str) -> None:
    with client.episode(user) as episode:
        for _ in range(episode.horizon):
            episode.act(0)
            episode.observe(0.5, 0)


def test_who_is_told_to_come_again_sends_the_same_bytes_alone() -> None:
    honest = admitting(MODEL)

    def busy(sent: Sent) -> Answer:
        if sent.path == "/v1/groups/reports":
            return 200, {"receipts": [{"type": "x", "status": 503} for _ in sent.content["reports"]]}
        return honest(sent)

    with serving(busy) as (url, sent):
        client = Client(url, None, budget=Budget.in_memory(), micro_batching=MicroBatching(0.5, 3))
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda user: play(client, user), ("ann", "bob", "cleo")))
        client.close()
    grouped: dict[str, Any] = {
        one["episode"]: one["report"] for each in sent if each.kind == "reports" for one in each.content["reports"]
    }
    alone = {each.path.split("/")[3]: each.content["report"] for each in sent if each.kind == "report"}
    assert len(alone) == 3
    assert grouped.items() <= alone.items()
    assert grouped


def test_two_tickets_of_one_user_are_one_report() -> None:
    """A service that forgets hands out a second ticket; the device's own budget is spent."""
    with serving(admitting(MODEL)) as (url, sent):
        client = Client(url, None, budget=Budget.in_memory())
        for _ in range(2):
            (ticket,) = client.admit(["ann"])
            assert isinstance(ticket, Ticket)
            with client.begin(ticket) as episode:
                for _ in range(episode.horizon):
                    episode.act(0)
                    episode.observe(0.5, 0)
        client.close()
    assert [each.kind for each in sent if each.method == "POST"] == ["episodes", "report", "episodes"]


class Posted:
    """A connection that keeps what is posted, and answers as it is told to."""

    def __init__(self, answer: Callable[[int], dict[str, Any]] = lambda user: {"user": user}) -> None:
        self.groups: list[list[int]] = []
        self._answer = answer

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        assert path == "/v1/groups/episodes"
        self.groups.append([one["user"] for one in content["users"]])
        return {"opened": [self._answer(one["user"]) for one in content["users"]]}


def asked(posted: Posted, users: int, most: int = 64) -> list[Any]:
    """The answers of users who ask within one tick, in their order; a refusal is its answer."""
    everyone = threading.Event()

    def sleep(_: float) -> None:
        everyone.wait(10)

    rule = MicroBatching(seconds=1.0, most=most)
    batcher = MicroBatcher(posted, rule, lambda: 9.0 if everyone.is_set() else 7.25, sleep)  # type: ignore[arg-type]
    answers: list[Any] = [None] * users

    def ask(user: int) -> None:
        try:
            answers[user] = batcher.ask("open", {"user": user}, lambda: {"alone": user})
        except ServiceError as refusal:
            answers[user] = refusal

    threads = [threading.Thread(target=ask, args=(user,)) for user in range(users)]
    for number, thread in enumerate(threads):
        thread.start()
        while (group := batcher._waiting.get("open")) is None or len(group.members) != number % most + 1:
            pass
    everyone.set()
    for thread in threads:
        thread.join(10)
    assert not batcher._waiting
    return answers


def test_those_of_one_tick_are_sent_together_as_many_as_a_group_holds() -> None:
    posted = Posted()
    assert asked(posted, 2) == [{"user": 0}, {"user": 1}]
    assert posted.groups == [[0, 1]]
    posted = Posted()
    assert asked(posted, 1) == [{"alone": 0}]
    assert posted.groups == []
    posted = Posted()
    assert asked(posted, 5, most=2) == [*({"user": user} for user in range(4)), {"alone": 4}]
    assert sorted(posted.groups) == [[0, 1], [2, 3]]


def test_a_refusal_is_its_members_own_with_its_status() -> None:
    told = {0: {"type": "urn:x", "status": 409, "title": "no"}, 1: {"type": "urn:x", "status": "409"}, 2: {"user": 2}}
    first, second, third = asked(Posted(lambda user: told[user]), 3)
    assert (first.status, third) == (409, {"user": 2})
    assert second == {"alone": 1}  # a status that is none is the service's fault, which may pass


@pytest.mark.parametrize(
    "content",
    [
        None, "text", {}, {"user": "ann"}, {"user": 7, "opened": {"episode": "a"}}, {"user": "ann", "opened": []},
        {"user": "ann", "opened": {}}, {"user": "ann", "opened": {"episode": 7}},
    ],
)  # fmt: skip
def test_what_is_no_ticket_is_refused(content: Any) -> None:
    with pytest.raises(InvalidInput, match="ticket"):
        Ticket.read(content)


def test_a_ticket_travels() -> None:
    ticket = Ticket("ann", {"episode": "a" * 32, "place": 3})
    assert Ticket.read(ticket.to_json()) == ticket
