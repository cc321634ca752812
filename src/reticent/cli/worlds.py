# SPDX-License-Identifier: Apache-2.0
"""``reticent worlds``: which worlds there are, and all about one of them."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

SHOWN = 40
"""How many labels are listed before the rest is counted."""


def worlds(
    world: Annotated[
        str | None, typer.Argument(help="All about this one, such as riverswim:states=4.", show_default="a list of all")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="List optimal and uniform values too, which takes a while.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects, or one object.")] = False,
) -> None:
    """List the worlds with their sizes, or say all about one: values, and what its states and actions are called."""
    from reticent.cli.output import print_json
    from reticent.worlds.registry import world_rows, world_sheet

    if world is not None:
        sheet = world_sheet(world)
        print_json(sheet) if as_json else print_sheet(sheet)
        return
    rows = world_rows(values=values)
    if as_json:
        print_json(rows)
    else:
        print_list(rows, values)


def print_list(rows: list[dict[str, Any]], values: bool) -> None:
    """A table of all worlds, then what each is and its options."""
    from reticent.cli.output import print_table

    sizes = ("states", "actions", "horizon", "d1", "d2")
    print_table(
        ("world", *sizes, "users", *(("optimal", "uniform") if values else ())),
        [
            (
                row["name"],
                *(_number(row[key], "d") for key in sizes),
                _number(row["default_episodes"], ",d"),
                *(_number(row[key], ".3f") for key in ("optimal_value", "uniform_value") if values),
            )
            for row in rows
        ],
    )
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        if row["needs"]:
            print(f"    needs: {row['needs']}")
        print("    options: " + ", ".join(f"{key}={value}" for key, value in row["options"].items()))
    print(
        "\nOptions go into the name, such as riverswim:states=4. One world, with its values and the names of its states"
    )
    print("and actions: reticent worlds NAME. All values: reticent worlds --values.")


def print_sheet(sheet: dict[str, Any]) -> None:
    """All about one world."""
    lost = sheet["optimal_value"] - sheet["uniform_value"]
    print(f"{sheet['name']}\n\n{sheet['description']}\n")
    print(
        f"{sheet['states']} states, {sheet['actions']} actions, {sheet['horizon']} steps, d1 = {sheet['d1']}, "
        f"d2 = {sheet['d2']}; a run meets {sheet['default_episodes']:,} users"
    )
    print(
        f"optimal value {sheet['optimal_value']:.4f}, uniform {sheet['uniform_value']:.4f}: "
        f"acting at random loses {lost:.4f} per user"
    )
    if sheet["names"] is None:
        print("states and actions have numbers only")
    else:
        for what in ("actions", "states"):
            print(_wrapped(f"{what}: {_some(sheet['names'][what])}"))
    print(_wrapped("options: " + ", ".join(f"{key}={value}" for key, value in sheet["options"].items())))


def _some(labels: list[str]) -> str:
    """The first labels, and how many there are."""
    return "; ".join(labels[:SHOWN]) + (f" … ({len(labels)} in all)" if len(labels) > SHOWN else "")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, width=110, subsequent_indent="    ", break_on_hyphens=False)


def _number(value: object, form: str) -> str:
    """A number as it is listed; a dash for a world whose optional package is missing."""
    return "–" if value is None else format(value, form)
