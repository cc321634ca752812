# SPDX-License-Identifier: Apache-2.0
"""``reticent quickstart``: the way from records to a private service in one command, explained step by step."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of the walk: its title, what it is for, and its arguments."""

    title: str
    why: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """As it is typed."""
        return " ".join(["reticent", *self.arguments])


BEFORE_LAUNCH = (
    Step(
        "Fit candidate models",
        "Estimate kinds of people from the pilot, which must be public (here: simulated): no ε covers what is in it.",
        (
            "fit",
            "records/pilot.csv",
            "--horizon",
            "3",
            "--candidates",
            "2",
            "--group",
            "clinic",
            "--state",
            "mood",
            "--action",
            "message",
            "--reward",
            "moved",
            "--origin",
            "simulated",
        ),
    ),
    Step(
        "Rehearse",
        "Simulate the deployment over truths drawn from a public prior: how good, after how many users. Costs no privacy.",
        (
            "rehearse",
            "model.npz",
            "--epsilon",
            "1",
            "--users",
            "20000",
            "--truths",
            "50",
            "--trust",
            "joint",
            "--no-floor",
        ),
    ),
    Step(
        "Replay recorded users",
        "The agent as it would be deployed meets the trial's users, with real noise. Compare 'deployed' with the rest.",
        (
            "replay",
            "records/trial.csv",
            "--deployment",
            "deployment.yaml",
            "--reward",
            "moved",
            "--probability",
            "probability",
            "--orders",
            "1",
        ),
    ),
)
"""What is done before the first user comes."""


def quickstart(
    users: Annotated[int, typer.Option(help="How many simulated users come to the service.")] = 1000,
    port: Annotated[int | None, typer.Option(help="Port of the service.", show_default="a free one")] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the service and its dashboard up until Ctrl-C.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="An empty folder to work in and leave behind.", show_default="a temporary one")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Explain on standard error, and print the steps as one JSON object.")
    ] = False,
) -> None:
    """Walk from made-up records to a private service on this machine, and explain each step (about two minutes).

    Records, candidate models, a rehearsal, a replay, the service, simulated users, the dashboard. All files are in a
    temporary folder and gone afterwards. Needs pip install 'reticent[people,service]'.
    """
    import contextlib
    import sys
    import tempfile

    from reticent.cli.output import print_json
    from reticent.cli.processes import DidNotStart, free_port, stopping
    from reticent.errors import InvalidInput
    from reticent.extras import require

    for package in ("polars", "fastapi", "sqlalchemy", "uvicorn", "opendp", "cryptography"):
        require(package, "reticent quickstart")
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise InvalidInput("--keep", keep, "an empty folder", "name a new one")
    stop = stopping()
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
        with tempfile.TemporaryDirectory(prefix="reticent-quickstart-") as temporary:
            folder = Path(temporary) if keep is None else keep
            try:
                code = walk(folder, users, free_port() if port is None else port, stay, stop)
            except DidNotStart as problem:
                print(f"error: {problem}", flush=True)
                code = 1
        print(f"\nThe folder {'is gone; nothing is left behind.' if keep is None else f'{keep} is left as it is.'}")
        if code == 0 and not stop.is_set():
            print("Next: your own records, docs/from-records.md; what ε means, reticent explain --epsilon 1.")
    if as_json:
        print_json({"before_launch": [step.command for step in BEFORE_LAUNCH], "users": users, "exit_code": code})
    raise typer.Exit(130 if stop.is_set() and not stay else code)


def walk(folder: Path, users: int, port: int, stay: bool, stop: threading.Event) -> int:
    """All steps in ``folder``; the exit code of the first that failed, else 0."""
    import os

    from reticent.worlds.records.example_log import write_logs

    total = len(BEFORE_LAUNCH) + 3
    say(
        1,
        total,
        "Make up records",
        "A coaching app: public pilot records, and a trial whose users are to be protected.",
    )
    write_logs(folder / "records")
    print("records/pilot.csv, records/trial.csv", flush=True)
    for number, step in enumerate(BEFORE_LAUNCH, 2):
        if stop.is_set():
            return 130
        say(number, total, step.title, step.why, step.command)
        code = complete(list(step.arguments), os.environ, folder, stop)
        if code:
            return code
    return serve_users(folder, users, port, stay, stop, total)


def serve_users(folder: Path, users: int, port: int, stay: bool, stop: threading.Event, total: int) -> int:
    """The service of the walk with random keys, and simulated users for it; the exit code of the users' command."""
    import os
    import secrets

    from reticent.cli.processes import running, wait_until_healthy

    keys = {f"RETICENT_{name}": secrets.token_urlsafe(32) for name in ("APP_KEY", "ADMIN_KEY", "USER_SECRET")}
    environment, url = {**os.environ, **keys}, f"http://127.0.0.1:{port}"
    # The dashboard of a demonstration on this machine may be read without a key.
    with (folder / "deployment.yaml").open("a", encoding="utf-8") as settings:
        settings.write(f"port: {port}\npublic_reads: true\nrate_limit: 0\n")
    command = ["serve", "--init", "--config", "deployment.yaml"]
    say(
        total - 1,
        total,
        "Serve",
        "The deployed agent answers HTTP; noise comes from the operating system.",
        " ".join(["reticent", *command]),
    )
    with (folder / "serve.log").open("wb") as log, running(command, environment, folder=folder, output=log) as service:
        wait_until_healthy(service, url, stop)
        print(f"dashboard  {url}/dashboard", flush=True)
        command = ["users", "--url", url, "--model", "model.npz", "--users", str(users), "--seed", "3"]
        say(
            total,
            total,
            "Send simulated users",
            "They act by the plan in force; the service learns from noisy sums.",
            " ".join(["reticent", *command]),
        )
        code = complete(command, environment, folder, stop)
        if stay and code == 0 and not stop.is_set():
            print(f"dashboard  {url}/dashboard\nstill serving; Ctrl-C stops it", flush=True)
            stop.wait()
    return code


def complete(command: list[str], environment: Mapping[str, str], folder: Path, stop: threading.Event) -> int:
    """Run a command to its end, or until it is no longer wanted; its exit code."""
    import signal
    import sys

    from reticent.cli.processes import running

    with running(command, environment, signal.SIGINT, folder=folder, output=sys.stdout) as process:
        while process.poll() is None and not stop.wait(0.1):
            pass
    return int(process.returncode)


def say(number: int, total: int, title: str, why: str, command: str | None = None) -> None:
    """The heading of a step."""
    print(f"\n[{number}/{total}] {title}\n      {why}", flush=True)
    if command is not None:
        print(f"      $ {command}", flush=True)
