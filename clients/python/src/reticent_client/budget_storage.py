# SPDX-License-Identifier: Apache-2.0
"""Where a device's budget is kept: in a file that outlives the process, or in memory for simulated users.

The content is one JSON object: a salt of its own, how many reports were charged to each user, and in which rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from reticent_wire.errors import InvalidInput

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows: there, one process at a time must use the file
    fcntl = None  # type: ignore[assignment]

Content = dict[str, Any]

REMEDY = "give budget=Budget(path) a file that this user can write"


def default_path() -> Path:
    """The budget of the user who runs this process: ``reticent/budget.json`` in the place for state of programs.

    That is ``$XDG_STATE_HOME``, by default ``~/.local/state``; on Windows ``%LOCALAPPDATA%``.
    """
    variable, below = (
        ("LOCALAPPDATA", "AppData/Local") if sys.platform == "win32" else ("XDG_STATE_HOME", ".local/state")
    )
    stated = os.environ.get(variable, "")
    # The specification of these variables says to ignore a relative path.
    home = Path(stated) if os.path.isabs(stated) else Path.home() / below
    return home / "reticent" / "budget.json"


class Storage(Protocol):
    """What a budget needs of its place."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """No other process reads or writes meanwhile."""

    def read(self) -> Content:
        """What was written last; an empty budget before."""

    def write(self, content: Content) -> None:
        """Keep this; when it returns, it is kept for as long as the place lasts."""


class File:
    """A file that processes may share. Its directory is made if it is missing, for its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._lock, self._opened_lock() as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> Content:
        if not self._path.exists():
            return empty()
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            rounds = dict(content.get("rounds", {}))  # a file that was begun before rounds were noted has none
            return {"salt": str(content["salt"]), "spent": dict(content["spent"]), "rounds": rounds}
        except (OSError, ValueError, KeyError, TypeError):
            remedy = "do not report: it is unknown what was spent"
            raise InvalidInput("budget", "unreadable", f"the file {self._path} as it was written", remedy) from None

    def write(self, content: Content) -> None:
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

    def _opened_lock(self) -> Any:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._path.with_name(f"{self._path.name}.lock").open("a")
        except OSError as problem:
            kind = f"{self._path} ({problem.strerror})"
            raise InvalidInput("budget", kind, "a file that outlives this process", REMEDY) from problem


class Memory:
    """In memory: it forgets when the process ends, so it is for simulated users and tests, not for people."""

    def __init__(self) -> None:
        self._content, self._lock = empty(), threading.Lock()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._lock:
            yield

    def read(self) -> Content:
        return self._content

    def write(self, content: Content) -> None:
        self._content = content


def empty() -> Content:
    """A budget of which nothing was spent, with a fresh salt."""
    return {"salt": secrets.token_hex(16), "spent": {}, "rounds": {}}
