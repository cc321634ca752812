# SPDX-License-Identifier: Apache-2.0
"""The report of a run: results, promises with their ledgers, theorems, settings; readable by a stranger and on a telephone.

Promises and bounds follow from the agents' options; none of them depends on what the simulated users did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.learning.capabilities import regret_bound
from reticent.privacy.guarantee import Guarantee, guarantee_of
from reticent.reports.pages import render
from reticent.reports.plots import Reference, band_words

if TYPE_CHECKING:
    from reticent.agents.linear_mixture.bounds import Bound
    from reticent.experiments.result import AgentRun, RunResult

RESULTS_HEAD = ("agent", "regret", "final gap", "of what there is to learn", "users to 5%", "episodes/s")
LEDGER_HEAD = ("release", "after user", "μ² so far", "ε so far", "ε left")
LEDGER_ROWS = 12
"""How many rounds of a long ledger are shown, spread over the run; the first and the last always."""
AUDIT_PLACE = "<!-- audit -->"


def report_html(result: RunResult, picture: bytes, folded: Mapping[str, str], problem: str | None = None) -> str:
    """The whole page; ``picture`` (a PNG) goes into it, ``folded`` are texts by title that open on request.

    Where there is no picture, ``problem`` says why.
    """
    return render(
        "run.html",
        world=result.config.world,
        date=str(result.metadata.get("date", ""))[:10],
        summary=summary_sentence(result),
        interrupted=result.interrupted,
        picture=picture,
        problem=problem,
        alternative=f"Cumulative regret and gap to the best policy. {band_words(len(result.config.seeds))}",
        results_head=RESULTS_HEAD,
        results=[_result_row(row) for row in result.summary()],
        scale=result.scale,
        private=any(guarantee_of(run.agent) is not None for run in result.runs),
        promises=[_promise_values(run) for run in result.runs],
        ledger_head=LEDGER_HEAD,
        theorems=_theorems(result),
        settings=[(run.config.label, _settings(run)) for run in result.runs],
        audit_place=AUDIT_PLACE,
        folded=folded,
    )


def with_audit(page: str, body: str) -> str:
    """A report with an audit's findings as its section, in the place of an earlier audit's if there was one."""
    if AUDIT_PLACE not in page:
        page = page.replace("</main>", f"{AUDIT_PLACE}</main>")
    before, _, rest = page.partition(AUDIT_PLACE)
    after = rest.rpartition(AUDIT_PLACE)[2]
    return f"{before}{AUDIT_PLACE}<section><h2>Audit</h2>{body}</section>{AUDIT_PLACE}{after}"


def summary_sentence(result: RunResult) -> str:
    """What the run found, in words that need no background."""
    rows = sorted(result.summary(), key=lambda row: float(row["final_gap"]))
    if not rows:
        return "The run was stopped before anything was finished."
    covered = [(row["agent"], row["final_gap_share"]) for row in rows if (row["final_gap_share"] or 0) < 1]
    lost = [row["agent"] for row in rows if (row["final_gap_share"] or 0) >= 1]
    most = max(row["episodes"] for row in rows)
    users = f"After {'up to ' * result.interrupted}{most:,} users of the simulated world “{result.config.world}”"
    if rows[0]["final_gap_share"] is None:
        return f"{users} there was nothing to learn: acting at random is as good as any policy."
    said = []
    if covered:
        shares = [f"{name} {100 * (1 - share):.1f}%" for name, share in covered]
        shares[0] = shares[0].replace(covered[0][0], f"{covered[0][0]} had covered", 1)
        said.append(f"{_listed(shares)} of the way from acting at random to the best possible policy")
    if lost:
        said.append(f"{_listed(lost)} did no better than acting at random")
    return f"{users}, {'; '.join(said)}."


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def promise(run: AgentRun) -> dict[str, Any] | None:
    """The promise as plain values, for ``--json``; None for an agent that makes none."""
    guarantee = guarantee_of(run.agent)
    return None if guarantee is None else guarantee.to_dict()


def theory(result: RunResult) -> tuple[list[Reference], list[Bound]]:
    """The regret bound of every agent of the run, as lines for its picture and with their honest remarks."""
    references, bounds = [], []
    for run in result.runs:
        points = np.unique(np.round(np.linspace(1, run.agent.schedule.episodes, 60)).astype(np.int64))
        stated = regret_bound(run.agent, points)
        if stated is not None:
            curve, bound = stated
            label = run.config.label.partition(":")[0]
            references.append(Reference(f"{bound.theorem}, {label}\n(ends at {bound.value:.2g})", points, curve))
            bounds.append(bound)
    return references, bounds


def _theorems(result: RunResult) -> list[tuple[str, str]]:
    """What the theorems say of this run, in words; only where it was asked for."""
    if not result.config.theory:
        return []
    _, bounds = theory(result)
    labels = [run.config.label for run in result.runs if regret_bound(run.agent, np.array([1])) is not None]
    return [(label, bound.remark) for label, bound in zip(labels, bounds, strict=True)]


def _result_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    error = "" if row["regret_stderr"] is None else f"\u00a0±\u00a0{row['regret_stderr']:,.1f}"
    return (
        row["agent"],
        f"{row['regret_mean']:,.1f}{error}",
        f"{row['final_gap']:.4f}",
        "–" if row["final_gap_share"] is None else f"{100 * row['final_gap_share']:.1f}%",
        "–" if row["users_until_5_percent"] is None else f"{row['users_until_5_percent']:,.0f}",
        f"{row['episodes_per_second']:,.0f}",
    )


def _settings(run: AgentRun) -> str:
    guarantee = guarantee_of(run.agent)
    # A private agent's options as they were resolved: the paper's calibration, for one, overrides most.
    chosen = {**run.config.options, **({} if guarantee is None else guarantee.settings)}
    return ", ".join(f"{key} = {'default' if value is None else value}" for key, value in chosen.items())


def _promise_values(run: AgentRun) -> dict[str, Any]:
    """Guarantee, ledger and noise of one agent."""
    guarantee = guarantee_of(run.agent)
    said = {"label": run.config.label, "sentence": run.agent.promise.sentence(), "not_covered": None}
    if guarantee is None:
        return said
    law = "noise scale b (Laplace)" if guarantee.ledger.account.law == "Laplace" else "noise σ"
    return said | {
        "not_covered": "; ".join(guarantee.not_covered),
        "ledger": _ledger_rows(guarantee),
        "noise_head": ("sum", "step", "one user moves it by at most", law, "largest noise of a release"),
        "noise": [
            (row.name, str(row.step), f"{row.sensitivity:.4g}", f"{row.scale:.4g}", f"{row.largest:.4g}")
            for row in guarantee.sums
        ],
    }


def _ledger_rows(guarantee: Guarantee) -> list[tuple[str, ...]]:
    ledger = guarantee.ledger
    shown = np.unique(np.round(np.linspace(1, ledger.rounds, min(LEDGER_ROWS, ledger.rounds))).astype(int))
    return [
        (
            f"{entry.round:,}",
            f"{entry.episode:,}",
            "—" if entry.mu_squared is None else f"{entry.mu_squared:.6g}",
            f"{entry.epsilon:.4g}",
            f"{entry.remaining:.4g}",
        )
        for entry in ledger.entries(shown.tolist())
    ]
