# SPDX-License-Identifier: Apache-2.0
"""``reticent audit``: attack a private agent, and bound its ε from below."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.options import Json

if TYPE_CHECKING:
    from reticent.audit import Audit, Subject
    from reticent.worlds import Model, World

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
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Look after every run and stop as soon as the promise is seen to be broken; false alarms stay rare.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for audit.png, .html and .json; a run's report there gains the audit."),
    ] = None,
    deployment: Annotated[
        str | None,
        typer.Option(help="Check the public ledger of a service instead: its address, or a file kept of it."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="With --deployment: a hash that was seen before, or a file kept then.")
    ] = None,
    public_key: Annotated[str | None, typer.Option(help="With --deployment: the key that signed it.")] = None,
    as_json: Json = False,
) -> None:
    """Attack a private agent and say whether its promise held.

    A canary user is put in or replaced, an adversary looks at what is published, and how well it tells the two apart
    proves a lower bound on ε. Exit code 1 if the bound is above the claim. With --sequential every run is looked at, and
    the audit stops when the evidence suffices; of audits of a kept promise at most 1 − confidence ever raise an alarm.
    """
    if deployment is not None:
        from reticent.cli.audit_deployment import audit_deployment

        audit_deployment(deployment, head=head, public_key=public_key, as_json=as_json)
        return
    from reticent.audit import audit as run_audit
    from reticent.cli.output import print_json
    from reticent.extras import require
    from reticent.reports.progress import Telling
    from reticent.runtime import enable_compilation_cache
    from reticent.simulation.rollout import rollout
    from reticent.worlds import make_world

    if out is not None:
        require("matplotlib", "the picture of an audit (--out)")
    enable_compilation_cache()
    built = make_world(world)
    flags = {"trust": trust, "counter": counter, "calibration": calibration, "epsilon": epsilon, "delta": delta}
    subject = make_subject(agent, built, episodes, flags)
    if sequential:
        watch(subject, built, adversary=adversary, trials=trials, alpha=1 - confidence, seed=seed, as_json=as_json)
        return
    with Telling("trials") as tell:
        result = run_audit(
            subject,
            built,
            adversary=adversary,  # type: ignore[arg-type]
            trials=trials,
            seed=seed,
            confidence=confidence,
            rollout=rollout,
            progress=tell,
        )
    if out is not None:
        write(result, out)
    if as_json:
        print_json(result.to_dict())
    else:
        print_audit(result, out)
    if result.verdict == "violated":
        raise typer.Exit(1)


def watch(
    subject: Subject, world: World, *, adversary: str, trials: int, alpha: float, seed: int, as_json: bool
) -> None:
    """The sequential audit, whose evidence may be looked at any time; exit code 1 if it raises an alarm."""
    from reticent.audit.monitoring import monitor
    from reticent.cli.output import print_json
    from reticent.errors import InvalidInput
    from reticent.reports.progress import Telling

    if adversary != "releases":
        raise InvalidInput("adversary", adversary, "'releases' with --sequential", "leave --adversary out")
    with Telling("trials") as tell:
        state = monitor(subject, world, trials=trials, alpha=round(alpha, 12), seed=seed, progress=tell)
    if as_json:
        print_json(state.to_dict())
    else:
        print(state.sentence())
    if state.verdict == "violated":
        raise typer.Exit(1)


def make_subject(spec: str, world: World, episodes: int | None, flags: dict[str, Any]) -> Subject:
    """The agent that ``spec`` and the flags name, held to its own promise; the spec wins.

    Raises:
      ReticentError: no such agent or option, or an agent that promises nothing; the message lists those that do.
    """
    from reticent.agents import AGENTS, make_agent
    from reticent.audit import Subject
    from reticent.errors import UnknownName
    from reticent.naming import join, split
    from reticent.privacy.guarantee import guarantee_of

    name, raw = split(spec)
    entry = AGENTS.find(name)
    # The claim has defaults, which an agent without that option cannot be meant by; other flags were asked for.
    meant = {key: value for key, value in flags.items() if key in entry.options or key not in ("epsilon", "delta")}
    chosen = entry.read({key: str(value) for key, value in meant.items() if value is not None}) | entry.read(raw)
    agent = make_agent(join(name, chosen), world.model, episodes or GROUPED_EPISODES)
    if guarantee_of(agent) is None:
        raise UnknownName("private agent", name, private_agents(world.model))
    # A release costs as much as a round, and whether users come in epochs is the agent's to say.
    if episodes is None and agent.schedule.sizes is None:
        agent = make_agent(join(name, chosen), world.model, STREAMED_EPISODES)
    return Subject(dataclasses.replace(agent, name=spec))


def private_agents(model: Model) -> list[str]:
    """The registered agents that promise something to the users of ``model``, by what they say themselves."""
    from reticent.agents import AGENTS, make_agent
    from reticent.errors import ReticentError
    from reticent.privacy.guarantee import guarantee_of

    names = []
    for name in AGENTS:
        with contextlib.suppress(ReticentError):  # an agent that this model does not suit
            if guarantee_of(make_agent(name, model, STREAMED_EPISODES)) is not None:
                names.append(name)
    return sorted(names)


def write(result: Audit, directory: Path) -> None:
    """The picture, the page and the numbers."""
    import json

    from reticent.experiments.storage import REPORT
    from reticent.reports.audit_page import audit_body, audit_html
    from reticent.reports.plots.audit import draw_audit
    from reticent.reports.run_page import with_audit

    directory.mkdir(parents=True, exist_ok=True)
    picture = draw_audit(result)
    (directory / "audit.png").write_bytes(picture)
    date = f"{datetime.date.today():%Y-%m-%d}"
    (directory / "audit.html").write_text(audit_html(result, picture, date), encoding="utf-8")
    report = directory / REPORT
    if report.exists():
        page = with_audit(report.read_text(encoding="utf-8"), audit_body(result, picture))
        report.write_text(page, encoding="utf-8")
    text = json.dumps(result.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    (directory / "audit.json").write_text(text + "\n", encoding="utf-8")


def print_audit(result: Audit, out: Path | None) -> None:
    """The verdict and the bounds for people."""
    from reticent.cli.output import print_table

    print(
        f"{result.verdict}: claimed epsilon {result.claimed_epsilon:g}, proven at least "
        f"{result.lower_bound_epsilon:.4f} at delta {result.delta:g} (confidence {result.confidence:g})"
    )
    for evidence in result.degenerate:
        print(f"missing noise: {evidence.sentence()}")
    print_table(
        ("canary", "method used", *result.attacks[0].evidence.bounds),
        [
            (
                attack.canary,
                attack.evidence.best,
                *(f"{bound.epsilon:.4f}" for bound in attack.evidence.bounds.values()),
            )
            for attack in result.attacks
        ],
        left=2,
    )
    if out is not None:
        print(f"picture  {out / 'audit.png'}\nreport   {out / 'audit.html'}\ndata     {out / 'audit.json'}")
