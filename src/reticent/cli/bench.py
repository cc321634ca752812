# SPDX-License-Identifier: Apache-2.0
"""``reticent bench``: how fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import Json


def bench(
    seeds: Annotated[
        int | None, typer.Option(help="How many learners run side by side.", show_default="64; 8192 on a GPU")
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="Number of users K.", show_default="20000")] = None,
    world: Annotated[
        str | None, typer.Option(help="The world.", show_default="random-blend, S=20, A=4, H=5, d=4")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="A further agent to time, such as ucrl-vtr; repeat for more.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Measurements of each row; the median counts.")] = 3,
    precision: Annotated[
        str | None, typer.Option(help="Of the learners: float64, or float32 on a GPU.", show_default="float64")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorter measurements, and smaller sizes with --scaling.")
    ] = False,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="Measure how time and memory grow with every size instead (minutes).")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Directory for bench.json, or scaling.json and .png.")] = None,
    as_json: Json = False,
) -> None:
    """Time this library on this machine: one learner, many side by side, plans every user or in epochs.

    Every row does the same work in the same world: private value iteration, a plan for every user unless the row says
    otherwise. Compiled programs are not taken from the cache, so that compile times are true.
    """
    from reticent.cli.output import note

    if scaling:
        run_scaling(quick, repeats, out, as_json, lambda what: note(f"measuring {what}"))
        return
    from reticent.cli.output import print_json, print_table
    from reticent.experiments.bench import bench as compare
    from reticent.experiments.bench import default_work, machine, with_agents
    from reticent.experiments.bench.rows import HEAD

    work = default_work(quick, seeds=seeds, episodes=episodes, world=world, repeats=repeats, precision=precision)
    contestants = with_agents(agent or [])
    found = compare(work, contestants=contestants, tell=row_teller(len(contestants)))
    keep(out, "bench.json", found.to_dict())
    if as_json:
        print_json(found.to_dict())
        return
    print(machine.in_words(found.machine))
    print_table(HEAD, found.lines())
    print("\n".join(found.notes()))


def row_teller(rows: int) -> Callable[[str], None]:
    """Says which row is being measured, and how long the others will take if they take as long as those before."""
    from reticent.cli.output import note
    from reticent.reports.progress import duration

    started, begun = time.monotonic(), 0

    def told(what: str) -> None:
        nonlocal begun
        each = (time.monotonic() - started) / max(begun, 1)
        left = f", about {duration(each * (rows - begun))} left" if begun else ""
        begun += 1
        note(f"measuring {what} ({begun} of {rows}{left})")

    return told


def run_scaling(quick: bool, repeats: int, out: Path | None, as_json: bool, told: Callable[[str], None]) -> None:
    """``--scaling``: the tables, and the picture if a directory is given."""
    from reticent.cli.output import print_json, print_table
    from reticent.experiments.bench import machine
    from reticent.experiments.bench.memory import PEAKS
    from reticent.experiments.bench.scaling import PEAK_HEAD, QUICK, SIZES, TABLE_HEAD, measure_scaling

    found = measure_scaling(
        QUICK if quick else SIZES,
        repeats=repeats,
        seconds=0.1 if quick else 0.5,
        peaks=PEAKS[:1] if quick else PEAKS,
        told=told,
    )
    keep(out, "scaling.json", found.to_dict())
    if out is not None:
        from reticent.experiments.bench.figure import draw_scaling

        draw_scaling(found, out / "scaling.png")
    if as_json:
        print_json(found.to_dict())
        return
    print(machine.in_words(found.machine))
    print_table(TABLE_HEAD, found.table(), left=3)
    print_table(PEAK_HEAD, found.peak_table())
    print("\n".join(found.notes()))
    if out is not None:
        print(f"picture  {out / 'scaling.png'}\ndata     {out / 'scaling.json'}")


def keep(directory: Path | None, name: str, content: dict[str, Any]) -> None:
    """Write the numbers, if anywhere."""
    if directory is not None:
        import json

        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        (directory / name).write_text(text + "\n", encoding="utf-8")
