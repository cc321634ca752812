# SPDX-License-Identifier: Apache-2.0
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
    backup,
    calibrate,
    compare,
    demo,
    deployments,
    explain,
    fit,
    init,
    migrate,
    quickstart,
    rehearse,
    replay,
    restore,
    run,
    serve,
    sweep,
    users,
    worlds,
)

FIRST_STEPS = """\
reticent learns from every user under a proven differential-privacy guarantee. Where to begin:

  reticent demo                     see it work: the private learner, the paper's and one without privacy
  reticent quickstart               from records to a private service on this machine, explained
  reticent explain --epsilon 1      what an attacker's best guess gains at that ε, in words and a picture
  reticent worlds                   what there is to learn in; `reticent agents`: who learns
  reticent run --world tutor        an experiment of your own, with picture and report
  reticent fit log.csv --origin public --horizon 5
                                    candidate models from your own records
  reticent rehearse model.npz       before the first user: how good, after how many, at which ε
  reticent replay log.csv --deployment deployment.yaml
                                    recorded users meet the agent as it would be deployed
  reticent audit                    attack a private agent, and see whether its promise holds
  reticent serve --config FILE      the deployed agent as a service

Every command has --help and --json. Shell completion: reticent --install-completion
"""

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "quickstart": quickstart.quickstart,
    "explain": explain.explain,
    "run": run.run,
    "worlds": worlds.worlds,
    "agents": agents.agents,
    "calibrate": calibrate.calibrate,
    "audit": audit.audit,
    "compare": compare.compare,
    "sweep": sweep.sweep,
    "init": init.init,
    "serve": serve.serve,
    "backup": backup.backup,
    "restore": restore.restore,
    "migrate": migrate.migrate,
    "users": users.users,
    "fit": fit.fit,
    "rehearse": rehearse.rehearse,
    "replay": replay.replay,
}

app = typer.Typer(
    name="reticent",
    help="Online reinforcement learning that learns from every user and reveals none.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take as long to import as all the rest
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(deployments.app, name="deployments")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"reticent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
    if context.invoked_subcommand is None:
        print(FIRST_STEPS, end="")


def main() -> None:
    """Run the command; what a user did wrong is one line on standard error and exit code 2."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, ImportError) as problem:
        said = _in_one_line(problem)
        if said is None:  # not the user's fault: everything that helps to find it
            raise
        print(f"error: {said}", file=sys.stderr)
        sys.exit(2)


def _in_one_line(problem: ValueError | ImportError) -> str | None:
    """What a user can act on; None for a fault of the program. (Imported here: the errors bring NumPy along.)"""
    from reticent.errors import ReticentError
    from reticent.extras import missing_extra

    if isinstance(problem, ReticentError):
        return str(problem)
    if isinstance(problem, ModuleNotFoundError):
        missing = missing_extra(problem, " ".join(["reticent", *sys.argv[1:2]]))
        return None if missing is None else str(missing)
    return None
