# SPDX-License-Identifier: Apache-2.0
"""The picture of a promise: how often an attacker's best guess is right, and what he finds at which price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from reticent.extras import require
from reticent.reports.plots import COLOURS, DPI, FAINT, INK, WIDTH, clean_axes

HEIGHT = 4.4


def draw_promise(content: dict[str, Any], path: Path) -> Path:
    """Draw the numbers that ``reticent explain --json`` prints to ``path``; its ending says the format."""
    require("matplotlib", "the picture of a promise")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
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
    bars.axhline(before, color=FAINT, linestyle="--", linewidth=1.2, label=f"without looking: {before:g}%")
    bars.legend(loc="upper left", frameon=False, fontsize=8.5, labelcolor=FAINT)
    bars.set_xticks(list(places), [f"ε = {key}" for key in shares])
    bars.set_ylim(0, 106)
    bars.set_ylabel("his best guess is right, % of the time")
    bars.set_title("What looking gains an attacker", loc="left", fontsize=11, color=INK)
    alarms = np.linspace(1e-4, 1 - 1e-4, 400)
    curve.plot(100 * alarms, 100 * ndtr(ndtri(alarms) + content["mu"]), color=COLOURS[0], linewidth=2)
    curve.plot([0, 100], [0, 100], color=FAINT, linestyle="--", linewidth=1.2)
    curve.annotate("guessing blindly", (62, 55), fontsize=8.5, color=FAINT)
    curve.set_xlim(0, 100)
    curve.set_ylim(0, 100)
    curve.set_xlabel("of the innocent he accuses, %")
    curve.set_ylabel("of the true stories he finds, at most %")
    curve.set_title(f"ε = {content['epsilon']:g}, δ = {content['delta']:g}", loc="left", fontsize=11, color=INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": "reticent"} if path.suffix == ".png" else None)
    return path
