# SPDX-License-Identifier: Apache-2.0
"""The picture of a rehearsal: how the gap falls with users, and what ε costs in the end; bands hold nine in ten truths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from reticent.reports.plots.bands import Band
from reticent.reports.plots.style import (
    COLOURS,
    END_AXES,
    GAP_AXES,
    INK,
    clean_axes,
    draw_line,
    epsilon_axis,
    log_shares,
    name_axes,
    new_figure,
    percent,
    png,
    thousands,
    write_headings,
)

if TYPE_CHECKING:
    from reticent.experiments.rehearsal import Outcome, Rehearsal

FLOOR = 1e-4
"""Gaps below are drawn here: a logarithmic axis has no place for zero."""


def draw_rehearsal(found: Rehearsal) -> bytes:
    """Gap against users and, where several promises were rehearsed, against ε; as a PNG."""
    figure = new_figure(5.0)
    panels = (_falling, _by_epsilon) if len(found.private) > 1 else (_falling,)
    figure.subplots_adjust(left=0.075, right=0.98, wspace=0.24, top=0.8, bottom=0.2)
    for draw, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False).flat, strict=True):
        clean_axes(axes)
        log_shares(axes, 0.8 * FLOOR, 2.0)
        axes.axhline(found.target, color=INK, linestyle=":", linewidth=1.2, zorder=1)
        draw(axes, found)
    title = f"What to expect of {found.users:,} users of “{found.name}”"
    words = (
        f"{found.truths:,} truths from a public prior. Lines: median; bands: nine in ten truths. Dashed: acting at random; "
        f"dotted: the target of {percent(found.target)}. Floor: at most {percent(FLOOR)}. No user's data enter."
    )
    write_headings(figure, title, note=words)
    return png(figure)


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
    axes.xaxis.set_major_formatter(thousands)
    name_axes(axes, *GAP_AXES)
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
        middle, low, high = np.array([(end.median, end.low_end, end.high_end) for end in ends]).T
        draw_line(axes, np.array(places), Band(middle, low, high).at_least(FLOOR), colour, trust)
        axes.lines[-1].set_marker("o")
    marks = sorted({outcome.epsilon for outcome in found.private if outcome.epsilon is not None})
    epsilon_axis(axes, marks)
    name_axes(axes, "What privacy costs in the end", *END_AXES)
    if trusts:
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")


def _label(outcome: Outcome) -> str:
    return "no privacy" if outcome.epsilon is None else f"{outcome.trust}, ε = {outcome.epsilon:g}"
