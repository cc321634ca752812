# SPDX-License-Identifier: Apache-2.0
"""The rounds of a deployment: opened, sealed, and what was published of them.

A *sealed* round's sum is final. Rounds are sealed on admissions, never on reports. What becomes of it then, release and
publication, is in :mod:`reticent.service.rounds.release` and needs the agent; nothing here does.

Any worker may do any of it at any time, several at once, and be killed in the middle.
"""

from __future__ import annotations

import abc
import collections
import logging
import threading
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from reticent.learning.control import Control, ControlPlaces
from reticent.service.billboards import Billboard
from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import RollbackGuard, RolledBack, Seen, require_same_past
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Damaged, Secrets
from reticent.service.store import records, rows, tables
from reticent.service.store.engine import Store

LOG = logging.getLogger("reticent.service")
KEPT = 64
"""Versions kept in a worker's memory."""


class Rounds(abc.ABC):
    """The part of a deployment that does not meet users; see the module docstring."""

    def __init__(
        self,
        configuration: PublicConfiguration,
        store: Store,
        secrets: Secrets,
        rollback_guard: RollbackGuard | None = None,
        control: Control | None = None,
    ) -> None:
        self.configuration, self.store, self.secrets, self.rollback_guard, self.control = (
            configuration,
            store,
            secrets,
            rollback_guard,
            control,
        )
        self.identity = ""
        """Of the deployment, once it is set up."""
        self.restores = 0
        """How often its store was restored, once it is set up."""
        self.sealed = threading.Event()
        """Set when this worker has sealed a round, for whoever plans in the background."""
        self._boards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._boards_lock = threading.Lock()

    @property
    def model_digest(self) -> str:
        return self.configuration.model_digest

    @property
    def users(self) -> int:
        """K."""
        return int(self.configuration.schedule.episodes)

    @property
    def releases(self) -> int:
        return int(self.configuration.schedule.releases)

    def control_places(self, number: int) -> ControlPlaces | None:
        """Which places of a round are controls'; None without an A/B share. A function of public numbers."""
        if self.control is None:
            return None
        return self.control.places(self.configuration.schedule, number, self.identity)

    # -- from open to sealed ------------------------------------------------------------------------------------------

    def _is_full(self, number: int, admitted: int) -> bool:
        """Whether a round has had all its users, and is one that is released: a matter of public numbers."""
        return bool(number < self.releases and admitted >= self.configuration.schedule.ends[number])

    def _seal(self, tx: Connection, number: int) -> None:
        """End the open round and open the next; the caller holds the deployment's lock."""
        self._close_sum(tx, number)
        records.seal_round(tx, number)
        if number + 1 < self.releases:
            self._open_round(tx, number + 1)
        records.change_deployment(tx, open_round=number + 1)

    def _close_sum(self, tx: Connection, number: int) -> None:
        """Pan-privately, let the second half of a round's noise into its sum, in the transaction that seals it.

        A sealed round may wait for its planner while the next one is open. A look into the store then must not find the
        same first half under a sum that has had another user: so what a sealed round keeps is its release already.
        """
        if self.configuration.in_halves:
            row = records.round_of(tx, number, lock=True)
            closed = self._total(number, row.total) + self.configuration.closing_half()
            records.set_total(tx, number, self.secrets.seal(closed.tobytes(), _closed(number)))

    def _closed_total(self, number: int, sealed: bytes) -> np.ndarray:
        """The sum of a sealed round, with all the noise that it gets before its release.

        The label says whether the second half is in. A store that an earlier version sealed a round in has it without, and
        it is added here: no round is released with less than its noise.
        """
        if not self.configuration.in_halves:
            return self._total(number, sealed)
        try:
            return self._array(self.secrets.unseal(sealed, _closed(number)))
        except Damaged:
            return np.asarray(self._total(number, sealed) + self.configuration.closing_half())

    def _open_round(self, tx: Connection, number: int) -> None:
        total = self.secrets.seal(self.configuration.first_sum().tobytes(), f"round {number}")
        records.insert_new(tx, tables.ROUNDS, number=number, state="open", reference=None, total=total)

    def _end_full_round(self) -> None:
        """Inline planning: the round ends and its plan is published before the next user is admitted."""
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            if self._is_full(clock.open_round, clock.admitted):
                self._seal(tx, clock.open_round)
        self.advance()

    def recorded(self) -> int:
        """How many of the admitted users a restore would bring back; all of them where nothing guards against rollback."""
        if self.rollback_guard is None:
            return int(self.clock()[0].admitted)
        return self.rollback_guard.read().admitted

    def record_admissions(self) -> None:
        """Write to the journal who was admitted, so that a restore forgets none of them."""
        if self.rollback_guard is None:
            return
        journal = Journal(self.rollback_guard.path, self.secrets)

        def write(seen: Seen) -> tuple[int, int]:
            with self.store.read_snapshot() as tx:
                admitted = int(records.deployment(tx).admitted)
                if seen.length and journal.reaches(seen.length):
                    return journal.append(seen.length, rows.admitted_rows(tx, seen.admitted)), admitted
                return journal.append(0, rows.kept_rows(tx)), admitted  # none yet, or lost: the store has all of it

        self.rollback_guard.record_admissions(write)

    def _record_full_rounds(self, admitted: int) -> None:
        """In the shuffle model, record the users of every round that has had all of them.

        A shuffler posts the batch of a round only after that. So a user who is in a batch that has left the shuffler
        is brought back by every restore, and is not admitted again.
        """
        if self.configuration.wire == "messages" and self.rollback_guard is not None:
            ends = self.configuration.schedule.ends[: self.releases]
            full = int(ends[ends <= admitted].max(initial=0))
            if self.recorded() < full:
                self.record_admissions()

    def finish(self) -> None:
        """End the last round; reports that come later are refused. Call it at a time that does not depend on reports.

        Raises:
          Refusal: not all K users have been admitted.
        """
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            if clock.admitted < self.users:
                raise Refusal("not-finished", f"{clock.admitted} of {self.users} users have been admitted")
            if not clock.finished:
                if clock.open_round < self.releases:
                    self._seal(tx, clock.open_round)
                records.change_deployment(tx, finished=True)
        # Apart from it: a submission holds its episode and waits for the round, so nobody may hold the round and wait
        # for episodes. One that comes between the two finds the deployment finished.
        with self.store.write() as tx:
            records.expire_before(tx, None)

    @abc.abstractmethod
    def advance(self) -> int:
        """Have every sealed round released and its plan published; says how many. Whoever has the agent does it."""

    # -- a store that is not what it was ------------------------------------------------------------------------------

    def _attested(self) -> bool:
        """Whether the store still has what the witness has seen; halts if not.

        The witness is read first: releases are committed before they are witnessed, so that a store which is asked
        afterwards has at least as many, also where other workers go on meanwhile.
        """
        if self.rollback_guard is None:
            return True
        seen = self.rollback_guard.read()
        with self.store.read() as tx:
            version = min(records.learner_version(tx), seen.releases)
            digest = records.digests(tx, version - 1, version).get(version - 1) if version else None
        try:
            require_same_past(seen, self.identity, version, digest)
        except RolledBack as problem:
            self.halt(str(problem))
            return False
        return True

    def halt(self, reason: str) -> None:
        """Learn and release nothing more, and say why; the last policy is served on. No restart undoes it."""
        LOG.critical("learning has stopped: %s", reason)
        with self.store.write() as tx:
            if records.deployment(tx, lock=True).halted is None:
                records.change_deployment(tx, halted=reason)
        if self.rollback_guard is not None:
            self.rollback_guard.halt(reason)

    def examine(self) -> None:
        """Open what is sealed and needed next: the sums of rounds that are not released, and the agent's state.

        Raises:
          Damaged: one of them does not open.
        """
        with self.store.read() as tx:
            current, rows = records.learner(tx), records.unreleased(tx)
        self.secrets.unseal(current.state, f"learner {current.version}")
        for row in rows:
            (self._closed_total if row.state == "sealed" else self._total)(row.number, row.total)

    def _total(self, number: int, sealed: bytes) -> np.ndarray:
        return self._array(self.secrets.unseal(sealed, f"round {number}"))

    def _array(self, content: bytes) -> np.ndarray:
        return np.frombuffer(content, np.int64).reshape(self.configuration.noise_scale.shape)

    # -- what is published --------------------------------------------------------------------------------------------

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
        if 0 <= version <= self.releases:
            with self.store.read() as tx:
                content = records.billboard(tx, version)
        if content is None:
            raise Refusal("not-found", f"version {version} has not been published")
        found = self.configuration.read_billboard(version, content)
        with self._boards_lock:
            found = self._boards.setdefault(version, found)
            if len(self._boards) > KEPT:
                self._boards.popitem(last=False)
        return found

    def remembers(self, version: int) -> bool:
        """Whether :meth:`billboard` answers without asking the store."""
        return version in self._boards

    def open_round(self) -> tuple[int, int | None]:
        """Number and reference of the round that takes reports; no reference if no more rounds are released.

        Raises:
          Refusal: the next round is being prepared, which takes as long as planning does.
        """
        with self.store.read() as tx:
            number = int(records.deployment(tx).open_round)
            row = records.round_of(tx, number)
        if row is not None and row.reference is None:
            raise Refusal("unavailable", "the next round is being prepared; try again")
        return number, None if row is None else int(row.reference)

    def clock(self) -> tuple[Any, int]:
        """The public clock's row, and the number of releases."""
        with self.store.read() as tx:
            return records.deployment(tx), records.learner_version(tx)


def _closed(number: int) -> str:
    """Where the sum of a sealed round is, once it has all of its noise."""
    return f"closed round {number}"
