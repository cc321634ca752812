# SPDX-License-Identifier: Apache-2.0
"""``reticent users``: simulated users for a running service, as a demonstration or a load test."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import Json

PATIENCE = 0.25
"""Seconds that the last users of a round have before the trial's shuffler posts it."""


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
    shuffler_key: Annotated[
        str | None,
        typer.Option(
            envvar="RETICENT_SHUFFLER_KEY",
            help="The shuffler's key, in the shuffle model.",
            show_default="the development key",
        ),
    ] = None,
    act: Annotated[str, typer.Option(help="Where actions are chosen: device or server.")] = "device",
    late: Annotated[float, typer.Option(help="Share of users who submit after others came.")] = 0.0,
    lost: Annotated[float, typer.Option(help="Share of users who leave halfway.")] = 0.0,
    returning: Annotated[float, typer.Option(help="Share of visits by users who were here before.")] = 0.0,
    drift: Annotated[
        str | None,
        typer.Option(help="Visits from which on the users' blend is another, such as 4001,8001; drawn by --seed."),
    ] = None,
    moves: Annotated[float, typer.Option(help="How far the blend moves each time: 1 is anywhere, 0 nowhere.")] = 1.0,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="Each user lives by one candidate, drawn by the world's blend, in all visits."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of what the users do.")] = 0,
    prefix: Annotated[
        str | None, typer.Option(help="Of the users' names; the same names are the same users.", show_default="random")
    ] = None,
    deadline: Annotated[float, typer.Option(help="Seconds for one request, retries included.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Send simulated users to a running service and measure how it serves them.

    Which world it is stays a secret of this side. In the shuffle model a shuffler for these users runs in this process,
    which is for trials only: who mixes must not be who reads. Exit code 1 if the service went away or admitted no user.
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

        crowd = Crowd(number, concurrency, late, lost, prefix or f"user-{secrets.token_hex(4)}", seed, returning)
        named = named_world(world, model, seed)  # what is wrong with a file is said before a service is waited for
        meter = Meter()
        budget = simulated_budget(crowd)
        with connected(url, key, shuffler_key, act=act, deadline=deadline, observer=meter, budget=budget) as client:
            built = named or service_world(client.status())
            phases = phases_at(built, drift, moves, number, seed)
            truth = MovingTruth(phases) if phases else Truth(built)
            if kinds:
                built, truth = of_kinds(built, drift, seed)
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


def _say_if_silent(url: str, deadline: float) -> None:
    """A remark before the wait for a service that does not answer yet; what is wrong with an address, the client says."""
    from reticent.cli.output import note

    parts = urllib.parse.urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), 2):
            return
    except (ValueError, TypeError):
        return
    except OSError:
        note(f"nothing answers at {url} yet: is `reticent serve` running? waiting up to {deadline:g} s")


@contextlib.contextmanager
def connected(url: str, key: str | None, shuffler_key: str | None, **options: Any) -> Iterator[Any]:
    """A client of the service; in the shuffle model with a shuffler of this process that posts all it got."""
    from reticent.cli.output import note
    from reticent_client import Client, Connection, ReticentError, Shuffler

    key = key or "dev-app-key"
    _say_if_silent(url, float(options.get("deadline", 30.0)))
    with Client(url, key, **options) as client:
        if client.trust != "shuffle":
            yield client
            return
    note(
        f"trust=shuffle: this process also runs the users' shuffler, which posts a round {PATIENCE:g} s after it is full"
    )
    connection = Connection(url, shuffler_key or "dev-shuffler-key")
    with Shuffler(connection, patience=PATIENCE) as shuffler, Client(url, key, shuffler=shuffler, **options) as client:
        shuffler.start(PATIENCE / 4)
        yield client
        with contextlib.suppress(ReticentError):  # the service went away, which the summary says
            shuffler.post_due()  # sees which rounds are full now
            time.sleep(PATIENCE)
            shuffler.post_due()


def named_world(spec: str | None, model: Path | None, seed: int) -> Any:
    """The world that was named, or one drawn for a model; None if neither is given.

    Raises:
      InvalidInput: both are given, or there is no such world.
      DamagedModel: the file is no model.
    """
    from reticent.errors import InvalidInput
    from reticent.worlds import load_model, make_world
    from reticent.worlds.models.prior import draw_truths

    if model is not None and spec is not None:
        raise InvalidInput("--world and --model", "both", "one of the two", "name the users' world once")
    if model is not None:
        loaded = load_model(model)
        return draw_truths(loaded.model, 1, seed=seed, rewards=loaded.reward_weights)[0]
    return None if spec is None else make_world(spec)


def service_world(status: dict[str, Any]) -> Any:
    """The world that the service was started for.

    Raises:
      InvalidInput: it was started from a model file.
    """
    from reticent.errors import InvalidInput
    from reticent.worlds import make_world

    name = status.get("world")
    if not name:
        raise InvalidInput("--world", "missing", "given for this service, or --model", "it was started from a file")
    return make_world(str(name))


def of_kinds(world: Any, drift: str | None, seed: int) -> Any:
    """The world of hidden kinds with this world's blend as shares, and its users' truth.

    Raises:
      InvalidInput: the blend moves as well, or candidates are no laws of kinds.
    """
    import numpy as np

    from reticent.errors import InvalidInput
    from reticent.experiments.users import KindsTruth
    from reticent.worlds.kinds import kinds_world

    if drift is not None:
        raise InvalidInput("--kinds and --drift", "both", "one of the two", "leave one out")
    shares = np.asarray(world.transition_theta).reshape(-1, world.model.d1)[0]
    return kinds_world(world.model, shares / shares.sum(), name=world.name), KindsTruth(world, shares, seed)


def phases_at(world: Any, drift: str | None, moves: float, number: int, seed: int) -> Any:
    """The phases of a world whose blend moves from the 1-based visits of ``drift`` on; none without it.

    Raises:
      InvalidInput: they are no visits of this crowd in order, or the world is no blend.
    """
    from reticent.errors import InvalidInput
    from reticent.worlds.transforms.non_stationary import phases_of

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


def rise_words(rise: float, error: float | None) -> str:
    """Whether returns rose, as far as chance allows to say.

    >>> rise_words(0.4, 0.2), rise_words(0.1, 0.2)
    ('returns rose by 0.400 ± 0.200', 'returns changed by +0.100 ± 0.200: within chance, send more users to tell')
    """
    if error is None:
        return "too few users to say whether returns rose"
    if abs(rise) <= error:
        return f"returns changed by {rise:+.3f} ± {error:.3f}: within chance, send more users to tell"
    return f"returns {'rose' if rise > 0 else 'fell'} by {abs(rise):.3f} ± {error:.3f}"


def plan_words(first: float, last: float) -> str:
    """What the plans that the first and the last version publish are worth to these users; no chance in it.

    >>> plan_words(0.97, 1.49)
    'worth 0.970 at first, 1.490 at last'
    """
    return f"worth {first:.3f} at first, {last:.3f} at last"


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
    worth, means = found["plan_value"], found["mean_return"]
    if worth is not None and None not in worth.values():
        print(f"plan      {plan_words(worth['first'], worth['last'])}, if no user explored")
    if means["first_tenth"] is not None:
        print(
            f"return    {means['first_tenth']:.3f} in the first tenth, {means['last_tenth']:.3f} in the last "
            f"(best possible {means['optimal']:.3f}, at random {means['random']:.3f})"
        )
        print(f"          {rise_words(means['rise'], means['rise_error'])}")
    for phase in found["phases"]:
        if phase["first_third"] is not None:
            print(
                f"phase    from visit {phase['first']:,}: return {phase['first_third']:.3f} in its first third, "
                f"{phase['last_third']:.3f} in its last (best possible {phase['optimal']:.3f}, "
                f"at random {phase['random']:.3f})"
            )
