# SPDX-License-Identifier: Apache-2.0
"""Shuffle model: a sealed round gets one batch of all its users' messages from the shuffler, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.service.rounds.batches import overdue
from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.recorded_admissions import recorded
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records, tables
from reticent_wire.boundary import Clipped
from reticent_wire.shuffling import Tally


class ShuffledBatches:
    """Takes the shuffler's batches."""

    def __init__(self, context: AnyContext, closing: Closing, advance: Callable[[], int]) -> None:
        self.context, self._closing, self._advance = context, closing, advance

    def submit_batch(
        self, batch: str, number: int, users: int, ones: np.ndarray, messages: np.ndarray, restores: int = 0
    ) -> int:
        """Take a shuffler's batch of a sealed round; says of how many users. The first batch of a round is the only one.

        ``restores`` is how often the store had been restored when its users came. Those of before a restore are not told
        from those of after it, who may be the same: their messages are for no batch any more.

        Raises:
          InvalidInput, Refusal: it was not taken, and nothing was changed.
        """
        if self.context.configuration.wire != "messages":
            raise Refusal(
                "wrong-trust", f"there is no shuffler in the {self.context.configuration.public_guarantee.trust} model"
            )
        total = Clipped(self.context.configuration.batches.doubled_sum(number, users, Tally(ones, messages)))
        if restores != self.context.restores:
            raise Refusal("batch-late", "the store was restored since these users came; throw their messages away")
        with self.context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            taken, named = records.batch_of(tx, number), records.batch_named(tx, batch)
            if taken is None or taken.id != batch:  # else a retry: the answer is the same, and waits for the same
                if taken is not None or named is not None:
                    raise Refusal(
                        "batch-taken", "the round has had its batch, or the id was used; a round has one batch"
                    )
                self._require_due(number, clock)
                if number == clock.open_round:
                    self._closing.seal(tx, number)
                records.insert_new(tx, tables.BATCHES, round=number, id=batch, users=users)
                records.set_total(tx, number, self.context.sealed_total(number, total))
        if self.context.inline:
            self._advance()
        else:
            self.context.sealed.set()
        return users

    def _require_due(self, number: int, clock: Any) -> None:
        """Refuse the batch of a round that is waited for no longer, or not yet: a matter of admissions.

        Raises:
          Refusal: it is so.
        """
        if overdue(self.context.configuration.batches, number, clock):
            raise Refusal("batch-late", f"round {number} is not waited for any longer; keep its batch to yourself")
        if number > clock.open_round or not self._closing.is_full(number, clock.admitted):
            raise Refusal("round-open", f"round {number} has not had all its users; post its batch later")
        if recorded(self.context) < self.context.configuration.schedule.ends[number]:
            raise Refusal("round-open", f"the users of round {number} are being recorded; post its batch later")
