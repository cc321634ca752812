"""The command ``reticent``.

A command is one module here and one line in :data:`COMMANDS`. Modules import only what their ``--help`` needs (typer
and the standard library); everything that computes is imported inside the command, so that help answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from reticent import __version__
from reticent.cli import (
    agents,
    audit,
    bench,
    calibrate,
    compare,
    fit,
    init,
    rehearse,
    replay,
    run,
    serve,
    sweep,
    users,
    worlds,
)
from reticent.errors import ReticentError

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "worlds": worlds.worlds,
    "agents": agents.agents,
    "calibrate": calibrate.calibrate,
    "audit": audit.audit,
    "compare": compare.compare,
    "bench": bench.bench,
    "sweep": sweep.sweep,
    "init": init.init,
    "serve": serve.serve,
    "users": users.users,
    "fit": fit.fit,
    "rehearse": rehearse.rehearse,
    "replay": replay.replay,
}

app = typer.Typer(
    name="reticent",
    help="Online reinforcement learning that learns from every user and reveals none.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take as long to import as all the rest
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"reticent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command; what a user did wrong is one line on standard error and exit code 2."""
    try:
        app()
    except ReticentError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
