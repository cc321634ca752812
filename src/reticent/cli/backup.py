# SPDX-License-Identifier: Apache-2.0
"""``reticent backup``: a deployment's store in one sealed file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import Config, Dev, Json


def backup(
    config: Config,
    out: Annotated[Path, typer.Option(help="The file to write; nothing is overwritten.")],
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """Write the store of a deployment, as of one moment, to a sealed file. The service may be running.

    It holds what was released and published and who came, under RETICENT_USER_SECRET; no sum of a round that was not
    released. `reticent restore` puts it back, and needs the rollback guard and its journal: keep those on another disk.
    """
    from reticent.cli.store import opened_store
    from reticent.service.durability.backup import back_up

    with opened_store(config, dev, "reticent backup") as (settings, store, secrets):
        from reticent.service.durability.rollback_guard import RollbackGuard

        restores = RollbackGuard(settings.rollback_guard_file, secrets).read().restores
        made = back_up(store, secrets, out, restores=restores)
    found = {
        "file": str(out),
        "deployment": made.deployment,
        "releases": made.releases,
        "admitted": made.admitted,
        "bytes": out.stat().st_size,
    }
    if as_json:
        from reticent.cli.output import print_json

        print_json(found)
    else:
        print(f"{out}: deployment {made.deployment}, {made.releases} releases, {made.admitted} users")
