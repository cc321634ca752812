# SPDX-License-Identifier: Apache-2.0
"""Whether one user's report or silence holds up another's: two stories each, on the real store, with a clock of the test's.

A report counts in the round that is open when it is committed, so that a delay which one user causes another moves the
other's contribution from one round to the next (assumption (iii) of docs/delays.md). The first user's report is zeros: what
the rounds' sums hold is the second user's.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from durable import AGENT, MODEL, deployment, episode
from fastapi.testclient import TestClient
from serving import APP, settings

from reticent.service.http import guard
from reticent.service.http.app import create_app
from reticent.service.http.episodes import RequestHandlers
from reticent.service.processes import micro_batching
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.submit import Submission
from reticent.service.store import records
from reticent_client.micro_batching import MicroBatcher, MicroBatching
from reticent_wire.arrays import to_json

PAIRS = "private-linopt-vi:first=2,growth=1,trust=local"
Sums = list[list[int]]


class Clock:
    """A clock that the test sets; who sleeps by it wakes when it is time."""

    def __init__(self, now: float) -> None:
        self._now, self._changed = now, threading.Condition()

    def __call__(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._now >= until - 1e-9, timeout=30)

    def set(self, now: float) -> None:
        with self._changed:
            self._now = now
            self._changed.notify_all()


class Reports:
    """A connection whose requests of reports go to a deployment in this process."""

    def __init__(self, service: Deployment) -> None:
        self._service = service

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        assert path == "/v1/groups/reports"
        self._service.submissions.count_all([one["submission"] for one in content["reports"]])
        return {"receipts": [{} for _ in content["reports"]]}

    def alone(self, member: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        return lambda: {"versions": self._service.submissions.count_all([member["submission"]])}


def report_of(service: Deployment, user: str, value: int) -> Submission:
    """The report of a user who comes now, of ``value`` in every number."""
    opened = service.admit(user)
    numbers = value * (service.mechanism.noise_scale > 0).astype(np.int64)
    return service.submissions.report(opened.token, opened.episode, numbers, opened.reference)


def sums(service: Deployment) -> Sums:
    """What the rounds that are not released hold."""
    with service.store.read() as tx:
        rows = sorted(records.unreleased(tx), key=lambda row: row.number)
    return [service.context.total(row.number, row.total)._value.ravel().tolist() for row in rows]  # type: ignore[attr-defined]


def gathered(where: Path | str, reports: bool) -> Sums:
    """Two users of one backend: the second reports, the first may; then the round ends, and then the tick comes."""
    service = deployment(where, PAIRS, 8, inline=False)
    members = [{"submission": report_of(service, user, value)} for user, value in (("u", 0), ("v", 1))]
    clock, connection = Clock(10.0), Reports(service)
    batcher = MicroBatcher(connection, MicroBatching(seconds=0.5, most=2), clock, clock.sleep)  # type: ignore[arg-type]
    clock.set(10.1)
    asking = [
        threading.Thread(target=batcher.ask, args=("report", member, connection.alone(member)))
        for member in ([members[1], members[0]] if reports else [members[1]])
    ]
    for number, thread in enumerate(asking, 1):
        thread.start()
        while (group := batcher._waiting.get("report")) is not None and len(group.members) < number:
            time.sleep(0.001)
    asking[0].join(0.3)  # it has left by then, if it does not wait for the tick
    service.admit("w")
    clock.set(10.5)
    for thread in asking:
        thread.join(30)
    return sums(service)


def micro_batched(where: Path, reports: bool, *, together: bool) -> list[list[float]]:
    """How long each call for reports was waited for: of the first user, if they report, with another one, and then of the
    last. ``together``: whether users come several at a time, which is public."""
    service = deployment(where, PAIRS, 8, inline=False)
    waits: list[float] = []
    calls: list[list[float]] = []
    count = service.submissions.count_all

    def counted(group: Any) -> Any:
        calls.append(list(waits))
        return count(group)

    service.submissions.count_all = counted  # type: ignore[method-assign]
    stopped = types.SimpleNamespace(monotonic=lambda: 10.003, sleep=waits.append)
    real, micro_batching.time = micro_batching.time, stopped  # type: ignore[assignment]

    async def story() -> None:
        handlers = RequestHandlers(service, None, 0.01)
        if together:
            await handlers.admissions.join_all([("x", None), ("y", None)])
        else:
            await handlers.admissions.join(("x", None))
        waits.clear()
        first, second, last = (report_of(service, user, 1) for user in ("u", "b", "v"))
        await handlers.submissions.join_all([second, first] if reports else [second])
        await handlers.submissions.join(last)
        handlers.close()

    try:
        asyncio.run(story())
    finally:
        micro_batching.time = real
    return calls


MALFORMED: dict[str, dict[str, Any]] = {
    "short": {"rewards": [0.5], "report": to_json(np.zeros((1, 1), "<i8"))},
    "another kind": {"rewards": "often", "report": "often"},
    "one more field": {"mood": "good"},
}
"""Ways in which a user's report can have another form than the one that is asked for: what is in its fields."""


def limited(
    where: Path,
    reports: bool,
    *,
    local: bool = False,
    group: bool = False,
    database: str | None = None,
    malformed: str | None = None,
) -> list[int]:
    """What the second of two users is told by a service with a tight limit of requests; the first asks for as many actions
    as there are, and reports, or does nothing. All of it happens within one moment of the limit's clock. ``malformed``: in
    which way the first user's report is none, which is sent again and again instead."""
    given: dict[str, Any] = {"agent": PAIRS if local else AGENT, "rollback_guard": where / "guard"}
    given |= {} if database is None else {"database": database}
    with TestClient(create_app(settings(where, rate_limit=4.0, **given), begin=True), headers=APP) as client, stopped():
        first, second = (client.post("/v1/episodes", json={"user": user}).json() for user in ("ann", "bob"))
        if reports:
            for step in range(MODEL.horizon if malformed is None else 0):
                body = {"token": first["token"], "step": step, "state": 0}
                client.post(f"/v1/episodes/{first['episode']}/actions", json=body)
            for _ in range(1 if malformed is None else MODEL.horizon):
                _sent(client, first, local, group, malformed)
        return [client.get("/v1/round").status_code, _sent(client, second, local, group)]


def with_others(where: Path, reports: bool) -> list[Any]:
    """What a user is told who has used up the limit of their episode and then reports through a backend that groups what
    comes within a moment: with another user's report, or by itself."""
    service = create_app(settings(where, rate_limit=4.0, rollback_guard=where / "guard"), begin=True)
    with TestClient(service, headers=APP) as client, stopped():
        opened = [client.post("/v1/episodes", json={"user": user}).json() for user in ("ann", "bob")]
        own, path = {"token": opened[0]["token"], **episode(1)}, f"/v1/episodes/{opened[0]['episode']}"
        for _ in range(8):
            client.post(f"{path}/actions", json={"token": opened[0]["token"], "step": 0, "state": 0})
        if reports:
            members = [{"episode": one["episode"], "token": one["token"], **episode(1)} for one in opened]
            answer = client.post("/v1/groups/trajectories", json={"trajectories": members}).json()["receipts"][0]
        else:
            answer = client.post(f"{path}/trajectory", json=own).json()
    return [answer.get(key) for key in ("type", "status", "detail")]


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """The limits' clock stands still."""
    real, guard.time = guard.time, types.SimpleNamespace(monotonic=lambda: 1000.0)  # type: ignore[assignment]
    try:
        yield
    finally:
        guard.time = real


def _sent(client: TestClient, opened: dict[str, Any], local: bool, group: bool, malformed: str | None = None) -> int:
    """The status of a user's report."""
    configuration = client.app.state.deployment.configuration  # type: ignore[attr-defined]
    shape = configuration.noise_scale.shape
    content = {"report": to_json(np.zeros(shape, "<i8")), "reference": 0} if local else episode(1)
    body, kind = {"token": opened["token"], **content}, "report" if local else "trajectory"
    if malformed is not None:
        body |= {key: value for key, value in MALFORMED[malformed].items() if key in body or key == "mood"}
    if not group:
        return client.post(f"/v1/episodes/{opened['episode']}/{kind}", json=body).status_code
    plural = "reports" if local else "trajectories"
    return client.post(f"/v1/groups/{plural}", json={plural: [{"episode": opened["episode"], **body}]}).status_code
