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
import uuid
from typing import Any

from sqlalchemy.engine import Connection

from reticent.service.billboards import Billboard
from reticent.service.mechanism import Mechanism
from reticent.service.rounds import set_up
from reticent.service.rounds.context import Context
from reticent.service.rounds.diagnostics import diagnostics
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.release import Releases
from reticent.service.store import records, tables


class LocalPlanner:
    """The planner in the process that has the agent."""

    def __init__(self, context: Context[Mechanism]) -> None:
        self.context, self.releases = context, Releases(context)
        self.advance, self.warm_up = self.releases.advance, self.releases.warm_up

    def diagnostics(self, version: int) -> dict[str, Any]:
        return diagnostics(self.context, version)

    def canary_status(self) -> dict[str, Any] | None:
        with self.context.store.read() as tx:
            return self.releases.canaries.status(tx)


class Deployment(Frontend):
    """One deployment as one process sees it that has the agent; everything that matters is in the store."""

    planner: LocalPlanner

    def __init__(self, context: Context[Mechanism]) -> None:
        super().__init__(context, LocalPlanner(context))
        self.mechanism = context.configuration

    def set_up(self, *, begin: bool = True) -> None:
        """Check that the store is this deployment's; with ``begin``, begin the deployment if the store is empty.

        Raises:
          InvalidInput: the store is empty or belongs to another model, promise or secret, or the rollback guard is of
            another deployment; nothing was changed.
        """
        found = set_up.stored(self.context)
        set_up.adopt(self.context, self._create() if found is None and begin else found)

    def _create(self) -> Any:
        """Begin the deployment; another worker may be faster."""
        context, state = self.context, self.mechanism.agent.init()
        first = self.mechanism.billboard(0, state)
        context.store.create_tables()
        with context.store.write() as tx:
            context.store.lock_setup(tx)
            found = records.deployment(tx)
            if found is not None:
                return found
            context.identity = uuid.uuid4().hex
            if context.rollback_guard is not None:
                context.rollback_guard.begin(context.identity)
            context.secrets = context.secrets.of(context.identity)
            self._begin(tx, state, first)
            return records.deployment(tx)

    def _begin(self, tx: Connection, state: Any, first: Billboard) -> None:
        context = self.context
        sealed = context.secrets.seal(self.mechanism.to_bytes(state), "learner 0")
        records.insert_new(tx, tables.LEARNER, id=records.ONLY, version=0, state=sealed)
        records.insert_new(tx, tables.BILLBOARDS, version=0, content=first.to_bytes())
        records.insert_new(tx, tables.CHAIN, version=0, **self.planner.releases.entry(first, None, None))
        self.closing.open_round(tx, 0)
        records.set_reference(tx, 0, 0)
        records.insert_new(
            tx, tables.DEPLOYMENT, id=records.ONLY, format=tables.FORMAT, identity=context.identity,
            facts=json.dumps(set_up.facts(context)), key_check=context.secrets.seal(b"", "key check"), admitted=0,
            open_round=0, served_version=0, waited=0.0, ticked_at=0.0, finished=False, halted=None,
            fallback=0 if context.shadow else None,
        )  # fmt: skip
