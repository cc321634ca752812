# SPDX-License-Identifier: Apache-2.0
"""``reticent deployments``: what an operator asks of deployments, and tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import Dev, Json

app = typer.Typer(
    help="Look after deployments: list, show, finish, export or fall back to a published policy, erase a user.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MaybeConfig = Annotated[Path | None, typer.Option(help="The deployment's YAML file: its store is asked.")]
Url = Annotated[str | None, typer.Option(help="Address of the running service instead.")]
Key = Annotated[
    str | None, typer.Option(envvar="RETICENT_ADMIN_KEY", help="The admin's key, with --url.", show_default=False)
]

PATIENCE = 5.0
"""Seconds for which an operator's question is repeated: with a wrong address there is no use in more."""


@app.command("list")
def list_deployments(
    config: Annotated[
        list[Path] | None, typer.Option(help="A deployment's YAML file; give it again for each of them.")
    ] = None,
    url: Annotated[list[str] | None, typer.Option(help="Address of a running service; as often as there are.")] = None,
    key: Key = None,
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """One line per deployment: how many users it has had, what it has spent, and whether it learns."""
    from reticent.cli.output import print_json, print_table
    from reticent.errors import InvalidInput

    if not config and not url:
        raise InvalidInput("the list", "empty", "of one deployment or more", "name them with --config or --url")
    found = [{"where": str(one), **described(one, None, key, dev)} for one in config or ()]
    found += [{"where": one, **described(None, one, key, dev)} for one in url or ()]
    if as_json:
        print_json(found)
        return
    print_table(
        ["deployment", "state", "users", "of", "version", "of", "epsilon"],
        [
            [
                str(one["where"]),
                state_of(one),
                str(one["admitted"]),
                str(one["episodes"]),
                str(one["served_version"]),
                str(one["releases"]),
                f"{one['epsilon']:g}",
            ]
            for one in found
        ],
        left=2,
    )


@app.command()
def show(config: MaybeConfig = None, url: Url = None, key: Key = None, dev: Dev = False, as_json: Json = False) -> None:
    """Where one deployment stands. Everything here is public."""
    from reticent.cli.output import print_json

    found = described(config, url, key, dev)
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        if not isinstance(value, list | dict):
            print(f"{name:<16}{value}")


@app.command()
def finish(config: MaybeConfig = None, url: Url = None, key: Key = None, dev: Dev = False) -> None:
    """End the last round once all users were admitted, without waiting longer for reports; the policy becomes final.

    Decide it by the calendar, never by who has come back: that would be a release.
    """
    with_one(config, url)
    if url is not None:
        done = asked(url, key, "/v1/admin/finish", {})
        print(f"finished: {'yes' if done['finished'] else 'the last release is being made'}")
        return
    from reticent.cli.store import chosen

    settings = chosen(_given(config), dev, "reticent deployments finish")
    from reticent.service.http import app as service

    deployment = service.make_deployment(settings)
    try:
        deployment.finish()
        deployment.advance()
        print(f"finished: version {deployment.clock()[0].served_version} is final")
    finally:
        deployment.store.close()


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="The file to write: .npz for NumPy, .json for other programs.")],
    config: MaybeConfig = None,
    url: Url = None,
    version: Annotated[int | None, typer.Option(help="A published version.", show_default="the one served now")] = None,
    key: Key = None,
    dev: Dev = False,
) -> None:
    """Write a published policy to a file, with what it was published with. Nothing unpublished is read.

    `policy` is (step, state) → action, or (step, state, action) → probability; `values` is the plan's own V(step, state).
    """
    from reticent.service.durability.export import EXPORTS, write_policy

    with_one(config, url)
    if out.suffix not in EXPORTS:
        from reticent.errors import InvalidInput

        raise InvalidInput("--out", out, f"a name that ends with {' or '.join(EXPORTS)}", "choose the kind of file")
    if url is not None:
        path = "/v1/billboard" if version is None else f"/v1/billboards/{version}"
        write_policy(out, asked(url, key, path), asked(url, key, "/v1/status")["promise"], asked(url, key, "/v1/names"))
    else:
        from reticent.cli.store import opened_store

        with opened_store(_given(config), dev, "reticent deployments export") as (settings, store, _secrets):
            from reticent.service.durability.export import published_policy
            from reticent.service.models import deployment_model

            names = deployment_model(settings).about.names  # the store has none: they are the model's
            write_policy(out, *published_policy(store, version), {} if names is None else names.to_dict())
    print(out)


@app.command()
def fallback(
    version: Annotated[int | None, typer.Option(help="The published version that users are to be served.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Serve the newest version again.")] = False,
    config: MaybeConfig = None,
    url: Url = None,
    key: Key = None,
    dev: Dev = False,
) -> None:
    """Serve users an earlier published version, or the newest again. Learning goes on, and costs what it did.

    Decide it by what was published, never by what you know of single users: the choice is public. Controls of an A/B
    share are served version 0 on.
    """
    from reticent.errors import InvalidInput

    with_one(config, url)
    if (version is None) != newest:
        raise InvalidInput("--version and --newest", "both or neither", "one of the two", "say what is to be served")
    if url is not None:
        served = asked(url, key, "/v1/admin/fallback", {"version": version})["served_version"]
    else:
        from reticent.cli.store import opened_store

        with opened_store(_given(config), dev, "reticent deployments fallback") as (_, store, _secrets):
            from reticent.service.durability.export import choose_version

            served = choose_version(store, version)
    print(f"version {served} is served to users who come now")


@app.command()
def erase(
    user: Annotated[str, typer.Option(help="The user's id, as the app gives it; - reads it from standard input.")],
    config: MaybeConfig = None,
    url: Url = None,
    rewrite_journal: Annotated[
        bool,
        typer.Option(
            "--rewrite-journal", help="With --config: also have the journal written anew, without the user's rows."
        ),
    ] = False,
    key: Key = None,
    dev: Dev = False,
    as_json: Json = False,
) -> None:
    """Erase a user at their request; they are never learned from again. Says what is deleted, what is kept and why.

    Do it because the user asks, never by what they did. With `--user -` the id is in no list of processes and no history.
    """
    with_one(config, url)
    if rewrite_journal and url is not None:
        from reticent.errors import InvalidInput

        raise InvalidInput("--rewrite-journal", "with --url", "with --config", "run it where the journal is")
    if user == "-":
        import sys

        user = sys.stdin.readline().rstrip("\n")
    if url is not None:
        done = asked(url, key, "/v1/admin/erase", {"user": user})
    else:
        done = _erased_in_store(_given(config), dev, user, rewrite_journal)
    if as_json:
        from reticent.cli.output import print_json

        print_json(done)
        return
    print("erased before" if done["before"] else f"erased: {done['episodes']} episode(s) belong to no user now")
    for title in ("deleted", "kept", "cannot_be_undone"):
        print(title.replace("_", " "))
        for line in done[title]:
            print(f"- {line}")


def _erased_in_store(config: Path, dev: bool, user: str, rewrite: bool) -> dict[str, Any]:
    """Erase a user in the store that a file names; with ``rewrite`` the journal is written anew."""
    import dataclasses

    from reticent.cli.store import opened_store
    from reticent.errors import InvalidInput

    if not 1 <= len(user) <= 256:
        raise InvalidInput("--user", f"{len(user)} characters", "1 to 256 characters", "give the id that the app gives")
    with opened_store(config, dev, "reticent deployments erase") as (settings, store, secrets):
        from reticent.service.durability.erasure import erase as erase_user
        from reticent.service.durability.journal import rewrite_journal
        from reticent.service.durability.rollback_guard import RollbackGuard

        rollback_guard = RollbackGuard(settings.rollback_guard_file, secrets)
        rollback_guard.read()  # a missing one is said before anything is changed
        done = erase_user(store, secrets, rollback_guard, user)
        if rewrite:
            rewrite_journal(rollback_guard, store, secrets)
    return dataclasses.asdict(done)


def described(config: Path | None, url: str | None, key: str | None, dev: bool) -> dict[str, Any]:
    """Where a deployment stands, by its address or its store."""
    with_one(config, url)
    if url is not None:
        return asked(url, key, "/v1/status")
    from reticent.cli.store import opened_store

    with opened_store(_given(config), dev, "reticent deployments") as (_, store, _secrets):
        from reticent.service.durability.export import stored_status

        return stored_status(store)


def asked(url: str, key: str | None, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of a running service."""
    from reticent_client import Connection

    connection = Connection(url, key, deadline=PATIENCE)
    try:
        return connection.get(path) if content is None else connection.post(path, content)
    finally:
        connection.close()


def state_of(status: dict[str, Any]) -> str:
    """One word for where a deployment stands."""
    if status["halted"]:
        return "stopped"
    return "finished" if status["finished"] else "learning" if status["learning"] else "waiting"


def with_one(config: Path | None, url: str | None) -> None:
    """Refuse to guess which deployment is meant."""
    from reticent.errors import InvalidInput

    if (config is None) == (url is None):
        named = "not named" if config is None else "named twice"
        raise InvalidInput("the deployment", named, "named once", "give --config or --url")


def _given(config: Path | None) -> Path:
    assert config is not None
    return config
