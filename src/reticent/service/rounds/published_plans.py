# SPDX-License-Identifier: Apache-2.0
"""Published plans, kept in memory: a version never changes."""

from __future__ import annotations

import collections
import threading

from reticent.service.billboards import Billboard
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.service.store.engine import Store

KEPT = 64
"""Versions kept in a worker's memory."""


class PublishedPlans:
    """The published plans of one store."""

    def __init__(self, store: Store, configuration: PublicConfiguration) -> None:
        self._store, self._configuration = store, configuration
        self._boards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._boards_lock = threading.Lock()

    def billboard(self, version: int) -> Billboard:
        """A published version; kept in memory, since it never changes.

        Raises:
          Refusal: it was never published.
        """
        with self._boards_lock:
            if version in self._boards:
                self._boards.move_to_end(version)
                return self._boards[version]
        content = None
        if 0 <= version <= int(self._configuration.schedule.releases):
            with self._store.read() as tx:
                content = records.billboard(tx, version)
        if content is None:
            raise Refusal("not-found", f"version {version} has not been published")
        found = self._configuration.read_billboard(version, content)
        with self._boards_lock:
            found = self._boards.setdefault(version, found)
            if len(self._boards) > KEPT:
                self._boards.popitem(last=False)
        return found

    def remembers(self, version: int) -> bool:
        """Whether :meth:`billboard` answers without asking the store."""
        return version in self._boards
