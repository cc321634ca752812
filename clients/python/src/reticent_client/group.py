# SPDX-License-Identifier: Apache-2.0
"""Many users' episodes through one backend: opened in one request, and submitted in one.

An app's backend that plays for its users costs the service most by its requests. A group is as many ordinary episodes,
which act and observe by themselves; only the two requests are shared. A member who is refused keeps no other from being
admitted or counted, and what the service asks to send again is sent again, by that member alone.

In the local model a report is still noised by itself, with noise of its own: that is the device's work, so that a backend
which does it for its users sees their episodes. Messages for a shuffler go there one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reticent_client.episode import Episode
from reticent_client.problems import ServiceError
from reticent_client.submission import Kind, Receipt
from reticent_wire.errors import ReticentError
from reticent_wire.limits import LARGEST_GROUP

if TYPE_CHECKING:
    from reticent_client.client import Client

TOGETHER: Mapping[Kind, str] = {"trajectory": "trajectories", "report": "reports"}
"""What is submitted in one request, and what it is called there; the rest goes by itself."""


class Group:
    """Episodes of several users; use it as a context manager, which opens them and submits those that are complete. ::

        with client.group(["ann", "bob"]) as episodes:
            for episode in episodes:
                play(episode)

    Attributes:
      episodes: one for each user, in their order; those who were refused stay ``new``.
      refused: why, by user: of those that the service did not admit, or whose submission it did not count.
    """

    def __init__(self, client: Client, users: Sequence[str], enrolments: Mapping[str, str] | None = None) -> None:
        vouched = {} if enrolments is None else enrolments
        self._client = client
        self.episodes = [client.episode(user, enrolment=vouched.get(user)) for user in users]
        self.refused: dict[str, ReticentError] = {}

    def open(self) -> Group:
        """Ask the service to admit them; safe to call again after a failure.

        Raises:
          InvalidInput: the service's trust model or noise is not what the client demands; no user was named to it.
          ServiceError, Unreachable: it refused the whole group, or did not answer.
        """
        self._client.require_trustworthy()
        for part in _parts([episode for episode in self.episodes if episode.status == "new"]):
            answers = self._ask("episodes", "users", "opened", [episode.named for episode in part])
            for episode, answer in zip(part, answers, strict=True):
                self._settle(episode, answer, episode.opened)
        return self

    def submit(self) -> list[Receipt | None]:
        """Send what the trust model allows of those that are complete; a receipt for each user who was learned from.

        After a failure it may be called again: the same bytes are sent, with the same noise.

        Raises:
          ServiceError, Unreachable: the service refused all of them, or did not answer.
        """
        going = [one for one in self.episodes if one.status == "open" and one.complete]
        for kind, plural in TOGETHER.items():
            together = [one for one in going if (made := one.prepared()) is not None and made.kind == kind]
            for part in _parts(together):
                sent = [{"episode": one.id, **one.submission.content} for one in part]
                answers = self._ask(plural, plural, "receipts", sent)
                for episode, answer in zip(part, answers, strict=True):
                    self._settle(episode, answer, episode.counted)
        for episode in going:
            if episode.status == "open" and episode.user not in self.refused:
                self._by_itself(episode)
        return [episode.receipt for episode in self.episodes]

    def __iter__(self) -> Iterator[Episode]:
        """Those who were admitted, or are served without being learned from."""
        return (episode for episode in self.episodes if episode.status != "new")

    def __len__(self) -> int:
        return len(self.episodes)

    def __enter__(self) -> Group:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.submit()
        for episode in self.episodes:
            if episode.user not in self.refused:
                episode.__exit__(kind, problem, trace)  # of those that were left early

    # -- inside -------------------------------------------------------------------------------------------------------

    def _ask(self, path: str, field: str, answered: str, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = self._client.connection.post(f"/v1/groups/{path}", {field: members})[answered]
        if len(answers) != len(members):
            raise ServiceError(200, title=f"{len(answers)} answers to {len(members)} members of a group")
        found: list[dict[str, Any]] = answers
        return found

    def _settle(self, episode: Episode, answer: dict[str, Any], take: Any) -> None:
        if "type" not in answer:
            take(answer)
            return
        problem = ServiceError.read(int(answer["status"]), json.dumps(answer).encode(), None)
        if problem.passing:
            self._by_itself(episode)
        else:
            episode.refused(problem)
            self.refused[episode.user] = problem

    def _by_itself(self, episode: Episode) -> None:
        """Open or submit one of them alone, with the patience that a single request has."""
        try:
            if episode.status == "new":
                episode.open()
            else:
                episode.submit()
        except ReticentError as problem:
            self.refused[episode.user] = problem


def _parts(episodes: Sequence[Episode]) -> Iterator[Sequence[Episode]]:
    return (episodes[first : first + LARGEST_GROUP] for first in range(0, len(episodes), LARGEST_GROUP))
