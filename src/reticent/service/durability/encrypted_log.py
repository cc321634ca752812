# SPDX-License-Identifier: Apache-2.0
"""A file of sealed records: what leaves the database for a backup or for the journal beside the rollback guard.

Each record is AES-256-GCM under the deployment's secret, bound to its file's ``label`` and to its place in the file: a
record that was changed, moved, or taken from elsewhere does not open. That records are missing at the end is for the
reader to notice: a journal's length is in the rollback guard, a backup ends with a last word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from reticent.errors import InvalidInput
from reticent.service.secrets import Secrets

LENGTH = 8
"""Bytes that say how long the record after them is."""


def write_record(file: BinaryIO, secrets: Secrets, label: str, content: bytes) -> None:
    """Seal a record and write it where the file stands."""
    sealed = secrets.seal(content, f"{label} at {file.tell()}")
    file.write(len(sealed).to_bytes(LENGTH, "big") + sealed)


def read_records(file: BinaryIO, secrets: Secrets, label: str, end: int) -> Iterator[bytes]:
    """The records from where the file stands to byte ``end``.

    Raises:
      InvalidInput: it ends before that, or in the middle of a record.
      Damaged: a record does not open.
    """
    while (place := file.tell()) < end:
        size = int.from_bytes(file.read(LENGTH), "big")
        sealed = file.read(min(size, end - file.tell()))
        if len(sealed) < size or not size:
            raise InvalidInput("file", f"cut off at byte {place}", f"{end} bytes of whole records", "use a whole copy")
        yield secrets.unseal(sealed, f"{label} at {place}")


def sync_directory(path: Path) -> None:
    """Let the names in the directory of ``path`` survive a power cut."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
