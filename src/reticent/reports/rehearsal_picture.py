# SPDX-License-Identifier: Apache-2.0
"""The picture of a rehearsal: how the gap falls with users, and what ε costs in the end; bands hold nine in ten truths."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from reticent.reports.plots import COLOURS, DPI, FAINT, INK, clean_axes, thousands

if TYPE_CHECKING:
    from reticent.experiments.rehearsal import Outcome, Rehearsal

FLOOR = 1e-4
"""Gaps below are drawn here: a logarithmic axis has no place for zero."""


def draw_rehearsal(found: Rehearsal) -> bytes:
    """Both panels as a PNG."""
    figure = Figure(figsize=(11.4, 5.0), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.075, right=0.98, wspace=0.24, top=0.8, bottom=0.2)
    for axes in (left, right):
        clean_axes(axes)
        axes.set_yscale("log")
        axes.set_ylim(FLOOR * 5, 2.0)
        axes.axhline(1.0, color=FAINT, linestyle=(0, (5, 3)), linewidth=1.2, zorder=1)
        axes.axhline(found.target, color=INK, linestyle=":", linewidth=1.2, zorder=1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    _falling(left, found)
    _by_epsilon(right, found)
    title = f"What to expect of {found.users:,} users of “{found.name}”"
    figure.text(0.012, 0.965, title, fontsize=min(14.0, 14.0 * 80 / len(title)), fontweight="bold", color=INK, va="top")
    words = (
        f"{found.truths:,} truths from a public prior. Lines: median; bands: nine in ten truths. Dashed: acting at random; "
        f"dotted: the target of {100 * found.target:g}%. No user's data enter."
    )
    figure.text(0.012, 0.025, words, fontsize=8.5, color=FAINT)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": "reticent"})
    return content.getvalue()


def _falling(axes: Axes, found: Rehearsal) -> None:
    """Gap against users: the outcomes at the first ε, and the floor."""
    first = found.private[0].epsilon if found.private else None
    shown = [outcome for outcome in found.outcomes if outcome.epsilon in (first, None)]
    for outcome, colour in zip(shown, COLOURS, strict=False):
        low, middle, high = np.quantile(outcome.gap, (0.05, 0.5, 0.95), axis=0).clip(FLOOR)
        axes.fill_between(outcome.episodes, low, high, color=colour, alpha=0.15, linewidth=0, step="post")
        axes.step(outcome.episodes, middle, where="post", color=colour, linewidth=2.0, label=_label(outcome))
    axes.set_xscale("log")
    axes.set_xlim(1, found.users)
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.set_xlabel("users (episodes), logarithmic")
    axes.set_ylabel("gap to the best policy (random = 100%)")
    axes.set_title("Distance of the policy in force from the best", loc="left", fontsize=11, color=INK)
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")


def _by_epsilon(axes: Axes, found: Rehearsal) -> None:
    """Final gap against ε, one line for each trust."""
    trusts = list(dict.fromkeys(outcome.trust for outcome in found.private))
    for trust, colour in zip(trusts, COLOURS, strict=False):
        chosen = sorted(
            ((outcome.epsilon or 0.0, outcome.end) for outcome in found.private if outcome.trust == trust),
            key=lambda both: both[0],
        )
        places, ends = [epsilon for epsilon, _ in chosen], [end for _, end in chosen]
        axes.fill_between(
            places, np.maximum([end.low_end for end in ends], FLOOR), np.maximum([end.high_end for end in ends], FLOOR),
            color=colour, alpha=0.15, linewidth=0,
        )  # fmt: skip
        axes.plot(
            places,
            np.maximum([end.median for end in ends], FLOOR),
            color=colour,
            marker="o",
            linewidth=2.0,
            label=trust,
        )
    marks = sorted({outcome.epsilon for outcome in found.private if outcome.epsilon is not None})
    if len(marks) > 1:
        axes.set_xscale("log")
    axes.set_xticks(marks, [f"{epsilon:g}" for epsilon in marks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("ε (smaller is more private)")
    axes.set_ylabel("final gap (random = 100%)")
    axes.set_title("What privacy costs in the end", loc="left", fontsize=11, color=INK)
    if trusts:
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")


def _label(outcome: Outcome) -> str:
    return "no privacy" if outcome.epsilon is None else f"{outcome.trust}, ε = {outcome.epsilon:g}"
