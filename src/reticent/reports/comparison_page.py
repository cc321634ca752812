# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison: advice first, then the pictures, then what each agent guarantees beside what it achieves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.reports.numbers import users_in_words
from reticent.reports.pages import render

if TYPE_CHECKING:
    from reticent.experiments.compare.compare import Comparison

HEAD = (
    "agent",
    "trust",
    "who must be trusted",
    "kind",
    "ε, δ",
    "neighbouring data sets",
    "regret",
    "± s.e.",
    "final gap",
    "users to 5%",
)


def rows(found: Comparison) -> list[tuple[str, ...]]:
    """The table: one row per contestant, by regret; plain text."""
    scale = found.result.scale
    shown: list[tuple[str, ...]] = []
    for one in found.standings:
        who, promise = one.contestant, one.contestant.guarantee
        error = one.regret_error
        shown.append(
            (
                who.label,
                who.trust,
                who.trusted,
                who.kind,
                "–" if promise is None else f"{promise.epsilon:g}, {promise.delta:g}",
                "–" if promise is None else promise.adjacency,
                f"{one.mean_regret:,.0f}",
                "–" if error is None else f"{error:,.0f}",
                f"{100 * one.gap.mean() / scale:.1f}%" if scale > 0 else "–",
                users_in_words(found.users_until(one)),
            )
        )
    return shown


def comparison_html(found: Comparison, regret: bytes, gaps: bytes) -> str:
    """The whole page, pictures included."""
    return render(
        "comparison.html",
        found=found,
        config=found.result.config,
        head=HEAD,
        rows=rows(found),
        regret=regret,
        gaps=gaps,
        promises=[(one.contestant.label, one.contestant.promise.sentence()) for one in found.standings],
        absent=[(one.name, one.reason) for one in found.absent],
        left_out=[(one.name, one.reason) for one in found.left_out],
    )
