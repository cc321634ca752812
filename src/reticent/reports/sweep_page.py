# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import yaml

from reticent.reports.numbers import option_in_words
from reticent.reports.pages import render

if TYPE_CHECKING:
    from reticent.experiments.sweep.summary import Setting
    from reticent.experiments.sweep.sweep import SweepResult


def sweep_html(result: SweepResult, picture: bytes) -> str:
    """The whole page; ``picture`` is a PNG and goes into it."""
    by_world: dict[str, list[Setting]] = {}
    for setting in result.settings:
        by_world.setdefault(setting.world, []).append(setting)
    return render(
        "sweep.html",
        date=str(result.metadata.get("date", ""))[:10],
        settings=len(result.settings),
        worlds=[(world, table_rows(settings)) for world, settings in by_world.items()],
        lead=_lead(result),
        missing=_missing(result),
        picture=picture,
        head=HEAD,
        failures=[(cell.agent_config.spec, cell.world, cell.id, result.failures[cell.id]) for cell in result.failed],
        grid=yaml.safe_dump(result.grid.to_dict(), sort_keys=False, allow_unicode=True, width=100),
        circumstances=json.dumps(result.metadata, indent=2, ensure_ascii=False),
    )


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
    return f"Of {len(result.cells)} cells {' and '.join(why)}; this is what is finished."


def _promise(row: dict[str, Any]) -> str:
    if row["epsilon_spent"] is None:
        return "none"
    promised = f"({option_in_words(row['epsilon'])}, {option_in_words(row['delta'])})"
    return f"{row['trust']} {promised}, spends {row['epsilon_spent']:.4g}"


def _with_error(mean: float, error: float | None, style: str) -> str:
    return f"{mean:{style}}" + ("" if error is None else f" ± {error:{style}}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"
