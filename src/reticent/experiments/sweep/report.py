# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import yaml

from reticent.experiments.sweep.summary import Setting, shown
from reticent.reports.report import CSS, agent_name, table

if TYPE_CHECKING:
    from reticent.experiments.sweep.sweep import SweepResult


def sweep_html(result: SweepResult, picture: bytes) -> str:
    """The whole page; ``picture`` is a PNG and goes into it."""
    encoded = base64.b64encode(picture).decode("ascii")
    date = str(result.metadata.get("date", ""))[:10]
    worlds = list(dict.fromkeys(setting.world for setting in result.settings))
    sections = "".join(
        f"<section><h2>{escape(world)}</h2>{_table([s for s in result.settings if s.world == world])}</section>"
        for world in worlds
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>reticent: sweep</title>
<style>{CSS}</style>
</head>
<body>
<main>
<p class=brand>reticent · sweep of {escape(date)}</p>
<h1>{len(result.settings)} settings in {len(worlds)} world{"s" * (len(worlds) != 1)}</h1>
<p class=lead>{escape(_lead(result))}</p>
{_missing(result)}
<figure tabindex=0><img alt="Regret and final gap of every setting" src="data:image/png;base64,{encoded}"></figure>
{sections}
<p class=note><b>Regret</b> is the return lost to the best policy, summed over all users; the <b>final gap</b> is the loss
per user over the last 5% of them. Both: mean ± standard error over the seeds, and as a share of what acting at random
loses. <b>Promise</b>: trust model and (ε, δ) kept towards every user, and the ε that is really spent at that δ. The noise
of a simulation is pseudo-random: it shows what a promise costs and protects nobody.</p>
{_failures(result)}
{_folded("Grid", yaml.safe_dump(result.grid.to_dict(), sort_keys=False, allow_unicode=True, width=100))}
{_folded("Circumstances", json.dumps(result.metadata, indent=2, ensure_ascii=False))}
</main>
</body>
</html>
"""


def table_rows(settings: Sequence[Setting]) -> list[tuple[str, ...]]:
    """Agent, users, seeds, regret, final gap, promise: as text, for the page and for the terminal."""
    rows: list[tuple[str, ...]] = []
    for setting in settings:
        row = setting.row()
        rows.append(
            (
                row["agent"],
                f"{row['episodes']:,}",
                f"{row['seeds']}" + (f" of {setting.wanted}" if row["seeds_missing"] else ""),
                _with_error(row["regret_mean"], row["regret_stderr"], ",.1f"),
                _share(row["regret_share"]),
                _with_error(row["final_gap"], row["final_gap_stderr"], ".4f"),
                _share(row["final_gap_share"]),
                _promise(row),
            )
        )
    return rows


HEAD = ("agent", "users", "seeds", "regret", "share", "final gap", "share", "promise")


def _table(settings: Sequence[Setting]) -> str:
    rows = [(agent_name(name), *(escape(cell) for cell in cells)) for name, *cells in table_rows(settings)]
    return table(HEAD, rows)


def _lead(result: SweepResult) -> str:
    runs = sum(len(cell.seeds) for cell in result.finished)
    users = sum(cell.learner_episodes for cell in result.finished)
    return f"{runs:,} runs of {users:,} simulated users together, in {len(result.finished):,} cells."


def _missing(result: SweepResult) -> str:
    missing = len(result.cells) - len(result.finished)
    if not missing:
        return ""
    failed = len(result.failures)
    why = [f"{failed} failed"] * bool(failed) + [f"{missing - failed} were not run yet"] * (missing > failed)
    return f"<p class=warning>Of {len(result.cells)} cells {' and '.join(why)}; this is what is finished.</p>"


def _failures(result: SweepResult) -> str:
    if not result.failures:
        return ""
    head = ("cell", "world", "agent", "why")
    rows = [
        (cell.id, escape(cell.world), agent_name(cell.agent_config.spec), escape(result.failures[cell.id]))
        for cell in result.failed
    ]
    return f"<section><h2>Cells that failed</h2>{table(head, rows)}</section>"


def _promise(row: dict[str, Any]) -> str:
    if row["epsilon_spent"] is None:
        return "none"
    return f"{row['trust']} ({shown(row['epsilon'])}, {shown(row['delta'])}), spends {row['epsilon_spent']:.4g}"


def _with_error(mean: float, error: float | None, style: str) -> str:
    return f"{mean:{style}}" + ("" if error is None else f" ± {error:{style}}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre tabindex=0>{escape(content)}</pre></details>"
