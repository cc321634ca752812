# SPDX-License-Identifier: Apache-2.0
"""Planted bugs by which what one user does decides whether, when or how another's report is sent. Importing this
registers them."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_tests import forbid  # noqa: F401  (first: it knows the way to the two below)
from examinations import Examination, _named
from held_up import gathered, limited, micro_batched, with_others
from make_vectors import example_model
from scripted_service import admitting, serving

from mutants import QUICK, Patch, mutant
from reticent.service.http import fast_path, groups, rates
from reticent.service.processes.micro_batching import MicroBatcher
from reticent_client import Budget, Client, Episode
from reticent_client import group as group_module
from reticent_client.group import Group
from reticent_client.micro_batching import MicroBatcher as ClientBatcher

QUICK |= {
    "full-group-leaves-at-once", "reports-linger-after-a-crowd", "limit-shared-by-users", "leaver-sends-alone",
    "exception-of-one-drops-the-group", "group-without-a-limit", "report-of-another-form-counts-in-the-limit",
}  # fmt: skip


def held_up(way: str, story: Callable[[Path, bool], Any]) -> Examination:
    """Two stories that differ in whether one user reports: the other's report is treated alike."""

    def examine() -> list[str]:
        found = []
        for reports in (True, False):
            with tempfile.TemporaryDirectory() as where:
                found.append(story(Path(where), reports))
        return [] if found[0] == found[1] else ["a report is held up by another user's silence"]

    return _named(examine, "replay", {"held up": way})


GATHERED = held_up("in a backend", gathered)
BATCHED = held_up("in the service", lambda where, reports: micro_batched(where, reports, together=False))
LIMITED = held_up("by a limit", limited)
OF_ANOTHER_FORM = held_up(
    "by reports of another form", lambda where, reports: limited(where, reports, malformed="short")
)
TOGETHER = held_up("by a group", with_others)
HELD_UP = "held up by another"


def left_early() -> list[str]:
    """A backend's group of three in the local model: all play to the end, or one leaves, by itself or with an exception."""
    sent = [_requests(leaver) for leaver in (None, "ann", "bob")]
    findings = ["who leaves a group sends something else"] if sent[1:] != sent[:1] * 2 else []
    return [*findings, *_counted(), *_moved()]


def _moved() -> list[str]:
    """Requests of two members at most; the first member leaves, or does not."""
    requests = []
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(group_module, "LARGEST_GROUP", 2)
        for steps in (3, 1):
            with _group("joint") as (group, asked):
                for episode in group:
                    _play(episode, steps if episode.user == "ann" else episode.horizon)
                group.__exit__(None, None, None)
                sent = [one.content["trajectories"] for one in asked if one.path == "/v1/groups/trajectories"]
                users = {episode.id: episode.user for episode in group.episodes}
                requests.append([[users[one["episode"]] for one in part] for part in sent])
    same = [[user for user in part if user != "ann"] for part in requests[0]] == requests[1]
    return [] if same else ["who leaves a group puts others in another request"]


def _requests(leaver: str | None) -> list[str]:
    """Which requests a group makes at its end, of which one member leaves early."""
    with _group("local") as (group, asked):
        for episode in group:
            _play(episode, 1 if episode.user == leaver else episode.horizon)
        before = len(asked)
        group.__exit__(None, None, None)
        return [one.path for one in asked[before:] if one.method == "POST"]


def _counted() -> list[str]:
    """The last member of a group raises; the others are complete."""
    with _group("joint") as (group, _):
        for episode in list(group)[:-1]:
            _play(episode, episode.horizon)
        problem = ZeroDivisionError()
        group.__exit__(type(problem), problem, None)
        counted = [episode.status for episode in group]
    return [] if counted == ["counted", "counted", "abandoned"] else ["an exception of one member drops the others"]


@contextlib.contextmanager
def _group(trust: str) -> Iterator[tuple[Group, list[Any]]]:
    base = admitting(example_model("counts"), trust=trust)

    def answer(sent: Any) -> Any:
        if sent.path != "/v1/groups/trajectories":
            return base(sent)
        counted = [
            {"episode": one["episode"], "status": "counted", "version": 0} for one in sent.content["trajectories"]
        ]
        return 200, {"receipts": counted}

    with (
        serving(answer) as (url, asked),
        Client(url, "key", budget=Budget.in_memory()) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield client.group(["ann", "bob", "cleo"]).open(), asked


def _play(episode: Episode, steps: int) -> None:
    for step in range(steps):
        episode.act(step)
        episode.observe(1.0, step + 1)


LEFT = _named(left_early, "device", {"group": "left early"})


@mutant("a client sends a group of reports as soon as it is full: who reports decides in which round the others count "
        "(we had this one)", GATHERED, HELD_UP)  # fmt: skip
def full_group_leaves_at_once(patch: Patch) -> None:
    real = ClientBatcher._lead

    def lead(self: ClientBatcher, kind: str, group: Any) -> None:
        while self._clock() < group.due and len(group.members) < self._rule.most:
            time.sleep(0.001)
        group.due = self._clock()
        real(self, kind, group)

    patch.setattr(ClientBatcher, "_lead", lead)


@mutant("the service waits for more reports after a group of several reports (we had this one)", BATCHED, HELD_UP)
def reports_linger_after_a_crowd(patch: Patch) -> None:
    real = MicroBatcher._wait_for_more

    def wait(self: MicroBatcher[Any, Any]) -> None:
        followed, self._follows = self._follows, None
        real(self)
        self._follows = followed

    patch.setattr(MicroBatcher, "_wait_for_more", wait)


@mutant("what users do counts in the limit of their app's key: who acts decides who else is turned away (we had this one)",
        LIMITED, HELD_UP)  # fmt: skip
def limit_shared_by_users(patch: Patch) -> None:
    patch.setattr(rates, "OF_USERS", re.compile(r"(?!)"))


@mutant("a report of another form counts in the limit of its app's key, though its token is genuine (we had this one)",
        OF_ANOTHER_FORM, HELD_UP)  # fmt: skip
def report_of_another_form_counts_in_the_limit(patch: Patch) -> None:
    patch.setattr(fast_path, "tokens", lambda body: iter(()))


@mutant("a member of a group takes nothing from the limit of its episode: whether another user reports decides whether one "
        "is turned away (we had this one)", TOGETHER, HELD_UP)  # fmt: skip
def group_without_a_limit(patch: Patch) -> None:
    patch.setattr(groups, "take_of", lambda episode: 0.0)


@mutant("who leaves a group early sends an empty report alone, after the others' (we had this one)", LEFT,
        "sends something else")  # fmt: skip
def leaver_sends_alone(patch: Patch) -> None:
    def leave(self: Group, kind: Any, problem: Any, trace: Any) -> None:
        self.submit()
        for episode in self.episodes:
            episode.__exit__(kind, problem, trace)

    patch.setattr(Group, "__exit__", leave)


@mutant("the requests of a large group are cut from those who are complete: who leaves moves others from one to the next "
        "(we had this one)", LEFT, "in another request")  # fmt: skip
def requests_of_those_who_are_complete(patch: Patch) -> None:
    real = group_module._parts

    def parts(episodes: Any) -> Any:
        return real([one for one in episodes if one.status != "open" or one.ready])

    patch.setattr(group_module, "_parts", parts)


@mutant("an exception of one member keeps a whole group from being submitted (we had this one)", LEFT,
        "drops the others")  # fmt: skip
def exception_of_one_drops_the_group(patch: Patch) -> None:
    real = Group.__exit__

    def leave(self: Group, kind: Any, problem: Any, trace: Any) -> None:
        if problem is None:
            real(self, kind, problem, trace)
        else:
            for episode in self.episodes:
                episode.__exit__(kind, problem, trace)

    patch.setattr(Group, "__exit__", leave)
