# SPDX-License-Identifier: Apache-2.0
"""Statements about many rows at once, each made once per dialect.

However many the rows are, they are one parameter or one for each column: the statement's text stays the same, so that
neither side has to read it again. That is most of what a small transaction costs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from reticent.service.store.tables import EPISODES, ROUNDS, USERS


def parameters(tx: Connection, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The values of ``columns`` in each of the rows, as the statements below take them."""
    if tx.dialect.name == "postgresql":
        values = zip(*rows, strict=True) if rows else ((),) * len(columns)
        return {f"given_{column.name}": list(each) for column, each in zip(columns, values, strict=True)}
    return {"given": json.dumps(rows)}


def insert(dialect: str, table: sa.Table) -> Any:
    """An insertion that can say what to do with a row that is there already."""
    return (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)


@functools.cache
def episodes(dialect: str, *, lock: bool) -> Any:
    """Those with the given ids, in the order of ids."""
    statement = sa.select(EPISODES).where(_given(dialect, EPISODES.c.id)).order_by(EPISODES.c.id)
    return statement.with_for_update() if lock else statement


@functools.cache
def admissions(dialect: str) -> Any:
    """How often users with the given names were admitted."""
    return sa.select(USERS.c.name, USERS.c.admissions).where(_given(dialect, USERS.c.name))


@functools.cache
def references(dialect: str) -> Any:
    """What rounds with the given numbers refer to."""
    return sa.select(ROUNDS.c.number, ROUNDS.c.reference).where(_given(dialect, ROUNDS.c.number))


@functools.cache
def count_users(dialect: str) -> Any:
    """One more admission of each given user who has had fewer than ``most``; in the order of names."""
    (name,) = _listed(dialect, [USERS.c.name])
    once = sa.select(name, sa.literal(1)).where(sa.true()).order_by(name)
    return (
        insert(dialect, USERS)
        .from_select([USERS.c.name, USERS.c.admissions], once)
        .on_conflict_do_update(
            index_elements=[USERS.c.name],
            set_={"admissions": USERS.c.admissions + 1},
            where=USERS.c.admissions < sa.bindparam("most", type_=sa.Integer),
        )
        .returning(USERS.c.name)
    )


OPENED = (EPISODES.c.id, EPISODES.c.user, EPISODES.c.admission, EPISODES.c.version)
"""What differs between episodes that are opened together."""


@functools.cache
def insert_episodes(dialect: str) -> Any:
    """The given episodes, :data:`OPENED`, open ``until`` a time."""
    same = {
        "expires_at": sa.bindparam("until", type_=sa.Float),
        "state": sa.literal("open"),
    }
    opened = sa.select(*_listed(dialect, OPENED), *same.values())
    return sa.insert(EPISODES).from_select([*OPENED, *same], opened)


@functools.cache
def mark_counted(dialect: str) -> Any:
    """The given episodes are counted."""
    return sa.update(EPISODES).where(_given(dialect, EPISODES.c.id)).values(state="counted")


def _given(dialect: str, column: sa.Column[Any]) -> Any:
    """Whether a column's value is among those given."""
    if dialect == "postgresql":
        return column == sa.any_(_array(column))
    return column.in_(sa.select(*_listed(dialect, [column])))


def _listed(dialect: str, columns: Sequence[sa.Column[Any]]) -> list[Any]:
    """The given rows, to select from."""
    if dialect == "postgresql":
        rows = sa.func.unnest(*map(_array, columns)).table_valued(*(column.name for column in columns))
        return list(rows.render_derived().c)
    row = sa.func.json_each(sa.bindparam("given", type_=sa.Text)).table_valued("value").c.value
    return [sa.func.json_extract(row, f"$[{index}]") for index in range(len(columns))]


def _array(column: sa.Column[Any]) -> Any:
    return sa.bindparam(f"given_{column.name}", type_=postgresql.ARRAY(column.type))
