# SPDX-License-Identifier: Apache-2.0
"""The picture of a sweep: per world, how much each setting lost and how far from the best policy it ended.

If the sweep varies a number (ε before all others), that is the horizontal axis and every other combination a line;
otherwise every setting is a row. Bars around points say what they are and of how many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter
from matplotlib.transforms import ScaledTranslation

from reticent.naming import join
from reticent.reports.numbers import option_in_words
from reticent.reports.plots.bands import band, band_words
from reticent.reports.plots.style import COLOURS, DASHED, FAINT, INK, clean_axes, new_figure, percent, png

if TYPE_CHECKING:
    from reticent.experiments.sweep.summary import Setting

PREFERRED = ("epsilon", "episodes", "bonus_scale", "delta")
"""Numbers that make the better horizontal axis, best first; then whichever has most values."""

AXIS_WORDS = {
    "epsilon": "ε (less is more private)",
    "delta": "δ",
    "episodes": "users (episodes)",
    "bonus_scale": "bonus scale",
}
FLOOR = 1e-4
"""Shares below this are drawn on it: the bottom of a panel means at most 0.01%."""

MOST_ROWS, MOST_WORLDS = 40, 8
Style = Literal["-", "--", ":", "-."] | tuple[float, tuple[float, ...]]
STYLES: tuple[Style, ...] = ("-", "-.", ":", "--")
MARKERS = ("o", "s", "^", "D")


class Look(NamedTuple):
    """How a line is drawn; ``aside`` is how far its points stand beside their place, in points."""

    colour: str
    style: Style
    marker: str
    aside: float


class Measure(NamedTuple):
    """A panel: what is measured of every seed, as a share of what acting at random loses."""

    title: str
    of: Callable[[Setting], np.ndarray]


MEASURES = (
    Measure("Return lost over all users", lambda setting: setting.regret / (_scale(setting) * setting.episodes)),
    Measure("Gap to the best policy at the end", lambda setting: setting.final_gap / _scale(setting)),
)


def draw_sweep(settings: Sequence[Setting]) -> bytes:
    """A PNG with a row of panels for every world (and number of users, unless that is the axis)."""
    axis = horizontal_axis(settings)
    panels: dict[tuple[str, int], list[Setting]] = {}
    for setting in settings:
        panels.setdefault((setting.world, 0 if axis == "episodes" else setting.episodes), []).append(setting)
    drawn = dict(list(panels.items())[:MOST_WORLDS])
    rows = max(len(group) for group in drawn.values())
    height = 3.1 if axis else 1.2 + 0.27 * min(rows, MOST_ROWS)
    figure = new_figure(1.3 + height * len(drawn), layout="constrained")
    title = f"What each setting costs: {len(settings)} settings"
    figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK)
    grid = figure.subplots(len(drawn), len(MEASURES), squeeze=False, sharey=not axis and "row")
    looks = _looks((setting for group in drawn.values() for setting in group), axis) if axis else {}
    for axes, ((world, episodes), group) in zip(grid, drawn.items(), strict=True):
        users = f", {episodes:,} users" if episodes else ""
        # A world's name may be as long as both panels together, so it stands over the first only.
        for panel, measure, above in zip(axes, MEASURES, (f"“{world}”{users}", ""), strict=True):
            clean_axes(panel)
            panel.set_title(f"{above}\n{measure.title}", loc="left", fontsize=10, color=INK)
            if axis:
                _lines(panel, group, measure, axis, looks)
            else:
                _rows(panel, group, measure)
    if axis:
        _legend(figure, looks)
    figure.supxlabel(
        _caption(settings, len(panels) - len(drawn), None if axis else rows),
        x=0.012,
        ha="left",
        fontsize=8.5,
        color=FAINT,
    )
    return png(figure)


def horizontal_axis(settings: Sequence[Setting]) -> str | None:
    """The number that the sweep varies and that is drawn along; None if it varies none."""
    values: dict[str, set[float]] = {}
    for setting in settings:
        for key in ("episodes", *setting.varied):
            value = setting.episodes if key == "episodes" else setting.options[key]
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault(key, set()).add(float(value))
    # Worlds have numbers of users of their own; only if one world has several are they varied.
    if len({(setting.world, setting.episodes) for setting in settings}) == len({setting.world for setting in settings}):
        values.pop("episodes", None)
    several = [key for key, different in values.items() if len(different) > 1]
    return min(
        several,
        key=lambda key: (PREFERRED.index(key) if key in PREFERRED else len(PREFERRED), -len(values[key])),
        default=None,
    )


def _line_of(setting: Setting, axis: str | None) -> str:
    """The setting without the axis: all settings of one line have the same."""
    return join(setting.agent, {key: option_in_words(setting.options[key]) for key in setting.varied if key != axis})


def _at(setting: Setting, axis: str) -> float | None:
    """Where the setting stands on the axis; None if it has no such number and holds everywhere along it."""
    value = setting.episodes if axis == "episodes" else setting.options.get(axis)
    return None if value is None else float(value)


def _lines(axes: Axes, group: Sequence[Setting], measure: Measure, axis: str, looks: Mapping[str, Look]) -> None:
    places = sorted({place for setting in group if (place := _at(setting, axis)) is not None})
    for line, look in looks.items():
        mine = [setting for setting in group if _line_of(setting, axis) == line]
        points = [(place, setting) for setting in mine if (place := _at(setting, axis)) is not None]
        if points:
            points.sort(key=lambda point: point[0])
            means, reach = _bars([setting for _, setting in points], measure)
            # Bars at one place stand beside each other.
            aside = ScaledTranslation(look.aside / 72, 0, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]
            axes.errorbar(
                [place for place, _ in points],
                means,
                yerr=reach,
                color=look.colour,
                linestyle=look.style,
                marker=look.marker,
                markersize=4.5,
                capsize=2.5,
                linewidth=1.7,
                transform=axes.transData + aside,
            )
        for setting in mine:
            if _at(setting, axis) is None:
                means, reach = _bars([setting], measure)
                low, high = means[0] - reach[0, 0], means[0] + reach[1, 0]
                axes.axhline(means[0], color=look.colour, linestyle=look.style, linewidth=1.7)
                axes.axhspan(low, high, color=look.colour, alpha=0.13, linewidth=0)
    axes.axhline(1.0, color=FAINT, linestyle=DASHED, linewidth=1.3)
    axes.set_yscale("log")
    _shares(axes.yaxis, axes.set_ylim, group, measure)
    _numbers(axes, places)
    axes.set_xlabel(AXIS_WORDS.get(axis, axis), fontsize=9, color=INK)


def _numbers(axes: Axes, places: Sequence[float]) -> None:
    """The horizontal axis of a number, with a tick at each of its values; logarithmic if they are far apart."""
    if not places:
        return
    low, high = places[0], places[-1]
    if low > 0 and high >= 5 * low:
        margin = (high / low) ** 0.08
        axes.set_xscale("log")
        axes.set_xlim(low / margin, high * margin)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", which="minor", length=0)
    else:
        margin = 0.08 * (high - low) or 1.0
        axes.set_xlim(low - margin, high + margin)
    axes.set_xticks(places, [f"{place:g}" for place in places])


def _rows(axes: Axes, group: Sequence[Setting], measure: Measure) -> None:
    ordered = sorted(group, key=lambda setting: float(setting.final_gap.mean()))[:MOST_ROWS]
    means, reach = _bars(ordered, measure)
    places = np.arange(len(ordered))
    axes.errorbar(means, places, xerr=reach, color=COLOURS[0], linestyle="", marker="o", markersize=5, capsize=3)
    axes.axvline(1.0, color=FAINT, linestyle=DASHED, linewidth=1.3)
    axes.set_xscale("log")
    _shares(axes.xaxis, axes.set_xlim, ordered, measure)
    axes.set_yticks(places, [_words(setting.label) for setting in ordered])
    axes.set_ylim(len(ordered) - 0.4, -0.6)


def _bars(settings: Sequence[Setting], measure: Measure) -> tuple[np.ndarray, np.ndarray]:
    """Means ``(n,)`` and how far the bars reach below and above them ``(2, n)``, nothing below the floor."""
    bands = [band(measure.of(setting)[:, None]).at_least(FLOOR) for setting in settings]
    means = np.array([float(one.mean[0]) for one in bands])
    low = np.array([float(one.mean[0] if one.low is None else one.low[0]) for one in bands])
    high = np.array([float(one.mean[0] if one.high is None else one.high[0]) for one in bands])
    return means, np.stack([means - low, high - means])


def _shares(axis: Axis, set_limits: Callable[..., object], group: Sequence[Setting], measure: Measure) -> None:
    """Per cent along a logarithmic axis that shows all means; bars may leave through the bottom."""
    means, reach = _bars(group, measure)
    low = max(min(0.5 * float(means.min()), 0.08), FLOOR / 1.3)
    high = max(1.5, 1.2 * float((means + reach[1]).max()))
    set_limits(low, high)
    steps = [factor * 10.0**power for power in range(-4, 3) for factor in (1, 3)]
    axis.set_ticks([step for step in steps if low <= step <= high])
    axis.set_major_formatter(lambda share, _: ("≤ " if share <= FLOOR else "") + percent(share))
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="minor", length=0)


def _looks(settings: Iterable[Setting], axis: str) -> dict[str, Look]:
    """How each line is drawn; one that does not depend on the axis is dashed and has no points."""
    lines: dict[str, bool] = {}
    for setting in settings:
        lines[_line_of(setting, axis)] = _at(setting, axis) is not None
    middle = (len(lines) - 1) / 2
    looks = {}
    for number, (line, pointed) in enumerate(lines.items()):
        again = number // len(COLOURS)
        style: Style = STYLES[again % len(STYLES)] if pointed else DASHED
        marker = MARKERS[again % len(MARKERS)] if pointed else ""
        looks[line] = Look(COLOURS[number % len(COLOURS)], style, marker, 3.0 * (number - middle))
    return looks


def _legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    handles = [
        Line2D([], [], color=look.colour, linestyle=look.style, marker=look.marker, markersize=4.5, label=_words(line))
        for line, look in looks.items()
    ]
    handles.append(Line2D([], [], color=FAINT, linestyle=DASHED, label="actions at random"))
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=8.5, labelcolor=INK)


def _caption(settings: Sequence[Setting], left_out: int, rows: int | None) -> str:
    counts = sorted({len(setting.seeds) for setting in settings})
    words = band_words(counts[0]) if len(counts) == 1 else f"{band_words(counts[0])[:-1]} or more, up to {counts[-1]}."
    words = words.replace("Lines and bands", "Points and lines, bars and bands").replace("Lines:", "Points and lines:")
    parts = [words, "100% is what acting at random loses; the end is the last 5% of the users. Simulated."]
    if rows is not None and rows > MOST_ROWS:
        parts.append(f"The best {MOST_ROWS} settings of each world.")
    if left_out:
        parts.append(f"{left_out} more worlds are in the table only.")
    return " ".join(parts)


def _words(label: str) -> str:
    return label.replace(":", "  ", 1).replace(",", ", ")


def _scale(setting: Setting) -> float:
    return setting.scale if setting.scale > 0 else 1.0
