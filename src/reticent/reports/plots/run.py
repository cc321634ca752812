# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: what learning has cost so far, and how far the policy in force is from the best one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reticent.reports.plots.bands import Reference, band, band_words, gaps
from reticent.reports.plots.style import (
    COLOURS,
    DASHED,
    FAINT,
    GAP_AXES,
    INK,
    clean_axes,
    draw_line,
    label_ends,
    log_shares,
    name_axes,
    new_figure,
    save,
    thousands,
    write_headings,
)

if TYPE_CHECKING:
    from reticent.experiments.config import AgentConfig
    from reticent.experiments.result import RunResult

MOST_DIRECT_LABELS = 7
FAR_APART = 12.0
"""Ratio of the largest to the least regret from which on the panel of regret is logarithmic."""

MOST_OPTIONS = 3
"""Lines of options under a name; the report has all of them."""


def draw_run(result: RunResult, path: Path, references: Sequence[Reference] = ()) -> Path:
    """Draw both panels of a run to ``path``; see :meth:`RunResult.plot`."""
    figure = new_figure()
    # The left panel's labels stand between the panels and get as much room as the longest line needs.
    longest = max(len(line) for run in result.runs for line in _label(run.config).split("\n"))
    labels = 0.03 + 0.0067 * min(longest, 28)
    end = 0.976  # half of the last tick's label stands beyond it
    panels = end - 0.075 - labels - 0.075
    left = figure.add_axes((0.075, 0.185, 0.53 * panels, 0.59))
    right = figure.add_axes((end - 0.47 * panels, 0.185, 0.47 * panels, 0.59))
    for axes in (left, right):
        clean_axes(axes)
    _regret_panel(left, result, references)
    _gap_panel(right, result)
    title = f"What learning costs: {result.config.episodes:,} users of “{result.config.world}”"
    words = band_words(len(result.config.seeds)) + " Simulated; regret is measured against the hidden truth."
    write_headings(figure, title, _subtitle(result), words)
    return save(figure, path)


def _subtitle(result: RunResult) -> str:
    model = result.world.model
    sizes = f"{model.states} states, {model.actions} actions, {model.horizon} steps per user"
    stopped = "   ·   stopped early" if result.interrupted else ""
    best, random = result.optimal_value, result.uniform_value
    return f"{sizes}   ·   return per user: best possible {best:.3f}, actions at random {random:.3f}{stopped}"


def _regret_panel(axes: Axes, result: RunResult, references: Sequence[Reference]) -> None:
    name_axes(axes, "Return lost so far", "users (episodes)", "cumulative regret (sum of returns)")
    last = max(int(curves.episodes[-1]) for curves in result.curves.values())
    top, ends = 0.0, []
    for run, colour in zip(result.runs, _colours(result), strict=True):
        curves, label = run.curves, _label(run.config)
        measured = band(curves.regret)
        draw_line(axes, curves.episodes, measured, colour, label)
        top = max(top, float((measured.mean if measured.high is None else measured.high).max()))
        ends.append((label, float(measured.mean[-1]), colour))
    uniform = result.scale * last
    logarithmic = _far_apart([value for _, value, _ in ends])
    # The random policy's line would flatten all others against the axis; it may leave through the ceiling.
    ceiling = max(top, uniform if logarithmic or uniform < 2.5 * top else 0.0, 1e-9)
    ceiling *= 1.6 if logarithmic else 1.08
    axes.set_xlim(0, last)
    axes.set_ylim(0, ceiling)
    start = 0
    if logarithmic:
        start = 1
        least = min(float(curves.regret.mean(axis=0)[0]) for curves in result.curves.values())
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, max(2, last))
        axes.set_ylim(max(0.5 * least, 1e-6 * ceiling), ceiling)
        axes.set_xlabel("users (episodes), logarithmic")
        axes.set_ylabel("cumulative regret, logarithmic")
    axes.plot([start, last], [start * result.scale, uniform], color=FAINT, linestyle=DASHED, linewidth=1.3, zorder=1)
    if uniform <= ceiling:
        ends.append(("actions at random", uniform, FAINT))
    else:
        _label_ray(axes, "actions at random", last, uniform, ceiling)
    for reference in references:
        axes.plot(reference.episodes, reference.regret, color=INK, linestyle=":", linewidth=1.2)
        inside = np.flatnonzero(reference.regret <= ceiling)
        if inside.size:
            ends.append((reference.label, float(reference.regret[inside[-1]]), INK))
    axes.yaxis.set_major_formatter(thousands)
    axes.xaxis.set_major_formatter(thousands)
    if not logarithmic:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10]))
    if len(ends) <= MOST_DIRECT_LABELS:
        label_ends(axes, ends)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8)


def _far_apart(ends: Sequence[float]) -> bool:
    """Whether the best lines would lie on the axis if the worst one were to fit: then the panel is logarithmic.

    >>> _far_apart([25_000.0, 130.0]), _far_apart([350.0, 90.0, 40.0])
    (True, False)
    """
    positive = [value for value in ends if value > 0]
    return bool(positive) and max(positive) > FAR_APART * min(positive)


def _gap_panel(axes: Axes, result: RunResult) -> None:
    name_axes(axes, *GAP_AXES)
    scale = result.scale if result.scale > 0 else 1.0
    lowest, highest = np.inf, 1.0
    drawn = []
    for (label, curves), colour in zip(result.curves.items(), _colours(result), strict=True):
        episodes, samples = gaps(curves)
        measured = band(samples / scale)
        drawn.append((episodes, measured, colour, label))
        positive = measured.mean[measured.mean > 1e-4]
        lowest = min(lowest, float(positive.min()) if positive.size else 1e-4)
        highest = max(highest, float(measured.mean.max()))
    floor = max(0.6 * min(lowest, 0.5), 1e-4)
    for episodes, measured, colour, label in drawn:
        draw_line(axes, episodes, measured.at_least(floor / 10), colour, label)
    axes.set_xscale("log")
    axes.set_xlim(1, max(2, *(int(episodes[-1]) for episodes, *_ in drawn)))
    axes.xaxis.set_major_formatter(thousands)
    log_shares(axes, floor, 1.5 * highest)
    below = highest > 1.02  # a line above it would run through the words
    axes.annotate(
        "actions at random",
        (1, 1.0),
        xytext=(0.99, -4 if below else 3),
        textcoords=("axes fraction", "offset points"),
        color=FAINT,
        fontsize=8.5,
        ha="right",
        va="top" if below else "bottom",
        bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1},
    )


def _label_ray(axes: Axes, text: str, last: float, uniform: float, ceiling: float) -> None:
    """Write along the random policy's line, where it leaves the panel."""
    share = min(1.0, ceiling / uniform) if uniform > 0 else 1.0
    at = (0.9 * share * last, 0.9 * share * uniform)
    steep = share < 0.35
    axes.annotate(
        text,
        at,
        xytext=(6, -2) if steep else (-6, 4),
        textcoords="offset points",
        color=FAINT,
        fontsize=8.5,
        ha="left" if steep else "right",
        va="center" if steep else "bottom",
    )


def _label(config: AgentConfig) -> str:
    """An agent's label on short lines: options under the name, and a private agent's promise in any case."""
    if config.comparator:
        return f"{config.name}\nno privacy"
    name, _, options = config.label.partition(":")
    given = [option for option in options.split(",") if option and not option.startswith(("trust=", "epsilon="))]
    if "epsilon" in config.options:
        given.insert(0, f"{config.options.get('trust', '')} ε = {config.options['epsilon']:g}".strip())
    if len(given) > MOST_OPTIONS:
        given = [*given[: MOST_OPTIONS - 1], f"and {len(given) - MOST_OPTIONS + 1} more options"]
    return "\n".join([name, *given])


def _colours(result: RunResult) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(len(result.runs))]
