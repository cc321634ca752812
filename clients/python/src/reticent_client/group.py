# SPDX-License-Identifier: Apache-2.0
"""Many users' episodes through one backend: opened in one request, and submitted in one.

An app's backend that plays for its users costs the service most by its requests. A group is as many ordinary episodes,
which act and observe by themselves; only the two requests are shared. A member who is refused keeps no other from being
admitted or counted, and what the service asks to send again is sent again, by that member alone.

*What one member does is no other's affair.* An exception that one user's episode ends with must not keep the others from
being counted: their contributions would be missing because of that user's data. So complete episodes are submitted whatever
came of the others, and :meth:`Group.play` goes on to the next member after an exception.

Which request a member is in follows from the position among all, and not from who else is complete: a request that goes
later may come in another round.

*Leaving looks like staying.* In the local and the shuffle model those who left early send an empty submission, in their
position of the same request. Sent by itself after the others, it would say who has left.

In the local model a report is still noised by itself, with noise of its own: that is the device's work, so that a backend
which does it for its users sees their episodes. Messages for a shuffler go there one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reticent_client.episode import EMPTY_SENT, NOTHING_SENT, Episode
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
            episodes.play(steps)  # a function that lets one episode act and observe

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

    def play(self, steps: Callable[[Episode], object]) -> None:
        """Let ``steps`` act and observe for every member who was admitted. What it raises leaves that member's episode as
        it is, and the others are played all the same.

        Raises:
          ExceptionGroup: what was raised, after all of them.
        """
        raised: list[Exception] = []
        for episode in self:
            try:
                steps(episode)
            except Exception as problem:
                raised.append(problem)
        if raised:
            raise ExceptionGroup(f"{len(raised)} of {len(self)} members of the group", raised)

    def submit(self) -> list[Receipt | None]:
        """Send what the trust model allows of those that are complete, or have been left and show nothing; a receipt for
        each user who was learned from.

        After a failure it may be called again: the same bytes are sent, with the same noise.

        Raises:
          ServiceError, Unreachable: the service refused all of them, or did not answer.
        """
        going = [one for one in self.episodes if one.status == "open" and one.ready]
        for kind, plural in TOGETHER.items():
            for part in _parts(self.episodes):
                ready = [one for one in part if one in going and one.status == "open"]
                together = [one for one in ready if (made := one.prepared()) is not None and made.kind == kind]
                if not together:
                    continue
                sent = [{"episode": one.id, **one.submission.content} for one in together]
                answers = self._ask(plural, plural, "receipts", sent)
                for episode, answer in zip(together, answers, strict=True):
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
        if problem is not None and not isinstance(problem, Exception):  # Ctrl-C waits for no network
            for episode in self.episodes:
                episode.__exit__(kind, problem, trace)
            return
        left = [episode for episode in self.episodes if episode.leaves]
        if self._client.trust != "joint":
            for episode in left:
                episode.leave_empty()
        failure = self._submitted_whatever(problem)
        for episode, sent in [(episode, self._left(episode, failure)) for episode in left]:
            episode.say_left(problem, sent)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _submitted_whatever(self, problem: Exception | None) -> Exception | None:
        """Submit; why it failed, if the group was left with a ``problem``, which that must not hide."""
        try:
            self.submit()
        except Exception as failure:
            if problem is None:
                raise
            problem.add_note(f"the group could not be submitted ({type(failure).__name__}); call its submit() again")
            return failure
        return None

    def _left(self, episode: Episode, failure: Exception | None) -> str:
        """End a member that was left early; says what was sent of it."""
        failure = failure or self.refused.get(episode.user)
        if self._client.trust == "joint":
            episode.abandon()
            return NOTHING_SENT
        return EMPTY_SENT if failure is None else episode.failed_to_leave(failure)

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
