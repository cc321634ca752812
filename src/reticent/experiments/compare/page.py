# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison: advice first, then the pictures, then what each agent guarantees beside what it achieves."""

from __future__ import annotations

import base64
from html import escape

from reticent.experiments.compare.compare import Comparison
from reticent.experiments.reach import in_words
from reticent.reports.report import CSS, agent_name, table

HEAD = (
    "agent", "trust", "who must be trusted", "kind", "ε, δ", "neighbours", "regret", "± s.e.", "final gap", "users to 5%",
)  # fmt: skip


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
                in_words(found.users_until(one)),
            )
        )
    return shown


def comparison_html(found: Comparison, regret: bytes, gaps: bytes) -> str:
    """The whole page, pictures included."""
    config = found.result.config
    advice = "".join(f"<li>{escape(one.words)}</li>" for one in found.advice)
    body = [(agent_name(row[0]), *(escape(cell) for cell in row[1:])) for row in rows(found)]
    promises = "".join(
        f"<dt>{agent_name(one.contestant.label)}</dt><dd>{escape(one.contestant.promise.sentence())}</dd>"
        for one in found.standings
    )
    absent = "".join(f"<dt>{agent_name(one.name)}</dt><dd>{escape(one.reason)}</dd>" for one in found.absent)
    missing = f"<section><h2>Do not apply here</h2><dl>{absent}</dl></section>" if absent else ""
    slow = "".join(f"<dt>{agent_name(one.name)}</dt><dd>{escape(one.reason)}</dd>" for one in found.left_out)
    missing += f"<section><h2>Left out for time</h2><dl>{slow}</dl></section>" if slow else ""
    stopped = "<p class=warning>Stopped early; agents that were not finished are left out.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>reticent: agents compared in {escape(config.world)}</title>
<style>{CSS}</style>
</head>
<body>
<main>
<p class=brand>reticent · comparison</p>
<h1>{escape(config.world)}</h1>
<p class=lead>{len(found.standings)} agents, {config.episodes:,} simulated users each, {len(config.seeds)} seeds;
regret at ε = {found.epsilons[0]:g}, δ = {found.delta:g}.</p>
{stopped if found.result.interrupted else ""}
<section><h2>Recommended, by whom users must trust</h2><ul>{advice}</ul>
<p class=note>By mean regret. “Beats” means by more than two standard errors of the paired difference over seeds. A pure
promise (δ = 0) is a stronger one than the approximate promise it is listed beside.</p></section>
{_figure("Cumulative regret against users, by trust model.", regret)}
{_figure("Final gap against ε, by trust model.", gaps)}
<section><h2>What each guarantees, and what it achieves</h2>{table(HEAD, body)}
<p class=note>Users to 5%: users until the gap stays below 5% of what acting at random loses, median over
seeds.</p></section>
<section><h2>The promises in words</h2><dl>{promises}</dl></section>
{missing}
</main>
</body>
</html>
"""


def _figure(words: str, picture: bytes) -> str:
    encoded = base64.b64encode(picture).decode("ascii")
    return f'<figure tabindex=0><img alt="{escape(words)}" src="data:image/png;base64,{encoded}"></figure>'
