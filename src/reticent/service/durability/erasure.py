# SPDX-License-Identifier: Apache-2.0
"""A user who asks to be forgotten: what the store holds of them beyond a tombstone is overwritten, once and for good.

Their episodes no longer belong to a user: the id is replaced by a keyed hash, the name by one that differs for each
episode, and whether they came back is deleted. (The expiry stays: its neighbours in the order of admissions tell it
anyway.) An episode that was open is an empty contribution from then on. What stays is the tombstone, their keyed name
with all their admissions used up: without it they could be learned from again, and their privacy is what would be
spent. A user who never came gets the same rows by the same statements, so that a user who has said no is never
admitted.

Formal guarantee. An erasure changes no sum, no place, no end of a round and no version that any user is served. All that is
published afterwards is what it would be if their open episodes had never come back, the case of a contribution of
nothing in the theorem of docs/service.md: (ε, δ) for every user, them included. Whether and when a user is erased
depends on their request alone. Like their coming, that is not protected content: others can see of it no more than that
another user has the place that they would have had, and if their request should depend on what they lived through, the
sums are covered as for any user who does not come back.

Who is told. The admin. To an app that opens an old episode again, or submits for it, a user who was erased and one who was
not are the same: the same place, version, token and receipt, and the same refusal when the episode's time is over
(:meth:`reticent.service.rounds.submit.Submissions.count_all`).

Copies. The erasure is written to the journal before the store is changed, and backups hold it: a restore does it again
(:mod:`reticent.service.durability.restore`). So a copy that has a user's detached episodes has their tombstone too.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from collections.abc import Callable

from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import RollbackGuard, Seen
from reticent.service.secrets import Secrets
from reticent.service.store import erasures, records
from reticent.service.store.engine import Store
from reticent.service.store.migrations import require_begun
from reticent.service.store.rows import kept_rows, row_of
from reticent.service.store.tables import ERASURES

LOG = logging.getLogger("reticent.service")

DELETED = (
    "from each of the user's episodes: its id, the keyed name, and whether it was open, counted or expired",
    "where users return: the rounds in which they came and were counted",
    "what was open is an empty contribution; whatever an app still sends for it is answered as ever, and counts nothing",
)
KEPT = (
    "their tombstone (a keyed hash of their id, all admissions used up): without it they could be learned from again, and "
    "their privacy is what would be spent",
    "of each episode its admission number, the version it was served, its expiry and a keyed hash of its id, with one of "
    "the name that is another for each: rounds are made up of these numbers, and an app that has the id gets the answers "
    "that it gets for any user",
    "copies of before: backups, entries of the journal, dead rows and logs of the database have their rows as they were, "
    "keyed by the deployment's secret; make a new backup and delete the old ones, and have the journal written anew with "
    "--rewrite-journal",
)
NOT_UNDONE = (
    "their part in the sum of a round that is not released, if they had submitted: a sum does not say whose parts it has; "
    "with a shuffler, messages that their device has sent are there, and those that it sends from now on, since nothing "
    "tells the shuffler whose they are: have the app stop, and erase the visits that it keeps of a stay",
    "their part in what was published: it cannot be called back, and the promise (epsilon, delta) is about exactly this",
    "the erasure itself: they are served the policy from now on and never learned from again",
)


@dataclasses.dataclass(frozen=True)
class Erased:
    """What an erasure did and could not do, for the user who asked.

    ``episodes`` were detached from the user just now: none if they never came, or were erased ``before``. The rest is
    the same for all.
    """

    episodes: int
    before: bool
    deleted: tuple[str, ...] = DELETED
    kept: tuple[str, ...] = KEPT
    cannot_be_undone: tuple[str, ...] = NOT_UNDONE


def erase(store: Store, secrets: Secrets, rollback_guard: RollbackGuard | None, user: str) -> Erased:
    """Erase a user by their id, whether they ever came or not; again is no harm.

    Raises:
      InvalidInput, Damaged: the store is empty, of another layout or of another secret; nothing was changed.
    """
    require_begun(store)
    with store.read() as tx:
        clock = records.deployment(tx)
        own, name = secrets.of(clock.identity), secrets.name(user)
        own.unseal(clock.key_check, "key check")  # under another secret they would have another name
        before = erasures.is_erased(tx, name)
    bound = int(json.loads(clock.facts)["contributions"])

    def change() -> int:
        with store.write() as tx:
            erasures.bury(tx, name, bound)
            return erasures.disown(tx, name, own.erased, own.disowned)

    if rollback_guard is None or before:
        episodes = change()
    else:
        episodes = rollback_guard.extend_journal(_foretelling(store, Journal(rollback_guard.path, own), name), change)
    store.tidy()
    LOG.warning("a user was erased at the operator's request")
    return Erased(episodes, before)


def _foretelling(store: Store, journal: Journal, name: str) -> Callable[[Seen], tuple[int, int]]:
    """Writes to the journal, after what was seen, that a user is erased; says its length and the users admitted."""

    def append(seen: Seen) -> tuple[int, int]:
        erased = row_of(ERASURES, name=name)
        if seen.length and journal.reaches(seen.length):
            return journal.append(seen.length, [erased]), seen.admitted
        with store.read_snapshot() as tx:  # none yet, or lost: the store has all of it
            return journal.append(0, itertools.chain(kept_rows(tx), [erased])), int(records.deployment(tx).admitted)

    return append
