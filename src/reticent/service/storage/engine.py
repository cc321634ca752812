"""Transactions on SQLite or PostgreSQL, of two kinds: those that read and those that write.

SQLite has one writer at a time. A writing transaction says so at its start (``BEGIN IMMEDIATE``), and writers of one
process queue at a lock instead of polling the file's. PostgreSQL locks rows; statements that need it say ``FOR UPDATE``,
which SQLite neither knows nor needs. Commits wait for the disk on both.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError

from reticent.errors import InvalidInput
from reticent.service.storage.tables import METADATA

WRITES = "reticent_writes"
SETUP_LOCK = 7_235_091_846
"""PostgreSQL advisory lock under which workers that start together create the tables one after another."""


class Store:
    """The database of a deployment."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise InvalidInput("database", "unreadable", "an SQLAlchemy URL", "use sqlite:///file.db") from None
        self.embedded = parsed.get_backend_name() == "sqlite"
        if not self.embedded and parsed.drivername not in ("postgresql", "postgresql+psycopg"):
            raise InvalidInput("database", parsed.drivername, "sqlite or postgresql+psycopg", "choose one of the two")
        if self.embedded and parsed.database in (None, "", ":memory:"):
            raise InvalidInput("database", "in memory", "a file", "a deployment must outlive its process")
        if self.embedded:
            self.engine = sa.create_engine(parsed, connect_args={"timeout": 30.0})
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        else:
            parsed = parsed.set(drivername="postgresql+psycopg")
            self.engine = sa.create_engine(parsed, pool_pre_ping=True, pool_size=20, max_overflow=20)
        self._writers = threading.RLock()

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that changes something; committed at its end, undone by any error."""
        queue: Any = self._writers if self.embedded else contextlib.nullcontext()
        with queue, self.engine.connect() as connection:
            marked = connection.execution_options(**{WRITES: True})
            with marked.begin():
                yield marked

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, and waits for nobody."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def create_tables(self) -> None:
        """Make the tables that are missing."""
        with self.write() as connection:
            self.lock_setup(connection)
            METADATA.create_all(connection)

    def lock_setup(self, connection: Connection) -> None:
        """Let no other worker set up at the same time, until the transaction ends."""
        if not self.embedded:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})"))

    def close(self) -> None:
        self.engine.dispose()


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver's guesses
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
