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
import math
import threading
import uuid
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.client.connection import Connection
from reticent.client.messages import require_shuffle
from reticent.client.published import Model, ShuffleRules
from reticent.errors import InvalidInput
from reticent.service.arrays import to_json

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
          InvalidInput: the place does not exist, or the round's batch is fixed already; nothing was added.
          ServiceError, Unreachable: the batch could not be posted; the messages are kept, and it may be called again.
        """
        size = self._size(number)
        shape = self._rules.reach.shape
        if not (0 <= within < size and ones.shape == messages.shape == shape):
            raise InvalidInput("messages", (number, within), "of a user of the round", "send what the client made")
        with self._lock:
            found = self._round(number)
            if within not in found.numbers:
                if found.batch is not None:
                    raise InvalidInput(
                        "round", number, "one whose batch is not fixed", "the round is over; do not send"
                    )
                found.numbers.add(within)
                found.ones += ones
                found.messages += messages
            if len(found.numbers) == size:
                self.finish(number)

    def finish(self, number: int) -> None:
        """Wait for no more users of a round: fix its batch and post it. May be called again after a failure.

        Raises:
          InvalidInput: too few users have sent to hide each other; nothing was posted, and more may send.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        size = self._size(number)
        with self._lock:
            found = self._round(number)
            fewest = math.ceil(self._rules.honest * size)
            if len(found.numbers) < fewest:
                bound = f"at least {fewest} of {size} users"
                raise InvalidInput(f"users of round {number}", len(found.numbers), bound, "wait for more of them")
            if found.batch is None:
                found.batch = {
                    "batch": uuid.uuid4().hex, "round": number, "users": len(found.numbers),
                    "ones": to_json(found.ones), "messages": to_json(found.messages),
                }  # fmt: skip
            if not found.posted:
                self._connection.post("/v1/batches", found.batch)
                found.posted = True

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

    def _size(self, number: int) -> int:
        sizes = self._rules.round_sizes
        if not 0 <= number < len(sizes):
            raise InvalidInput("round", number, f"from 0 to {len(sizes) - 1}", "see the service's model")
        return sizes[number]

    def _round(self, number: int) -> _Round:
        empty = np.zeros(self._rules.reach.shape, np.int64)
        return self._rounds.setdefault(number, _Round(empty, empty.copy()))
