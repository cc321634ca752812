"""``reticent audit``: attack a private agent, and bound its ε from below."""

from __future__ import annotations

import dataclasses
import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from reticent.audit import Audit, Subject
    from reticent.worlds import World

GROUPED_EPISODES, STREAMED_EPISODES = 512, 16
"""Users of an audited run by default: a release costs as much as a round, so streaming counters get a short stream."""


def audit(
    agent: Annotated[str, typer.Option(help="A private agent, such as private-linopt-vi:counter=tree.")] = (
        "private-linopt-vi"
    ),
    world: Annotated[str, typer.Option(help="The world, such as mobile-health.")] = "mobile-health",
    epsilon: Annotated[float, typer.Option(help="The claimed ε.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The claimed δ.")] = 1e-5,
    trials: Annotated[int, typer.Option(help="Trials of each attack, without and with the canary each.")] = 100_000,
    adversary: Annotated[
        str, typer.Option(help="What is seen: releases (every released sum) or actions (shown to all other users).")
    ] = "releases",
    trust: Annotated[str | None, typer.Option(help="joint, shuffle or local.", show_default="the agent's")] = None,
    counter: Annotated[str | None, typer.Option(help="How running sums are released, such as tree.")] = None,
    calibration: Annotated[str | None, typer.Option(help="How noise is chosen: paper or exact.")] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Users of an audited run.", show_default="512; 16 for streaming counters")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.999,
    seed: Annotated[int, typer.Option(help="Of the trials.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for audit.png, .html and .json; a run's report there gains the audit."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack a private agent and say whether its promise held.

    A canary user is put in or replaced, an adversary looks at what is published, and how well it tells the two apart
    proves a lower bound on ε. Exit code 1 if the bound is above the claim.
    """
    from reticent.audit.dispatch import audit_any as run_audit
    from reticent.cli.output import print_json
    from reticent.runtime import enable_compilation_cache
    from reticent.simulation.rollout import rollout
    from reticent.worlds import make_world_from

    enable_compilation_cache()
    built = make_world_from(world)
    flags = {"trust": trust, "counter": counter, "calibration": calibration, "epsilon": epsilon, "delta": delta}
    subject = make_subject(agent, built, episodes, flags)
    with progress_bar() as told:
        found = run_audit(
            subject, built, adversary=adversary, trials=trials, seed=seed, confidence=confidence,  # type: ignore[arg-type]
            rollout=rollout, progress=told,
        )  # fmt: skip
    if out is not None:
        write(found, out)
    if as_json:
        print_json(found.to_dict())
    else:
        print_audit(found, out)
    if found.verdict == "violated":
        raise typer.Exit(1)


def make_subject(spec: str, world: World, episodes: int | None, flags: dict[str, Any]) -> Subject:
    """The agent that ``spec`` and the flags name, with its privacy plan; the spec wins.

    Raises:
      ReticentError: no such agent or option, or an agent that promises nothing.
    """
    from reticent.agents import AGENTS, make_agent
    from reticent.agents.registry import PLANS
    from reticent.audit import Subject
    from reticent.errors import UnknownName
    from reticent.naming import join, split

    name, raw = split(spec)
    entry = AGENTS.find(name)
    if name not in PLANS:
        raise UnknownName("private agent", name, sorted(PLANS))
    # The claim has defaults, which an agent without that option cannot be meant by; other flags were asked for.
    meant = {key: value for key, value in flags.items() if key in entry.options or key not in ("epsilon", "delta")}
    given = {key: str(value) for key, value in meant.items() if value is not None}
    chosen = entry.read(given) | entry.read(raw)
    # A release costs as much as a round, and whether users come in epochs is the plan's to say.
    grouped = PLANS[name](world.model, GROUPED_EPISODES, **chosen).schedule.sizes is not None
    users = episodes or (GROUPED_EPISODES if grouped else STREAMED_EPISODES)
    # The agent is made first: it refuses options whose plan would not keep its word.
    agent = make_agent(join(name, chosen), world.model, users)
    return Subject(dataclasses.replace(agent, name=spec), PLANS[name](world.model, users, **chosen))


def write(found: Audit, directory: Path) -> None:
    """The picture, the page and the numbers."""
    import json

    from reticent.audit.page import audit_body, audit_html
    from reticent.audit.picture import draw_audit
    from reticent.experiments.storage import REPORT
    from reticent.reports.report import with_audit

    directory.mkdir(parents=True, exist_ok=True)
    picture = draw_audit(found)
    (directory / "audit.png").write_bytes(picture)
    date = f"{datetime.date.today():%Y-%m-%d}"
    (directory / "audit.html").write_text(audit_html(found, picture, date), encoding="utf-8")
    report = directory / REPORT
    if report.exists():
        page = with_audit(report.read_text(encoding="utf-8"), audit_body(found, picture))
        report.write_text(page, encoding="utf-8")
    text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    (directory / "audit.json").write_text(text + "\n", encoding="utf-8")


def print_audit(found: Audit, out: Path | None) -> None:
    """The verdict and the bounds for people."""
    from reticent.cli.output import print_table

    print(
        f"{found.verdict}: claimed epsilon {found.claimed_epsilon:g}, proven at least "
        f"{found.lower_bound_epsilon:.4f} at delta {found.delta:g} (confidence {found.confidence:g})"
    )
    print_table(
        ("canary", "method used", *found.attacks[0].evidence.bounds),
        [
            (
                attack.canary,
                attack.evidence.best,
                *(f"{bound.epsilon:.4f}" for bound in attack.evidence.bounds.values()),
            )
            for attack in found.attacks
        ],
        left=2,
    )
    if out is not None:
        print(f"picture  {out / 'audit.png'}\nreport   {out / 'audit.html'}\ndata     {out / 'audit.json'}")


class progress_bar:
    """A bar on a terminal, a line every ten seconds elsewhere; on standard error."""

    def __enter__(self) -> Callable[[str, int, int], None]:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._spoken = time.monotonic()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bars = Progress(*columns, console=Console(stderr=True))
            self._bars.start()
        return self._tell

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            self._bars.update(self._tasks[what], completed=done)
        elif time.monotonic() - self._spoken > 10:
            self._spoken = time.monotonic()
            print(f"{what}: {done:,} of {total:,} trials", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
