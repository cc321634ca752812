# SPDX-License-Identifier: Apache-2.0
"""Stays that last longer than a process: what a device keeps of a user's visits until the one report of all of them.

A stay is one episode of several visits (:attr:`Episode.visits <reticent_client.episode.Episode.visits>`). An app that is
closed between visits gives its client a :class:`StayFile`, in which every finished visit is kept, and goes on with
:meth:`Client.resume_stay <reticent_client.client.Client.resume_stay>`. The file is JSON that the user can read
(:meth:`StayFile.show`) and erase (:meth:`StayFile.erase`). It is data at rest about the user.

Formal guarantee. A stay is reported at most once, whatever happens to the app: where reports are noised on the device, the
visits are taken out of the file, as one indivisible act, before the report is formed. So of several processes that have the
same stay open one reports it, and no second report with other noise can be formed after a crash, which costs the report and
nothing else. In the joint model the same trajectory may be sent again, and the service counts it once. A stay that the user
has erased is not reported, also by a process that has it open. Between visits nothing is sent, so that nothing shows
whether and how a user came.

A stay has to be finished before its ticket expires. By then the service waits for it no longer, so it is not reported: the
device says so (:class:`StayExpired`) and serves the user on. That is a matter of the clock and of when the user comes,
which are public, not of what they do.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from reticent_client.private_file import PrivateFile
from reticent_wire.errors import InvalidInput

Saved = dict[str, Any]
"""One stay: how it was admitted, and ``states``, ``actions`` and ``rewards`` of its finished visits."""

EXPIRED = "ticket-expired"
"""Why a stay is not reported: the service waits for it no longer."""

NOT_KEPT = "stay-not-kept"
"""Why a stay is not reported: the user has erased it, or another process has reported it."""

OVER = ("episode-expired", "round-over")
"""What the service says when it will never take the report of a stay."""

REMEDY = "the operator should give a `ticket_lifetime` above the length of a stay"


class StayNotKept(InvalidInput):
    """A stay that is to be reported is not kept on this device any more: nothing was formed."""

    def __init__(self) -> None:
        super().__init__(
            "stay", "not kept on this device", "kept until it is reported",
            "serve the user without a report: the stay was erased, or another process has reported it",
        )  # fmt: skip


class StayExpired(UserWarning):
    """The ticket of a stay has expired: nothing of it is reported, and the user is served on."""

    def __init__(self, expired_at: float) -> None:
        when = datetime.datetime.fromtimestamp(max(expired_at, 0.0), datetime.UTC).isoformat(timespec="minutes")
        super().__init__(
            f"the ticket of this stay expired at {when} by this device's clock: nothing of it is reported, and the user is "
            f"served on; {REMEDY}"
        )


class StayFile:
    """Keeps the open stay of every user of this device in one file.

    >>> client = Client(url, key, stays=StayFile("stays.json"))  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self._file = PrivateFile(path, "stays")

    def recall(self, user: str) -> Saved | None:
        """The open stay of ``user``; None without one."""
        kept = self._file.read().get(user)
        if kept is not None and not isinstance(kept, dict):
            raise self._file.unreadable()
        return kept

    def keep(self, user: str, stay: Saved) -> None:
        """Remember a stay that begins, in the place of what was kept before."""
        with self._file.alone():
            self._file.write(self._file.read() | {user: stay})

    def go_on(self, user: str, stay: Saved) -> None:
        """Remember one more finished visit; nothing if the stay is not kept any more: what was erased stays so."""
        with self._file.alone():
            content = self._file.read()
            if _same(content.get(user), stay["opened"]["episode"]):
                self._file.write(content | {user: stay})

    def holds(self, user: str, episode: str) -> bool:
        """Whether the stay with this id is kept."""
        return _same(self._file.read().get(user), episode)

    def take(self, user: str, episode: str) -> bool:
        """Forget the stay with this id to report it; False if it is not kept any more, and may not be reported."""
        with self._file.alone():
            content = self._file.read()
            kept = _same(content.pop(user, None), episode)
            if kept:
                self._file.write(content)
            return kept

    def show(self) -> dict[str, Saved]:
        """Everything that is kept, by user."""
        return self._file.read()

    def erase(self, user: str | None = None) -> None:
        """Forget one user's stay, or all of them; it is not reported then."""
        with self._file.alone():
            content = self._file.read()
            self._file.write({} if user is None else {name: kept for name, kept in content.items() if name != user})


def _same(kept: Any, episode: str) -> bool:
    return isinstance(kept, dict) and str(kept.get("opened", {}).get("episode")) == episode
