"""What the agents of a run promise: the report's privacy section, and the theorems' bounds for its picture.

Everything here follows from the agents' options; none of it depends on what the simulated users did.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from reticent.agents.registry import REMARKS, privacy_plan_of
from reticent.experiments.plots import Reference
from reticent.experiments.result import AgentRun, RunResult
from reticent.learning import Agent, FixedRegularizer
from reticent.privacy.certificate import release_multipliers
from reticent.theory.bounds import Bound, bound_curve

LEDGER_ROWS = 12
"""How many rounds of a long ledger are shown, spread over the run; the first and the last always."""


def privacy_plan(run: AgentRun) -> Any:
    """The plan of a private agent, of whatever kind; None for one that promises nothing."""
    agent, config = run.agent, run.config
    return privacy_plan_of(config.name, agent.model, agent.schedule.episodes, config.options)


def promise(run: AgentRun) -> dict[str, Any] | None:
    """The promise as plain values, for ``--json``; None for an agent that makes none."""
    plan = privacy_plan(run)
    if plan is None:
        return None
    return {
        "trust": plan.options.trust,
        "adjacency": plan.options.adjacency,
        "epsilon": plan.options.epsilon,
        "delta": plan.options.delta,
        "epsilon_spent": plan.calibration.epsilon_spent,
        "mu": plan.calibration.mu,
        "counter": plan.calibration.counter.name,
        "calibration": plan.options.calibration,
        "releases": plan.schedule.releases,
        "sentence": plan.promise,
    }


def privacy_section(result: RunResult) -> str:
    """Guarantee, ledger and noise of every private agent."""
    from reticent.experiments.report import agent_name

    parts = []
    for run in result.runs:
        plan = privacy_plan(run)
        name = agent_name(run.config.label)
        if plan is None:
            parts.append(f"<h3>{name}</h3><p>{escape(_without_promise(run))}</p>")
        else:
            parts.append(f"<h3>{name}</h3><p>{escape(plan.promise)}</p>{_ledger_table(plan)}{_noise_table(plan)}")
    if all(privacy_plan(run) is None for run in result.runs):
        return ""
    note = (
        "<p class=note>The noise of this simulation is pseudo-random: it shows what the promise costs and protects "
        "nobody. A deployment draws its noise from the operating system. Regret and gaps on this page are measured "
        "against the hidden truth of the simulation; a deployed agent cannot know them and does not publish them.</p>"
    )
    return "".join(parts) + note


def _without_promise(run: AgentRun) -> str:
    """What is said of an agent that promises users nothing."""
    if run.config.name in REMARKS:
        return REMARKS[run.config.name](**run.config.options)
    return "Promises no privacy: it is the yardstick for what privacy costs."


def _ledger_table(plan: Any) -> str:
    from reticent.experiments.report import table

    ledger = plan.ledger
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


def _noise_table(plan: Any) -> str:
    from reticent.experiments.report import table

    ends = plan.schedule.ends[: plan.schedule.releases]
    largest = float(release_multipliers(plan.calibration, ends).max())
    rows = [
        (
            escape(row["name"]), str(row["step"]),
            f"{row['sensitivity']:.4g}", f"{row['sigma']:.4g}", f"{row['release_std_max']:.4g}",
        )
        for row in plan.calibration.to_rows(largest)
    ]  # fmt: skip
    laplace = getattr(plan.options, "law", "gaussian") == "laplace"
    scale = "noise scale b (Laplace)" if laplace else "noise σ"
    head = ("sum", "step", "one user moves it by at most", scale, "largest noise of a release")
    return f"<details><summary>Noise on every sum</summary>{table(head, rows)}</details>"


def theory(result: RunResult) -> tuple[list[Reference], list[Bound]]:
    """The regret bound of every agent of the run, as lines for its picture and with their honest remarks."""
    references, bounds = [], []
    for run in result.runs:
        agent, options, plan = run.agent, run.config.options, privacy_plan(run)
        fixed = agent.regularizer
        if not _has_bound(run):
            continue
        assert isinstance(agent, Agent)
        certificate = fixed.certificate() if plan is None else plan.regularization.certificate
        grid = np.unique(np.round(np.linspace(1, agent.schedule.episodes, 60)).astype(np.int64))
        curve, bound = bound_curve(
            grid, agent.method, agent.model, certificate, agent.schedule.episodes, options["alpha"],
            actions=agent.model.actions, frame=agent.frame, schedule=agent.schedule,
            weighted=plan is not None and plan.calibration.counter.weights() is not None, pooled=fixed.pooled,
            bonus_scale=options["bonus_scale"], shift_scale=options.get("shift_scale", 1.0),
        )  # fmt: skip
        label = run.config.label.partition(":")[0]
        references.append(Reference(f"{bound.theorem}, {label}\n(ends at {bound.value:.2g})", grid, curve))
        bounds.append(bound)
    return references, bounds


def _has_bound(run: AgentRun) -> bool:
    """Whether our theorems speak of this agent: a linear learner that is private or has a fixed regularizer."""
    private = privacy_plan(run) is not None
    return isinstance(run.agent, Agent) and (private or isinstance(run.agent.regularizer, FixedRegularizer))


def theory_section(result: RunResult) -> str:
    """What the theorems say of this run, in words; only where it was asked for."""
    from reticent.experiments.report import agent_name

    if not result.config.theory:
        return ""
    _, bounds = theory(result)
    labels = [run.config.label for run in result.runs if _has_bound(run)]
    items = "".join(
        f"<dt>{agent_name(label)}</dt><dd>{escape(bound.remark)}</dd>"
        for label, bound in zip(labels, bounds, strict=True)
    )
    return f"<dl>{items}</dl>"
