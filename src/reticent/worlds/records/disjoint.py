# SPDX-License-Identifier: Apache-2.0
"""No person is in the records that candidates are fitted to and among those who are to be protected.

Candidates are published before the first user comes: whatever they say of a person who is met later is said without noise,
and no ε covers it (:mod:`reticent.worlds.models.provenance`). Where both tables are at hand, they are checked to be
disjoint.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from reticent.errors import InvalidInput
from reticent.worlds.records.table import read_table

Table = pl.DataFrame | str | Path


def require_disjoint(pilot: Table, protected: Table, user: str, protected_user: str | None = None) -> None:
    """Refuse two tables with a person in common; ``user`` is the column of their names, in the second as said.

    Names are compared as text, so that 7 and "7" are one person. The message names no person.

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
    return set(frame[user].cast(pl.String).to_list())
