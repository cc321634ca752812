# SPDX-License-Identifier: Apache-2.0
"""Stores of earlier layouts brought up to the present one: numbered steps, each in plain statements of either database.

A step changes tables, never what was released or who came. All steps of a store and its new number are one transaction: it
is of the old layout or of the new one. A store is never migrated by being served: an operator says so, with every worker
stopped, since workers of two versions would not understand each other's rows.

A new layout: raise :data:`reticent.service.store.tables.FORMAT`, add its step to :data:`STEPS`, and what its new columns
mean to :data:`reticent.service.store.rows.KEPT`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.errors import InvalidInput
from reticent.service.store.engine import Store
from reticent.service.store.tables import CANARIES, DEPLOYMENT, ERASURES, FORMAT, METADATA, VISITS


def _to_5(tx: Connection) -> None:
    """An operator may have users served an earlier published version; users return by a pattern; canaries are watched."""
    _add_column(tx, DEPLOYMENT.c.fallback)
    METADATA.create_all(tx, tables=[VISITS, CANARIES])


def _to_6(tx: Connection) -> None:
    """Users may be erased, and the store remembers that they are not to be admitted again."""
    METADATA.create_all(tx, tables=[ERASURES])


STEPS: dict[int, Callable[[Connection], None]] = {5: _to_5, 6: _to_6}
"""What leads from the layout before to each layout."""

OLDEST = min(STEPS) - 1
"""The first layout that there is a way from."""


def layout_of(tx: Connection) -> int | None:
    """The layout of a store whose tables are there, whatever else has changed since; None if nothing was begun in it."""
    return tx.execute(sa.select(DEPLOYMENT.c.format)).scalar_one_or_none()


def require_layout(found: int | None) -> None:
    """Refuse a store of another layout than this program's; one in which nothing was begun has none.

    Raises:
      InvalidInput: it is; the message says what to do.
    """
    if found is not None and found != FORMAT:
        remedy = "stop every worker and run `reticent migrate`" if OLDEST <= found < FORMAT else _remedy(found)
        raise InvalidInput("database", f"of layout {found}", f"of layout {FORMAT}", remedy)


def require_begun(store: Store) -> None:
    """Refuse a store in which nothing was begun, or of another layout.

    Raises:
      InvalidInput: it is one.
    """
    found = None
    if store.has_tables():
        with store.read() as tx:
            found = layout_of(tx)
    if found is None:
        raise InvalidInput("database", "empty", "one that `reticent init` began", "check its path")
    require_layout(found)


def migrate(store: Store) -> tuple[int, int]:
    """Bring a store up to the present layout; says which it had and which it has.

    Raises:
      InvalidInput: it is empty, or there is no way from its layout; nothing was changed.
    """
    if not store.has_tables():
        raise InvalidInput("database", "empty", "one that `reticent init` began", "check its path")
    with store.write(unhurried=True) as tx:
        store.lock_setup(tx)
        found = layout_of(tx)
        if found is None:
            raise InvalidInput("database", "empty", "one that `reticent init` began", "check its path")
        if not OLDEST <= found <= FORMAT:
            raise InvalidInput("database", f"of layout {found}", f"of layout {OLDEST} to {FORMAT}", _remedy(found))
        for number in range(found + 1, FORMAT + 1):
            STEPS[number](tx)
        tx.execute(sa.update(DEPLOYMENT).values(format=FORMAT))
    return found, FORMAT


def _remedy(found: int) -> str:
    return "update reticent" if found > FORMAT else "finish the deployment with the version that began it"


def _add_column(tx: Connection, column: sa.Column[Any]) -> None:
    """A new column that may be empty."""
    name = tx.dialect.identifier_preparer.format_column(column)
    table = tx.dialect.identifier_preparer.format_table(column.table)
    tx.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {name} {column.type.compile(tx.dialect)}"))
