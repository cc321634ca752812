# SPDX-License-Identifier: Apache-2.0
"""Whether the store is what it was: compared with the rollback guard, and halted if it is not."""

from __future__ import annotations

import logging

from reticent.service.durability.rollback_guard import RolledBack, require_same_past
from reticent.service.rounds.context import AnyContext
from reticent.service.store import records

LOG = logging.getLogger("reticent.service")


def attested(context: AnyContext) -> bool:
    """Whether the store still has what the rollback guard has seen; halts if not.

    The guard is read first: releases are committed before the guard records them, so that a store which is asked afterwards
    has at least as many, also where other workers go on meanwhile.
    """
    if context.rollback_guard is None:
        return True
    seen = context.rollback_guard.read()
    with context.store.read() as tx:
        version = min(records.learner_version(tx), seen.releases)
        digest = records.digests(tx, version - 1, version).get(version - 1) if version else None
    try:
        require_same_past(seen, context.identity, version, digest)
    except RolledBack as problem:
        halt(context, str(problem))
        return False
    return True


def halt(context: AnyContext, reason: str) -> None:
    """Learn and release nothing more, and say why; the last policy is served on. No restart undoes it."""
    LOG.critical("learning has stopped: %s", reason)
    with context.store.write() as tx:
        if records.deployment(tx, lock=True).halted is None:
            records.change_deployment(tx, halted=reason)
    if context.rollback_guard is not None:
        context.rollback_guard.halt(reason)


def examine(context: AnyContext) -> None:
    """Decrypt what is needed next: the sums of rounds that are not released, and the agent's state.

    Raises:
      Damaged: one of them cannot be decrypted.
    """
    with context.store.read() as tx:
        current, rows = records.learner(tx), records.unreleased(tx)
    context.secrets.unseal(current.state, f"learner {current.version}")
    for row in rows:
        (context.closed_total if row.state == "sealed" else context.total)(row.number, row.total)
