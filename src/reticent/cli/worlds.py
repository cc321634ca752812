"""``reticent worlds``: which worlds there are."""

from __future__ import annotations

from typing import Annotated, Any

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
                *(_number(row[key], "d") for key in ("states", "actions", "horizon", "d1", "d2")),
                *(_number(row[key], ".3f") for key in ("optimal_value", "uniform_value")),
            )
            for row in rows
        ],
    )
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        if row["needs"]:
            print(f"    needs: {row['needs']}")
        print("    options: " + ", ".join(f"{key}={value}" for key, value in row["options"].items()))
    print("\nOptions go into the name, such as riverswim:states=4.")


def _number(value: Any, form: str) -> str:
    """A number as it is listed; a dash for a world whose optional package is missing."""
    return "–" if value is None else format(value, form)
