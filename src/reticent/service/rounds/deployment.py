# SPDX-License-Identifier: Apache-2.0
"""The durable agent: the protocol of docs/delays.md, each of whose steps is one short transaction.

* *Admission* (:mod:`reticent.service.rounds.admit`) counts a user, seals the open round if it has had all its users, and
  pins the newest published version, or version 0 at a control's place. Users who come together are admitted together.
* *Submission* (:mod:`reticent.service.rounds.submit`) marks the episode and adds its statistics to the open round, both or
  neither. With a shuffler nothing is submitted there: a sealed round gets one *batch*.
* *Release* and *publication* are in :mod:`reticent.service.rounds.release`.

Formal guarantee (docs/service.md). Whatever crashes, retries and interleavings there are, the published releases are
distributed as those of :class:`reticent.service.embedded.DeployedAgent` with the same arrivals, each round's noise enters
one release and is drawn once, and a user's episode enters at most one round. Which version a user is served depends on
admissions and on how long planning takes, both public.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import Connection

from reticent.learning.control import Control
from reticent.service.billboards import Billboard
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.mechanism import Mechanism
from reticent.service.rounds.canaries import Canaries
from reticent.service.rounds.diagnostics import diagnostics
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.release import Releases
from reticent.service.secrets import Secrets
from reticent.service.store import records, tables
from reticent.service.store.engine import Store


class Deployment(Frontend, Releases):
    """One deployment as one process sees it that has the agent; everything that matters is in the store."""

    def __init__(
        self,
        mechanism: Mechanism,
        store: Store,
        secrets: Secrets,
        *,
        inline: bool = False,
        ticket_lifetime: float = 86_400.0,
        finish_after: float = 604_800.0,
        rollback_guard: RollbackGuard | None = None,
        canaries: int = 0,
        shadow: bool = False,
        control: Control | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            mechanism, store, secrets, inline=inline, ticket_lifetime=ticket_lifetime, finish_after=finish_after,
            rollback_guard=rollback_guard, canaries=canaries, shadow=shadow, control=control, clock=clock, steady=steady,
        )  # fmt: skip
        self.mechanism, self.canaries = mechanism, Canaries(mechanism, canaries)
        self._advancing = threading.Lock()
        self._rehearsed = set()

    def set_up(self, *, begin: bool = True) -> None:
        """Check that the store is this deployment's; with ``begin``, begin the deployment if the store is empty.

        Raises:
          InvalidInput: the store is empty or belongs to another model, promise or secret, or there is a witness of another
            one; nothing was changed.
        """
        found = self._stored()
        self._adopt(self._create() if found is None and begin else found)

    def _create(self) -> Any:
        """Begin the deployment; another worker may be faster."""
        state = self.mechanism.agent.init()
        first = self.mechanism.billboard(0, state)
        self.store.create_tables()
        with self.store.write() as tx:
            self.store.lock_setup(tx)
            found = records.deployment(tx)
            if found is not None:
                return found
            self.identity = uuid.uuid4().hex
            if self.rollback_guard is not None:
                self.rollback_guard.begin(self.identity)
            self.secrets = self.secrets.of(self.identity)
            self._begin(tx, state, first)
            return records.deployment(tx)

    def _begin(self, tx: Connection, state: Any, first: Billboard) -> None:
        sealed = self.secrets.seal(self.mechanism.to_bytes(state), "learner 0")
        records.insert_new(tx, tables.LEARNER, id=records.ONLY, version=0, state=sealed)
        records.insert_new(tx, tables.BILLBOARDS, version=0, content=first.to_bytes())
        records.insert_new(tx, tables.CHAIN, version=0, **self._entry(first, None, None))
        self._open_round(tx, 0)
        records.set_reference(tx, 0, 0)
        records.insert_new(
            tx, tables.DEPLOYMENT, id=records.ONLY, format=tables.FORMAT, identity=self.identity,
            facts=json.dumps(self.facts()), key_check=self.secrets.seal(b"", "key check"), admitted=0, open_round=0,
            served_version=0, waited=0.0, ticked_at=0.0, finished=False, halted=None,
            fallback=0 if self.shadow else None,
        )  # fmt: skip

    def diagnostics(self, version: int) -> dict[str, Any]:
        return diagnostics(self, version)

    def watched(self) -> dict[str, Any] | None:
        with self.store.read() as tx:
            return self.canaries.status(tx)
