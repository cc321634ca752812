# SPDX-License-Identifier: Apache-2.0
"""``reticent restore``: a deployment's store put back, at no cost in privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import Config, Dev, Json


def restore(
    config: Config,
    backup: Annotated[
        Path | None,
        typer.Argument(help="A file of `reticent backup`; without, the journal must reach back to the start."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of what the database holds, which is destroyed.")
    ] = False,
    policy_only: Annotated[
        bool,
        typer.Option(
            "--policy-only", help="Without rollback guard or journal: serve the backup's policy, learn nothing more."
        ),
    ] = False,
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """Put a deployment's store back from a backup and the journal beside its rollback guard. Stop every worker first.

    Everything that was published is there again, and every user who may be in it; nothing is released twice. The sums of
    rounds that were not released begin again from nothing: their contributions are lost, and cost no user anything.
    """
    from reticent.cli.output import note, print_json
    from reticent.cli.store import chosen

    settings = chosen(config, dev, "reticent restore")
    from reticent.service.durability.restore import restore as put_back
    from reticent.service.http import app

    deployment = app.unopened_deployment(settings)
    try:
        found = put_back(deployment, backup, replace=replace, policy_only=policy_only)
    finally:
        deployment.store.close()
    if as_json:
        import dataclasses

        print_json(dataclasses.asdict(found))
        return
    print(f"deployment {found.deployment}: {found.releases} releases, {found.admitted} users")
    if found.rounds_lost:
        note(
            f"{found.rounds_lost} round(s) that were not released begin again from nothing; no user's budget is touched"
        )
    if not found.learning:
        note("the policy can be served; nothing is learned any more")
