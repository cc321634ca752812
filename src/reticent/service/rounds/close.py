# SPDX-License-Identifier: Apache-2.0
"""Rounds are opened and sealed here. A *sealed* round's sum is final.

Rounds are sealed on admissions, never on reports. Release and publication are in :mod:`reticent.service.rounds.release`
and need the agent; nothing here does. Any worker may do any of it at any time, several at once, and be killed in the
middle.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records, tables
from reticent_wire.boundary import Clipped

TICK = 10.0
"""Seconds between notes of how long the last round has waited."""


class Closing:
    """Opens and seals the rounds of one deployment, and ends the last one in time."""

    def __init__(self, context: AnyContext) -> None:
        self.context = context
        self._ticked = context.steady()

    def is_full(self, number: int, admitted: int) -> bool:
        """Whether a round has had all its users, and is one that is released: a matter of public numbers."""
        context = self.context
        return bool(number < context.releases and admitted >= context.configuration.schedule.ends[number])

    def seal(self, tx: Connection, number: int) -> None:
        """End the open round and open the next; the caller holds the deployment's lock."""
        self.close_sum(tx, number)
        records.seal_round(tx, number)
        if number + 1 < self.context.releases:
            self.open_round(tx, number + 1)
        records.change_deployment(tx, open_round=number + 1)

    def close_sum(self, tx: Connection, number: int) -> None:
        """In pan-private mode, add the second half of a round's noise to its sum, in the transaction that seals it.

        A sealed round may wait for its planner while the next one is open. A look into the store then must not find the
        same first half under a sum that has had another user: what a sealed round keeps is its release already.
        """
        context = self.context
        if context.configuration.in_halves:
            row = records.round_of(tx, number, lock=True)
            closed = context.with_closing_half(context.total(number, row.total))
            records.set_total(tx, number, context.sealed_closed_total(number, closed))

    def open_round(self, tx: Connection, number: int) -> None:
        """Let a round begin, with nothing in its sum or, in pan-private mode, noise alone."""
        total = self.context.sealed_total(number, Clipped(self.context.configuration.first_sum()))
        records.insert_new(tx, tables.ROUNDS, number=number, state="open", reference=None, total=total)

    def seal_if_full(self) -> None:
        """Seal the open round if it has had all its users."""
        with self.context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            if self.is_full(clock.open_round, clock.admitted):
                self.seal(tx, clock.open_round)

    def finish(self) -> None:
        """End the last round; reports that come later are refused. Call it at a time that does not depend on reports.

        Raises:
          Refusal: not all K users have been admitted.
        """
        context = self.context
        with context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            if clock.admitted < context.users:
                raise Refusal("not-finished", f"{clock.admitted} of {context.users} users have been admitted")
            if not clock.finished:
                if clock.open_round < context.releases:
                    self.seal(tx, clock.open_round)
                records.change_deployment(tx, finished=True)
        # Apart from it: a submission holds its episode and waits for the round, so no process may hold the round and
        # wait for episodes. One that comes between the two finds the deployment finished.
        with context.store.write(unhurried=True) as tx:
            records.expire_before(tx, None)

    def is_due(self) -> bool:
        """Whether the last round has waited for as long as it should, by a clock that cannot be set forward.

        Time counts only while it passes here and in the store: a clock that jumps nine days ahead adds no more than this
        process has lived since it last looked. Neither depends on reports.
        """
        context = self.context
        now, steady = context.now(), context.steady()
        with context.store.read() as tx:
            clock = records.deployment(tx)
        if clock.admitted < context.users or clock.finished:
            self._ticked = steady
            return False
        passed = steady - self._ticked
        if clock.ticked_at and passed < min(TICK, context.finish_after / 10):
            return bool(clock.waited >= context.finish_after)
        self._ticked = steady
        with context.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            counted = min(passed, max(0.0, now - clock.ticked_at)) if clock.ticked_at else 0.0
            records.change_deployment(tx, waited=clock.waited + counted, ticked_at=now)
        return bool(clock.waited + counted >= context.finish_after)

    def expire(self) -> int:
        """Wait no longer for episodes that are overdue; their users' places are used up, nothing is spent."""
        with self.context.store.write(unhurried=True) as tx:
            return records.expire_before(tx, self.context.expiry_time())
