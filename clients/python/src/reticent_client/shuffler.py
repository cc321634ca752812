"""A small shuffler in memory: for tests, demonstrations and deployments of one process.

It adds up what the users of a round hand over and posts the two sums, once. A shuffler that takes single bits does the
same by counting them.

**What it is trusted with.** It sees each user's counts, which hide her hardly at all, and it must not look at, keep or pass
on anything but sums over a round. It must not belong to whoever runs the service. It must never post two different
batches of one round: their difference would be the messages of those who are in one only, without the others' coins. So a
batch is fixed before it is first sent, and is the same ever after. When it posts must not depend on what users did:
when all have sent, or at a time that was set before.

What it *cannot* do without the users' help is to learn a value that was never sent, and if it fails nothing is released.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import uuid
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent_client.connection import Connection
from reticent_client.messages import require_shuffle
from reticent_client.wire.arrays import to_json
from reticent_client.wire.errors import InvalidInput
from reticent_client.wire.model import Model
from reticent_client.wire.shuffle_rules import ShuffleRules
from reticent_client.wire.shuffling import Tally

Integers = NDArray[np.int64]


@dataclasses.dataclass(eq=False)
class _Round:
    """What was handed over so far, and the batch once it is fixed."""

    ones: Integers
    messages: Integers
    numbers: set[int] = dataclasses.field(default_factory=set)
    batch: dict[str, Any] | None = None
    posted: bool = False


class Shuffler:
    """Hands a round's sums to the service at ``connection``; may be shared between threads. See the module docstring.

    >>> shuffler = Shuffler(Connection("http://127.0.0.1:8400", "dev-app-key"))
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rounds: dict[int, _Round] = {}
        self._lock = threading.RLock()

    def __call__(self, number: int, within: int, ones: Integers, messages: Integers) -> None:
        """Take the messages of user ``within`` of round ``number``, once; with the last user's the batch is posted.

        Raises:
          InvalidInput: the place does not exist, the messages are not as many as its user sends, or the round's batch is
            fixed already; nothing was added.
          ServiceError, Unreachable: the batch could not be posted; the messages are kept, and it may be called again.
        """
        size = self._rules.size(number)
        self._rules.require_tally(number, within, Tally(ones, messages))
        with self._lock:
            gathered = self._round(number)
            if within not in gathered.numbers:
                if gathered.batch is not None:
                    raise InvalidInput(
                        "round", number, "one whose batch is not fixed", "the round is over; do not send"
                    )
                gathered.numbers.add(within)
                gathered.ones += ones
                gathered.messages += messages
            if len(gathered.numbers) == size:
                self.finish(number)

    def finish(self, number: int) -> None:
        """Wait for no more users of a round: fix its batch and post it. May be called again after a failure.

        Raises:
          InvalidInput: too few users have sent to hide each other; nothing was posted, and more may send.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        size = self._rules.size(number)
        with self._lock:
            gathered = self._round(number)
            fewest = self._rules.fewest(number)
            if len(gathered.numbers) < fewest:
                bound = f"at least {fewest} of {size} users"
                raise InvalidInput(f"users of round {number}", len(gathered.numbers), bound, "wait for more of them")
            if gathered.batch is None:
                gathered.batch = {
                    "batch": uuid.uuid4().hex, "round": number, "users": len(gathered.numbers),
                    "ones": to_json(gathered.ones), "messages": to_json(gathered.messages),
                }  # fmt: skip
            if not gathered.posted:
                self._connection.post("/v1/batches", gathered.batch)
                gathered.posted = True

    def close(self) -> None:
        """Close the connection; what was handed over and not posted is kept."""
        self._connection.close()

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @functools.cached_property
    def _rules(self) -> ShuffleRules:
        return require_shuffle(Model.read(self._connection.get("/v1/model")))

    def _round(self, number: int) -> _Round:
        empty = np.zeros(self._rules.reach.shape, np.int64)
        return self._rounds.setdefault(number, _Round(empty, empty.copy()))
