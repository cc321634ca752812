# SPDX-License-Identifier: Apache-2.0
r"""A store put back from a backup and the journal, without the sums that were never released.

The store becomes what it was at its last publication: releases, plans, chain, the agent's state, and every user who had
come by then, from the journal; before the journal begins, and beyond it for who came, from the backup. The sums of all
rounds that were not released start again from nothing (or, pan-privately, from noise of their own). Episodes that were
open are waited for no longer. It is one transaction: killed before its end it has done nothing but stop learning, and
can be repeated.

Formal guarantee. Let rollback guard and journal not be rolled back, and let when disks fail and restores are made not
depend on noise that was never published. Then everything published before and after any number of restores is, as a random
variable, what the deployment publishes without them when the contributions that were lost have not come: (ε, δ)-private
for every user. **A restore costs nothing**: no round is released twice, and no user counts more than ``contributions``
times in what is published.

Proof. Publication of version n follows the rollback guard's record of n, which follows the journal's entry of n
(atomically: the record says the journal's length). So all that was ever shown are the versions 0 to J of the journal,
which the restored store has as they were, with the agent's state after them. Rounds before J are `released` and never
released again. Rounds from J on were never shown: noise that may have been drawn for them is independent of everything
published, and what is drawn after the restore is fresh. Their sums restart from nothing, so a contribution of before the
restore is in one of the releases 0 … J − 1 or in none. Who is in one of those was admitted before they contributed, hence
before that release was made, hence is listed by its entry or an earlier one; restored, their admission counts. Who is not
listed is in no release: if they come again it is, for what is published, the first time. Who was erased is listed without
a name at most by entries after that of their erasure, whose tombstone admits them never again. So every user is in at
most g of all releases' sums, each round has one release with noise of its own, and the theorem of docs/service.md
applies to the arrivals that remain. ∎
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.errors import InvalidInput
from reticent.service.durability import backup
from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import RollbackGuard, Seen
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.set_up import require_same
from reticent.service.secrets import Secrets
from reticent.service.store import erasures, records, rows
from reticent.service.store.migrations import layout_of, require_layout
from reticent.service.store.tables import (
    BATCHES,
    BILLBOARDS,
    CANARIES,
    CHAIN,
    DEPLOYMENT,
    EPISODES,
    METADATA,
    ROUNDS,
    USERS,
    VISITS,
)

POLICY_ONLY = "the store was restored without all that its witness had seen, to serve its policy only"
UNWITNESSED = "the store was restored without its witness, to serve its policy only"
UNFINISHED = "a restore was begun and not finished; run `reticent restore` again"
"""Why nothing is learned after, or between."""


@dataclasses.dataclass(frozen=True)
class Restored:
    """What is in the store now: ``releases``, ``admitted`` users, and how many rounds had to begin again from nothing."""

    deployment: str
    releases: int
    admitted: int
    rounds_lost: int
    learning: bool


def restore(deployment: Deployment, path: Path | None, *, replace: bool = False, policy_only: bool = False) -> Restored:
    """Put a store back; ``deployment`` has its settings and has not been set up. No worker may be running.

    ``path`` is a backup; without, the journal must reach back to the beginning. ``replace`` puts it in the place of what
    the database holds. ``policy_only`` does without the journal, or without the rollback guard: the newest policy of
    the backup is served, and nothing is learned any more.

    Raises:
      InvalidInput: something is missing, of another deployment, or in the way; the store was not changed.
    """
    context = deployment.context
    rollback_guard = context.rollback_guard
    if rollback_guard is None:
        raise InvalidInput("rollback_guard", "missing", "a file", "name the deployment's rollback guard")
    header = None if path is None else backup.read_header(path)
    if header is None and policy_only:
        raise InvalidInput(
            "--policy-only", "without a backup", "with one", "name the file that `reticent backup` wrote"
        )
    _require_room(deployment, replace)
    seen = _seen(rollback_guard, header, policy_only)
    if header is not None and header.deployment != seen.deployment:
        raise InvalidInput(
            "backup",
            f"of deployment {header.deployment}",
            f"of {seen.deployment}, as its rollback guard",
            "use its own backup",
        )
    own = context.secrets.of(seen.deployment)
    journal, length = Journal(rollback_guard.path, own), 0 if policy_only else seen.length
    journal.require(length)
    unwitnessed = seen.halted == UNWITNESSED
    halted = (UNWITNESSED if unwitnessed else POLICY_ONLY) if policy_only else None
    context.secrets, context.identity = own, seen.deployment
    context.restores = rollback_guard.begin_restore(seen, UNWITNESSED if unwitnessed else UNFINISHED).restores
    try:
        with deployment.store.write(unhurried=True) as tx:
            deployment.store.lock_setup(tx)
            METADATA.create_all(tx)
            for table in METADATA.sorted_tables:
                tx.execute(sa.delete(table))
            for part in _parts(path, own, journal, length):
                rows.put_back(tx, part)
            if length:
                same_past = header is not None and header.restores == seen.restores
                _drop_beyond_journal(tx, seen, keep_users=same_past)
            clock = _require_whole(tx, seen, policy_only)
            require_same(context, clock)
            found = _begin_again(tx, deployment, clock, halted)
    except BaseException:
        rollback_guard.end_restore(seen.halted)  # nothing was changed, so that what was there can go on
        raise
    rollback_guard.end_restore(halted)
    return found


def _require_room(deployment: Deployment, replace: bool) -> None:
    """Refuse a database that holds a deployment, unless it is to be replaced."""
    if deployment.store.has_tables():
        with deployment.store.read() as tx:
            there = tx.execute(sa.select(DEPLOYMENT.c.identity)).scalar_one_or_none()
            require_layout(layout_of(tx))
        if there is not None and not replace:
            raise InvalidInput(
                "database", f"deployment {there}", "empty",
                "give --replace to put the backup in its place; its unreleased sums are destroyed",
            )  # fmt: skip


def _seen(rollback_guard: RollbackGuard, header: backup.Header | None, policy_only: bool) -> Seen:
    """What the rollback guard holds; without one, for a policy alone, what the backup says of itself.

    Raises:
      InvalidInput: there is no rollback guard, or one that a restore without any has left: it is unknown what was released.
    """
    if policy_only and header is not None and not rollback_guard.path.exists():
        return Seen(header.deployment, restores=header.restores, halted=UNWITNESSED)
    seen = rollback_guard.read()
    if seen.halted == UNWITNESSED and not policy_only:
        raise InvalidInput(
            "rollback_guard", "made after the first one was lost", "the one that has seen every release",
            "bring it back; without, a restore needs --policy-only",
        )  # fmt: skip
    return seen


def _parts(path: Path | None, secrets: Secrets, journal: Journal, length: int) -> Iterator[rows.Rows]:
    if path is not None:
        yield from backup.read_backup(path, secrets)
    yield from journal.read(length)


def _drop_beyond_journal(tx: Connection, seen: Seen, *, keep_users: bool) -> None:
    """What a backup has beyond the last publication: releases that were never shown and, if it is of before another
    restore, users of a past that was given up. Users of the same past are kept: their places are used up."""
    newest = records.learner_version(tx)
    for table, last in (
        (ROUNDS, newest - 1),
        (BATCHES, newest - 1),
        (CANARIES, newest - 1),
        (BILLBOARDS, newest),
        (CHAIN, newest),
    ):
        tx.execute(sa.delete(table).where(rows.sequence_of(table) > last))
    if not keep_users:
        tx.execute(sa.delete(EPISODES).where(EPISODES.c.admission >= seen.admitted))


def _require_whole(tx: Connection, seen: Seen, policy_only: bool) -> Any:
    """The clock's row of a store that has everything it says and everything that the rollback guard has seen.

    Raises:
      InvalidInput: it has not.
    """
    clock = records.deployment(tx)
    if clock is None:
        raise InvalidInput("backup", "missing", "given where the journal is empty", "name a file of `reticent backup`")
    version, found = records.learner_version(tx), records.digests(tx)
    boards = [int(row.version) for row in tx.execute(sa.select(BILLBOARDS.c.version).order_by(BILLBOARDS.c.version))]
    chained = [int(row.version) for row in tx.execute(sa.select(CHAIN.c.version).order_by(CHAIN.c.version))]
    users, last = tx.execute(sa.select(sa.func.count(), sa.func.max(EPISODES.c.admission))).one()
    whole = sorted(found) == list(range(version)) and users == (-1 if last is None else last) + 1
    whole &= boards == chained == list(range(len(boards))) and len(boards) in (version, version + 1)
    if not whole:
        raise InvalidInput(
            "backup", "older than the journal's beginning", "one that it continues", "use a newer backup"
        )
    if not policy_only and (version < seen.releases or (seen.releases and found[seen.releases - 1] != seen.digest)):
        raise InvalidInput(
            "backup", f"{version} releases",
            f"the {seen.releases} that the rollback guard has seen, by itself or with a journal",
            "use a newer backup, or restore with --policy-only: what was published is never released again",
        )  # fmt: skip
    return clock


def _begin_again(tx: Connection, deployment: Deployment, clock: Any, halted: str | None) -> Restored:
    """Open the rounds that were not released, from nothing, and set the clock to who is known to have come."""
    mechanism, schedule = deployment.mechanism, deployment.mechanism.agent.schedule
    released = records.learner_version(tx)
    admitted = int(tx.execute(sa.select(sa.func.count()).select_from(EPISODES)).scalar_one())
    newest = int(tx.execute(sa.select(sa.func.max(BILLBOARDS.c.version))).scalar_one())
    reached = int(np.searchsorted(schedule.ends, admitted, side="left"))
    current = min(max(released, reached), deployment.releases)
    tx.execute(sa.update(EPISODES).where(EPISODES.c.state == "open").values(state="expired"))
    tx.execute(
        sa.update(EPISODES).values(expires_at=0.0)
    )  # of all alike: an erased one must not be told from the others
    gone = erasures.erased(tx)
    for name in gone:  # who was erased after what a copy has of them
        erasures.disown(tx, name, deployment.secrets.erased, deployment.secrets.disowned)
    tally = sa.select(EPISODES.c.user, sa.func.count()).where(erasures.OF_A_USER).group_by(EPISODES.c.user)
    tx.execute(sa.insert(USERS).from_select(["name", "admissions"], tally))
    for name in gone:
        erasures.bury(tx, name, deployment.context.contributions)
    if deployment.context.returning.active:
        _remember_visits(tx, schedule, released)
    for number in range(released, current):
        deployment.closing.open_round(tx, number)
        deployment.closing.close_sum(tx, number)
        records.seal_round(tx, number)
        if mechanism.wire == "messages":  # its batch may be among what was lost, and there is never a second one
            records.insert_new(tx, BATCHES, round=number, id=uuid.uuid4().hex, users=0)
    if current < deployment.releases:
        deployment.closing.open_round(tx, current)
    if newest == released < deployment.releases:
        records.set_reference(tx, released, newest)
    every = deployment.releases == schedule.rounds
    ended = released >= deployment.releases and (clock.finished or (every and admitted >= deployment.users))
    records.change_deployment(
        tx, admitted=admitted, open_round=current, served_version=newest, ticked_at=0.0, halted=halted,
        finished=bool(ended),
    )  # fmt: skip
    lost = current - released + (current < deployment.releases and admitted > _first_of(schedule, current))
    return Restored(deployment.identity, released, admitted, int(lost), halted is None)


def _remember_visits(tx: Connection, schedule: Any, released: int) -> None:
    """The rounds of users who return. Which round counted a report is not known any more, nor whether one did: a copy says
    it of its own time, and a report that came later may be in a release since. So every place in a released round is taken
    to have been counted in the last of them, which forbids at least as much of the rounds to come as the truth."""
    wanted = sa.select(EPISODES.c.user, EPISODES.c.id, EPISODES.c.admission)
    found = tx.execute(wanted.where(erasures.OF_A_USER))
    for part in found.partitions(rows.MANY):
        visits = []
        for row in part:
            begun, _ = schedule.round_and_place(int(row.admission))
            counted = released - 1 if begun < released else None
            visits.append({"user": row.user, "episode": row.id, "admitted_in": begun, "counted_in": counted})
        tx.execute(sa.insert(VISITS), visits)


def _first_of(schedule: Any, number: int) -> int:
    """Users who were admitted before a round."""
    return int(schedule.ends[number - 1]) if number else 0
