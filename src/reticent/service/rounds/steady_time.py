# SPDX-License-Identifier: Apache-2.0
"""The time that episodes expire by: the wall clock's, but for jumps that do not last.

Expiry is final. A wall clock that is nine days ahead for half a minute must not expire what users are still playing. So
small corrections of the clock are followed at once, and a jump only when the clock has stayed there for an hour of a clock
that cannot be set. Nothing of it depends on users.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SMALL = 60.0
"""Seconds by which a clock may be corrected at once."""

LASTING = 3600.0
"""Seconds that a jump must last before it is believed."""


class SteadyTime:
    """Seconds since the epoch by two clocks: ``wall``, which can be set, and ``steady``, which cannot."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall, self._steady, self._lock = wall, steady, threading.Lock()
        self._offset: float | None = None
        self._jumped: tuple[float, float] | None = None  # to which offset, and when

    def __call__(self) -> float:
        with self._lock:
            steady = self._steady()
            offset = self._wall() - steady
            if self._offset is None or abs(offset - self._offset) <= SMALL or self._has_lasted(offset, steady):
                self._offset, self._jumped = offset, None
            return steady + self._offset

    def _has_lasted(self, offset: float, steady: float) -> bool:
        if self._jumped is None or abs(offset - self._jumped[0]) > SMALL:
            self._jumped = (offset, steady)
        return steady - self._jumped[1] >= LASTING
