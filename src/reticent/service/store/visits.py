# SPDX-License-Identifier: Apache-2.0
"""Who was admitted and counted in which rounds, where users return and a pattern must be kept. Empty elsewhere."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.service.store.tables import VISITS


def rounds_admitted(tx: Connection, name: str) -> list[int]:
    """The rounds in which a user holds places."""
    return [int(number) for (number,) in tx.execute(sa.select(VISITS.c.admitted_in).where(VISITS.c.user == name))]


def rounds_counted(tx: Connection, name: str) -> list[int]:
    """The rounds that counted a user's reports."""
    counted = (VISITS.c.user == name) & VISITS.c.counted_in.is_not(None)
    return [int(number) for (number,) in tx.execute(sa.select(VISITS.c.counted_in).where(counted))]


def note_admission(tx: Connection, name: str, episode: str, number: int) -> None:
    tx.execute(sa.insert(VISITS).values(user=name, episode=episode, admitted_in=number, counted_in=None))


def note_counting(tx: Connection, name: str, episode: str, number: int) -> None:
    visit = (VISITS.c.user == name) & (VISITS.c.episode == episode)
    tx.execute(sa.update(VISITS).where(visit).values(counted_in=number))
