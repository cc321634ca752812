# SPDX-License-Identifier: Apache-2.0
"""Micro-batching: requests that arrive within a few milliseconds are put through one call, which is one transaction.

One thread does the calls, one after another; whatever has arrived during a call is the next one's group. A request that
comes alone is served at once. Where several came together more are likely to be on their way, and the thread lingers for a
moment before it takes them. An answer is given after its call has returned, that is, after the commit.

*Submissions linger by what is public.* A report counts in the round that is open when it is committed. If the thread of
submissions lingered because of an earlier report, one user's report or silence would decide in which round others' count
(assumption (iii) of docs/delays.md). So they wait where *admissions* come several at a time, and then for the next tick
of a clock, however many reports there are. What is left is how long a call takes, as with every computer.

No request waits for ever. One that has waited for :data:`DEADLINE` seconds is told to come again, and while a call has
been going on for :data:`STALLED` seconds newcomers are told so at once. What they asked for may still be done: every
request of this service may be repeated.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from reticent.service.rounds.refusals import Refusal

LOG = logging.getLogger("reticent.service")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST = 256
"""Requests in one call, at most: a bound on how long a transaction holds its locks."""

ENOUGH = 32
"""Requests for which no more are waited for: most of what a transaction costs is shared between them by then."""

DEADLINE, STALLED = 2.0, 0.5
"""Seconds that a request waits at most; seconds of a call after which no more wait for it."""


class _Waiting(NamedTuple, Generic[Item, Answer]):
    item: Item
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Answer]


class MicroBatcher(Generic[Item, Answer]):
    """Calls ``work`` with what has gathered; it answers each item with a result or an exception, in their order.

    If ``work`` itself raises, that is everyone's answer. ``linger`` are the seconds that it waits for more after a call
    that had more than one item, unless there are :data:`ENOUGH`. ``follows`` is a batcher of public requests: then it
    waits, for the next of ticks that are ``linger`` apart, where that one's last call had more than one item. ``patient``
    requests wait for as long as it takes.

    Attributes:
      together: whether the last call had more than one item.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Answer | Exception]],
        linger: float,
        most: int = MOST,
        *,
        follows: MicroBatcher[Any, Any] | None = None,
        patient: bool = False,
    ) -> None:
        self._work, self._linger, self._most, self._patient = work, linger, most, patient
        self._follows, self.together = follows, False
        self._since: float | None = None
        self._queue: collections.deque[_Waiting[Item, Answer]] = collections.deque()
        self._arrived = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def join(self, item: Item) -> Answer:
        """The answer to ``item``; raises it if it is an exception.

        Raises:
          Refusal: there was none in time.
        """
        (waiting,) = entered = self._enter([item])
        with self._deadline(entered):
            answer: Answer = await waiting.answer
            return answer

    async def join_all(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """The answers to items that came together; one that is an exception is given like the others.

        Raises:
          Refusal: the call before them takes too long.
        """
        entered = self._enter(items)
        with self._deadline(entered):
            return await asyncio.gather(*(one.answer for one in entered), return_exceptions=True)  # type: ignore[return-value]

    @contextlib.contextmanager
    def _deadline(self, entered: Sequence[_Waiting[Item, Answer]]) -> Iterator[None]:
        """Answer those who have waited for too long."""
        if self._patient or not entered:
            yield
            return
        timer = entered[0].loop.call_later(DEADLINE, _settle, [(one.answer, _busy()) for one in entered])
        try:
            yield
        finally:
            timer.cancel()

    def _enter(self, items: Sequence[Item]) -> list[_Waiting[Item, Answer]]:
        since = self._since
        if since is not None and not self._patient and time.monotonic() - since > STALLED:
            raise _busy()
        loop = asyncio.get_running_loop()
        entered: list[_Waiting[Item, Answer]] = [_Waiting(item, loop, loop.create_future()) for item in items]
        with self._arrived:
            alone = not self._queue
            self._queue.extend(entered)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reticent-micro-batching", daemon=True)
                self._thread.start()
            elif alone:  # else it is awake, or has been called already
                self._arrived.notify()
        return entered

    def close(self) -> None:
        """Serve those who wait, and end."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
            self._wait_for_more()
            come = len(self._queue)
            while come:
                group = [self._queue.popleft() for _ in range(min(come, self._most))]
                come -= len(group)
                self._answer(group)

    def _wait_for_more(self) -> None:
        if not self._linger:
            return
        if self._follows is not None:
            if self._follows.together:
                time.sleep(self._linger - time.monotonic() % self._linger)
        elif self.together and len(self._queue) < ENOUGH:
            time.sleep(self._linger)

    def _answer(self, group: Sequence[_Waiting[Item, Answer]]) -> None:
        """Put one group through a call and tell its members."""
        self.together, self._since = len(group) > 1, time.monotonic()
        try:
            answers = self._work([one.item for one in group])
            if len(answers) != len(group):
                raise RuntimeError(f"{len(answers)} answers to {len(group)} requests")
        except Exception as problem:
            answers = [problem] * len(group)
        self._since = None
        try:
            _tell(group, answers)
        except Exception as problem:  # such as a loop that was closed meanwhile: the next group has its own
            LOG.error("a group could not be answered: %s", type(problem).__name__)


def _busy() -> Refusal:
    return Refusal("unavailable", "the store takes longer than it should; try again")


def _tell(group: Sequence[_Waiting[Item, Answer]], answers: Sequence[Answer | Exception]) -> None:
    """Hand the answers to those who wait, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Answer], Answer | Exception]]] = {}
    for one, answer in zip(group, answers, strict=True):
        by_loop.setdefault(one.loop, []).append((one.answer, answer))
    for loop, told in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, told)


def _settle(told: Sequence[tuple[asyncio.Future[Answer], Answer | Exception]]) -> None:
    for future, answer in told:
        if future.done():  # the caller has gone
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
