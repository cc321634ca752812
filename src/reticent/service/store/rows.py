# SPDX-License-Identifier: Apache-2.0
"""The rows of a store that outlive its database: what a backup and the journal hold, as JSON.

Sums of rounds that are not released are never among them: the column ``total`` is left out. Every table is listed in
:data:`KEPT` or in :data:`LEFT_OUT`, and a test holds new ones to that: a new table is listed in one of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, TypedDict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.service.store import records
from reticent.service.store.tables import (
    BATCHES,
    BILLBOARDS,
    CANARIES,
    CHAIN,
    DEPLOYMENT,
    EPISODES,
    ERASURES,
    LEARNER,
    METADATA,
    ROUNDS,
    USERS,
    VISITS,
)

KEPT: dict[str, tuple[str, ...]] = {
    table.name: tuple(column.name for column in table.c if column.name != "total")
    for table in (DEPLOYMENT, LEARNER, ROUNDS, BATCHES, CANARIES, BILLBOARDS, CHAIN, EPISODES, ERASURES)
}
"""Columns by table, in the order in which rows are written."""

LEFT_OUT = {
    USERS.name: "how often each user was admitted is counted again from the episodes",
    VISITS.name: "which rounds a user had places in follows from the episodes; what counted is taken to have done so late",
}
"""Tables that no copy holds, and why."""


class Rows(TypedDict):
    """Rows of a table, as JSON can say them. Columns are named, so that a later layout can read them."""

    table: str
    columns: list[str]
    rows: list[list[Any]]


SOME, MANY = 16, 5_000
"""Rows of one record: of those with arrays, and of those without."""


def admitted_rows(tx: Connection, admission: int) -> Iterator[Rows]:
    """The episodes from the user admitted as number ``admission`` on, in parts."""
    yield from _parts(tx, EPISODES, EPISODES.c.admission >= admission, MANY)


def kept_rows(tx: Connection, version: int = 0, admission: int = 0) -> Iterator[Rows]:
    """What is to be kept, in parts: releases from round ``version`` on, what was published after them, episodes from the
    user admitted as number ``admission`` on, and the rows of which there is one. Erasures are among it if it is all from
    the beginning: later ones are written down when they are made (:mod:`reticent.service.durability.erasure`)."""
    newest = records.learner_version(tx)
    published = version + 1 if version else 0
    wanted: tuple[tuple[sa.Table, Any, int], ...] = (
        (DEPLOYMENT, sa.true(), SOME),
        (LEARNER, sa.true(), SOME),
        (ROUNDS, (ROUNDS.c.number >= version) & (ROUNDS.c.state == "released"), SOME),
        (BATCHES, (BATCHES.c.round >= version) & (BATCHES.c.round < newest), MANY),
        (CANARIES, (CANARIES.c.round >= version) & (CANARIES.c.round < newest), SOME),
        (BILLBOARDS, BILLBOARDS.c.version >= published, SOME),
        (CHAIN, CHAIN.c.version >= published, MANY),
        (EPISODES, EPISODES.c.admission >= admission, MANY),
        (ERASURES, sa.false() if version or admission else sa.true(), MANY),
    )
    for table, which, size in wanted:
        yield from _parts(tx, table, which, size)


def _parts(tx: Connection, table: sa.Table, which: Any, size: int) -> Iterator[Rows]:
    columns = [table.c[name] for name in KEPT[table.name]]
    statement = sa.select(*columns).where(which).order_by(sequence_of(table))
    found = tx.execute(statement, execution_options={"yield_per": size})
    for part in found.partitions():
        plain = [[_plain(value) for value in row] for row in part]
        yield {"table": table.name, "columns": list(KEPT[table.name]), "rows": plain}


def row_of(table: sa.Table, **values: Any) -> Rows:
    """A row that is not stored yet, as :func:`kept_rows` would give it."""
    columns = list(KEPT[table.name])
    return {"table": table.name, "columns": columns, "rows": [[_plain(values[name]) for name in columns]]}


def put_back(tx: Connection, given: Rows) -> None:
    """Store rows in place of those with the same numbers. An erasure is never taken back by an older copy."""
    table, columns = METADATA.tables[given["table"]], given["columns"]
    restored = [
        {key: _stored(table.c[key], value) for key, value in zip(columns, row, strict=True)} for row in given["rows"]
    ]
    if table is ERASURES:
        for row in restored:
            records.insert_new(tx, ERASURES, **row)
        return
    key = sequence_of(table)
    numbers = [row[key.name] for row in restored]
    tx.execute(sa.delete(table).where(key >= min(numbers), key <= max(numbers)))
    if table is EPISODES:  # a user who came again with the same id has another number now
        again = sa.delete(EPISODES).where(EPISODES.c.id == sa.bindparam("again"))
        tx.execute(again, [{"again": row["id"]} for row in restored])
    tx.execute(sa.insert(table), restored)


def sequence_of(table: sa.Table) -> sa.Column[Any]:
    """The column by which rows of a table are numbered."""
    return EPISODES.c.admission if table is EPISODES else next(iter(table.primary_key.columns))


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes | memoryview) else value


def _stored(column: sa.Column[Any], value: Any) -> Any:
    return base64.b64decode(value) if isinstance(column.type, sa.LargeBinary) and value is not None else value
