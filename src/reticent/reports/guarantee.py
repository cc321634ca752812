# SPDX-License-Identifier: Apache-2.0
"""What the agents of a run promise: the report's privacy section, and the theorems' bounds for its picture.

Everything here follows from the agents' options; none of it depends on what the simulated users did.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.privacy.guarantee import Guarantee, guarantee_of
from reticent.reports.plots import Reference

if TYPE_CHECKING:
    from reticent.agents.linear_mixture.bounds import Bound
    from reticent.experiments.result import AgentRun, RunResult

LEDGER_ROWS = 12
"""How many rounds of a long ledger are shown, spread over the run; the first and the last always."""


def promise(run: AgentRun) -> dict[str, Any] | None:
    """The promise as plain values, for ``--json``; None for an agent that makes none."""
    guarantee = guarantee_of(run.agent)
    return None if guarantee is None else guarantee.to_dict()


def privacy_section(result: RunResult) -> str:
    """Guarantee, ledger and noise of every private agent."""
    from reticent.reports.report import agent_name

    parts, private = [], False
    for run in result.runs:
        guarantee = guarantee_of(run.agent)
        parts.append(f"<h3>{agent_name(run.config.label)}</h3><p>{escape(run.agent.promise.sentence())}</p>")
        if guarantee is not None:
            private = True
            parts += [_limits(guarantee), _ledger_table(guarantee), _noise_table(guarantee)]
    if not private:
        return ""
    note = (
        "<p class=note>The noise of this simulation is pseudo-random: it shows what the promise costs and protects "
        "nobody. A deployment draws its noise from the operating system. Regret and gaps on this page are measured "
        "against the hidden truth of the simulation; a deployed agent cannot know them and does not publish them.</p>"
    )
    return "".join(parts) + note


def _limits(guarantee: Guarantee) -> str:
    return f"<p class=note>Not covered: {escape('; '.join(guarantee.not_covered))}.</p>"


def _ledger_table(guarantee: Guarantee) -> str:
    from reticent.reports.report import table

    ledger = guarantee.ledger
    shown = np.unique(np.round(np.linspace(1, ledger.rounds, min(LEDGER_ROWS, ledger.rounds))).astype(int))
    rows = [
        (
            f"{entry.round:,}", f"{entry.episode:,}",
            "—" if entry.mu_squared is None else f"{entry.mu_squared:.6g}",
            f"{entry.epsilon:.4g}", f"{entry.remaining:.4g}",
        )
        for entry in ledger.entries(shown.tolist())
    ]  # fmt: skip
    head = ("release", "after user", "μ² so far", "ε so far", "ε left")
    return f"<details><summary>Ledger: what is released when</summary>{table(head, rows)}</details>"


def _noise_table(guarantee: Guarantee) -> str:
    from reticent.reports.report import table

    rows = [
        (escape(row.name), str(row.step), f"{row.sensitivity:.4g}", f"{row.scale:.4g}", f"{row.largest:.4g}")
        for row in guarantee.sums
    ]
    law = guarantee.ledger.account.law
    head = (
        "sum", "step", "one user moves it by at most",
        "noise scale b (Laplace)" if law == "Laplace" else "noise σ", "largest noise of a release",
    )  # fmt: skip
    return f"<details><summary>Noise on every sum</summary>{table(head, rows)}</details>"


def theory(result: RunResult) -> tuple[list[Reference], list[Bound]]:
    """The regret bound of every agent of the run, as lines for its picture and with their honest remarks."""
    references, bounds = [], []
    for run in result.runs:
        points = np.unique(np.round(np.linspace(1, run.agent.schedule.episodes, 60)).astype(np.int64))
        stated = run.agent.regret_bound(points)
        if stated is not None:
            curve, bound = stated
            label = run.config.label.partition(":")[0]
            references.append(Reference(f"{bound.theorem}, {label}\n(ends at {bound.value:.2g})", points, curve))
            bounds.append(bound)
    return references, bounds


def theory_section(result: RunResult) -> str:
    """What the theorems say of this run, in words; only where it was asked for."""
    from reticent.reports.report import agent_name

    if not result.config.theory:
        return ""
    _, bounds = theory(result)
    labels = [run.config.label for run in result.runs if run.agent.regret_bound(np.array([1])) is not None]
    items = "".join(
        f"<dt>{agent_name(label)}</dt><dd>{escape(bound.remark)}</dd>"
        for label, bound in zip(labels, bounds, strict=True)
    )
    return f"<dl>{items}</dl>"
