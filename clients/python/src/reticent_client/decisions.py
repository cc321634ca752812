# SPDX-License-Identifier: Apache-2.0
"""What a device notes of its decisions, for an analysis after the study. It is the user's data and stays on the device.

Effects can be estimated afterwards if every action had a known probability (docs/randomisation.md): the policy's *floor*
sees to it that none is zero, and this log to it that each is known. A probability follows from what the service published
and from the user's place in their round, so that it says nothing of their data by itself; which action was taken where
does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Decision(NamedTuple):
    """One decision: which episode and version, the 0-based step and state, the action, and its probability."""

    episode: str
    version: int
    step: int
    state: int
    action: int
    probability: float


DecisionObserver = Callable[[Decision], None]
"""Told of every decision, once, on the device."""


class DecisionLog:
    """Appends decisions to a file of this device, a JSON object a line; may be shared between threads.

    >>> client = Client(url, key, decisions=DecisionLog("decisions.jsonl"))  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()

    def __call__(self, decision: Decision) -> None:
        line = json.dumps(decision._asdict()) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line)

    def read(self) -> list[Decision]:
        """All that was noted."""
        if not self._path.exists():
            return []
        return [Decision(**json.loads(line)) for line in self._path.read_text(encoding="utf-8").splitlines()]
