# SPDX-License-Identifier: Apache-2.0
"""Requests of many threads in few: those that are made within a moment go to the service as one group.

A backend that serves many users at once costs the service most by its requests. Here requests of a kind wait for the next
tick of a clock, :attr:`MicroBatching.seconds` apart, and those that have come by then are sent together,
:attr:`MicroBatching.most` in a request. Nothing else changes: every request returns what it would have returned by itself,
or raises it.

*Members are independent.* The service answers each by itself, in its position. One whose answer is a passing problem
(503, 429) asks again alone, with the patience of a single request. If the whole group is refused, each member asks alone,
so that none pays for another.

*When a request is sent depends on when it was made, and on no other request.* A report counts in the round that is open
when it comes. A group that left as soon as it is full would let one user's report, or its absence, decide in which round
those of all its other members count: assumption (iii) of docs/delays.md. So a full group waits for the tick as well, and
the next one of the same tick leaves beside it.

*Retries are safe*, as for every request of this client: a member carries its episode's id.
"""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from reticent_client.connection import Connection
from reticent_client.problems import ServiceError
from reticent_wire.errors import InvalidInput
from reticent_wire.limits import LARGEST_GROUP

Answer = dict[str, Any]


class _Route(NamedTuple):
    """Where members of a kind go together, and what they and their answers are called there."""

    path: str
    members: str
    answers: str


ROUTES = {
    "open": _Route("/v1/groups/episodes", "users", "opened"),
    "trajectory": _Route("/v1/groups/trajectories", "trajectories", "receipts"),
    "report": _Route("/v1/groups/reports", "reports", "receipts"),
}
"""What can be sent together; the rest goes by itself."""


@dataclasses.dataclass(frozen=True)
class MicroBatching:
    """How requests wait for each other.

    Attributes:
      seconds: between two ticks, which is as long as a request waits at most.
      most: members of a group, at most; 16 give most of what there is to gain, 64 nearly all.
    """

    seconds: float = 0.01
    most: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= 1:
            raise InvalidInput("micro_batching.seconds", self.seconds, "in [0, 1]", "0.01 is the default")
        if not 2 <= self.most <= LARGEST_GROUP:
            raise InvalidInput("micro_batching.most", self.most, f"in 2..{LARGEST_GROUP}", "64 is the default")


class _Group:
    """Members that wait for the tick ``due``, and whether they were answered."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.members: list[Answer] = []
        self.answered = threading.Event()
        self.answers: list[Answer] | None = None
        self.problem: Exception | None = None


class MicroBatcher:
    """Sends what threads ask for together; each thread waits for its own answer. ``clock`` and ``sleep`` make the ticks."""

    def __init__(
        self,
        connection: Connection,
        rule: MicroBatching,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection, self._rule, self._clock, self._sleep = connection, rule, clock, sleep
        self._began = clock()
        self._waiting: dict[str, _Group] = {}
        self._lock = threading.Lock()

    def ask(self, kind: str, member: Answer, alone: Callable[[], Answer]) -> Answer:
        """The service's answer to ``member``; ``alone`` is the same request by itself.

        Raises:
          ServiceError, Unreachable: what the request by itself would have raised.
        """
        if kind not in ROUTES:
            return alone()
        group, place = self._join(kind, member)
        if place == 0:
            self._lead(kind, group)
        else:
            group.answered.wait()
        if group.problem is not None:
            raise group.problem
        if group.answers is None:
            return alone()
        answer = group.answers[place]
        if "type" not in answer:
            return answer
        status = answer.get("status")
        problem = ServiceError.read(status if isinstance(status, int) else 500, json.dumps(answer).encode(), None)
        if problem.passing:
            return alone()
        raise problem

    def _join(self, kind: str, member: Answer) -> tuple[_Group, int]:
        """The group that takes members now, and the member's position in it."""
        with self._lock:
            now = self._clock()
            group = self._waiting.get(kind)
            if group is None or now >= group.due or len(group.members) >= self._rule.most:
                group = self._waiting[kind] = _Group(self._tick_after(now))
            group.members.append(member)
            return group, len(group.members) - 1

    def _tick_after(self, now: float) -> float:
        """The first tick after ``now``, however many wait for it."""
        seconds = self._rule.seconds
        return self._began + seconds * (math.floor((now - self._began) / seconds) + 1) if seconds else now

    def _lead(self, kind: str, group: _Group) -> None:
        """Wait for the tick and send all; whatever happens to this thread, they are told."""
        try:
            while (left := group.due - self._clock()) > 0:
                self._sleep(left)
            if len(group.members) > 1:  # after the tick no more join
                self._send(ROUTES[kind], group)
        finally:
            with self._lock:
                if self._waiting.get(kind) is group:
                    del self._waiting[kind]
            group.answered.set()

    def _send(self, route: _Route, group: _Group) -> None:
        try:
            answers = self._connection.post(route.path, {route.members: group.members}).get(route.answers)
        except ServiceError as refusal:
            group.problem = refusal if refusal.passing else None  # refused as a whole: each asks alone
            return
        except Exception as problem:
            group.problem = problem
            return
        if not isinstance(answers, list) or len(answers) != len(group.members):
            return
        if all(isinstance(answer, dict) for answer in answers):
            group.answers = answers
