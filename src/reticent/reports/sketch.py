# SPDX-License-Identifier: Apache-2.0
"""A picture of a run without a plotting library: the regret curves as a small SVG, where Matplotlib is missing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from reticent.reports.plots import COLOURS, FAINT, INK, band, band_words, thousands

if TYPE_CHECKING:
    from reticent.experiments.result import RunResult

WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 76, 640, 74, 410
"""The panel within the picture; the lines' names stand at its right."""

LEAST_ROOM = 20
"""Vertical room of a name."""


def sketch_run(result: RunResult) -> str:
    """Mean regret of every agent against users, with actions at random for scale, as one SVG document."""
    last = max(int(curves.episodes[-1]) for curves in result.curves.values())
    means = {label: (curves.episodes, band(curves.regret).mean) for label, curves in result.curves.items()}
    uniform = result.scale * last
    highest = max(float(mean.max()) for _, mean in means.values())
    top = 1.08 * max(highest, uniform if uniform < 2.5 * highest else 0.0, 1e-9)

    def place(episode: float, regret: float) -> str:
        share = min(regret / top, 1.0)
        return f"{LEFT + (RIGHT - LEFT) * episode / last:.1f},{BOTTOM - (BOTTOM - TOP) * share:.1f}"

    parts = [_grid(last, top)]
    leaves = last * min(1.0, top / uniform) if uniform > 0 else last
    ray = f"{place(0, 0)} {place(leaves, uniform * leaves / last)}"
    parts.append(f'<polyline points="{ray}" stroke="{FAINT}" stroke-dasharray="6 4" fill="none"/>')
    ends = [("actions at random", min(uniform, top), FAINT)] if uniform <= top else []
    for number, (label, (episodes, mean)) in enumerate(means.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(place(*point) for point in [(0, 0), *zip(episodes.tolist(), mean.tolist(), strict=True)])
        parts.append(f'<polyline points="{points}" stroke="{colour}" stroke-width="2.5" fill="none"/>')
        ends.append((label, float(mean[-1]), colour))
    parts += _names(ends, top)
    title = f"What learning costs: {result.config.episodes:,} users of “{result.config.world}”"
    words = f"Regret: return lost to the best policy. {band_words(len(result.config.seeds)).replace(' and bands', '')}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
            ' font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="16" y="34" font-size="18" font-weight="bold" fill="{INK}">{escape(title)}</text>',
            f'<text x="{LEFT}" y="{TOP - 14}" fill="{INK}">cumulative regret (sum of returns)</text>',
            f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 40}" fill="{INK}" text-anchor="middle">users (episodes)</text>',
            *parts,
            f'<text x="16" y="{HEIGHT - 10}" font-size="12" fill="#595959">{escape(words)}</text>',
            "</svg>",
            "",
        ]
    )


def _grid(last: int, top: float) -> str:
    """Four steps each way, with their numbers."""
    drawn = []
    for share in np.linspace(0, 1, 5).tolist():
        x, y = LEFT + (RIGHT - LEFT) * share, BOTTOM - (BOTTOM - TOP) * share
        drawn.append(f'<path d="M{x:.1f} {TOP}V{BOTTOM}M{LEFT} {y:.1f}H{RIGHT}" stroke="#E6E6E6"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{BOTTOM + 18}" fill="{INK}" text-anchor="middle">{last * share:,.0f}</text>'
        )
        drawn.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" fill="{INK}" text-anchor="end">{thousands(top * share)}</text>'
        )
    return "\n".join(drawn)


def _names(ends: list[tuple[str, float, str]], top: float) -> list[str]:
    """Each line's name where it ends, pushed apart where two would overlap."""
    drawn: list[str] = []
    floor: float = BOTTOM + LEAST_ROOM
    for label, value, colour in sorted(ends, key=lambda end: end[1]):
        y = min(BOTTOM - (BOTTOM - TOP) * min(value / top, 1.0) + 4, floor - LEAST_ROOM)
        floor = y
        drawn.append(f'<text x="{RIGHT + 10}" y="{y:.1f}" font-weight="bold" fill="{colour}">{escape(label)}</text>')
    return drawn
