# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: what learning has cost so far, and how far the policy in force is from the best one.

Bands say what they are and of how many seeds. Colours are Okabe and Ito's, which people with any colour vision can
tell apart; lines are labelled where they end, so that no legend has to be matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reticent.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reticent.experiments.config import AgentConfig
    from reticent.experiments.result import RunResult
    from reticent.simulation.simulate import Curves

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK, FAINT = "#222222", "#777777"
FEW_SEEDS = 5
"""Below this many seeds a standard error says little, and the band is the range from least to greatest."""

MOST_DIRECT_LABELS = 7
FAR_APART = 12.0
"""Ratio of the largest to the least regret from which on the panel of regret is logarithmic."""

WIDTH, HEIGHT, DPI = 10.67, 4.8, 150


class Reference(NamedTuple):
    """A further line in the regret panel, such as a theorem's bound: ``regret`` at ``episodes``."""

    label: str
    episodes: np.ndarray
    regret: np.ndarray


class Band(NamedTuple):
    """Mean over the seeds, and the band around it (None for a single seed)."""

    mean: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    def at_least(self, floor: float) -> Band:
        """Raised to ``floor`` where below: a logarithmic axis has no place for zero."""
        low = None if self.low is None else self.low.clip(floor)
        high = None if self.high is None else self.high.clip(floor)
        return Band(self.mean.clip(floor), low, high)


def band(samples: np.ndarray) -> Band:
    """Mean and band of ``samples`` ``(n, p)`` over their first axis; :func:`band_words` says what it is."""
    mean, count = samples.mean(axis=0), len(samples)
    if count == 1:
        return Band(mean, None, None)
    if count < FEW_SEEDS:
        return Band(mean, samples.min(axis=0), samples.max(axis=0))
    reach = 1.96 * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return Band(mean, mean - reach, mean + reach)


def band_words(seeds: int) -> str:
    """What line and band are, in words.

    >>> band_words(16)
    'Lines and bands: mean ± 1.96 standard errors over 16 seeds.'
    """
    if seeds == 1:
        return "Lines: a single seed."
    if seeds < FEW_SEEDS:
        return f"Lines and bands: mean, least and greatest of {seeds} seeds."
    return f"Lines and bands: mean ± 1.96 standard errors over {seeds} seeds."


def gaps(curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Mean gap to the optimal value between neighbouring points of a logarithmic grid: episodes and gaps ``(n, p)``.

    Regret is the running sum of the gaps, so its slope is their exact mean: smoother than the gap at single episodes.
    """
    wanted = np.unique(np.geomspace(1, curves.episodes[-1], 45).round().astype(np.int64))
    chosen = np.unique(np.searchsorted(curves.episodes, wanted).clip(max=len(curves.episodes) - 1))
    episodes, regret = curves.episodes[chosen], curves.regret[:, chosen]
    steps = np.diff(episodes, prepend=0)
    return episodes, np.diff(regret, axis=1, prepend=0) / steps


def draw_run(result: RunResult, path: Path, references: Sequence[Reference] = ()) -> Path:
    """Draw both panels of a run to ``path``; see :meth:`RunResult.plot`."""
    require("matplotlib", "the picture of a run")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    # The left panel's labels stand between the panels and get as much room as the longest line needs.
    longest = max(len(line) for run in result.runs for line in _label(run.config).split("\n"))
    labels = 0.03 + 0.0067 * min(longest, 28)
    panels = 0.985 - 0.075 - labels - 0.075
    left = figure.add_axes((0.075, 0.185, 0.53 * panels, 0.59))
    right = figure.add_axes((0.985 - 0.47 * panels, 0.185, 0.47 * panels, 0.59))
    for axes in (left, right):
        clean_axes(axes)
    _regret_panel(left, result, references)
    _gap_panel(right, result)
    title = f"What learning costs: {result.config.episodes:,} users of “{result.config.world}”"
    size = min(14.0, 14.0 * 80 / len(title))
    figure.text(0.012, 0.965, title, fontsize=size, fontweight="bold", color=INK, va="top")
    figure.text(0.012, 0.9, _subtitle(result), fontsize=9.5, color=FAINT, va="top")
    words = band_words(len(result.config.seeds)) + " Simulated; regret is measured against the hidden truth."
    figure.text(0.012, 0.022, words, fontsize=8.5, color=FAINT)
    figure.savefig(path, metadata={"Software": "reticent"} if path.suffix == ".png" else None)
    return path


def _subtitle(result: RunResult) -> str:
    model = result.world.model
    sizes = f"{model.states} states, {model.actions} actions, {model.horizon} steps per user"
    stopped = "   ·   stopped early" if result.interrupted else ""
    best, random = result.optimal_value, result.uniform_value
    return f"{sizes}   ·   return per user: best possible {best:.3f}, actions at random {random:.3f}{stopped}"


def _regret_panel(axes: Axes, result: RunResult, references: Sequence[Reference]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_title("Return lost so far", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("users (episodes)")
    axes.set_ylabel("cumulative regret (sum of returns)")
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
    axes.plot(
        [start, last], [start * result.scale, uniform], color=FAINT, linestyle=(0, (5, 3)), linewidth=1.3, zorder=1
    )
    if uniform <= ceiling:
        ends.append(("actions at random", uniform, FAINT))
    else:
        _label_ray(axes, "actions at random", last, uniform, ceiling)
    for reference in references:
        axes.plot(reference.episodes, reference.regret, color=INK, linestyle=":", linewidth=1.2)
        inside = np.flatnonzero(reference.regret <= ceiling)
        if inside.size:
            ends.append((reference.label, float(reference.regret[inside[-1]]), INK))
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
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
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    axes.set_title("Distance of the policy in force from the best", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("users (episodes), logarithmic")
    scale = result.scale if result.scale > 0 else 1.0
    axes.set_ylabel("gap to the best policy (random = 100%)")
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
    axes.set_yscale("log")
    axes.set_xlim(1, max(2, *(int(episodes[-1]) for episodes, *_ in drawn)))
    axes.set_ylim(floor, 1.5 * highest)
    axes.axhline(1.0, color=FAINT, linestyle=(0, (5, 3)), linewidth=1.3, zorder=1)
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    if floor > 0.05:  # less than a decade and a half: powers of ten alone would leave the axis bare
        axes.yaxis.set_minor_formatter(PercentFormatter(1.0, decimals=0))
    below = highest > 1.02  # a line above it would run through the words
    axes.annotate(
        "actions at random", (1, 1.0), xytext=(0.99, -4 if below else 3), textcoords=("axes fraction", "offset points"),
        color=FAINT, fontsize=8.5, ha="right", va="top" if below else "bottom",
        bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1},
    )  # fmt: skip


def draw_line(axes: Axes, episodes: np.ndarray, measured: Band, colour: str, label: str) -> None:
    if measured.low is not None and measured.high is not None:
        axes.fill_between(episodes, measured.low, measured.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(episodes, measured.mean, color=colour, linewidth=2.0, label=label, solid_capstyle="round")


def _label_ray(axes: Axes, text: str, last: float, uniform: float, ceiling: float) -> None:
    """Write along the random policy's line, where it leaves the panel."""
    share = min(1.0, ceiling / uniform) if uniform > 0 else 1.0
    at = (0.9 * share * last, 0.9 * share * uniform)
    steep = share < 0.35
    axes.annotate(
        text, at, xytext=(6, -2) if steep else (-6, 4), textcoords="offset points", color=FAINT, fontsize=8.5,
        ha="left" if steep else "right", va="center" if steep else "bottom",
    )  # fmt: skip


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
            label, (1.0, height), xytext=(1.035, place), xycoords="axes fraction",
            textcoords="axes fraction", color=colour, fontsize=9, fontweight="bold", va="center", ha="left",
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 0,
                                               "relpos": (0.0, 0.5)},
        )  # fmt: skip


MOST_OPTIONS = 3
"""Lines of options under a name; the report has all of them."""


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


def clean_axes(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#AAAAAA")
    axes.tick_params(colors=INK, labelsize=9, width=0.8, which="both")
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)


def thousands(value: float, position: Any = None) -> str:
    del position
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:g}"
