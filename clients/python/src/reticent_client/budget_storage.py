# SPDX-License-Identifier: Apache-2.0
"""Where a device's budget is kept: in a file that outlives the process, or in memory for simulated users.

The content is one JSON object: a salt of its own, how many reports were charged to each user, and in which rounds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from reticent_client.private_file import PrivateFile

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
        self._file = PrivateFile(path, "budget", "do not report: it is unknown what was spent", REMEDY)

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return self._file.alone()

    def read(self) -> Content:
        content = self._file.read()
        if not self._file.path.exists():
            return empty()
        try:
            rounds = dict(content.get("rounds", {}))  # a file that was begun before rounds were noted has none
            return {"salt": str(content["salt"]), "spent": dict(content["spent"]), "rounds": rounds}
        except (ValueError, KeyError, TypeError):
            raise self._file.unreadable() from None

    def write(self, content: Content) -> None:
        self._file.write(content)


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
