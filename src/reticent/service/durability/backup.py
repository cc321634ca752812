# SPDX-License-Identifier: Apache-2.0
"""A copy of a store in one sealed file, as of one moment, without any sum that was not released.

What is public is in the first line: which deployment, how many releases and users, when. The rest is sealed records of rows
(:mod:`reticent.service.store.rows`), bound to that line, and a last word that shows that nothing is missing. The file
may be made while the service runs. :mod:`reticent.service.durability.restore` puts it back, and needs the rollback guard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from reticent.errors import InvalidInput
from reticent.service.durability.encrypted_log import read_records, sync_directory, write_record
from reticent.service.secrets import Secrets
from reticent.service.store import records, rows, tables
from reticent.service.store.engine import Store
from reticent.service.store.migrations import layout_of, require_layout

KIND = "reticent backup 1"
LAST = b"end"


@dataclasses.dataclass(frozen=True)
class Header:
    """The first line of a backup. ``restores`` says how often the store had been restored when it was made."""

    kind: str
    deployment: str
    format: int
    releases: int
    admitted: int
    restores: int
    made_at: float

    @property
    def label(self) -> str:
        """What the records are bound to."""
        return f"backup {hashlib.sha256(self.line).hexdigest()}"

    @property
    def line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"


def back_up(store: Store, secrets: Secrets, path: Path, *, restores: int = 0, now: float | None = None) -> Header:
    """Write the store to a new file at ``path``; it is there as a whole or not at all.

    Raises:
      InvalidInput: there is a file already, or the store is empty, of another layout or of another secret.
    """
    if path.exists():
        raise InvalidInput("--out", path, "a file that is not there yet", "name another one; nothing is overwritten")
    if not store.has_tables():
        raise InvalidInput("database", "empty", "one that `reticent init` began", "check its path")
    with store.read_snapshot() as tx:
        require_layout(layout_of(tx))
        clock = records.deployment(tx)
        if clock is None:
            raise InvalidInput("database", "empty", "one that `reticent init` began", "check its path")
        own = secrets.of(clock.identity)
        own.unseal(clock.key_check, "key check")
        header = Header(
            KIND, str(clock.identity), int(clock.format), records.learner_version(tx), int(clock.admitted), restores,
            time.time() if now is None else now,
        )  # fmt: skip
        new = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(header.line)
            for part in rows.kept_rows(tx):
                write_record(file, own, header.label, json.dumps(part, separators=(",", ":")).encode())
            write_record(file, own, header.label, LAST)
            file.flush()
            os.fsync(file.fileno())
    os.replace(new, path)
    sync_directory(path)
    return header


def read_header(path: Path) -> Header:
    """What the first line of a backup says.

    Raises:
      InvalidInput: it is no backup, or of another layout.
    """
    try:
        with path.open("rb") as file:
            header = Header(**json.loads(file.readline(4096)))
    except (OSError, ValueError, TypeError):
        raise InvalidInput("backup", path, "a file that `reticent backup` wrote", "check the path") from None
    if header.kind != KIND or header.format != tables.FORMAT:
        raise InvalidInput(
            "backup", f"of layout {header.format}", f"of layout {tables.FORMAT}",
            "restore it with the version of reticent that wrote it, then run `reticent migrate`",
        )  # fmt: skip
    return header


def read_backup(path: Path, secrets: Secrets) -> Iterator[rows.Rows]:
    """The rows of a backup; ``secrets`` are its deployment's.

    Raises:
      InvalidInput, Damaged: it is cut off, changed, or another secret's.
    """
    header, last = read_header(path), None
    with path.open("rb") as file:
        file.readline()
        for last in read_records(file, secrets, header.label, path.stat().st_size):
            if last != LAST:
                yield json.loads(last)
    if last != LAST:
        raise InvalidInput("backup", "cut off", "a whole file", "use a whole copy")
