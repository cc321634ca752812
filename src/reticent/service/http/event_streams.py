# SPDX-License-Identifier: Apache-2.0
"""Streams of server-sent events: one look at the store for all of a worker's, and a bounded number of them.

A stream is an answer that never ends. So streams must not keep others out: a worker has at most :data:`SHARE` of its
connections as streams, a caller at most :data:`SHARE` of those, and beyond that the oldest stream goes when a new one
comes. A stream counts as idle where connections are short (:mod:`reticent.service.http.sockets`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from reticent.service.rounds import public_views
from reticent.service.rounds.frontend import Frontend
from reticent.service.store import records

POLL, KEEP_ALIVE = 1.0, 15.0
"""Seconds between looks at the store and between signs of life."""

SHARE = 4
"""Of a worker's connections one in so many may be a stream; of its streams one in so many may be one caller's."""

BEHIND = 256
"""Events that wait for a reader, at most; one that is further behind is let go."""


class _Follower:
    """One stream: whose it is, what it has not been sent yet, and how to end it."""

    def __init__(self, caller: str, end: Callable[[], None]) -> None:
        self.caller, self._end = caller, end
        self.events: asyncio.Queue[str | None] = asyncio.Queue(BEHIND)

    def send(self, events: list[str]) -> None:
        for event in events:
            if self.events.full():
                self.end()
                return
            self.events.put_nowait(event)

    def end(self) -> None:
        """End the stream, also if its reader takes nothing and the sender waits."""
        while not self.events.empty():
            self.events.get_nowait()
        self.events.put_nowait(None)
        self._end()


class EventStreams:
    """The streams of one worker: ``status`` when it changes, ``release`` for every new one.

    Args:
      connections: how many connections the worker may have; see :data:`SHARE`.
    """

    def __init__(self, deployment: Frontend, world: str | None, connections: int) -> None:
        self._deployment, self._world = deployment, world
        self._most = max(1, connections // SHARE)
        self._most_of_one = max(1, self._most // SHARE)
        self._followers: dict[_Follower, None] = {}  # in the order in which they came
        self._watching: asyncio.Task[None] | None = None
        self._last: dict[str, Any] | None = None
        self._status = ""
        self._number = 0

    async def follow(self, caller: str, end: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        """The events for one reader, the status of now first; ``end`` closes the reader's connection."""
        follower = _Follower(caller, end)
        self._make_room(caller)
        self._followers[follower] = None
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        elif self._last is not None:
            follower.send([self._status])
        try:
            while (event := await follower.events.get()) is not None:
                yield event
        finally:
            self._followers.pop(follower, None)
            if not self._followers and self._watching is not None:
                self._watching.cancel()
                self._watching, self._last = None, None

    def _make_room(self, caller: str) -> None:
        """End the oldest stream of a caller with too many, or of the caller with most where there are too many in all."""
        counts = Counter(one.caller for one in self._followers)
        crowded = caller if counts[caller] >= self._most_of_one else None
        if crowded is None and len(self._followers) >= self._most:
            crowded = counts.most_common(1)[0][0]
        if crowded is not None:
            oldest = next(one for one in self._followers if one.caller == crowded)
            del self._followers[oldest]
            oldest.end()

    async def _watch(self) -> None:
        """Look at the store for all readers, until there are none."""
        spoke = time.monotonic()
        while True:
            try:
                events = await self._changes()
            except Exception:  # the store fails or is slow: health says so, and streams wait
                events = []
            if not events and time.monotonic() - spoke > KEEP_ALIVE:
                events = [": keep-alive\n\n"]
            if events:
                spoke = time.monotonic()
                for one in list(self._followers):
                    one.send(events)
            await asyncio.sleep(POLL)

    async def _changes(self) -> list[str]:
        now = await run_in_threadpool(public_views.status, self._deployment, self._world)
        last, newest = self._last, now["served_version"]
        if now == last:
            return []
        entries = []
        for release in range(last["served_version"] if last else newest, newest):
            entries.append(await run_in_threadpool(_entry, self._deployment, release))
        self._last, self._status = now, self._event("status", now)
        return [self._status, *(self._event("release", entry) for entry in entries)]

    def _event(self, kind: str, content: dict[str, Any]) -> str:
        text = f"event: {kind}\nid: {self._number}\ndata: {json.dumps(content)}\n\n"
        self._number += 1
        return text


def _entry(deployment: Frontend, release: int) -> dict[str, Any]:
    with deployment.store.read() as tx:
        digest = records.digests(tx, release, release + 1).get(release)
    return public_views.ledger_entry(deployment, release, digest)
