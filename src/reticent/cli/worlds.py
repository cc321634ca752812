"""``reticent worlds``: which worlds there are."""

from __future__ import annotations

from typing import Annotated

import typer


def worlds(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False) -> None:
    """List the worlds, with their sizes and values."""
    from reticent.cli.output import print_json, print_table
    from reticent.worlds import world_rows

    rows = world_rows()
    if as_json:
        print_json(rows)
        return
    print_table(
        ("world", "states", "actions", "horizon", "d1", "d2", "optimal", "uniform"),
        [
            (
                row["name"],
                *(str(row[key]) for key in ("states", "actions", "horizon", "d1", "d2")),
                f"{row['optimal_value']:.3f}",
                f"{row['uniform_value']:.3f}",
            )
            for row in rows
        ],
    )
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        print("    options: " + ", ".join(f"{key}={value}" for key, value in row["options"].items()))
    print("\nOptions go into the name, such as riverswim:states=4.")
