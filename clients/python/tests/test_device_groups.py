# SPDX-License-Identifier: Apache-2.0
"""The end of a backend's group when the service is away, refuses a member, or answers something else."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence

import pytest
from make_vectors import example_model
from scripted_service import Answer, Sent, admitting, serving

from reticent_client import Budget, Client, Episode, EpisodeAbandoned, ServiceError
from reticent_client import group as group_module
from reticent_client.group import Group

MODEL = example_model("counts")
AWAY: Answer = (503, {"type": "urn:reticent:problem:unavailable", "status": 503})


@contextlib.contextmanager
def grouped(
    answer: Callable[[Sent], Answer], users: Sequence[str] = ("ann", "bob", "cleo"), deadline: float = 0.5
) -> Iterator[tuple[Group, list[Sent]]]:
    """A group of a service that answers so, and what it was asked. One that is away is away for the ``deadline``."""
    with serving(answer) as (url, asked), Client(url, "key", budget=Budget.in_memory(), deadline=deadline) as client:
        yield client.group(users), asked


def play(episode: Episode) -> None:
    """To the end, but for ann, who leaves after a step."""
    for step in range(1 if episode.user == "ann" else episode.horizon):
        episode.act(step)
        episode.observe(1.0, step + 1)


def test_a_group_that_cannot_be_submitted_says_so_and_may_be_submitted_again() -> None:
    base, answers = admitting(MODEL), [AWAY]

    def answer(sent: Sent) -> Answer:
        return answers[0] if sent.kind == "reports" and answers else base(sent)

    with grouped(answer, deadline=2.0) as (group, asked):
        with pytest.raises(ServiceError, match="503"), group:
            group.play(play)
        assert [one.status for one in group] == ["open"] * 3
        sent = [one.body for one in asked if one.kind == "reports"]
        answers.clear()
        group._client.connection.deadline = 30.0  # it answers now, however busy the machine is
        receipts = group.submit()
        assert [one.episode for one in receipts if one is not None] == [one.id for one in group]
        assert [one.status for one in group] == ["empty", "counted", "counted"]
        assert set(sent) == {
            [one.body for one in asked if one.kind == "reports"][-1]
        }  # the same bytes, with the same noise


def test_why_a_group_was_left_is_not_hidden_by_a_service_that_is_away() -> None:
    base = admitting(MODEL)
    with grouped(lambda sent: AWAY if sent.kind == "reports" else base(sent)) as (group, _):
        with pytest.raises(ZeroDivisionError) as left, group:  # noqa: PT012
            group.play(play)
            raise ZeroDivisionError
        said = left.value.__notes__
        # On a busy machine the last attempt may end by its time and not by its answer.
        assert re.search(r"could not be submitted \((ServiceError|Unreachable)\); call its submit\(\) again", said[0])
        assert "left after 1 of" in said[1]
        assert re.search(r"an empty submission failed \((ServiceError|Unreachable)\): nothing was submitted", said[1])
        assert len(said) == 2
        assert [one.status for one in group] == ["abandoned", "open", "open"]


def test_a_leaver_whose_empty_report_is_refused_is_told_so() -> None:
    base = admitting(MODEL)

    def answer(sent: Sent) -> Answer:
        if sent.kind != "reports":
            return base(sent)
        gone = {"type": "urn:reticent:problem:episode-expired", "title": "Gone", "status": 410}
        counted = [{"episode": one["episode"], "status": "counted", "version": 0} for one in sent.content["reports"]]
        return 200, {"receipts": [gone, *counted[1:]]}

    with grouped(answer) as (group, _):
        with pytest.warns(EpisodeAbandoned, match=r"failed \(ServiceError\): nothing was submitted"), group:
            group.play(play)
        assert [one.status for one in group] == ["abandoned", "counted", "counted"]
        assert set(group.refused) == {"ann"}


def test_in_the_joint_model_a_leaver_sends_nothing() -> None:
    base = admitting(MODEL, trust="joint")

    def answer(sent: Sent) -> Answer:
        if sent.kind != "trajectories":
            return base(sent)
        return 200, {
            "receipts": [
                {"episode": one["episode"], "status": "counted", "version": 0} for one in sent.content[sent.kind]
            ]
        }

    with grouped(answer) as (group, asked):
        with pytest.warns(EpisodeAbandoned, match="after 1 of .* steps; nothing was submitted$"), group:
            group.play(play)
        assert [one.status for one in group] == ["abandoned", "counted", "counted"]
        assert [one.path for one in asked if one.method == "POST"] == ["/v1/groups/episodes", "/v1/groups/trajectories"]


def test_answers_that_are_not_one_for_each_member_are_no_answer() -> None:
    with (
        grouped(admitting(MODEL, changes={"/v1/groups/episodes": {"opened": []}})) as (group, _),
        pytest.raises(ServiceError, match="0 answers to 3 members of a group"),
        group,
    ):
        pass


def test_which_request_a_member_is_in_does_not_depend_on_who_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of more members than a request takes. A request that goes later may come in another round."""
    monkeypatch.setattr(group_module, "LARGEST_GROUP", 2)
    base, together = admitting(MODEL, trust="joint"), []

    def answer(sent: Sent) -> Answer:
        if sent.kind != "trajectories":
            return base(sent)
        members = [one["episode"] for one in sent.content["trajectories"]]
        requests.append(members)
        return 200, {"receipts": [{"episode": one, "status": "counted", "version": 0} for one in members]}

    for first in ("eve", "ann"):  # ann leaves after a step
        requests: list[list[str]] = []
        with grouped(answer, (first, "bob", "cleo", "dora"), 30.0) as (group, _):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EpisodeAbandoned)
                with group:
                    group.play(play)
            users = {one.id: number for number, one in enumerate(group.episodes)}
            together.append([[users[one] for one in part] for part in requests])
    assert together == [[[0, 1], [2, 3]], [[1], [2, 3]]]
