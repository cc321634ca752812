# SPDX-License-Identifier: Apache-2.0
"""From sealed to published: where rounds are released and plans made. The part of a deployment that needs the agent.

* *Release* draws the round's noise and stores what comes of it in one transaction; the noise itself is nowhere. With a
  shuffler a sealed round waits for its batch, up to a deadline (:mod:`reticent.service.rounds.batches`).
* *Publication* stores the plan, a function of releases; the first process wins, and all workers serve what is stored.

Any process may do any of it at any time, several at once, and be killed in the middle: each step is a transaction that
checks under the row's lock whether it is still to be done.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import logging
import threading
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from reticent.learning.control import ControlPlaces
from reticent.service.billboards import Billboard
from reticent.service.durability import ledger_chain
from reticent.service.durability.journal import Journal
from reticent.service.durability.rollback_guard import RolledBack, Seen
from reticent.service.mechanism import Mechanism
from reticent.service.rounds import batches
from reticent.service.rounds.canaries import Canaries
from reticent.service.rounds.context import Context
from reticent.service.rounds.integrity import attested
from reticent.service.rounds.recorded_admissions import record_full_rounds
from reticent.service.store import records, rows, tables
from reticent_wire.boundary import Clipped

LOG = logging.getLogger("reticent.service")


class Releases:
    """Releases sealed rounds and publishes plans; see the module docstring.

    Attributes:
      mechanism: the deployment's configuration, with its agent.
      canaries: canary rounds without data, released with each round.
    """

    def __init__(self, context: Context[Mechanism]) -> None:
        self.context, self.mechanism = context, context.configuration
        self.canaries = Canaries(self.mechanism, context.canaries)
        self._advancing = threading.Lock()
        self._rehearsed: set[tuple[bool, bool]] = set()

    def advance(self) -> int:
        """Release every sealed round and publish its plan, in order; says how many. Any worker may, at any time."""
        done = 0
        with self._advancing:
            self.context.sealed.clear()
            while True:
                with self.context.store.read() as tx:
                    version, clock = records.learner_version(tx), records.deployment(tx)
                    published = clock.served_version >= version
                    row = records.round_of(tx, version) if version < self.context.releases else None
                    complete = row is None or not self._awaits_batch(tx, version, clock)
                if clock.halted is not None or not attested(self.context):
                    return done
                record_full_rounds(self.context, int(clock.admitted))
                if not published and not self._publish(version):
                    return done
                if row is None or row.state != "sealed" or not complete:
                    return done
                self._release(version)
                self.context.released.set()
                done += 1

    def warm_up(self) -> None:
        """Have the programs compiled that the next release and its plan need, before users come."""
        with self.context.store.read() as tx:
            current, clock = records.learner(tx), records.deployment(tx)
        number = int(current.version)
        if number >= self.context.releases or clock.halted is not None:
            return
        self.mechanism.billboard(number, self._state(current))
        if clock.served_version != number:
            return
        board = self.context.plans.billboard(number)
        if not self.context.configuration.formed_when_counted:
            self._rehearse(number, board, None, None)
            return
        # Rounds whose users all acted by their own plan, and those of users who came faster than it was made.
        for reference in (board, dataclasses.replace(board, version=number + 1)):
            self._rehearse(number, board, reference, None)
        control = self.context.control_places(number)
        if control is not None:
            self._rehearse(number, board, board, (board, control))

    def _awaits_batch(self, tx: Connection, number: int, clock: Any) -> bool:
        """Whether a round's batch may still come. ``clock`` was read before, so no batch is taken after a no."""
        if self.context.configuration.wire != "messages" or batches.overdue(
            self.context.configuration.batches, number, clock
        ):
            return False
        return records.batch_of(tx, number) is None

    def _recorded(self, version: int, digest: str, board: bytes, entry: dict[str, str]) -> bool:
        """Have a release noted that is about to be published; halts if there was another one in its place.

        Nothing is public that the rollback guard has not seen, and a round that it has seen is not released again.
        """
        if self.context.rollback_guard is None:
            return True
        journal = Journal(self.context.rollback_guard.path, self.context.secrets)

        def write(seen: Seen) -> tuple[int, int]:
            length, first, user = seen.length, seen.releases, seen.admitted
            if not length or not journal.reaches(length):  # none yet, or lost: the store has all of it
                length, first, user = 0, 0, 0
            plan = rows.row_of(tables.BILLBOARDS, version=version, content=board)
            link = rows.row_of(tables.CHAIN, version=version, **entry)
            with self.context.store.read_snapshot() as tx:
                admitted = int(records.deployment(tx).admitted)
                parts = itertools.chain(rows.kept_rows(tx, first, user), (plan, link))
                return journal.append(length, parts), admitted

        try:
            self.context.rollback_guard.record(self.context.identity, version, digest, write)
        except RolledBack:
            return attested(self.context)  # another worker may have been faster and further
        return True

    def _release(self, number: int) -> None:
        served, reference = self._acted_by(number)
        control = None if reference is None else self._control_group(number, served)
        noise = self.mechanism.round_noise()  # takes its time, so before the locks; thrown away unless it is stored
        self._rehearse(number, served, reference, control)  # likewise
        canaries = self.canaries.release()  # likewise
        with self.context.store.write() as tx:
            row = records.round_of(tx, number, lock=True)
            current = records.learner(tx, lock=True)
            if row.state != "sealed" or current.version != number:
                return  # another worker was faster
            state = self._state(current)
            total = self.context.closed_total(number, row.total)
            lost = self.context.configuration.wire == "messages" and not records.has_batch(tx, number)
            if lost:
                LOG.warning("round %d is released without a batch: none came in time", number)
                total = Clipped(batches.dummies_alone(self.context.configuration.batches, number))
            closed, release = total.release(
                lambda exact: self.mechanism.close(number, state, served, exact, noise, reference, lost, control)
            ).value
            content = np.ascontiguousarray(release, "<f8").tobytes()
            sealed = self.context.secrets.seal(self.mechanism.to_bytes(closed), f"learner {number + 1}")
            records.release_round(tx, number, content, hashlib.sha256(content).hexdigest(), sealed)
            self.canaries.note(tx, number, canaries)

    def _rehearse(
        self,
        number: int,
        served: Billboard,
        reference: Billboard | None,
        control: tuple[Billboard, ControlPlaces] | None,
    ) -> None:
        """Have programs compiled before the first round of a kind is released: users would wait for the locks meanwhile."""
        controls = control is not None
        kind = self.mechanism.is_referred(number, served, reference, controls), controls
        if kind in self._rehearsed:
            return
        with self.context.store.read() as tx:
            current = records.learner(tx)
        if current.version == number:  # else another worker was faster
            self.mechanism.rehearse(number, self._state(current), served, reference, control)
            self._rehearsed.add(kind)

    def _acted_by(self, number: int) -> tuple[Billboard, Billboard | None]:
        """The plan that a sealed round's users acted by, but for controls, and that which their contributions refer to:
        public numbers.

        Where contributions do not depend on the round that counts them, the plan made for the round and nothing else.
        """
        if not self.context.configuration.formed_when_counted:
            return self.context.plans.billboard(number), None
        ends = self.context.configuration.schedule.ends
        with self.context.store.read() as tx:
            reference = records.round_of(tx, number).reference
            counts = records.versions_served(tx, int(ends[number - 1]) if number else 0, int(ends[number]))
        controls = self.context.control_places(number)
        if self.context.control is not None and controls is not None:
            counts[self.context.control.version] = counts.get(self.context.control.version, 0) - controls.controls
        counts = {version: users for version, users in counts.items() if users > 0}
        most = max(counts, key=lambda version: (counts[version], version), default=int(reference))
        return self.context.plans.billboard(most), self.context.plans.billboard(reference)

    def _control_group(self, number: int, served: Billboard) -> tuple[Billboard, ControlPlaces] | None:
        """The plan that a round's controls acted by, and where they are; None if it has none, or all acted by one plan."""
        controls = self.context.control_places(number)
        if (
            self.context.control is None
            or controls is None
            or not controls.controls
            or served.version == self.context.control.version
        ):
            return None
        return self.context.plans.billboard(self.context.control.version), controls

    def _publish(self, version: int) -> bool:
        """Publish the plan after ``version`` releases, once it is recorded; False if it must not be."""
        with self.context.store.read() as tx:
            current = records.learner(tx)
        if current.version == version:
            board = self.mechanism.billboard(version, self._state(current))
            with self.context.store.read() as tx:
                before = records.chain(tx, version - 1, version)[0].hash
                release = records.digests(tx, version - 1, version)[version - 1]
            entry, content = self.entry(board, before, release), board.to_bytes()
            if not self._recorded(version, release, content, entry):
                return False
            with self.context.store.write() as tx:
                records.publish(tx, version, content, entry)
        return True

    def entry(self, board: Billboard, previous: str | None, release: str | None) -> dict[str, str]:
        """The chain's entry of a billboard; see :mod:`reticent.service.durability.ledger_chain`."""
        guarantee, version = self.mechanism.guarantee, board.version
        mu_squared, spent = self.context.configuration.spent(version)
        served = board.to_json(final=version >= self.context.releases, model=self.context.configuration.model_digest)
        entry: dict[str, Any] = {
            "deployment": self.context.identity, "version": version, "previous": previous, "release": release,
            "users": int(guarantee.ledger.round_ends[version - 1]) if version else 0,
            "billboard": ledger_chain.billboard_digest(served), "mu_squared": mu_squared, "epsilon": spent,
            "exposure": float(guarantee.ledger.exposure[version - 1]) if version else 0.0,
        }  # fmt: skip
        if version == 0:
            entry["promise"] = {
                "public_key": self.context.secrets.public_key, "sentence": guarantee.sentence(),
                "epsilon": guarantee.epsilon, "delta": guarantee.delta, "adjacency": guarantee.adjacency,
                "trust": guarantee.trust.name,
                "contributions": guarantee.contributions, "law": guarantee.ledger.account.law,
                "draws": getattr(guarantee.ledger.account, "draws", 0),
                "releases": self.context.releases, "model": self.context.configuration.model_digest,
                "shares": [dataclasses.asdict(share) for share in guarantee.ledger.shares],
            }  # fmt: skip
        return ledger_chain.signed(entry, self.context.secrets.sign_entry)

    def _state(self, row: Any) -> Any:
        return self.mechanism.from_bytes(self.context.secrets.unseal(row.state, f"learner {row.version}"))
