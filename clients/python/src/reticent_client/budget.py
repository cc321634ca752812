"""The device's own budget: how often each user may report from here, whatever a service says.

A service decides whom it asks for a report, and may forget, be restored from a backup, or lie. So the device keeps count
itself, in a file: a report is charged *before* it is formed, and the charge is on the disk before any of it can leave. A
user whose budget is spent is served on and reports no more.

Formal guarantee. Let one report be (ε, δ)-private in the local model. Then all that leaves this device about a user in a
``scope`` is what ``reports`` such reports reveal, for any behaviour of the service, any crash of the device, and any number
of processes that share the file. The scope is the app's to choose, never the service's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent_client.wire.errors import InvalidInput

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows: there, one process at a time must use the file
    fcntl = None  # type: ignore[assignment]


class Budget:
    """A budget that outlives the process; may be shared between threads.

    Args:
      path: of the file; its directory must exist.
      reports: how many reports of a user may leave in all.
      scope: what the budget is for, such as the name of a study; other scopes have budgets of their own.
    """

    def __init__(self, path: str | Path, *, reports: int = 1, scope: str = "") -> None:
        if reports < 0:
            raise InvalidInput("reports", reports, "at least 0", "1 is the default")
        self._path, self._reports, self._scope = Path(path), reports, scope
        self._lock = threading.Lock()

    def left(self, user: str) -> int:
        """How many more reports of ``user`` may leave."""
        with self._alone():
            content = self._read()
            return max(0, self._reports - int(content["spent"].get(self._name(content, user), 0)))

    def spend(self, user: str) -> None:
        """Charge one report of ``user``; when this returns, the charge is on the disk.

        Raises:
          InvalidInput: the budget is spent, or the file is not one; nothing was changed, and nothing may be formed.
        """
        with self._alone():
            content = self._read()
            name = self._name(content, user)
            spent = int(content["spent"].get(name, 0))
            if spent >= self._reports:
                raise InvalidInput(
                    "reports of this user", spent + 1, f"at most {self._reports} from this device",
                    "serve her without a report",
                )  # fmt: skip
            content["spent"][name] = spent + 1
            self._write(content)

    def _name(self, content: dict[str, Any], user: str) -> str:
        """A user as the file knows her: with a salt of its own, so that two devices' files cannot be matched."""
        salted = json.dumps([content["salt"], self._scope, user]).encode()
        return hashlib.sha256(salted).hexdigest()

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            return {"salt": secrets.token_hex(16), "spent": {}}
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return {"salt": str(content["salt"]), "spent": dict(content["spent"])}
        except (OSError, ValueError, KeyError, TypeError):
            remedy = "do not report: nobody knows what was spent"
            raise InvalidInput("budget", "unreadable", f"the file {self._path} as it was written", remedy) from None

    def _write(self, content: dict[str, Any]) -> None:
        """After a power cut there is the old or the new file, whole; before this returns the new one is safe."""
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
        if hasattr(os, "O_DIRECTORY"):
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock, self._path.with_name(f"{self._path.name}.lock").open("a") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
