# SPDX-License-Identifier: Apache-2.0
"""Shuffle model: a sealed round gets one batch of all its users' messages from the shuffler, in one transaction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reticent.service.rounds.batches import overdue
from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records, tables
from reticent_wire.shuffling import Tally


class ShuffledBatches:
    """Takes the shuffler's batches."""

    def __init__(self, context: AnyContext, closing: Closing, advance: Callable[[], int]) -> None:
        self.context, self._closing, self._advance = context, closing, advance

    def submit_batch(self, batch: str, number: int, users: int, ones: np.ndarray, messages: np.ndarray) -> int:
        """Take a shuffler's batch of a sealed round; says of how many users. The first batch of a round is the only one.

        Raises:
          InvalidInput, Refusal: it was not taken, and nothing was changed.
        """
        if self.context.configuration.wire != "messages":
            raise Refusal(
                "wrong-trust", f"there is no shuffler in the {self.context.configuration.public_guarantee.trust} model"
            )
        total = self.context.configuration.batches.doubled_sum(number, users, Tally(ones, messages))
        with self.context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            taken, named = records.batch_of(tx, number), records.batch_named(tx, batch)
            if taken is not None and taken.id == batch:  # a retry: the answer is the same
                return int(taken.users)
            if taken is not None or named is not None:
                raise Refusal("batch-taken", "the round has had its batch, or the id was used; a round has one batch")
            if overdue(self.context.configuration.batches, number, clock):
                raise Refusal("batch-late", f"round {number} is not waited for any longer; keep its batch to yourself")
            if number >= clock.open_round:
                if number > clock.open_round or not self._closing.is_full(number, clock.admitted):
                    raise Refusal("round-open", f"round {number} has not had all its users; post its batch later")
                self._closing.seal(tx, number)
            records.insert_new(tx, tables.BATCHES, round=number, id=batch, users=users)
            records.set_total(tx, number, self.context.sealed_total(number, total))
        if self.context.inline:
            self._advance()
        else:
            self.context.sealed.set()
        return users
