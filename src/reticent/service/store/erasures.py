# SPDX-License-Identifier: Apache-2.0
"""The statements of an erasure: a tombstone for a user, whose episodes become no user's."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from reticent.service.store import records
from reticent.service.store.tables import EPISODES, ERASURES, VISITS

OF_A_USER = EPISODES.c.state != "erased"
"""Episodes that lead to a user."""


def is_erased(tx: Connection, name: str) -> bool:
    return tx.execute(sa.select(ERASURES.c.name).where(ERASURES.c.name == name)).first() is not None


def erased(tx: Connection) -> list[str]:
    """The stored names of all who were erased."""
    return [str(name) for (name,) in tx.execute(sa.select(ERASURES.c.name).order_by(ERASURES.c.name))]


def bury(tx: Connection, name: str, bound: int) -> None:
    """Count a user as one who has had all ``bound`` admissions, for good. Their row is locked from here."""
    records.set_admissions(tx, name, bound)
    records.insert_new(tx, ERASURES, name=name)


def disown(tx: Connection, name: str, stand_in: Callable[[str], str], pseudonym: Callable[[str, str], str]) -> int:
    """Detach a user's episodes from the user and delete the visits; says how many there were.

    ``stand_in`` replaces an id, and ``pseudonym`` the user's name with each. What stays of an episode is the number of its
    admission, the version that was served and its expiry: rounds are made up of the first two, and an app that opens
    the episode again must get the answer that it gets for any user. Rows are locked in the order of ids, as submissions do.
    """
    own = sa.select(EPISODES.c.id).where(EPISODES.c.user == name).order_by(EPISODES.c.id).with_for_update()
    identities = [str(identity) for (identity,) in tx.execute(own)]
    for identity in identities:
        erased = {"id": stand_in(identity), "user": pseudonym(name, identity), "state": "erased"}
        tx.execute(sa.update(EPISODES).where(EPISODES.c.id == identity).values(**erased))
    tx.execute(sa.delete(VISITS).where(VISITS.c.user == name))
    return len(identities)
