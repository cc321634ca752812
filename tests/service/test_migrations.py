# SPDX-License-Identifier: Apache-2.0
"""Stores of earlier layouts: refused when served, brought up to date on request, and then what they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from durable import SECRET, deployment, episode

from reticent.errors import InvalidInput
from reticent.service.durability.journal import Journal, rewrite_journal
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.rounds import public_views
from reticent.service.secrets import Secrets
from reticent.service.store import tables
from reticent.service.store.engine import Store
from reticent.service.store.migrations import OLDEST, STEPS, migrate

LAYOUT_4 = {
    "deployment": {
        "id", "format", "identity", "facts", "key_check", "admitted", "open_round", "served_version", "waited",
        "ticked_at", "finished", "halted",
    },
    "users": {"name", "admissions"},
    "episodes": {"id", "user", "admission", "version", "expires_at", "state"},
    "rounds": {"number", "state", "reference", "total", "release", "digest"},
    "learner": {"id", "version", "state"},
    "batches": {"round", "id", "users"},
    "chain": {"version", "entry", "hash", "signature"},
    "billboards": {"version", "content"},
}  # fmt: skip
"""The columns of the first layout that there is a way from, as it was."""


def layout(engine: sa.Engine) -> dict[str, dict[str, str]]:
    """Column types by table, as the database says them."""
    found = sa.inspect(engine)
    return {
        table: {str(column["name"]): str(column["type"]) for column in found.get_columns(table)}
        for table in found.get_table_names()
    }


def age(engine: sa.Engine) -> None:
    """Make a store of layout 4 of one of today."""
    with engine.begin() as tx:
        for table, columns in layout(engine).items():
            if table not in LAYOUT_4:
                tx.execute(sa.text(f"DROP TABLE {table}"))
                continue
            for column in set(columns) - LAYOUT_4[table]:
                tx.execute(sa.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        tx.execute(sa.text("UPDATE deployment SET format = 4"))


def test_there_is_a_way_from_every_layout_to_the_next() -> None:
    assert sorted(STEPS) == list(range(OLDEST + 1, tables.FORMAT + 1))


def test_a_store_of_an_earlier_layout_goes_on_after_migration(tmp_path: Path, database: str) -> None:
    rollback_guard = RollbackGuard(tmp_path / "witness", Secrets(SECRET))
    service = deployment(database, rollback_guard=rollback_guard)
    for user in range(6):
        opened = service.admit(f"user {user}")
        service.submit_trajectory(opened.token, opened.episode, **episode(user))
    before, wanted = public_views.transparency(service), layout(service.store.engine)
    age(service.store.engine)
    assert {table: set(columns) for table, columns in layout(service.store.engine).items()} == LAYOUT_4
    service.store.close()
    with pytest.raises(InvalidInput, match="reticent migrate"):
        deployment(database, rollback_guard=rollback_guard)
    store = Store(database)
    assert migrate(store) == (4, tables.FORMAT)
    rewrite_journal(rollback_guard, store, Secrets(SECRET))
    assert migrate(store) == (tables.FORMAT, tables.FORMAT)
    assert layout(store.engine) == wanted
    store.close()
    service = deployment(database, rollback_guard=rollback_guard)
    assert public_views.transparency(service) == before
    seen = rollback_guard.read()
    parts = list(Journal(rollback_guard.path, Secrets(SECRET).of(service.identity)).read(seen.length))
    assert seen.admitted == sum(len(part["rows"]) for part in parts if part["table"] == "episodes") == 6
    assert all(service.admit(f"user {user}").learning for user in range(6, 9))
    assert public_views.status(service)["served_version"] == 2


@pytest.mark.parametrize(("number", "remedy"), [(OLDEST - 1, "version that began it"), (tables.FORMAT + 1, "update")])
def test_a_layout_without_a_way_says_so(tmp_path: Path, number: int, remedy: str) -> None:
    service = deployment(tmp_path)
    with service.store.write() as tx:
        tx.execute(sa.update(tables.DEPLOYMENT).values(format=number))
    with pytest.raises(InvalidInput, match=remedy):
        migrate(service.store)
    with pytest.raises(InvalidInput, match=remedy):
        deployment(tmp_path)


def test_an_empty_store_has_nothing_to_migrate(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'nothing.db'}")
    with pytest.raises(InvalidInput, match="reticent init"):
        migrate(store)
    assert not (tmp_path / "nothing.db").exists()


def test_deployments_share_a_database_in_schemas_of_their_own(tmp_path: Path, postgres: str) -> None:
    engine = sa.create_engine(postgres)
    made = []
    try:
        for name in ("north", "south"):
            with engine.begin() as tx:
                tx.execute(sa.text(f"CREATE SCHEMA {name}"))
            url = f"{postgres}&options=-csearch_path%3D{name}"
            made.append(deployment(url, rollback_guard=RollbackGuard(tmp_path / name, Secrets(SECRET))))
        north, south = made
        assert north.identity != south.identity
        assert north.admit("ann").learning
        assert south.admit("ann").learning
        assert not sa.inspect(engine).has_table("deployment")
    finally:
        for one in made:
            one.store.close()
        with engine.begin() as tx:
            tx.execute(sa.text("DROP SCHEMA IF EXISTS north CASCADE"))
            tx.execute(sa.text("DROP SCHEMA IF EXISTS south CASCADE"))
        engine.dispose()
