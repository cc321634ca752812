"""The rounds of a deployment: opened, sealed, released, and what was published of them.

* A *sealed* round's sum is final. Rounds are sealed on admissions, never on reports. With a shuffler it is there once the
  round's batch is; later rounds wait for it up to its deadline (:mod:`reticent.service.batches`).
* *Release* draws the round's noise and stores what comes of it in one transaction; the noise itself is nowhere.
* *Publication* stores the plan, a function of releases; whoever comes first wins, and all workers serve what is stored.

Any worker may do any of it at any time, several at once, and be killed in the middle.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import logging
import threading
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from reticent.service import batches, chain, models
from reticent.service.billboards import Billboard
from reticent.service.canaries import Canaries
from reticent.service.journal import Journal
from reticent.service.mechanism import Mechanism
from reticent.service.refusals import Refusal
from reticent.service.secrets import Secrets
from reticent.service.storage import records, rows, tables
from reticent.service.storage.engine import Store
from reticent.service.witness import RolledBack, Seen, Witness, require_same_past

LOG = logging.getLogger("reticent.service")
KEPT = 64
"""Versions kept in a worker's memory."""


class Rounds:
    """The part of a deployment that does not meet users; see the module docstring."""

    def __init__(
        self, mechanism: Mechanism, store: Store, secrets: Secrets, witness: Witness | None = None, canaries: int = 0
    ) -> None:
        self.mechanism, self.store, self.secrets, self.witness = mechanism, store, secrets, witness
        self.canaries = Canaries(mechanism, canaries)
        self.identity = ""
        """Of the deployment, once it is set up."""
        self.restores = 0
        """How often its store was restored, once it is set up."""
        self.model_digest = models.fingerprint(mechanism.agent.model)
        self.sealed = threading.Event()
        """Set when this worker has sealed a round, for whoever plans in the background."""
        self._advancing = threading.Lock()
        self._boards: collections.OrderedDict[int, Billboard] = collections.OrderedDict()
        self._boards_lock = threading.Lock()

    @property
    def users(self) -> int:
        """K."""
        return int(self.mechanism.agent.schedule.episodes)

    @property
    def releases(self) -> int:
        return int(self.mechanism.agent.schedule.releases)

    # -- from open to sealed ------------------------------------------------------------------------------------------

    def _is_full(self, number: int, admitted: int) -> bool:
        """Whether a round has had all its users, and is one that is released: a matter of public numbers."""
        return bool(number < self.releases and admitted >= self.mechanism.agent.schedule.ends[number])

    def _seal(self, tx: Connection, number: int) -> None:
        """End the open round and open the next; the caller holds the deployment's lock."""
        records.seal_round(tx, number)
        if number + 1 < self.releases:
            self._open_round(tx, number + 1)
        records.change_deployment(tx, open_round=number + 1)

    def _open_round(self, tx: Connection, number: int) -> None:
        total = self.secrets.seal(self.mechanism.first_sum().tobytes(), f"round {number}")
        records.insert_new(tx, tables.ROUNDS, number=number, state="open", reference=None, total=total)

    def _end_full_round(self) -> None:
        """Inline planning: the round ends and its plan is published before the next user is admitted."""
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            if self._is_full(clock.open_round, clock.admitted):
                self._seal(tx, clock.open_round)
        self.advance()

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

    # -- from sealed to published -------------------------------------------------------------------------------------

    def advance(self) -> int:
        """Release every sealed round and publish its plan, in order; says how many. Any worker may, at any time."""
        done = 0
        with self._advancing:
            self.sealed.clear()
            while True:
                with self.store.read() as tx:
                    version, clock = records.learner_version(tx), records.deployment(tx)
                    published = clock.served_version >= version
                    row = records.round_of(tx, version) if version < self.releases else None
                    complete = row is None or not self._awaits_batch(tx, version, clock)
                if clock.halted is not None or not self._attested():
                    return done
                if not published and not self._publish(version):
                    return done
                if row is None or row.state != "sealed" or not complete:
                    return done
                self._release(version)
                done += 1

    def _awaits_batch(self, tx: Connection, number: int, clock: Any) -> bool:
        """Whether a round's batch may still come. ``clock`` was read before, so no batch is taken after a no."""
        if self.mechanism.wire != "messages" or batches.overdue(self.mechanism.batches, number, clock):
            return False
        return records.batch_of(tx, number) is None

    def _attested(self) -> bool:
        """Whether the store still has what the witness has seen; halts if not.

        The witness is read first: releases are committed before they are witnessed, so that a store which is asked
        afterwards has at least as many, also where other workers go on meanwhile.
        """
        if self.witness is None:
            return True
        seen = self.witness.read()
        with self.store.read() as tx:
            version = min(records.learner_version(tx), seen.releases)
            digest = records.digests(tx, version - 1, version).get(version - 1) if version else None
        try:
            require_same_past(seen, self.identity, version, digest)
        except RolledBack as problem:
            self.halt(str(problem))
            return False
        return True

    def _witnessed(self, version: int, digest: str, board: bytes, entry: dict[str, str]) -> bool:
        """Have a release noted that is about to be published; halts if there was another one in its place.

        Nothing is public that the witness has not seen, and a round that it has seen is not released again.
        """
        if self.witness is None:
            return True
        journal = Journal(self.witness.path, self.secrets)

        def write(seen: Seen) -> tuple[int, int]:
            length, first, user = seen.length, seen.releases, seen.admitted
            if not length or not journal.reaches(length):  # none yet, or lost: the store has all of it
                length, first, user = 0, 0, 0
            plan = rows.row_of(tables.BILLBOARDS, version=version, content=board)
            link = rows.row_of(tables.CHAIN, version=version, **entry)
            with self.store.read_snapshot() as tx:
                admitted = int(records.deployment(tx).admitted)
                parts = itertools.chain(rows.kept_rows(tx, first, user), (plan, link))
                return journal.append(length, parts), admitted

        try:
            self.witness.record(self.identity, version, digest, write)
        except RolledBack:
            return self._attested()  # another worker may have been faster and further
        return True

    def halt(self, reason: str) -> None:
        """Learn and release nothing more, and say why; the last policy is served on. No restart undoes it."""
        LOG.critical("learning has stopped: %s", reason)
        with self.store.write() as tx:
            if records.deployment(tx, lock=True).halted is None:
                records.change_deployment(tx, halted=reason)
        if self.witness is not None:
            self.witness.halt(reason)

    def _release(self, number: int) -> None:
        served, reference = self._acted_by(number)
        noise = self.mechanism.round_noise()  # takes its time, so before the locks; thrown away unless it is stored
        canaries = self.canaries.release()  # likewise
        with self.store.write() as tx:
            row = records.round_of(tx, number, lock=True)
            current = records.learner(tx, lock=True)
            if row.state != "sealed" or current.version != number:
                return  # another worker was faster
            state = self._state(current)
            total = self._total(number, row.total)
            lost = self.mechanism.wire == "messages" and not records.has_batch(tx, number)
            if lost:
                LOG.warning("round %d is released without a batch: none came in time", number)
                total = batches.dummies_alone(self.mechanism.batches, number)
            closed, release = self.mechanism.close(number, state, served, total, noise, reference, lost)
            content = np.ascontiguousarray(release, "<f8").tobytes()
            sealed = self.secrets.seal(self.mechanism.to_bytes(closed), f"learner {number + 1}")
            records.release_round(tx, number, content, hashlib.sha256(content).hexdigest(), sealed)
            self.canaries.note(tx, number, canaries)

    def _acted_by(self, number: int) -> tuple[Billboard, Billboard | None]:
        """The plan that a sealed round's users acted by, and that which their contributions refer to: public numbers.

        Where contributions do not depend on the round that counts them, the plan made for the round and nothing else.
        """
        if not self.mechanism.formed_when_counted:
            return self.billboard(number), None
        ends = self.mechanism.agent.schedule.ends
        with self.store.read() as tx:
            reference = records.round_of(tx, number).reference
            counts = records.versions_served(tx, int(ends[number - 1]) if number else 0, int(ends[number]))
        most = max(counts, key=lambda version: (counts[version], version))
        return self.billboard(most), self.billboard(reference)

    def _publish(self, version: int) -> bool:
        """Publish the plan after ``version`` releases, once it is witnessed; False if it must not be."""
        with self.store.read() as tx:
            current = records.learner(tx)
        if current.version == version:
            board = self.mechanism.billboard(version, self._state(current))
            with self.store.read() as tx:
                before = records.chain(tx, version - 1, version)[0].hash
                release = records.digests(tx, version - 1, version)[version - 1]
            entry, content = self._entry(board, before, release), board.to_bytes()
            if not self._witnessed(version, release, content, entry):
                return False
            with self.store.write() as tx:
                records.publish(tx, version, content, entry)
        return True

    def _entry(self, board: Billboard, previous: str | None, release: str | None) -> dict[str, str]:
        """The chain's entry of a billboard; see :mod:`reticent.service.chain`."""
        guarantee, version = self.mechanism.guarantee, board.version
        mu_squared, spent = self.mechanism.spent(version)
        served = board.to_json(final=version >= self.releases, model=self.model_digest)
        entry: dict[str, Any] = {
            "deployment": self.identity, "version": version, "previous": previous, "release": release,
            "users": int(guarantee.ledger.round_ends[version - 1]) if version else 0,
            "billboard": chain.billboard_digest(served), "mu_squared": mu_squared, "epsilon": spent,
            "exposure": float(guarantee.ledger.exposure[version - 1]) if version else 0.0,
        }  # fmt: skip
        if version == 0:
            entry["promise"] = {
                "public_key": self.secrets.public_key, "sentence": guarantee.sentence(), "epsilon": guarantee.epsilon,
                "delta": guarantee.delta, "adjacency": guarantee.adjacency, "trust": guarantee.trust.name,
                "contributions": guarantee.contributions, "law": guarantee.ledger.account.law,
                "releases": self.releases, "model": self.model_digest,
                "shares": [dataclasses.asdict(share) for share in guarantee.ledger.shares],
            }  # fmt: skip
        return chain.signed(entry, self.secrets.sign_entry)

    def examine(self) -> None:
        """Open what is sealed and needed next: the sums of rounds that are not released, and the agent's state.

        Raises:
          Damaged: one of them does not open.
        """
        with self.store.read() as tx:
            current, rows = records.learner(tx), records.unreleased(tx)
        self.secrets.unseal(current.state, f"learner {current.version}")
        for row in rows:
            self.secrets.unseal(row.total, f"round {row.number}")

    def _state(self, row: Any) -> Any:
        return self.mechanism.from_bytes(self.secrets.unseal(row.state, f"learner {row.version}"))

    def _total(self, number: int, sealed: bytes) -> np.ndarray:
        content = self.secrets.unseal(sealed, f"round {number}")
        return np.frombuffer(content, np.int64).reshape(self.mechanism.noise_scale.shape)

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
        found = self.mechanism.read_billboard(version, content)
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
