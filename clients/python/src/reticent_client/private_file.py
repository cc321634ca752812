# SPDX-License-Identifier: Apache-2.0
"""A JSON file of the user's own, for what a device keeps about them: whole or as it was, and for its owner alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from reticent_wire.errors import InvalidInput


class PrivateFile:
    """Reads and writes one JSON object. It is data at rest about the user; nothing of it is ever sent."""

    def __init__(self, path: str | Path, name: str) -> None:
        self.path, self._name = Path(path), name

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
        """The old file or the new one, whole, and for its owner alone."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(new, self.path)

    def unreadable(self) -> InvalidInput:
        return InvalidInput(
            self._name, "unreadable", f"the file {self.path} as it was written", "delete it: what it kept begins anew"
        )
