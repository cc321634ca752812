# SPDX-License-Identifier: Apache-2.0
"""No person is in the records that candidates are fitted to and among those who are to be protected.

Candidates are published before the first user comes: whatever they say of a person who is met later is said without noise,
and no ε covers it (:mod:`reticent.worlds.models.provenance`). Where both tables are at hand, they are checked to be
disjoint.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.records.table import read_table

Table = pl.DataFrame | str | Path

MOST_DIGITS = 40
"""Digits up to which a name is taken for a number."""


def require_disjoint(pilot: Table, protected: Table, user: str, protected_user: str | None = None) -> None:
    """Refuse two tables with a person in common; ``user`` is the column of their names, in the second as said.

    Names are compared by what they are and not by how a table writes them (:func:`plain_name`). The message names no
    person.

    Raises:
      InvalidInput: a person is in both, or a table has no such column.
    """
    known = _people(pilot, user, "the pilot")
    if not known.isdisjoint(_people(protected, protected_user or user, "the protected log")):
        raise InvalidInput(
            "users", "in both logs", "in the pilot or among those who are protected",
            "leave the pilot's people out of the deployment, or fit candidates to other records: what is fitted is public",
        )  # fmt: skip


def _people(table: Table, user: str, what: str) -> set[str]:
    frame = read_table(table)
    if user not in frame.columns:
        raise InvalidInput(f"columns of {what}", ", ".join(frame.columns), f"with {user!r}", "name the column of users")
    return {plain_name(name) for name in frame[user].cast(pl.String).unique() if name is not None}


def plain_name(name: str) -> str:
    """One name for the same person in two tables: 7, "7", " 7 ", "007" and 7.0 are one.

    A column of whole numbers becomes one of fractions as soon as a cell of it is empty, and loses leading zeros where it is
    read from CSV. Two people who are taken for one are refused, which is safe; one taken for two would be published.

    >>> plain_name(" 007 "), plain_name("7.0"), plain_name("7e2"), plain_name("7.5"), plain_name("7a")
    ('7', '7', '700', '7.5', '7a')
    """
    stripped = name.strip()
    try:
        number = Decimal(stripped)
    except InvalidOperation:
        return stripped
    whole = number.is_finite() and abs(number.adjusted()) < MOST_DIGITS and number == number.to_integral_value()
    return str(int(number)) if whole else stripped
