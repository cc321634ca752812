# SPDX-License-Identifier: Apache-2.0
"""The picture of an audit: what the adversary sees without and with the canary, and what that proves."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reticent.audit.attack import Attack, Audit
from reticent.privacy.accounting.gaussian import epsilon_of
from reticent.reports.plots.style import (
    COLOURS,
    DASHED,
    FAINT,
    INK,
    clean_axes,
    name_axes,
    new_figure,
    png,
    write_headings,
)

WITHOUT, WITH = COLOURS[:2]
CANARIES = {
    "statistics": "Worst case that the declared bounds allow",
    "trajectory": "Worst case that this world allows",
}


def draw_audit(result: Audit) -> bytes:
    """A PNG with one panel per canary."""
    return png(audit_figure(result))


def audit_figure(result: Audit) -> Figure:
    """The picture before it is a PNG."""
    figure = new_figure(5.0)
    axes = figure.subplots(1, len(result.attacks), squeeze=False)[0]
    figure.subplots_adjust(left=0.065, right=0.985, top=0.73, bottom=0.2, wspace=0.16)
    for panel, attack in zip(axes, result.attacks, strict=True):
        _panel(panel, attack, result)
    axes[0].set_ylabel("share of trials (density)", color=INK)
    title = "Can anyone tell whether one user took part?"
    verdict = (
        f"claimed ε = {result.claimed_epsilon:g}   ·   proven at least {result.lower_bound_epsilon:.3f}"
        f"   ·   δ = {result.delta:g}   ·   {result.verdict}"
    )
    sees = "all released sums" if result.adversary == "releases" else "the actions shown to all other users"
    if result.adversary == "releases" and result.guarantee.trust.noised_reports:
        sees = "the report that leaves the user's device"
    words = (
        f"{result.agent} in “{result.world}”, {result.episodes:,} users, {result.guarantee.trust.name} model, "
        f"{result.guarantee.ledger.counter}. "
        f"The adversary sees {sees}. {result.trials:,} trials without and with the user; confidence {result.confidence:g}."
    )
    write_headings(figure, title, verdict, words, subtitle_colour=INK if result.verdict == "consistent" else WITH)
    return figure


def _panel(axes: Axes, attack: Attack, result: Audit) -> None:
    clean_axes(axes)
    name_axes(axes, CANARIES[attack.canary], "adversary's score (standard deviations)", above=22)
    centre, scale = float(attack.scores.without.mean()), float(attack.scores.without.std()) or 1.0
    without, present = ((side - centre) / scale for side in (attack.scores.without, attack.scores.present))
    low, high = np.quantile(np.concatenate([without, present]), [0.0005, 0.9995])
    pad = 0.05 * (high - low)
    edges = np.linspace(low - pad, high + pad, 90)
    for side, colour, label in ((without, WITHOUT, "replaced"), (present, WITH, "took part")):
        heights, _ = np.histogram(side, edges, density=True)
        axes.stairs(heights, edges, color=colour, linewidth=1.8, label=label)
        axes.stairs(heights, edges, color=colour, alpha=0.12, fill=True)
    threshold = (attack.evidence.threshold - centre) / scale
    axes.axvline(threshold, color=INK, linewidth=1.1, linestyle=DASHED)
    top = axes.get_ylim()[1] * 1.28
    axes.set_ylim(0, top)
    axes.set_xlim(edges[0], edges[-1])
    right = threshold < (edges[0] + edges[-1]) / 2
    axes.annotate(
        "threshold",
        (threshold, 0.985 * top),
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        fontsize=8,
        color=INK,
        va="top",
        ha="left" if right else "right",
    )
    bound = attack.evidence.lower_bound
    possible = attack.scores.possible
    reach = "without limit"
    if np.isfinite(possible) and possible < 100:
        reach = f"{possible if result.guarantee.pure else epsilon_of(possible, result.delta):.3f}"
    lines = [f"measured: ε ≥ {bound.epsilon:.3f}  ({bound.method})", f"this user could show at most: ε = {reach}"]
    axes.text(0, 1.015, "   ·   ".join(lines), transform=axes.transAxes, fontsize=8.5, color=FAINT, va="bottom")
    axes.legend(
        loc="upper left" if not right else "upper right", frameon=False, fontsize=9, title="the user", title_fontsize=9
    )
