# SPDX-License-Identifier: Apache-2.0
"""Transactions on SQLite or PostgreSQL, of two kinds: those that read and those that write.

SQLite has one writer at a time. A writing transaction says so at its start (``BEGIN IMMEDIATE``), and writers of one
process queue at a lock instead of polling the file's. PostgreSQL locks rows; statements that need it say ``FOR UPDATE``,
which SQLite neither knows nor needs. Commits wait for the disk on both, whatever the server's default says: a promise
that a power cut can undo is none.

Nothing waits for ever: for a lock, a statement, a connection. What takes longer than it ever should is undone and
raised, and the request may be sent again. Long work of an operator (backup, migration) says so and is exempt.

All processes together stay within the connections that the server has to give: each takes its share, and requests of a
worker wait for one of its connections instead of being turned away by the server.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError

from reticent.errors import InvalidInput
from reticent.service.store.tables import METADATA

WRITES = "reticent_writes"
SETUP_LOCK = 7_235_091_846
"""PostgreSQL advisory lock under which workers that start together create the tables one after another."""


SPARE = 5
"""Connections of the server that are left to others, such as its operators."""

MOST, FEWEST = 40, 2
"""Connections of one process: as many as it has threads, at most; the scheduler and one request, at least."""


LOCK_SECONDS, STATEMENT_SECONDS, IDLE_SECONDS, CONNECT_SECONDS = 3, 15, 60, 3
"""For how long a statement may wait for a lock and take in all, a transaction do nothing, and a connection be made."""

NETWORK = {
    "connect_timeout": CONNECT_SECONDS, "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}  # fmt: skip
"""How PostgreSQL's client notices that its server is gone without a word; what the URL says otherwise goes first."""

PROBE = 65_536
"""Bytes that a probe writes: more pages than an admission needs, so that a store without room is noticed."""


class Store:
    """The database of a deployment, as one of so many ``processes`` sees it.

    Raises:
      InvalidInput: it cannot be reached, or does not give all of them enough connections. No message repeats the URL.
    """

    def __init__(self, url: str, processes: int = 1) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise InvalidInput("database", "unreadable", "an SQLAlchemy URL", "use sqlite:///file.db") from None
        self.embedded = parsed.get_backend_name() == "sqlite"
        if not self.embedded and parsed.drivername not in ("postgresql", "postgresql+psycopg"):
            raise InvalidInput(
                "database", parsed.drivername, "sqlite or postgresql", "begin the URL with sqlite:/// or postgresql://"
            )
        if self.embedded and parsed.database in (None, "", ":memory:"):
            raise InvalidInput("database", "in memory", "a file", "a deployment must outlive its process")
        if self.embedded:
            self.engine = sa.create_engine(parsed, connect_args={"timeout": float(LOCK_SECONDS)})
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        else:
            parsed = parsed.set(drivername="postgresql+psycopg")
            size = _share(parsed, processes)
            self.engine = sa.create_engine(
                parsed, pool_pre_ping=True, pool_size=size, max_overflow=0, pool_timeout=LOCK_SECONDS,
                connect_args=_network(parsed),
            )  # fmt: skip
            sa.event.listen(self.engine, "connect", _prepare_postgres)
        self._writers = threading.RLock()

    @contextlib.contextmanager
    def write(self, *, lock_seconds: float = LOCK_SECONDS, unhurried: bool = False) -> Iterator[Connection]:
        """A transaction that changes something; committed at its end, undone by any error.

        ``unhurried`` statements may take as long as they take, and so may waiting for locks.
        """
        queue: Any = self._writers if self.embedded else contextlib.nullcontext()
        with queue, self.engine.connect() as connection:
            marked = connection.execution_options(**{WRITES: True})
            with marked.begin():
                if unhurried:
                    self._unhurried(marked)
                elif lock_seconds != LOCK_SECONDS and not self.embedded:
                    marked.execute(sa.text(f"SET LOCAL lock_timeout = {round(1000 * lock_seconds)}"))
                yield marked

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, and waits for no other."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def read_snapshot(self) -> Iterator[Connection]:
        """A transaction that reads everything as of one moment, however long it takes."""
        options = {} if self.embedded else {"isolation_level": "REPEATABLE READ"}  # a reader of SQLite has this anyway
        with self.engine.connect() as plain:
            connection = plain.execution_options(**options)
            with connection.begin():
                self._unhurried(connection)
                yield connection

    def _unhurried(self, connection: Connection) -> None:
        if not self.embedded:
            for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                connection.execute(sa.text(f"SET LOCAL {limit} = 0"))

    def has_tables(self) -> bool:
        """Whether the tables have been made; looking makes no file."""
        if self.embedded and not Path(str(self.engine.url.database)).exists():
            return False
        with self._usable(), self.engine.connect() as connection:
            return bool(sa.inspect(connection).has_table("deployment"))

    def create_tables(self) -> None:
        """Make the tables that are missing."""
        with self._usable(), self.write() as connection:
            self.lock_setup(connection)
            METADATA.create_all(connection)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Say what to do about a store that cannot be opened or written when a command begins."""
        try:
            yield
        except sa.exc.DBAPIError as problem:
            remedy = (
                "check the path, its permissions and the room on its disk"
                if self.embedded
                else "check RETICENT_DATABASE, what this user may do there, and that the server takes writes"
            )
            raise InvalidInput(
                "database", f"unusable ({str(problem.orig).strip()})" if self.embedded else "unusable",
                "one that this user can open and write", remedy,
            ) from None  # fmt: skip

    def lock_setup(self, connection: Connection) -> None:
        """Let no other worker set up at the same time, until the transaction ends."""
        if not self.embedded:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})"))

    def tidy(self) -> None:
        """Let go of old pages, where the store keeps them in a file of its own: what was overwritten is overwritten there
        too, unless it is being read. PostgreSQL's are its own affair (``VACUUM``, its write-ahead log)."""
        if self.embedded:
            raw = self.engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                raw.close()

    def close(self) -> None:
        self.engine.dispose()


def _share(url: sa.URL, processes: int) -> int:
    """How many connections each process may have: an equal part of what the server has to give."""
    probe = sa.create_engine(url, poolclass=sa.NullPool, connect_args=_network(url))
    try:
        with probe.connect() as connection:
            most, reserved = (
                int(connection.execute(sa.text(f"SHOW {setting}")).scalar_one())
                for setting in ("max_connections", "superuser_reserved_connections")
            )
    except sa.exc.OperationalError:
        raise InvalidInput(
            "database", "unreachable", "a PostgreSQL server that answers and knows this user", "check RETICENT_DATABASE"
        ) from None
    share = (most - reserved - SPARE) // processes
    if share < FEWEST:
        raise InvalidInput(
            "workers", f"{processes} processes with their planner",
            f"at most {(most - reserved - SPARE) // FEWEST} with max_connections = {most}",
            "raise max_connections of the server, or start fewer workers",
        )  # fmt: skip
    return min(share, MOST)


def _network(url: sa.URL) -> dict[str, Any]:
    return {name: value for name, value in NETWORK.items() if name not in url.query}


def _prepare_postgres(connection: Any, _: Any) -> None:
    """Let commits wait for the disk, on a server that would not; stricter settings stay. Let nothing else wait for long."""
    limits = {
        "lock_timeout": LOCK_SECONDS, "statement_timeout": STATEMENT_SECONDS,
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
    }  # fmt: skip
    with connection.cursor() as cursor:
        for name, seconds in limits.items():
            cursor.execute("SELECT set_config(%s, %s, false)", (name, f"{seconds}s"))
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver's guesses
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
