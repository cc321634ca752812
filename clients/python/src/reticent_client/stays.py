# SPDX-License-Identifier: Apache-2.0
"""Stays that last longer than a process: what a device keeps of a user's visits until the one report of all of them.

A stay is one episode of several visits (:attr:`Episode.visits <reticent_client.episode.Episode.visits>`). An app that is
closed between visits gives its client a :class:`StayFile`, in which every finished visit is kept, and goes on with
:meth:`Client.resume_stay <reticent_client.client.Client.resume_stay>`. The file is JSON that the user can read
(:meth:`StayFile.show`) and erase (:meth:`StayFile.erase`). It is data at rest about the user.

Formal guarantee. A stay is reported at most once, whatever happens to the app: where reports are noised on the device, the
visits are erased before the report is formed, so that no second report with other noise can be formed from them. A crash
then costs the report and nothing else. In the joint model the same trajectory may be sent again, and the service counts it
once. Between visits nothing is sent, so that nothing shows whether and how a user came.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent_client.private_file import PrivateFile

Saved = dict[str, Any]
"""One stay: how it was admitted, and ``states``, ``actions`` and ``rewards`` of its finished visits."""


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
        """Remember the finished visits of a stay, in the place of what was kept before."""
        with self._file.alone():
            self._file.write(self._file.read() | {user: stay})

    def show(self) -> dict[str, Saved]:
        """Everything that is kept, by user."""
        return self._file.read()

    def erase(self, user: str | None = None) -> None:
        """Forget one user's stay, or all of them; it is not reported then."""
        with self._file.alone():
            content = self._file.read()
            self._file.write({} if user is None else {name: kept for name, kept in content.items() if name != user})
