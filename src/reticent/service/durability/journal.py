# SPDX-License-Identifier: Apache-2.0
"""The journal: every publication and who had come by then, sealed, beside the rollback guard and outside the database.

An entry is appended after a release is committed and *before* it is published, and counts from the moment the rollback
guard says how long the journal is. So whatever happens to the database,

* every published release is in it, with its plan, its entry in the chain and the agent's state after it;
* every user whose contribution is in one of them is in it: admission comes before contribution, and an entry lists all
  users admitted up to its own time.

It holds no sum of an unreleased round. `reticent restore` puts it back into a store
(:mod:`reticent.service.durability.restore`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from reticent.errors import InvalidInput
from reticent.service.durability.encrypted_log import read_records, sync_directory, write_record
from reticent.service.durability.rollback_guard import RollbackGuard, Seen
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent.service.store.rows import Rows, kept_rows

LABEL = "journal"


class Journal:
    """The journal beside the rollback guard at ``rollback_guard``; ``secrets`` are the deployment's own."""

    def __init__(self, rollback_guard: Path, secrets: Secrets) -> None:
        self.path, self._secrets = rollback_guard.with_name(f"{rollback_guard.name}.journal"), secrets

    def append(self, length: int, parts: Iterable[Rows]) -> int:
        """Write rows after the first ``length`` bytes; what is there beyond them was never part of it. Says its length."""
        made = not self.path.exists()
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            file.truncate(length)
            file.seek(length)
            for part in parts:
                write_record(file, self._secrets, LABEL, json.dumps(part, separators=(",", ":")).encode())
            file.flush()
            os.fsync(file.fileno())
            end = file.tell()
        if made:
            sync_directory(self.path)
        return end

    def read(self, length: int) -> Iterator[Rows]:
        """The rows of its first ``length`` bytes, in the order in which they were written.

        Raises:
          InvalidInput: it is missing or too short.
        """
        self.require(length)
        if length:
            with self.path.open("rb") as file:
                yield from (json.loads(content) for content in read_records(file, self._secrets, LABEL, length))

    def require(self, length: int) -> None:
        """Refuse a file that is shorter than the rollback guard says.

        Raises:
          InvalidInput: it is.
        """
        if not self.reaches(length):
            raise InvalidInput(
                "journal", "missing or cut off", f"the {length} bytes of {self.path} that the rollback guard knows of",
                "bring the file back: it says what was published and who came; or restore with --policy-only",
            )  # fmt: skip

    def reaches(self, length: int) -> bool:
        """Whether the file is as long as the rollback guard says."""
        return (self.path.stat().st_size if self.path.exists() else 0) >= length


def rewrite_journal(rollback_guard: RollbackGuard, store: Store, secrets: Secrets) -> None:
    """Write the journal anew from a store that has everything the rollback guard has seen, as after a change of its layout.

    The store is read while no other process writes the journal: what was recorded before is in it.
    """

    def write(_: Seen) -> tuple[int, int]:
        with store.read_snapshot() as tx:
            clock = records.deployment(tx)
            journal = Journal(rollback_guard.path, secrets.of(clock.identity))
            return journal.append(0, kept_rows(tx)), int(clock.admitted)

    rollback_guard.rewrite_journal(write)
