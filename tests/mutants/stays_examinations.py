# SPDX-License-Identifier: Apache-2.0
"""Examinations of how a stay ends on its device, and of a shuffler that was not started: what leaves, and how often."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from client_tests import forbid  # noqa: F401  (first: it knows the way to the two below)
from examinations import Examination, _named
from make_vectors import example_model
from scripted_service import Sent, admitting, serving
from shuffler_examinations import REGRESSIONS, SIZE, _hand_over, joined

from reticent_client import BeliefMemory, Budget, Client, Episode, InvalidInput, Shuffler, StayFile

KINDS = example_model("kinds")
STAYS = dataclasses.replace(KINDS, rules=dataclasses.replace(KINDS.rules, visits=2))


def _device(name: str) -> Any:
    return lambda examine: _named(examine, "device", {"stay": name})


@contextlib.contextmanager
def _served(**opened: Any) -> Iterator[tuple[str, list[Sent], StayFile]]:
    with tempfile.TemporaryDirectory() as folder, serving(admitting(STAYS, **opened)) as (url, sent):
        yield url, sent, StayFile(Path(folder) / "stays.json")


def _client(url: str, stays: StayFile) -> Client:
    return Client(url, "key", trust="local", budget=Budget.in_memory(), stays=stays)


def _visit(episode: Episode) -> None:
    for step in range(episode.horizon):
        episode.act(step)
        episode.observe(1.0, step + 1)


def _reports(sent: list[Sent]) -> int:
    return [one.kind for one in sent].count("report")


@_device("open in several processes")
def shared() -> list[str]:
    """Two processes with budgets of their own have the same stay open, and both finish it."""
    with _served() as (url, sent, stays), contextlib.ExitStack() as stack:
        with _client(url, stays) as first, first.episode("ann") as episode:
            _visit(episode)
        clients = [stack.enter_context(_client(url, stays)) for _ in range(2)]
        for episode in [client.resume_stay("ann") for client in clients]:
            if episode is not None:
                _visit(episode)
                episode.submit()
        return ["two reports of one stay leave the device"] if _reports(sent) > 1 else []


@_device("erased while it is open")
def erased() -> list[str]:
    """The user erases a stay between two visits of a process that has it open."""
    findings = []
    with _served() as (url, sent, stays), _client(url, stays) as client:
        episode = client.episode("ann").open()
        _visit(episode)
        stays.erase("ann")
        _visit(episode)
        findings += ["an erased stay is kept again"] if stays.show() else []
        episode.submit()
        findings += ["an erased stay is reported"] if _reports(sent) else []
    return findings


@_device("erased belief")
def forgotten() -> list[str]:
    """The user erases what the device believes of them, at the end of their second visit."""
    with tempfile.TemporaryDirectory() as where, serving(admitting(KINDS)) as (url, _):
        memory = BeliefMemory(Path(where) / "belief.json")
        with Client(url, "key", budget=Budget.in_memory(), memory=memory) as client:
            for erased in (False, True):
                with client.episode("ann") as episode:
                    _visit(episode)
                    if erased:
                        memory.erase("ann")
        return ["an erased belief is remembered"] if memory.show() else []


@_device("expired")
def expired() -> list[str]:
    """A stay whose ticket has expired: the service waits for it no longer, and nobody needs its report."""
    with (
        _served(expires_at=time.time() - 60) as (url, sent, stays),
        _client(url, stays) as client,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        episode = client.episode("ann").open()
        _visit(episode)
        _visit(episode)
        episode.submit()
    findings = ["a stay is reported that nobody waits for"] if _reports(sent) else []
    return findings if any("expired" in str(one.message) for one in said) else [*findings, "nothing is said"]


@_device("shuffler that was not started")
def unstarted() -> list[str]:
    """A round's users hand their messages to a shuffler before it looks: it must not take them, and lose them."""
    with joined(REGRESSIONS) as connection:
        shuffler, told = Shuffler(connection, patience=0), 0  # type: ignore[arg-type]
        for user in range(SIZE):
            connection.service.admit(f"user {user}")
            with contextlib.suppress(InvalidInput):
                _hand_over(shuffler, connection, user)
                told += 1
        shuffler.post_due()
        return ["messages are taken and lost"] if told and not connection.posted else []


EXAMINATIONS: tuple[Examination, ...] = (shared, erased, forgotten, expired, unstarted)
