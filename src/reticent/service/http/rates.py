# SPDX-License-Identifier: Apache-2.0
"""How often a caller may come: a bucket each, out of which every request takes one, and a group one for each member.

*What users do takes nothing out of the bucket that they share.* All users of an app have its key. Whether, when and how
often a user acts and reports follows from that user's data. If it emptied the key's bucket, another user would be turned
away: the 429 would show it, and that user's report would count in a later round (assumption (iii) of docs/delays.md). So
requests of users who were admitted take from a bucket of their episode's own, or from none. They are let in while the key's
bucket is not empty, which only public requests empty (admissions, and reads at the beginning) and requests that prove no
admission: those without a genuine token. The form of a body follows from the user's data too, such as that of one who left
early: a genuine token in it is found, whatever the rest is (:func:`reticent.service.http.fast_path.tokens`).

*A report is let in or not, with another user's as by itself.* A backend that groups what comes within a moment sends a
report alone where no other user reports. So a member of a group takes from the limit of its own episode too.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import re
import time

CALLERS = 10_000
"""Callers whose buckets are remembered; the longest unseen one is forgotten first."""

OF_USERS = re.compile(
    r"/v1/(?P<proving>episodes/(?P<episode>[0-9a-f]{32})/[a-z]+|groups/(?:trajectories|reports))"
    r"|/v1/(?:round|billboards/[0-9]+)"
)
"""What a user's device asks for after the admission, and the group that knows the ``episode``. Those that are ``proving``
have a token in their body; the others are read before a report is formed."""


class Buckets:
    """A token bucket per caller: ``rate`` per second, and twice as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, max(1.0, 2 * rate)
        self._levels: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def take(self, caller: str, now: float) -> float:
        """Seconds that the caller has to wait; 0 if it may go on, and then one is taken."""
        waits = self.wait(caller, now)
        if not waits:
            self.charge(caller, 1, now)
        return waits

    def wait(self, caller: str, now: float) -> float:
        """Seconds that the caller has to wait; nothing is taken."""
        if self._rate <= 0:
            return 0.0
        level = self._level(caller, now)
        self._set(caller, level, now)
        return 0.0 if level >= 1 else (1 - level) / self._rate

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


@dataclasses.dataclass(eq=False)
class Charge:
    """Whose bucket a request comes out of, and what it ``owes`` in the end unless it proves an admission; the buckets of
    the caller's ``episodes``, and when it came."""

    buckets: Buckets
    caller: str
    owes: int
    episodes: Buckets
    came: float


class Rates:
    """The limits of one worker; see the module docstring."""

    def __init__(self, rate: float) -> None:
        self._callers, self._episodes = Buckets(rate), Buckets(rate)

    def take(self, caller: str, path: str, serves: bool, now: float) -> float:
        """Seconds that a request has to wait; 0 if it may go on. ``serves``: whether its key may open episodes."""
        of_users = OF_USERS.fullmatch(path) if serves else None
        proving = of_users is not None and of_users["proving"] is not None
        CHARGED.set(Charge(self._callers, caller, int(proving), self._episodes, now))
        if of_users is None:
            return self._callers.take(caller, now)
        waits = self._callers.wait(caller, now)
        if not waits and of_users["episode"] is not None:
            waits = self._episodes.take(_of(caller, of_users["episode"]), now)
        return waits


def _of(caller: str, episode: str) -> str:
    """Whose bucket an episode's is: another caller who names it has one of its own."""
    return f"{caller} {episode}"


CHARGED: contextvars.ContextVar[Charge | None] = contextvars.ContextVar("reticent_charged", default=None)
"""Whose bucket the request of this context has come out of."""


def charge(members: int) -> None:
    """Count this request as one of each of so many members: how many they are is known when its body has been read."""
    charged = CHARGED.get()
    if charged is not None:
        charged.buckets.charge(charged.caller, members - 1, time.monotonic())


def owe(members: int) -> None:
    """Let this request owe one for each member unless it proves an admission."""
    charged = CHARGED.get()
    if charged is not None and charged.owes:
        charged.owes = members


def prove() -> None:
    """This request is of a user who was admitted: it has a genuine token."""
    charged = CHARGED.get()
    if charged is not None:
        charged.owes = 0


def take_of(episode: str) -> float:
    """Take one out of the bucket of an episode, for a member of a group; seconds that it has to wait, 0 if it may go on."""
    charged = CHARGED.get()
    return 0.0 if charged is None else charged.episodes.take(_of(charged.caller, episode), charged.came)


def owing() -> bool:
    """Whether this request owes, so far."""
    charged = CHARGED.get()
    return charged is not None and charged.owes > 0


def settle(now: float) -> None:
    """Take what this request owes, at its end."""
    charged = CHARGED.get()
    if charged is not None and charged.owes:
        charged.buckets.charge(charged.caller, charged.owes, now)
