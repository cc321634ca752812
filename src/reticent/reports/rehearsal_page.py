# SPDX-License-Identifier: Apache-2.0
"""The page of a rehearsal: the answer first, then the picture, then every promise tried, then the file to serve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reticent.reports.pages import render

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
    names = found.model.names
    return render(
        "rehearsal.html",
        found=found,
        answer=answer,
        deployment=deployment,
        picture=picture,
        head=HEAD,
        rows=rows(found),
        promises=[(outcome.agent, outcome.sentence) for outcome in found.outcomes if outcome.sentence is not None],
        absent=[(one.agent, one.reason) for one in found.absent],
        model=found.model,
        labels=[("states", _some(names.states)), ("actions", _some(names.actions))],
    )


def _some(labels: tuple[str, ...]) -> str:
    """The first labels, and how many there are."""
    return "; ".join(labels[:SHOWN]) + (f" … ({len(labels)} in all)" if len(labels) > SHOWN else "")


SHOWN = 40
"""How many labels are listed before the rest is counted."""
