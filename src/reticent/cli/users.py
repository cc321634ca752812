# SPDX-License-Identifier: Apache-2.0
"""``reticent users``: simulated users for a running service, as a demonstration or a load test."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import Json


def users(
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8400",
    world: Annotated[
        str | None, typer.Option(help="The world that the users live in.", show_default="the service's")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A model file instead: the users' truth is drawn from a public prior, by --seed."),
    ] = None,
    number: Annotated[int, typer.Option("--users", help="How many users come.")] = 1000,
    concurrency: Annotated[int, typer.Option(help="How many come at a time.")] = 8,
    key: Annotated[
        str | None,
        typer.Option(envvar="RETICENT_APP_KEY", help="The app's key.", show_default="the development key"),
    ] = None,
    act: Annotated[str, typer.Option(help="Where actions are chosen: device or server.")] = "device",
    late: Annotated[float, typer.Option(help="Share of users who submit after others came.")] = 0.0,
    lost: Annotated[float, typer.Option(help="Share of users who leave halfway.")] = 0.0,
    returning: Annotated[float, typer.Option(help="Share of visits by somebody who was here before.")] = 0.0,
    drift: Annotated[
        str | None,
        typer.Option(help="Visits from which on the users' blend is another, such as 4001,8001; drawn by --seed."),
    ] = None,
    moves: Annotated[float, typer.Option(help="How far the blend moves each time: 1 is anywhere, 0 nowhere.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what the users do.")] = 0,
    prefix: Annotated[
        str | None, typer.Option(help="Of the users' names; the same names are the same users.", show_default="random")
    ] = None,
    deadline: Annotated[float, typer.Option(help="Seconds for one request, retries included.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Send simulated users to a running service and measure how it serves them.

    Which world it is stays a secret of this side. Exit code 1 if the service went away or let nobody in.
    """
    from reticent.cli.interrupt import listening

    with listening() as interrupt:
        from reticent.cli.output import note, print_json
        from reticent.experiments.users import (
            Crowd,
            Meter,
            MovingTruth,
            Traffic,
            Truth,
            require_same_sizes,
            simulated_budget,
            summary,
        )
        from reticent.reports.progress import reporter
        from reticent_client import Client

        crowd = Crowd(number, concurrency, late, lost, prefix or f"user-{secrets.token_hex(4)}", seed, returning)
        meter = Meter()
        with Client(
            url, key or "dev-app-key", act=act, deadline=deadline, observer=meter, budget=simulated_budget(crowd)  # type: ignore[arg-type]
        ) as client:
            built = the_world(world, model, seed, client.status())
            phases = phases_at(built, drift, moves, number, seed)
            truth = MovingTruth(phases) if phases else Truth(built)
            require_same_sizes(client, truth)
            traffic, progress = Traffic(client, truth, crowd), reporter()
            progress.start("traffic", number, 1, "users")
            try:
                traffic.run(progress.advance, interrupt)
                progress.finish()
            finally:
                progress.close()
        found = {"url": url, **summary(traffic, meter, built, phases)}
        if as_json:
            print_json(found)
        else:
            print_summary(found)
        if traffic.stopped is not None:
            note(f"stopped: {traffic.stopped}")
            raise typer.Exit(1)
        if interrupt.asked:
            raise typer.Exit(130)


def the_world(spec: str | None, model: Path | None, seed: int, status: dict[str, Any]) -> Any:
    """The world that was named, or one drawn for a model, else the one that the service was started for.

    Raises:
      InvalidInput: none of them names one, or two do.
    """
    from reticent.errors import InvalidInput
    from reticent.worlds import load_model, make_world
    from reticent.worlds.prior import draw_truths

    if model is not None:
        if spec is not None:
            raise InvalidInput("--world and --model", "both", "one of the two", "name the users' world once")
        return draw_truths(load_model(model).model, 1, seed=seed)[0]
    name = spec or status.get("world")
    if not name:
        raise InvalidInput("--world", "missing", "given for this service, or --model", "it was started from a file")
    return make_world(str(name))


def phases_at(world: Any, drift: str | None, moves: float, number: int, seed: int) -> Any:
    """The phases of a world whose blend moves from the 1-based visits of ``drift`` on; none without it.

    Raises:
      InvalidInput: they are no visits of this crowd in order, or the world is no blend.
    """
    from reticent.errors import InvalidInput
    from reticent.worlds.non_stationary import phases_of

    if drift is None:
        return []
    wanted = f"visits from 2 to {number} in increasing order"
    try:
        visits = [int(part) for part in drift.split(",")]
    except ValueError:
        raise InvalidInput("--drift", drift, wanted, "separate them by commas: 4001,8001") from None
    if visits != sorted(set(visits)) or not all(2 <= visit <= number for visit in visits):
        raise InvalidInput("--drift", drift, wanted, "separate them by commas: 4001,8001")
    return phases_of(world, [visit - 1 for visit in visits], seed, moves=moves)


def print_summary(found: dict[str, Any]) -> None:
    """The tables for people."""
    from reticent.cli.output import print_table

    counts = ("served", "counted", "not_learned_from", "abandoned", "refused", "unsent")
    people = found["persons"]
    who = "users" if people == found["users"] else f"visits of {people:,} users"
    kept = [name for name in counts if found[name] or name in ("served", "counted", "abandoned", "refused")]
    print(
        f"{found['world']}: {found['users']:,} {who} in {found['seconds']:.1f} s, "
        f"{found['requests']:,} requests, {found['requests_per_second']:,.0f} requests/s"
    )
    print_table(("users", *(name.replace("_", " ") for name in kept)), [("", *(f"{found[name]:,}" for name in kept))])
    print_table(
        ("route", "requests", "errors", "p50 ms", "p99 ms"),
        [
            (row["route"], f"{row['requests']:,}", f"{row['errors']:,}", f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}")
            for row in found["routes"]
        ],
    )
    if found["refusals"]:
        print("refusals  " + ", ".join(f"{name}: {count:,}" for name, count in found["refusals"].items()))
    if found["versions"]:
        seen = found["versions"]
        print(f"versions  {seen['seen']:,} seen, from {seen['first']:,} to {seen['last']:,}")
    means = found["mean_return"]
    if means["first_tenth"] is not None:
        print(
            f"return    {means['first_tenth']:.3f} in the first tenth, {means['last_tenth']:.3f} in the last "
            f"(best possible {means['optimal']:.3f}, at random {means['random']:.3f})"
        )
    for phase in found["phases"]:
        if phase["first_third"] is not None:
            print(
                f"phase    from visit {phase['first']:,}: return {phase['first_third']:.3f} in its first third, "
                f"{phase['last_third']:.3f} in its last (best possible {phase['optimal']:.3f}, "
                f"at random {phase['random']:.3f})"
            )
