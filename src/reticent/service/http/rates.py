# SPDX-License-Identifier: Apache-2.0
"""How often a caller may come: a bucket each, out of which every request takes one, and a group one for each member."""

from __future__ import annotations

import collections
import contextvars
import time

CALLERS = 10_000
"""Callers whose buckets are remembered; the longest unseen one is forgotten first."""


class Buckets:
    """A token bucket per caller: ``rate`` per second, and twice as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, max(1.0, 2 * rate)
        self._levels: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def take(self, caller: str, now: float) -> float:
        """Seconds that the caller has to wait; 0 if it may go on."""
        if self._rate <= 0:
            return 0.0
        level = self._level(caller, now)
        waits = 0.0 if level >= 1 else (1 - level) / self._rate
        self._set(caller, level - 1 if level >= 1 else level, now)
        CHARGED.set((self, caller))
        return waits

    def charge(self, caller: str, more: int, now: float) -> None:
        """Take ``more`` from a caller who has been let in; what is not there has to be waited for before the next time."""
        if self._rate > 0:
            self._set(caller, self._level(caller, now) - more, now)

    def _level(self, caller: str, now: float) -> float:
        level, at = self._levels.pop(caller, (self._burst, now))
        return min(self._burst, level + (now - at) * self._rate)

    def _set(self, caller: str, level: float, now: float) -> None:
        self._levels[caller] = (level, now)
        if len(self._levels) > CALLERS:
            self._levels.popitem(last=False)


CHARGED: contextvars.ContextVar[tuple[Buckets, str] | None] = contextvars.ContextVar("reticent_charged", default=None)
"""Whose bucket the request of this context has come out of."""


def charge(members: int) -> None:
    """Count this request as one of each of so many members: how many they are is known when its body has been read."""
    charged = CHARGED.get()
    if charged is not None:
        buckets, caller = charged
        buckets.charge(caller, members - 1, time.monotonic())
