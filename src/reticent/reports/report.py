# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML file that needs nothing else, readable by a stranger and on a telephone.

A section is a title and a function of the result that gives its HTML, or an empty string where it has nothing to say.
Adding one, such as the privacy guarantee or an audit, is one line in :data:`SECTIONS`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from reticent.privacy.guarantee import guarantee_of
from reticent.reports.guarantee import privacy_section, theory_section
from reticent.reports.plots import band_words

if TYPE_CHECKING:
    from reticent.experiments.result import RunResult

Section: TypeAlias = "Callable[[RunResult], str]"


def results_section(result: RunResult) -> str:
    """The table of results, and what its columns mean."""
    head = ("agent", "regret", "final gap", "of what there is to learn", "users to 5%", "episodes/s")
    rows = [
        (
            agent_name(row["agent"]),
            f"{row['regret_mean']:,.1f}"
            + ("" if row["regret_stderr"] is None else f"&nbsp;±&nbsp;{row['regret_stderr']:,.1f}"),
            f"{row['final_gap']:.4f}",
            "–" if row["final_gap_share"] is None else f"{100 * row['final_gap_share']:.1f}%",
            "–" if row["users_until_5_percent"] is None else f"{row['users_until_5_percent']:,.0f}",
            f"{row['episodes_per_second']:,.0f}",
        )
        for row in result.summary()
    ]
    explanation = (
        "<p class=note><b>Regret</b> is the return lost to the best policy, summed over all users "
        "(mean ± standard error over the seeds). The <b>final gap</b> is the loss per user over the last 5% of them; "
        f"acting at random would lose {result.scale:.3f}. <b>Users to 5%</b>: users until the gap stays below 5% of that, "
        "the median over the seeds (–: in half of them it never does).</p>"
    )
    return table(head, rows) + explanation


def settings_section(result: RunResult) -> str:
    """Every option of every agent that was run."""
    items = []
    for run in result.runs:
        guarantee = guarantee_of(run.agent)
        # A private agent's options as they were resolved: the paper's calibration, for one, overrides most.
        chosen = {**run.config.options, **({} if guarantee is None else guarantee.settings)}
        options = (f"{key} = {'default' if value is None else value}" for key, value in chosen.items())
        items.append(f"<dt>{agent_name(run.config.label)}</dt><dd>{escape(', '.join(options))}</dd>")
    return f"<dl>{''.join(items)}</dl>"


SECTIONS: list[tuple[str, Section]] = [
    ("Results", results_section),
    ("What is promised to each user", privacy_section),
    ("What the theorems say", theory_section),
    ("The agents", settings_section),
]
"""The report's sections in order, between the picture and the folded configuration."""


def agent_name(label: str) -> str:
    """An agent's label as HTML that breaks between its options only."""
    pieces = re.split(r"(?<=[:,])", label)
    return "<wbr>".join(f"<span class=piece>{escape(piece)}</span>" for piece in pieces)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """An HTML table that scrolls within itself on a narrow screen, by keyboard too. Cells are HTML: escape what a user
    wrote."""
    top = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    label = escape(f"Table of {', '.join(head)}")
    return (
        f'<div class=scroll role=region tabindex=0 aria-label="{label}"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def summary_sentence(result: RunResult) -> str:
    """What the run found, in words that need no background."""
    rows = sorted(result.summary(), key=lambda row: float(row["final_gap"]))
    if not rows:
        return "The run was stopped before anything was finished."
    covered = [(row["agent"], row["final_gap_share"]) for row in rows if (row["final_gap_share"] or 0) < 1]
    lost = [row["agent"] for row in rows if (row["final_gap_share"] or 0) >= 1]
    most = max(row["episodes"] for row in rows)
    users = f"After {'up to ' * result.interrupted}{most:,} users of the simulated world “{result.config.world}”"
    if rows[0]["final_gap_share"] is None:
        return f"{users} there was nothing to learn: acting at random is as good as any policy."
    said = []
    if covered:
        shares = [f"{name} {100 * (1 - share):.1f}%" for name, share in covered]
        shares[0] = shares[0].replace(covered[0][0], f"{covered[0][0]} had covered", 1)
        said.append(f"{_listed(shares)} of the way from acting at random to the best possible policy")
    if lost:
        said.append(f"{_listed(lost)} did no better than acting at random")
    return f"{users}, {'; '.join(said)}."


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def report_html(result: RunResult, picture: bytes, folded: Mapping[str, str], suffix: str = ".png") -> str:
    """The whole page; ``picture`` (a PNG or SVG) goes into it, ``folded`` are texts by title that open on request."""
    encoded = base64.b64encode(picture).decode("ascii")
    title = f"reticent: {result.config.world}"
    alternative = f"Cumulative regret and gap to the best policy. {band_words(len(result.config.seeds))}"
    made = [(heading, section(result)) for heading, section in SECTIONS]
    sections = "".join(f"<section><h2>{escape(heading)}</h2>{body}</section>" for heading, body in made if body)
    stopped = "<p class=warning>The run was stopped early; this is what was finished.</p>" if result.interrupted else ""
    date = str(result.metadata.get("date", ""))[:10]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<main>
<p class=brand>reticent · run of {escape(date)}</p>
<h1>{escape(result.config.world)}</h1>
<p class=lead>{escape(summary_sentence(result))}</p>
{stopped}
<figure tabindex=0><img alt="{escape(alternative)}" src="data:{IMAGES[suffix]};base64,{encoded}"></figure>
{sections}
{AUDIT_PLACE}
{"".join(_folded(title, text) for title, text in folded.items())}
</main>
</body>
</html>
"""


AUDIT_PLACE = "<!-- audit -->"
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}


def with_audit(page: str, body: str) -> str:
    """A report with an audit's findings as its section, in the place of an earlier audit's if there was one."""
    if AUDIT_PLACE not in page:
        page = page.replace("</main>", f"{AUDIT_PLACE}</main>")
    before, _, rest = page.partition(AUDIT_PLACE)
    after = rest.rpartition(AUDIT_PLACE)[2]
    return f"{before}{AUDIT_PLACE}<section><h2>Audit</h2>{body}</section>{AUDIT_PLACE}{after}"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre tabindex=0>{escape(content)}</pre></details>"


CSS = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f6f4; color: #222; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.brand { color: #666; font-size: .9rem; margin: 0 0 .4rem; }
.lead { font-size: 1.1rem; max-width: 46rem; margin: 0 0 1.2rem; }
.note { color: #555; font-size: .92rem; max-width: 46rem; }
.warning { background: #fff3e0; border-left: 4px solid #d55e00; padding: .6rem .9rem; }
figure { margin: 0; background: #fff; border: 1px solid #ddd; border-radius: 6px; overflow-x: auto; }
img { display: block; width: 100%; min-width: 40rem; height: auto; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid #ddd; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .5rem .9rem; border-bottom: 1px solid #eee; vertical-align: top; }
td:first-child, dt { font-weight: 600; }
.piece { white-space: nowrap; }
dd { margin: 0 0 .8rem; color: #555; font-size: .92rem; }
th { color: #555; font-weight: 600; font-size: .9rem; }
tbody tr:last-child td { border-bottom: 0; }
details { margin-top: 1rem; background: #fff; border: 1px solid #ddd; border-radius: 6px; padding: .6rem .9rem; }
summary { cursor: pointer; font-weight: 600; }
:focus-visible { outline: 3px solid #0067a3; outline-offset: 2px; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.45; }
"""
