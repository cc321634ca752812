# SPDX-License-Identifier: Apache-2.0
"""``reticent agents``: which agents there are."""

from __future__ import annotations

from typing import Annotated

import typer


def agents(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False) -> None:
    """List the agents, with their options."""
    from reticent.agents import agent_rows
    from reticent.cli.output import print_json

    rows = agent_rows()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        print("    options: " + ", ".join(f"{key}={value}" for key, value in row["options"].items()))
    print("\nOptions go into the name, such as ucrl-vtr:bonus_scale=0.3; shown are the defaults.")
