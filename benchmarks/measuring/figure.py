# SPDX-License-Identifier: Apache-2.0
"""The picture of the scaling: six small panels, one for each size, with both axes logarithmic."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from measuring import machine
from measuring.scaling import AGENTS, BASE, WORDS, Scaling
from reticent.reports.plots import COLOURS, DPI, FAINT, INK

WIDTH, HEIGHT = 10.67, 6.6


def draw_scaling(found: Scaling, path: Path) -> None:
    """Write the picture to ``path``."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 3, sharey=True)
    for axes, size in zip(panels.flat, WORDS, strict=True):
        draw_panel(axes, found, size)
    for axes in panels[:, 0]:
        axes.set_ylabel("µs of one learner-episode")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, title="Time of one learner-episode against every size", title_fontsize=13,
        loc="outside upper center", ncols=2, frameon=False, labelcolor=INK,
    )  # fmt: skip
    base = ", ".join(f"{name} = {value:,}" for name, value in BASE.items())
    figure.supxlabel("\n".join([f"where a size is not on the axis: {base}", caption(found)]), color=FAINT, fontsize=8)
    figure.savefig(path)


def draw_panel(axes: Axes, found: Scaling, size: str) -> None:
    """One size: a line for each agent, labelled by its slope."""
    for line in found.of(size):
        colour = COLOURS[list(AGENTS).index(line.agent)]
        micro = [1e6 * seconds for seconds in line.seconds]
        axes.plot(line.values, micro, color=colour, marker="o", markersize=4, linewidth=2, label=line.agent)
        falls = micro[-1] < micro[-2]
        axes.annotate(
            f"slope {line.slope:.2f}", (line.values[-1], micro[-1]), xytext=(0, -7 if falls else 7),
            textcoords="offset points", ha="right", va="top" if falls else "bottom", fontsize=8, color=colour,
        )  # fmt: skip
    values = found.of(size)[0].values
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(WORDS[size])
    crowded = len(values) > 5
    axes.set_xticks(values[::2] if crowded else values)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.1, y=0.12)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def caption(found: Scaling) -> str:
    """Where it was measured, and what memory it took."""
    lines = [machine.in_words(found.machine)]
    for label, spec in AGENTS.items():
        peaks = [peak for peak in found.peaks if peak.agent == spec]
        if peaks:
            each = ", ".join(f"{peak.peak_bytes / 2**30:.2f} GiB at K = {_short(peak.episodes)}" for peak in peaks)
            lines.append(f"most memory with {peaks[0].learners} learners, {label}: {each}")
    return "\n".join(lines)


def _short(value: float) -> str:
    """A number for an axis.

    >>> _short(20_000), _short(1_000_000), _short(64)
    ('20k', '1M', '64')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"
