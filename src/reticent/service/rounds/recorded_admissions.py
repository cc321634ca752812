# SPDX-License-Identifier: Apache-2.0
"""Admissions written to the journal, so that a restore forgets none of the users whose reports may have left a shuffler."""

from __future__ import annotations

from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import Seen
from reticent.service.rounds.context import AnyContext
from reticent.service.store import records, rows


def recorded(context: AnyContext) -> int:
    """How many of the admitted users a restore would bring back; all of them where nothing guards against rollback."""
    if context.rollback_guard is None:
        return int(context.clock()[0].admitted)
    return context.rollback_guard.read().admitted


def record_admissions(context: AnyContext) -> None:
    """Write to the journal who was admitted, so that a restore forgets none of them."""
    if context.rollback_guard is None:
        return
    journal = Journal(context.rollback_guard.path, context.secrets)

    def write(seen: Seen) -> tuple[int, int]:
        with context.store.read_snapshot() as tx:
            admitted = int(records.deployment(tx).admitted)
            if seen.length and journal.reaches(seen.length):
                return journal.append(seen.length, rows.admitted_rows(tx, seen.admitted)), admitted
            return journal.append(0, rows.kept_rows(tx)), admitted  # none yet, or lost: the store has all of it

    context.rollback_guard.record_admissions(write)


def record_full_rounds(context: AnyContext, admitted: int) -> None:
    """In the shuffle model, record the users of every round that has had all of them.

    A shuffler posts the batch of a round only after that. So a user who is in a batch that has left the shuffler is
    brought back by every restore, and is not admitted again.
    """
    if context.configuration.wire == "messages" and context.rollback_guard is not None:
        ends = context.configuration.schedule.ends[: context.releases]
        full = int(ends[ends <= admitted].max(initial=0))
        if recorded(context) < full:
            record_admissions(context)
