# SPDX-License-Identifier: Apache-2.0
"""``reticent migrate``: a store of an earlier layout brought up to the present one."""

from __future__ import annotations

from reticent.cli.options import Config, Dev, Json


def migrate(
    config: Config,
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """Bring a deployment's store up to this version's layout. Stop every worker first, and take a backup with them.

    One transaction: afterwards the store is of the new layout, or unchanged. The journal is written anew.
    """
    from reticent.cli.store import opened_store

    with opened_store(config, dev, "reticent migrate") as (settings, store, secrets):
        from reticent.service.durability.journal import rewrite_journal
        from reticent.service.durability.rollback_guard import RollbackGuard
        from reticent.service.store.migrations import migrate as bring_up

        rollback_guard = RollbackGuard(settings.rollback_guard_file, secrets)
        rollback_guard.read()
        before, now = bring_up(store)
        if before != now:
            rewrite_journal(rollback_guard, store, secrets)
    if as_json:
        from reticent.cli.output import print_json

        print_json({"before": before, "now": now})
        return
    print(f"layout {now}" if before == now else f"layout {before} became {now}")
