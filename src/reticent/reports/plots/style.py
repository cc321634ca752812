# SPDX-License-Identifier: Apache-2.0
"""The style that all pictures share: figure, axes, headings, lines with bands, labels at their ends, saving."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.extras import require
from reticent.reports.plots.bands import Band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK, FAINT = "#222222", "#6E6E6E"
WIDTH, HEIGHT, DPI = 10.67, 4.8, 150
DASHED = (0, (5, 3))
GAP_AXES = (
    "Distance of the policy in force from the best",
    "users (episodes), logarithmic",
    "gap to the best policy (random = 100%)",
)
END_AXES = ("ε (smaller is more private)", "final gap (random = 100%)")


def new_figure(height: float = HEIGHT, width: float = WIDTH, **options: Any) -> Figure:
    """An empty figure of this size in inches.

    Raises:
      MissingExtra: Matplotlib is not installed.
    """
    require("matplotlib", "a picture")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", **options)
    FigureCanvasAgg(figure)
    return figure


def write_headings(
    figure: Figure, title: str, subtitle: str = "", note: str = "", subtitle_colour: str = FAINT
) -> None:
    """Title and subtitle above the panels, a note below; a long title is written smaller."""
    height, width = figure.get_figheight(), figure.get_figwidth()
    size = min(14.0, 105.0 * width / len(title))
    figure.text(0.012, 1 - 0.17 / height, title, fontsize=size, fontweight="bold", color=INK, va="top")
    figure.text(0.012, 1 - 0.48 / height, subtitle, fontsize=9.5, color=subtitle_colour, va="top")
    figure.text(0.012, 0.12 / height, note, fontsize=8.5, color=FAINT, wrap=True)


def png(figure: Figure) -> bytes:
    """The figure as the content of a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": "reticent"})
    return content.getvalue()


def save(figure: Figure, path: Path) -> Path:
    """Write the figure; the format follows the file's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": "reticent"} if path.suffix == ".png" else None)
    return path


def name_axes(axes: Axes, title: str, across: str, up: str = "", above: float = 6.0) -> None:
    """The panel's title, ``above`` points over the panel, and what its axes measure."""
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=above)
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)


def log_shares(axes: Axes, low: float, high: float) -> None:
    """A logarithmic vertical axis in per cent, and a line at 100%: what acting at random loses."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.axhline(1.0, color=FAINT, linestyle=DASHED, linewidth=1.3, zorder=1)
    axes.yaxis.set_major_formatter(percent)
    # Less than a decade and a half: powers of ten alone would leave the axis bare, and all nine between them collide.
    axes.yaxis.set_minor_formatter(twos_and_fives if low > 0.05 else lambda *_: "")


def epsilon_axis(axes: Axes, places: Sequence[float]) -> None:
    """A horizontal axis with a tick at each ε; logarithmic if there are several."""
    if len(places) > 1:
        axes.set_xscale("log")
    axes.set_xticks(places, [f"{epsilon:g}" for epsilon in places])
    axes.xaxis.set_minor_formatter(lambda *_: "")


def draw_line(axes: Axes, episodes: np.ndarray, measured: Band, colour: str, label: str) -> None:
    """A line with its band."""
    if measured.low is not None and measured.high is not None:
        axes.fill_between(episodes, measured.low, measured.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(episodes, measured.mean, color=colour, linewidth=2.0, label=label, solid_capstyle="round")


def _height(axes: Axes, value: float) -> float:
    """Where a value is between the floor (0) and the ceiling (1) of the panel, on whatever scale it has."""
    floor, ceiling = axes.get_ylim()  # below the floor of a logarithmic axis there may be no place at all
    places = axes.transData.transform([(axes.get_xlim()[1], y) for y in (floor, ceiling, max(value, floor))])
    low, high, at = places[:, 1]
    return float(np.clip((at - low) / (high - low), 0.0, 1.0))


def label_ends(axes: Axes, ends: Sequence[tuple[str, float, str]]) -> None:
    """Name each line at its right end, pushed apart where they would overlap."""
    ordered = sorted(ends, key=lambda end: end[1])
    spacing, previous_top = 0.057, -np.inf
    places = []
    for label, value, colour in ordered:
        half = spacing * (label.count("\n") + 1) / 2
        height = _height(axes, value)
        place = max(height, previous_top + half, half)
        previous_top = place + half
        places.append((label, height, colour, place))
    excess = max(0.0, previous_top - 1.0)
    for label, height, colour, wanted in places:
        place = wanted - excess
        axes.annotate(
            label,
            (1.0, height),
            xytext=(1.035, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontsize=9,
            fontweight="bold",
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 0, "relpos": (0.0, 0.5)},
        )


def clean_axes(axes: Axes) -> None:
    """Two spines, a light grid behind the lines."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#AAAAAA")
    axes.tick_params(colors=INK, labelsize=9, width=0.8, which="both")
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)


def thousands(value: float, position: object = None) -> str:
    """A tick's label with separators."""
    del position
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:g}"


def twos_and_fives(share: float, position: object = None) -> str:
    """Per cent at 2 and 5 times a power of ten, nothing elsewhere.

    >>> [twos_and_fives(share) for share in (0.2, 0.3, 0.05)]
    ['20%', '', '5%']
    """
    del position
    return percent(share) if f"{share:e}"[0] in "25" else ""


def percent(share: float, position: object = None) -> str:
    """A tick's label of a share."""
    del position
    return f"{100 * share:.4g}%"
