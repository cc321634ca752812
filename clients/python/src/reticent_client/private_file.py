# SPDX-License-Identifier: Apache-2.0
"""A JSON file of the user's own, for what a device keeps about them: whole or as it was, and for its owner alone.

Promises rest on it: visits that were erased before their report was formed, and reports that were charged to a budget,
must not come back, neither after a power cut nor because another process wrote what it had read before.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent_wire.errors import InvalidInput

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows: there, one process at a time must use the file
    fcntl = None  # type: ignore[assignment]

_LOCKS: dict[Path, threading.Lock] = {}


class PrivateFile:
    """Reads and writes one JSON object. It is data at rest about the user; nothing of it is ever sent.

    Args:
      name: what it is called in messages.
      unreadable, unwritable: what to do about a file that is not what was written, and about a place that takes none.
    """

    def __init__(
        self,
        path: str | Path,
        name: str,
        unreadable: str = "delete it: what it kept begins anew",
        unwritable: str = "name a file that this user can write",
    ) -> None:
        self.path, self._name, self._unreadable, self._unwritable = Path(path), name, unreadable, unwritable

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread or process that asks for the same reads or writes meanwhile.

        Raises:
          InvalidInput: the file cannot be written there.
        """
        with _LOCKS.setdefault(self.path.absolute(), threading.Lock()), self._opened_lock() as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> dict[str, Any]:
        """What was written last; nothing before that.

        Raises:
          InvalidInput: the file is not what was written.
        """
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise self.unreadable() from None
        if not isinstance(content, dict):
            raise self.unreadable()
        return content

    def write(self, content: dict[str, Any]) -> None:
        """After a power cut there is the old or the new file, whole; before this returns the new one is safe."""
        new = self.path.with_name(f"{self.path.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        if hasattr(os, "O_DIRECTORY"):
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def unreadable(self) -> InvalidInput:
        return InvalidInput(self._name, "unreadable", f"the file {self.path} as it was written", self._unreadable)

    def _opened_lock(self) -> Any:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self.path.with_name(f"{self.path.name}.lock").open("a")
        except OSError as problem:
            kind = f"{self.path} ({problem.strerror})"
            raise InvalidInput(self._name, kind, "a file that outlives this process", self._unwritable) from problem
