# SPDX-License-Identifier: Apache-2.0
"""The device's own budget: how often each user may report from here, whatever a service says.

A service decides whom it asks for a report, and may forget, be restored from a backup, or lie. So the device keeps count
itself, in a file: a report is charged *before* it is formed, and the charge is on the disk before any of it can leave. A
user whose budget is spent is served on and reports no more.

Formal guarantee. Let one report be (ε, δ)-private in the local model. Then all that leaves this device about a user in a
``scope`` is what ``reports`` such reports reveal, for any behaviour of the service, any crash of the device, and any number
of processes that share the file. The scope is the app's to choose, never the service's.

A *pattern* (``per_round``, ``gap``) is kept as well, by the rounds in which the service says that she has places. A service
can lie about rounds, so that with a server that is trusted anyway it guards against mistakes, and in the local model, where
every report has noise of its own, the promise needs ``reports`` alone.
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

from reticent_wire.errors import InvalidInput
from reticent_wire.participation import may_contribute

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows: there, one process at a time must use the file
    fcntl = None  # type: ignore[assignment]


class Budget:
    """A budget that outlives the process; may be shared between threads.

    Args:
      path: of the file; its directory must exist.
      reports: how many reports of a user may leave in all.
      per_round: how many of them for one round; by default any number. gap: by how many rounds hers differ at least.
      scope: what the budget is for, such as the name of a study; other scopes have budgets of their own.
    """

    def __init__(
        self, path: str | Path, *, reports: int = 1, per_round: int | None = None, gap: int = 1, scope: str = ""
    ) -> None:
        if reports < 0:
            raise InvalidInput("reports", reports, "at least 0", "1 is the default")
        for field, value in (("per_round", per_round), ("gap", gap)):
            if value is not None and value < 1:
                raise InvalidInput(field, value, "at least 1", "leave it at its default")
        self._path, self.reports, self._scope = Path(path), reports, scope
        self._per_round, self._gap = reports if per_round is None else per_round, gap
        self._lock = threading.Lock()

    def left(self, user: str) -> int:
        """How many more reports of ``user`` may leave."""
        with self._alone():
            content = self._read()
            return max(0, self.reports - int(content["spent"].get(self._name(content, user), 0)))

    def allows(self, user: str, number: int) -> bool:
        """Whether one more report of ``user`` may leave, for round ``number``."""
        with self._alone():
            content = self._read()
            return self._allows(content, self._name(content, user), number)

    def spend(self, user: str, number: int | None = None) -> None:
        """Charge one report of ``user``, for round ``number``; when this returns, the charge is on the disk.

        Raises:
          InvalidInput: the budget is spent, or the round is too near to another of hers, or the file is not one; nothing
            was changed, and nothing may be formed.
        """
        with self._alone():
            content = self._read()
            name = self._name(content, user)
            spent = int(content["spent"].get(name, 0))
            if spent >= self.reports:
                raise InvalidInput(
                    "reports of this user", spent + 1, f"at most {self.reports} from this device",
                    "serve her without a report",
                )  # fmt: skip
            if number is not None:
                if not self._allows(content, name, number):
                    raise InvalidInput(
                        "round of this report", number, f"at most {self._per_round} in one, {self._gap} or more apart",
                        "serve her without a report",
                    )  # fmt: skip
                content["rounds"].setdefault(name, []).append(number)
            content["spent"][name] = spent + 1
            self._write(content)

    def _allows(self, content: dict[str, Any], name: str, number: int) -> bool:
        spent, rounds = int(content["spent"].get(name, 0)), list(content["rounds"].get(name, []))
        return spent < self.reports and may_contribute(self.reports, self._per_round, self._gap, rounds, number)

    def _name(self, content: dict[str, Any], user: str) -> str:
        """A user as the file knows her: with a salt of its own, so that two devices' files cannot be matched."""
        salted = json.dumps([content["salt"], self._scope, user]).encode()
        return hashlib.sha256(salted).hexdigest()

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            return {"salt": secrets.token_hex(16), "spent": {}, "rounds": {}}
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            rounds = dict(content.get("rounds", {}))  # a file that was begun before rounds were noted has none
            return {"salt": str(content["salt"]), "spent": dict(content["spent"]), "rounds": rounds}
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
