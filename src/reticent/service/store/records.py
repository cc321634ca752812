# SPDX-License-Identifier: Apache-2.0
"""The statements that transactions are made of; each is one short question or change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.service.store import statements
from reticent.service.store.tables import BATCHES, BILLBOARDS, CHAIN, DEPLOYMENT, EPISODES, LEARNER, ROUNDS, USERS

ONLY = 1
"""Key of the row in tables of one row."""

PROBE_VERSION = -1
"""Of what a probe writes; no transaction ever sees it."""

# Those that every user's transactions have, made once.
DEPLOYMENT_ROW = sa.select(DEPLOYMENT).where(DEPLOYMENT.c.id == ONLY)
OPEN_ROUND = sa.select(ROUNDS).where(ROUNDS.c.state == "open").with_for_update()
COUNT_ADMISSIONS = (
    sa.update(DEPLOYMENT)
    .where(DEPLOYMENT.c.id == ONLY)
    .values(admitted=DEPLOYMENT.c.admitted + sa.bindparam("users", type_=sa.BigInteger))
    .returning(*DEPLOYMENT.c)
)
SET_TOTAL = sa.update(ROUNDS).where(ROUNDS.c.number == sa.bindparam("round")).values(total=sa.bindparam("sum"))


def deployment(tx: Connection, *, lock: bool = False) -> Any:
    """The public clock's row, or None before setup; ``lock`` makes admissions queue."""
    return _first(tx, DEPLOYMENT_ROW, lock)


def version_to_serve(clock: Any) -> int:
    """The version that a user who comes now is served: the newest published one, unless an operator chose another."""
    return int(clock.served_version if clock.fallback is None else clock.fallback)


def learner(tx: Connection, *, lock: bool = False) -> Any:
    """Version and sealed state of the agent."""
    return _first(tx, sa.select(LEARNER).where(LEARNER.c.id == ONLY), lock)


def learner_version(tx: Connection) -> int:
    return int(tx.execute(sa.select(LEARNER.c.version)).scalar_one())


def episodes(tx: Connection, identities: Sequence[str], *, lock: bool = False) -> dict[str, Any]:
    """Those of the episodes that were admitted, by id; locked in the order of ids, so that groups cannot cross."""
    return {
        row.id: row for row in _many(tx, statements.episodes(tx.dialect.name, lock=lock), EPISODES.c.id, identities)
    }


def round_of(tx: Connection, number: int, *, lock: bool = False) -> Any:
    return _first(tx, sa.select(ROUNDS).where(ROUNDS.c.number == number), lock)


def open_round(tx: Connection) -> Any:
    """The round that takes reports now, locked; None if there is none, or if it was sealed while we waited for it."""
    return tx.execute(OPEN_ROUND).first()


def unreleased(tx: Connection) -> list[Any]:
    """The rounds whose sums are still there."""
    return list(tx.execute(sa.select(ROUNDS).where(ROUNDS.c.state != "released")))


def batch_of(tx: Connection, number: int) -> Any:
    """The batch of a round, or None."""
    return _first(tx, sa.select(BATCHES).where(BATCHES.c.round == number), lock=False)


def has_batch(tx: Connection, number: int) -> bool:
    """Whether a shuffler's batch of a round was taken. One of no users is a restore's mark that none ever will be."""
    found = batch_of(tx, number)
    return found is not None and found.users > 0


def batch_named(tx: Connection, identity: str) -> Any:
    """The batch with this id, or None."""
    return _first(tx, sa.select(BATCHES).where(BATCHES.c.id == identity), lock=False)


def lost_rounds(tx: Connection) -> int:
    """How many rounds were released without a batch; in other models than the shuffle model none ever has one."""
    had = sa.exists().where((BATCHES.c.round == ROUNDS.c.number) & (BATCHES.c.users > 0))
    released = sa.select(sa.func.count()).select_from(ROUNDS).where((ROUNDS.c.state == "released") & ~had)
    return int(tx.execute(released).scalar_one())


def versions_served(tx: Connection, first: int, end: int) -> dict[int, int]:
    """How many of the users admitted as ``first`` to ``end`` − 1 were served each version: public numbers."""
    among = (EPISODES.c.admission >= first) & (EPISODES.c.admission < end)
    rows = tx.execute(sa.select(EPISODES.c.version, sa.func.count()).where(among).group_by(EPISODES.c.version))
    return {int(version): int(users) for version, users in rows}


def digests(tx: Connection, first: int = 0, end: int | None = None) -> dict[int, str]:
    """The digests of releases by round, from round ``first`` to before ``end``."""
    wanted = (ROUNDS.c.state == "released") & (ROUNDS.c.number >= first)
    if end is not None:
        wanted &= ROUNDS.c.number < end
    rows = tx.execute(sa.select(ROUNDS.c.number, ROUNDS.c.digest).where(wanted))
    return {int(number): str(digest) for number, digest in rows}


def admissions(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """How often the users with these stored names were admitted; those who never were are left out."""
    rows = _many(tx, statements.admissions(tx.dialect.name), USERS.c.name, names)
    return {str(name): int(times) for name, times in rows}


def references(tx: Connection, numbers: Sequence[int]) -> dict[int, int | None]:
    """What rounds refer to, by number."""
    rows = _many(tx, statements.references(tx.dialect.name), ROUNDS.c.number, numbers)
    return {int(number): reference for number, reference in rows}


def open_episodes(tx: Connection) -> int:
    return int(tx.execute(sa.select(sa.func.count()).where(EPISODES.c.state == "open")).scalar_one())


def sealed_rounds(tx: Connection) -> int:
    return int(tx.execute(sa.select(sa.func.count()).where(ROUNDS.c.state == "sealed")).scalar_one())


def billboard(tx: Connection, version: int) -> bytes | None:
    return tx.execute(sa.select(BILLBOARDS.c.content).where(BILLBOARDS.c.version == version)).scalar_one_or_none()


def insert_new(tx: Connection, table: sa.Table, **values: Any) -> None:
    """Insert a row unless its key is there already."""
    tx.execute(statements.insert(tx.dialect.name, table).values(**values).on_conflict_do_nothing())


def count_users(tx: Connection, names: Sequence[str], limit: int) -> set[str]:
    """Count one more admission of each user who has not had ``limit``; says which. No name may be there twice.

    Their rows are locked in the order of names, so that groups cannot cross.
    """
    statement = statements.count_users(tx.dialect.name)
    return set(_many(tx, statement, USERS.c.name, names, most=limit).scalars())


def set_admissions(tx: Connection, name: str, times: int) -> None:
    """Count a user as admitted so often, whether they were or not; the row is locked from here."""
    statement = statements.insert(tx.dialect.name, USERS).values(name=name, admissions=times)
    tx.execute(statement.on_conflict_do_update(index_elements=[USERS.c.name], set_={"admissions": times}))


def count_admissions(tx: Connection, users: int) -> Any:
    """Count so many admissions; the clock's row after them, whose lock is held from here. Undo it if there was no room."""
    return tx.execute(COUNT_ADMISSIONS, {"users": users}).one()


def insert_episodes(tx: Connection, admitted: Sequence[tuple[str, str, int, int]], until: float) -> None:
    """Open the episodes of users who were admitted: id, user's name, number of the admission and version of each."""
    given = statements.parameters(tx, statements.OPENED, admitted)
    tx.execute(statements.insert_episodes(tx.dialect.name), given | {"until": until})


def probe(tx: Connection, size: int) -> None:
    """Wait for the locks of admissions and of submissions, and write ``size`` bytes that are gone again at the end."""
    deployment(tx, lock=True)
    open_round(tx)
    tx.execute(sa.insert(BILLBOARDS).values(version=PROBE_VERSION, content=os.urandom(size)))
    tx.execute(sa.delete(BILLBOARDS).where(BILLBOARDS.c.version == PROBE_VERSION))


def change_deployment(tx: Connection, **values: Any) -> None:
    tx.execute(sa.update(DEPLOYMENT).where(DEPLOYMENT.c.id == ONLY).values(**values))


def chain(tx: Connection, first: int, end: int) -> list[Any]:
    """The entries of versions ``first`` to ``end`` − 1, in order."""
    among = (CHAIN.c.version >= first) & (CHAIN.c.version < end)
    return list(tx.execute(sa.select(CHAIN).where(among).order_by(CHAIN.c.version)))


def publish(tx: Connection, version: int, content: bytes, entry: dict[str, str]) -> None:
    """Publish a plan and its entry in the chain; the first ones of a version are those that stay."""
    insert_new(tx, BILLBOARDS, version=version, content=content)
    insert_new(tx, CHAIN, version=version, **entry)
    newer = (DEPLOYMENT.c.id == ONLY) & (DEPLOYMENT.c.served_version < version)
    tx.execute(sa.update(DEPLOYMENT).where(newer).values(served_version=version))
    set_reference(tx, version, version)


def set_reference(tx: Connection, number: int, version: int) -> None:
    """Fix the reference of a round, unless it is fixed."""
    open_ended = (ROUNDS.c.number == number) & ROUNDS.c.reference.is_(None)
    tx.execute(sa.update(ROUNDS).where(open_ended).values(reference=version))


def set_total(tx: Connection, number: int, total: bytes) -> None:
    """Store the round's new sum; the caller holds its lock."""
    tx.execute(SET_TOTAL, {"round": number, "sum": total})


def mark_counted(tx: Connection, identities: Sequence[str]) -> None:
    _many(tx, statements.mark_counted(tx.dialect.name), EPISODES.c.id, identities)


def seal_round(tx: Connection, number: int) -> None:
    """Let a round take no more reports; waits for those that are being added."""
    tx.execute(sa.update(ROUNDS).where(ROUNDS.c.number == number).values(state="sealed"))


def release_round(tx: Connection, number: int, release: bytes, digest: str, state: bytes) -> None:
    """The round's sum gives way to its release, and the agent's state goes one version up."""
    done = {"state": "released", "total": None, "release": release, "digest": digest}
    tx.execute(sa.update(ROUNDS).where(ROUNDS.c.number == number).values(**done))
    tx.execute(sa.update(LEARNER).where(LEARNER.c.id == ONLY).values(version=number + 1, state=state))


def expire_before(tx: Connection, now: float | None) -> int:
    """Mark open episodes that were due before ``now``, or all, as expired; says how many. It is for the operator to see:
    what is still counted, the clock of the worker that is asked decides.

    Those that are just being counted are passed over, and no transaction waits for them: two workers that expire at
    once, or one that does while reports come in, cannot stand in each other's way.
    """
    due = EPISODES.c.state == "open"
    if now is not None:
        due &= EPISODES.c.expires_at < now
    if tx.dialect.name == "postgresql":
        due = EPISODES.c.id.in_(sa.select(EPISODES.c.id).where(due).with_for_update(skip_locked=True))
    return int(tx.execute(sa.update(EPISODES).where(due).values(state="expired")).rowcount)


def _many(tx: Connection, statement: Any, column: sa.Column[Any], values: Sequence[Any], **more: Any) -> Any:
    """The result of a statement about the rows with these values of a column."""
    return tx.execute(statement, more | statements.parameters(tx, [column], [(value,) for value in values]))


def _first(tx: Connection, statement: Any, lock: bool) -> Any:
    return tx.execute(statement.with_for_update() if lock else statement).first()
