# SPDX-License-Identifier: Apache-2.0
"""The two pictures of a comparison: regret against users, and final gap against ε; one panel for each trust model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reticent.reports.plots.bands import band, band_words
from reticent.reports.plots.style import (
    COLOURS,
    DASHED,
    END_AXES,
    FAINT,
    clean_axes,
    draw_line,
    epsilon_axis,
    label_ends,
    log_shares,
    name_axes,
    new_figure,
    png,
    thousands,
    write_headings,
)

if TYPE_CHECKING:
    from reticent.experiments.compare.compare import Comparison

HEADINGS = {
    "none": "no privacy",
    "joint": "joint: the server is trusted",
    "shuffle": "shuffle: the shuffler is trusted",
    "local": "local: no server is trusted",
}
STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
"""Beyond seven lines colours come again, with another stroke."""


def draw_regret(found: Comparison) -> bytes:
    """Cumulative regret of every contestant at the first ε, as a PNG."""
    groups = found.by_trust
    figure, panels = _panels(len(groups))
    last = found.result.config.episodes
    uniform, looks = found.result.scale * last, _looks(found)
    for (trust, group), axes in zip(groups.items(), panels, strict=True):
        ends = []
        # A learner that does worse than chance would flatten the others: it may leave through the ceiling.
        top = max(min(one.mean_regret, 1.15 * uniform) for one in group)
        for one in group:
            colour, style = looks[one.contestant.label]
            curves = one.run.curves
            draw_line(axes, curves.episodes, band(curves.regret), colour, one.contestant.label)
            axes.lines[-1].set_linestyle(style)
            ends.append((one.contestant.label, one.mean_regret, colour))
        axes.plot([0, last], [0, uniform], color=FAINT, linestyle=DASHED, linewidth=1.3, zorder=1)
        axes.set_xlim(0, last)
        axes.set_ylim(0, 1.1 * max(top, 1e-9))
        name_axes(axes, HEADINGS[trust], "users (episodes)", "cumulative regret (sum of returns)")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(thousands)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]))
        label_ends(axes, ends)
    title = f"What learning costs in “{found.result.config.world}”, ε = {found.epsilons[0]:g}, δ = {found.delta:g}"
    note = "Dashed and grey: actions at random. The panels' scales differ."
    write_headings(figure, title, note=f"{band_words(len(found.result.config.seeds))} {note}")
    return png(figure)


def draw_gaps(found: Comparison) -> bytes:
    """Final gap of every private contestant against ε, as a PNG; the best without privacy as a line."""
    groups, scale, looks = found.by_trust, found.result.scale or 1.0, _looks(found)
    free = [float(one.gap.mean()) / scale for one in groups.get("none", ())]
    if len(groups) > 1:
        groups.pop("none", None)
    figure, panels = _panels(len(groups))
    places = np.array(sorted(found.epsilons))
    lowest = min([float(gap.mean()) / scale for one in found.standings for gap in one.gaps.values()] + [0.5])
    floor = max(0.7 * lowest, 1e-4)
    for (trust, group), axes in zip(groups.items(), panels, strict=True):
        ends = []
        for one in group:
            samples = np.stack([one.gaps[epsilon] for epsilon in places], axis=1) / scale
            measured = band(samples).at_least(floor / 10)
            colour, style = looks[one.contestant.label]
            draw_line(axes, places, measured, colour, one.contestant.label)
            axes.lines[-1].set(linestyle=style, marker="o", markersize=4)
            ends.append((one.contestant.label, float(measured.mean[-1]), colour))
        log_shares(axes, floor, 1.6 * max(1.0, *(end for _, end, _ in ends)))
        if free:
            axes.axhline(min(free), color=FAINT, linestyle=":", linewidth=1.4, zorder=1)
        epsilon_axis(axes, places.tolist())
        name_axes(axes, HEADINGS[trust], *END_AXES)
        label_ends(axes, ends)
    title = f"What privacy costs in the end: “{found.result.config.world}” after {found.result.config.episodes:,} users"
    note = "Final gap: loss per user over the last 5%. Dashed: actions at random; dotted: the best without privacy."
    write_headings(figure, title, note=f"{band_words(len(found.result.config.seeds))} {note}")
    return png(figure)


def _looks(found: Comparison) -> dict[str, tuple[str, Any]]:
    """Colour and stroke by agent, the same in every panel; those that promise something come first."""
    ordered = sorted(found.standings, key=lambda one: one.contestant.guarantee is None)
    names = dict.fromkeys(one.contestant.label for one in ordered)
    return {
        name: (COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS) % len(STYLES)])
        for number, name in enumerate(names)
    }


def _panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    columns, rows = (1, 1) if count == 1 else (2, -(-count // 2))
    height = 3.9 * rows + 1.1
    figure = new_figure(height, 6.6 * columns + 0.4)
    made = figure.subplots(rows, columns, squeeze=False).ravel()
    # Room at the right of each panel for the lines' names.
    figure.subplots_adjust(
        left=0.48 / columns * 0.17 + 0.045,
        right=1 - 0.26 / columns,
        wspace=0.72,
        hspace=0.36,
        top=1 - 0.85 / height,
        bottom=0.95 / height,
    )
    for axes in made:
        clean_axes(axes)
    for spare in made[count:]:
        spare.set_visible(False)
    return figure, list(made[:count])
