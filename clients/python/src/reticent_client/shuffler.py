# SPDX-License-Identifier: Apache-2.0
"""A small shuffler in memory: for tests, demonstrations and deployments of one process.

It adds up what the users of a round hand over and posts the two sums, once. A shuffler that takes single bits does the
same by counting them.

**What it is trusted with.** It sees each user's counts, which hide her hardly at all, and it must not look at, keep or pass
on anything but sums over a round. It must not belong to whoever runs the service. It must never post two different
batches of one round: their difference would be the messages of those who are in one only, without the others' coins. So a
batch is fixed before it is first sent, and is the same ever after.

**Silence.** When a batch is posted, and how many messages it has, must not depend on what any user does. So it is posted at
a *deadline*, also if all have sent before: ``patience`` seconds after the service had admitted the last of the round's
users, or when half of the next round's have come, whichever is first. Places that are silent then are filled
with dummies (:meth:`~reticent_wire.shuffle_rules.ShuffleRules.silent`): the value 0 and as many fresh coins as the
place has. Whoever comes later is turned away. A round in which nobody sent anything is posted like any other.

**After a restart** what was handed over is lost, and what was posted is forgotten. So rounds that were full when it first
looked are left alone: their batch may be out already. The service goes on without them. So :meth:`~Shuffler.start` it
before the first user comes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_client.connection import Connection
from reticent_client.messages import require_shuffle
from reticent_client.problems import ServiceError
from reticent_wire.arrays import to_json
from reticent_wire.errors import InvalidInput, ReticentError
from reticent_wire.model import Model
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import Tally

Integers = NDArray[np.int64]

GIVEN_UP = ("batch-late", "batch-taken")
"""What the service says when it will never take a batch of this round; trying again is of no use."""


@dataclasses.dataclass(eq=False)
class _Round:
    """What was handed over so far, when the round was first seen to be full, and the batch once it is fixed."""

    ones: Integers
    messages: Integers
    places: set[int] = dataclasses.field(default_factory=set)
    full_since: float | None = None
    batch: dict[str, Any] | None = None
    over: bool = False


class Shuffler:
    """Hands a round's sums to the service at ``connection``; may be shared between threads. See the module docstring.

    >>> shuffler = Shuffler(Connection("http://127.0.0.1:8400", "dev-shuffler-key"), patience=600)

    Args:
      connection: to the service, with the shuffler's key.
      patience: seconds that the last users of a round have to play and to send. A public number.
      clock: that counts them.
    """

    def __init__(
        self, connection: Connection, *, patience: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not 0 <= patience < float("inf"):
            raise InvalidInput("patience", patience, "a finite number of seconds, at least 0", "60 is the default")
        self._connection, self._patience, self._clock = connection, patience, clock
        self._rounds: dict[int, _Round] = {}
        self._looked = False
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, number: int, within: int, ones: Integers, messages: Integers) -> None:
        """Take the messages of user ``within`` of round ``number``, once. Nothing is posted now, whoever is the last.

        Raises:
          InvalidInput: the place does not exist, the messages are not as many as its user sends, or the round's batch is
            fixed already; nothing was added.
        """
        self._rules.require_tally(number, within, Tally(ones, messages))
        with self._lock:
            if not self._looked:
                self._look()
            gathered = self._round(number)
            if within in gathered.places:
                return
            if gathered.batch is not None or gathered.over:
                raise InvalidInput("round", number, "one whose batch is not fixed", "the round is over; do not send")
            gathered.places.add(within)
            gathered.ones += ones
            gathered.messages += messages

    def post_due(self) -> list[int]:
        """Post the batch of every round whose deadline has passed; says of which. Asks the service who was admitted.

        Call it at times that do not depend on what users do; :meth:`start` does.

        Raises:
          ServiceError, Unreachable: the service refused, or did not answer; the next call tries again.
        """
        posted = []
        with self._lock:
            admitted, now = self._look(), self._clock()
            for number in range(len(self._rules.round_sizes)):
                if self._rules.end(number) > admitted:
                    break
                if not self._round(number).over and self._is_due(number, admitted, now):
                    self.finish(number)
                    posted.append(number)
        return posted

    def finish(self, number: int) -> None:
        """Wait for no more users of a round: fill its silent places, fix its batch and post it. May be called again.

        Call it at a time that does not depend on what users do; :meth:`post_due` does, at the deadline.

        Raises:
          InvalidInput: there is no such round.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        size = self._rules.size(number)
        with self._lock:
            gathered = self._round(number)
            if gathered.batch is None:
                filled = self._rules.silent(number, set(range(size)) - gathered.places)
                gathered.batch = {
                    "batch": uuid.uuid4().hex, "round": number, "users": size,
                    "ones": to_json(gathered.ones + filled.ones),
                    "messages": to_json(gathered.messages + filled.messages),
                }  # fmt: skip
            if gathered.over:
                return
            try:
                self._connection.post("/v1/batches", gathered.batch)
            except ServiceError as refused:
                gathered.over = refused.name in GIVEN_UP
                raise
            gathered.over = True

    def start(self, interval: float = 1.0) -> Shuffler:
        """Post batches at their deadlines in the background, looking every ``interval`` seconds, until :meth:`close`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(interval,), name="reticent-shuffler", daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop posting and close the connection; what was handed over and not posted is kept."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._connection.close()

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, interval: float) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(ReticentError):  # away, or a round was given up: the next turn goes on
                self.post_due()
            self._stop.wait(interval)

    def _look(self) -> int:
        """How many users the service has admitted. Rounds that are full at the first look may be out already."""
        admitted = int(self._connection.get("/v1/status")["admitted"])
        if not self._looked:
            for number in range(len(self._rules.round_sizes)):
                self._round(number).over = self._rules.end(number) <= admitted
            self._looked = True
        return admitted

    def _is_due(self, number: int, admitted: int, now: float) -> bool:
        """Whether a full round is waited for no longer: a matter of admissions and of the clock."""
        gathered, last_call = self._round(number), self._rules.last_call(number)
        if gathered.full_since is None:
            gathered.full_since = now
        return now - gathered.full_since >= self._patience or (last_call is not None and admitted >= last_call)

    @functools.cached_property
    def _rules(self) -> ShuffleRules:
        return require_shuffle(Model.read(self._connection.get("/v1/model")))

    def _round(self, number: int) -> _Round:
        empty = np.zeros(self._rules.reach.shape, np.int64)
        return self._rounds.setdefault(number, _Round(empty, empty.copy()))
