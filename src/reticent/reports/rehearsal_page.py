# SPDX-License-Identifier: Apache-2.0
"""The page of a rehearsal: the answer first, then the picture, then every promise tried, then the file to serve."""

from __future__ import annotations

import base64
import math
from html import escape
from typing import TYPE_CHECKING

from reticent.reports.report import CSS, agent_name, table

if TYPE_CHECKING:
    from reticent.experiments.rehearsal import Outcome, Rehearsal

HEAD = (
    "agent",
    "trust",
    "ε",
    "regret",
    "90% band",
    "final gap",
    "90% quantile",
    "users to target",
    "K for nine in ten",
)


def rows(found: Rehearsal) -> list[tuple[str, ...]]:
    """The table as plain text: one row per outcome, and one without learning."""
    return [*(_row(outcome, found) for outcome in found.outcomes), _unlearned(found)]


def _unlearned(found: Rehearsal) -> tuple[str, ...]:
    regret, gap = found.unlearned_regret, found.unlearned_gap
    return (
        "one plan, no learning",
        "none",
        "0",
        f"{regret.mean:,.0f}",
        f"{regret.low_end:,.0f} – {regret.high_end:,.0f}",
        f"{100 * gap.mean:.2f}%",
        f"{100 * gap.high:.2f}%",
        "–",
        "–",
    )


def _row(outcome: Outcome, found: Rehearsal) -> tuple[str, ...]:
    regret, end, until = outcome.total_regret, outcome.end, outcome.reached(found.target)
    return (
        outcome.agent.partition(":")[0],
        outcome.trust,
        "∞" if outcome.epsilon is None else f"{outcome.epsilon:g}",
        f"{regret.mean:,.0f}",
        f"{regret.low_end:,.0f} – {regret.high_end:,.0f}",
        f"{100 * end.mean:.2f}%",
        f"{100 * end.high:.2f}%",
        _users(until.median, found.users),
        _users(until.high, found.users),
    )


def _users(number: float, most: int) -> str:
    return f"{number:,.0f}" if math.isfinite(number) else f"> {most:,}"


def rehearsal_html(found: Rehearsal, answer: str, deployment: str | None, picture: bytes) -> str:
    """The whole page, picture included; ``deployment`` is the file to serve, if there is one."""
    encoded = base64.b64encode(picture).decode("ascii")
    body = [(agent_name(row[0]), *(escape(cell) for cell in row[1:])) for row in rows(found)]
    absent = "".join(f"<dt>{agent_name(one.agent)}</dt><dd>{escape(one.reason)}</dd>" for one in found.absent)
    promises = "".join(
        f"<dt>{agent_name(outcome.agent)}</dt><dd>{escape(outcome.sentence)}</dd>"
        for outcome in found.outcomes
        if outcome.sentence is not None
    )
    missing = f"<section><h2>Does not apply here</h2><dl>{absent}</dl></section>" if absent else ""
    served = (
        f"<section><h2>deployment.yaml</h2><pre tabindex=0>{escape(deployment)}</pre></section>"
        if deployment is not None
        else ""
    )
    stopped = "<p class=warning>Stopped early; what was not finished is left out.</p>" if found.interrupted else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>reticent: rehearsal of {escape(found.name)}</title>
<style>{CSS}</style>
</head>
<body>
<main>
<p class=brand>reticent · rehearsal</p>
<h1>{escape(found.name)}</h1>
<p class=lead>{escape(answer)}</p>
{stopped}
<figure tabindex=0><img alt="Gap against users, and final gap against ε; bands hold nine in ten truths."
src="data:image/png;base64,{encoded}"></figure>
<section><h2>Every promise that was tried</h2>{table(HEAD, body)}
<p class=note><b>Regret</b> is the return lost to the best policy, summed over all {found.users:,} users: mean over
{found.truths:,} truths, and the band that holds nine in ten of them. The <b>final gap</b> is the loss per user over the
last 5% of the users, as a share of what acting at random loses ({found.scale.mean():.3f} on average). <b>Users to
target</b>: after how many the gap stays below {100 * found.target:g}%, in the median; the last column is the K that
nine in ten truths need. <b>One plan, no learning</b> is the best plan for the mean truth, which needs nobody's data: what
loses more than it is not worth deploying. Truths are drawn from a public prior over the candidates' weights, so a
rehearsal spends no privacy; a population that no blend of the candidates meets may fall outside the bands.</p></section>
{served}
<section><h2>The promises in words</h2><dl>{promises}</dl></section>
{missing}
{_model(found)}
</main>
</body>
</html>
"""


def _model(found: Rehearsal) -> str:
    """What the model is: sizes, names and origin."""
    model, names = found.model, found.model.names
    origin = model.about.provenance
    said = "" if origin is None else f"<p class=note>{escape(origin.sentence())}</p>"
    listed = "".join(
        f"<dt>{title}</dt><dd>{escape(_some(labels))}</dd>"
        for title, labels in (("states", names.states), ("actions", names.actions))
    )
    sizes = f"{model.states} states, {model.actions} actions, {model.horizon} steps, {model.d1} candidates"
    return f"<section><h2>The model</h2><p>{sizes}</p>{said}<dl>{listed}</dl></section>"


def _some(labels: tuple[str, ...]) -> str:
    """The first labels, and how many there are."""
    return "; ".join(labels[:SHOWN]) + (f" … ({len(labels)} in all)" if len(labels) > SHOWN else "")


SHOWN = 40
"""How many labels are listed before the rest is counted."""
