# SPDX-License-Identifier: Apache-2.0
"""A small shuffler in memory: for tests, demonstrations and deployments of one process.

It adds up what the users of a round hand over and posts the two sums, once. A shuffler that takes single bits does the
same by counting them.

**What it is trusted with.** It sees each user's counts, which hide them hardly at all, and it must not look at, keep or
pass on anything but sums over a round. It must not belong to the operator of the service. It must never post two different
batches of one round: their difference would be the messages of those who are in one only, without the others' coins. So a
batch is fixed before it is first sent, and is the same ever after.

**Silence.** When a batch is posted, and how many messages it has, must not depend on what any user does. So it is posted at
a *deadline*, also if all have sent before: ``patience`` seconds after the service had admitted the last of the round's
users, or when half of the next round's have come, whichever is first. Places that are silent then are filled
with dummies (:meth:`~reticent_wire.shuffle_rules.ShuffleRules.silent`): the value 0 and as many fresh coins as the
place has. A later sender is turned away. A round in which no user sent anything is posted like any other.

**A restore of the service's store** takes admissions back. A user who was admitted before it may come again and send again,
and two of their vectors would be hidden by the noise for one. So messages carry how often the store had been restored when
their user came, and

* when the shuffler finds that the store was restored, it throws away all that it holds of before, as if it had been
  restarted. It looks at the times of :meth:`~Shuffler.post_due` alone, never because a user sent something: rounds that are
  full at that look are left alone, so that a look of a user's making would let one user decide whether a round is lost.
  Messages of users who came after a restore that it has not seen yet wait until it has;
* it posts the batch of a round only once the service has *recorded* the round's users, so that every restore brings them
  back and none of them is admitted again; and it looks before it posts. The service refuses a batch of before a restore.

**After a restart** what was handed over is lost, and what was posted is forgotten. So rounds that were full when it first
looked are left alone: their batch may be out already. The service goes on without them. So it has to look before the first
user comes: :meth:`~Shuffler.start` it, or enter its context. Until it has, no message is taken: it could be of a round that
is then left alone, and its user would believe that it was sent. A client whose shuffler has not looked names no user to the
service.

**Stays.** The report of a stay of several visits comes after the last of them, so that ``patience`` has no default there. A
round waits for its stays until half of the next round's users have come, however long ``patience`` is.
"""

from __future__ import annotations

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
from reticent_client.problems import ServiceError, Unreachable
from reticent_wire.arrays import to_json
from reticent_wire.errors import InvalidInput, ReticentError
from reticent_wire.model import Model
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import Tally

Integers = NDArray[np.int64]

GIVEN_UP = ("batch-late", "batch-taken")
"""What the service says when it will never take a batch of this round; trying again is of no use."""


PATIENCE = 60.0
"""Seconds that the last users of a round have by default."""


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
      patience: seconds that the last users of a round have to play and to send. A public number; 60 by default, and to be
        given where a stay has several visits.
      clock: that counts them.
    """

    def __init__(
        self, connection: Connection, *, patience: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if patience is not None and not 0 <= patience < float("inf"):
            raise InvalidInput("patience", patience, "a finite number of seconds, at least 0", "60 is the default")
        self._connection, self._patience, self._clock = connection, patience, clock
        self._held: dict[int, dict[int, _Round]] = {}  # by how often the store had been restored, and round
        self._looked, self._started, self._restores = False, False, 0
        self._problem: ReticentError | None = None
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, number: int, within: int, ones: Integers, messages: Integers, restores: int = 0) -> None:
        """Take the messages of user ``within`` of round ``number``, once. Nothing is posted now, even by the last.

        ``restores`` is what the service said when the user came.

        Raises:
          InvalidInput: it has not looked yet, the place does not exist, the messages are not as many as its user sends,
            the round's batch is fixed already, or the service's store was restored since the user came; nothing was added.
        """
        self.require_started()
        self._rules.require_tally(number, within, Tally(ones, messages))
        with self._lock:
            if restores < self._restores:
                bound = f"{self._restores}, as often as the store was restored"
                raise InvalidInput("restores", restores, bound, "the place was lost with the store; do not send")
            gathered = self._round(number, restores)
            if within in gathered.places:
                return
            if gathered.batch is not None or gathered.over:
                raise InvalidInput("round", number, "one whose batch is not fixed", "the round is over; do not send")
            gathered.places.add(within)
            gathered.ones += ones
            gathered.messages += messages

    def require_started(self) -> None:
        """Check that it has looked which rounds are full, so that what it takes from now on is posted.

        Raises:
          InvalidInput: it has not.
        """
        if not self._started:
            raise InvalidInput(
                "shuffler", "not started" if self._problem is None else f"not ready ({self._problem})",
                "started before the first user comes, and answered by the service",
                "call start() or enter its context, and try again: nothing was taken, and the same messages may be sent",
            )  # fmt: skip

    def post_due(self) -> list[int]:
        """Post the batch of every round whose deadline has passed; says of which. Asks the service who was admitted.

        Call it at times that do not depend on what users do; :meth:`start` does.

        Raises:
          ServiceError, Unreachable: the service refused, or did not answer; the next call tries again.
        """
        posted = []
        with self._lock:
            (admitted, recorded), now = self._look(), self._clock()
            for number in range(len(self._rules.round_sizes)):
                if self._rules.end(number) > recorded:
                    break
                if not self._round(number).over and self._is_due(number, admitted, now):
                    self._post(number)
                    posted.append(number)
        return posted

    def finish(self, number: int) -> None:
        """Wait for no more users of a round: fill its silent places, fix its batch and post it. May be called again.

        Call it at a time that does not depend on what users do; :meth:`post_due` does, at the deadline.

        Raises:
          InvalidInput: there is no such round, or not all its users have been admitted and recorded; nothing was fixed.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        end = self._rules.end(number)
        with self._lock:
            _, recorded = self._look()
            if recorded < end:
                bound = f"one whose users were admitted and recorded: {end}, of which {recorded} are"
                raise InvalidInput("round", number, bound, "wait for its users; post_due does")
            self._post(number)

    def _post(self, number: int) -> None:
        """Fix and post the batch of a round whose users are recorded."""
        size = self._rules.size(number)
        with self._lock:
            gathered = self._round(number)
            if gathered.batch is None:
                filled = self._rules.silent(number, set(range(size)) - gathered.places)
                gathered.batch = {
                    "batch": uuid.uuid4().hex, "round": number, "users": size, "restores": self._restores,
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
        """Post batches at their deadlines in the background, looking every ``interval`` seconds, until :meth:`close`.

        Raises:
          InvalidInput: the service is not of the shuffle model, or ``patience`` is to be given.
        """
        if self._thread is None:
            self._look_first()
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
        try:
            self._look_first()
        except ReticentError:  # there is no exit from a context that was not entered
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look_first(self) -> None:
        """Look before users come. If the service is away, the first turn of the background looks."""
        with self._lock:
            try:
                self._look()
            except (ServiceError, Unreachable) as problem:
                self._problem = problem

    def _run(self, interval: float) -> None:
        while not self._stop.is_set():
            try:
                self.post_due()
            except ReticentError as problem:  # away, or a round was given up: the next turn goes on
                self._problem = problem
            self._stop.wait(interval)

    def _look(self) -> tuple[int, int]:
        """How many users the service has admitted, and how many of them every restore of its store brings back.

        Rounds that are full at the first look may be out already. After a restore everything begins again.
        """
        status = self._connection.get("/v1/status")
        admitted, restores = int(status["admitted"]), int(status.get("restores", 0))
        recorded = status.get("recorded")
        if restores != self._restores:
            self._held = {came: rounds for came, rounds in self._held.items() if came >= restores}
            self._looked, self._restores = False, restores
        if not self._looked:
            for number in range(len(self._rules.round_sizes)):
                self._round(number).over = self._rules.end(number) <= admitted
            self._looked = self._started = True
        return admitted, admitted if recorded is None else min(admitted, int(recorded))

    def _is_due(self, number: int, admitted: int, now: float) -> bool:
        """Whether a full round is waited for no longer: a matter of admissions and of the clock."""
        gathered, last_call = self._round(number), self._rules.last_call(number)
        if gathered.full_since is None:
            gathered.full_since = now
        patience = PATIENCE if self._patience is None else self._patience
        return now - gathered.full_since >= patience or (last_call is not None and admitted >= last_call)

    @functools.cached_property
    def _rules(self) -> ShuffleRules:
        model = Model.read(self._connection.get("/v1/model"))
        if model.visits > 1 and self._patience is None:
            raise InvalidInput(
                "patience", "missing", f"given where a stay has {model.visits} visits",
                "set it to the seconds from a user's first visit to the last, and some days more",
            )  # fmt: skip
        return require_shuffle(model)

    def _round(self, number: int, restores: int | None = None) -> _Round:
        """What is held of a round, by default of now."""
        empty = np.zeros(self._rules.reach.shape, np.int64)
        held = self._held.setdefault(self._restores if restores is None else restores, {})
        return held.setdefault(number, _Round(empty, empty.copy()))
