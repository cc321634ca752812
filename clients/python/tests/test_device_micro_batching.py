# SPDX-License-Identifier: Apache-2.0
"""A report that was sent in a group and is asked for again is sent as it was: noise is drawn once."""

from __future__ import annotations

import concurrent.futures
from typing import Any

from make_vectors import example_model
from scripted_service import Answer, Sent, admitting, serving

from reticent_client import Budget, Client, MicroBatching, Ticket

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
