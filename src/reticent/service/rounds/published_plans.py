# SPDX-License-Identifier: Apache-2.0
"""Published plans, kept in memory: a version never changes.

A plan is compared with its entry in the ledger chain when it is loaded. A row that was exchanged or changed in the database
is not served under another version's name: it is as damaged as an encrypted row that does not open.
"""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from reticent.service.billboards import Billboard
from reticent.service.durability import ledger_chain
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged
from reticent.service.store import records
from reticent.service.store.engine import Store

KEPT = 64
"""Versions kept in a worker's memory."""


class PublishedPlans:
    """The published plans of one store."""

    def __init__(self, store: Store, configuration: PublicConfiguration, sign: Callable[[bytes], bytes]) -> None:
        self._store, self._configuration, self._sign = store, configuration, sign
        self._boards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._boards_lock = threading.Lock()

    def billboard(self, version: int) -> Billboard:
        """A published version; kept in memory, since it never changes.

        Raises:
          Refusal: it was never published.
          Damaged: it is not what was published under this number.
        """
        with self._boards_lock:
            if version in self._boards:
                self._boards.move_to_end(version)
                return self._boards[version]
        content = None
        if 0 <= version <= int(self._configuration.schedule.releases):
            with self._store.read() as tx:
                content, entries = records.billboard(tx, version), records.chain(tx, version, version + 1)
        if content is None:
            raise Refusal("not-found", f"version {version} has not been published")
        try:
            found = self._configuration.read_billboard(version, content)
            published = self._is_published(found, entries)
        except (ValueError, KeyError):  # bytes that are no plan
            published = False
        if not published:
            raise Damaged(
                "database", f"another plan as version {version}", "the plan that its ledger chain names",
                "restore the store from a backup; see docs/service.md",
            )  # fmt: skip
        with self._boards_lock:
            found = self._boards.setdefault(version, found)
            if len(self._boards) > KEPT:
                self._boards.popitem(last=False)
        return found

    def _is_published(self, board: Billboard, entries: Sequence[Any]) -> bool:
        """Whether the chain's entry of this version is genuine and names this plan."""
        if len(entries) != 1:
            return False
        (row,) = entries
        entry = json.loads(row.entry)
        final = board.version >= int(self._configuration.schedule.releases)
        served = board.to_json(final=final, model=self._configuration.model_digest)
        return bool(
            ledger_chain.signed(entry, self._sign) == {"entry": row.entry, "hash": row.hash, "signature": row.signature}
            and entry["version"] == board.version
            and entry["billboard"] == ledger_chain.billboard_digest(served)
        )

    def remembers(self, version: int) -> bool:
        """Whether :meth:`billboard` answers without asking the store."""
        return version in self._boards
