# SPDX-License-Identifier: Apache-2.0
"""The picture of a promise: how often an attacker's best guess is right, and detections against false alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from reticent.reports.plots.style import COLOURS, DASHED, FAINT, INK, clean_axes, name_axes, new_figure, save


def draw_promise(content: dict[str, Any], path: Path) -> Path:
    """Draw the numbers that ``reticent explain --json`` prints to ``path``; its ending says the format."""
    figure = new_figure(4.4, layout="constrained")
    bars, curve = figure.subplots(1, 2)
    for axes in (bars, curve):
        clean_axes(axes)
    shares = content["right_by_epsilon"]
    places = range(len(shares))
    asked = [float(key) == content["epsilon"] for key in shares]
    bars.bar(
        places, [100 * share for share in shares.values()], color=[COLOURS[0] if one else "#9CC3DE" for one in asked]
    )
    for place, share in zip(places, shares.values(), strict=True):
        bars.annotate(f"{100 * share:.1f}%", (place, 100 * share + 1), ha="center", fontsize=9, color=INK)
    before = 100 * content["right_before"]
    bars.axhline(before, color=FAINT, linestyle=DASHED, linewidth=1.2, label=f"without looking: {before:g}%")
    bars.legend(loc="upper left", frameon=False, fontsize=8.5, labelcolor=FAINT)
    bars.set_xticks(list(places), [f"ε = {key}" for key in shares])
    bars.set_ylim(0, 106)
    name_axes(bars, "What looking gains an attacker", "", "the best guess is right, % of the time")
    alarms = np.linspace(1e-4, 1 - 1e-4, 400)
    curve.plot(100 * alarms, 100 * ndtr(ndtri(alarms) + content["mu"]), color=COLOURS[0], linewidth=2)
    curve.plot([0, 100], [0, 100], color=FAINT, linestyle=DASHED, linewidth=1.2)
    curve.annotate("guessing blindly", (62, 55), fontsize=8.5, color=FAINT)
    curve.set_xlim(0, 100)
    curve.set_ylim(0, 100)
    name_axes(
        curve,
        f"ε = {content['epsilon']:g}, δ = {content['delta']:g}",
        "false alarms, % of the users who did not take part",
        "detections, at most % of the users who did",
    )
    return save(figure, path)
