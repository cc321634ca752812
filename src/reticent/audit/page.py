# SPDX-License-Identifier: Apache-2.0
"""The page of an audit: one HTML file for a data-protection officer, without formulas and needing nothing else."""

from __future__ import annotations

import base64
import json
import math
from html import escape

from reticent.audit.attack import Audit
from reticent.privacy.guarantee import CHANGES

__all__ = ["audit_body", "audit_html"]


def audit_html(result: Audit, picture: bytes, date: str = "") -> str:
    """The whole page; ``picture`` is a PNG and goes into it."""
    good = result.verdict == "consistent"
    headline = "No violation found" if good else "The promise was broken"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Privacy audit: {escape(result.agent)}</title><style>{CSS}</style></head><body><main>
<p class=brand>reticent · privacy audit{f" of {escape(date)}" if date else ""}</p>
<h1>{headline}</h1>
{audit_body(result, picture)}
</main></body></html>
"""


def audit_body(result: Audit, picture: bytes) -> str:
    """What the page says below its title; also a section of a run's report."""
    encoded = base64.b64encode(picture).decode("ascii")
    good = result.verdict == "consistent"
    odds = math.exp(result.claimed_epsilon)
    numbers = escape(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    rows = "".join(_attack_row(result, index) for index in range(len(result.attacks)))
    return f"""<p class=lead>{_lead(result)}</p>{_missing_noise(result)}
<p class="{"good" if good else "bad"}">Claimed: ε = {result.claimed_epsilon:g} at δ = {result.delta:g}. Proven by attack:
ε is at least {result.lower_bound_epsilon:.3f}. Verdict: <b>{result.verdict}</b>
(confidence {100 * result.confidence:g}%).</p>
<figure tabindex=0><img alt="Scores of the adversary without and with the user"
src="data:image/png;base64,{encoded}"></figure>

<h2>What was promised</h2>
<p>{_promise(result)} In plain odds: whatever someone believed about a person before, seeing what the system publishes may
change the odds of that belief by a factor of at most {_factor(odds)}, except with a probability of about
{result.delta:g}.</p>

<h2>How it was tested</h2>
<p>The system was run {2 * result.trials:,} times per attack with made-up people: {result.trials:,} times with a
<em>canary</em>, an invented user chosen to be as conspicuous as possible, and {result.trials:,} times with her
{_instead(result)}.
{_adversary(result)} No real person's data were used.</p>
<div class=scroll role=region tabindex=0 aria-label="Table of attacks"><table><thead><tr><th scope=col>canary</th>
<th scope=col>ε proven at least</th><th scope=col>method</th><th scope=col>wrongly accused</th>
<th scope=col>wrongly missed</th></tr></thead><tbody>{rows}</tbody></table></div>
<p class=note>“Wrongly accused” is how often the adversary says “she took part” when she did not, and “wrongly missed” the
reverse; guessing blindly gives two numbers that add up to 100%. The closer they are to that, the less can be
learned.</p>

<h2>What this does and does not show</h2>
<ul>
<li>An attack can prove that a promise was <em>broken</em>. It cannot prove that it holds: that is done by the
mathematical argument, and the attack checks that the program does what the argument assumes.</li>
<li>“Consistent” means that the best attack we know extracts no more than was promised. Here it extracts
{100 * min(result.lower_bound_epsilon / result.claimed_epsilon, 9.99):.0f}% of it{_tightness(result)}.</li>
<li>At a confidence of {100 * result.confidence:g}%, a correct system would be called “violated” in at most one of
{1 / (1 - result.confidence):,.0f} audits.</li>
<li>The audit covers what the system publishes. It does not cover who can read the server's memory{_database(result)},
nor what a person tells others.</li>
</ul>
<details><summary>All numbers</summary><pre tabindex=0>{numbers}</pre></details>
"""


def _lead(result: Audit) -> str:
    sees = "everything that is published" if result.adversary == "releases" else "every action shown to all other users"
    who = f"<b>{escape(result.agent)}</b> in “{escape(result.world)}” with {result.episodes:,} users"
    if result.verdict == "consistent":
        return (
            f"We attacked {who}. From {sees}, the best attack we know could learn no more about one user than promised."
        )
    return (
        f"We attacked {who}. From {sees}, more can be learned about one user than was promised. "
        "<b>Do not use this system for real people</b> until the cause is found."
    )


def _missing_noise(result: Audit) -> str:
    items = "".join(f"<li>{escape(atom.sentence())}</li>" for atom in result.atoms)
    return f"\n<p class=bad>Noise was missing or repeated:</p><ul>{items}</ul>" if items else ""


def _promise(result: Audit) -> str:
    trust, exposed = result.guarantee.trust, result.guarantee.trust.exposed.rstrip(",")
    return (
        f"For every person, {exposed} looks almost the same as it would if {CHANGES[result.guarantee.adjacency]}. "
        f"Trusted is {trust.trusted}.{result.guarantee.reliance}"
    )


def _instead(result: Audit) -> str:
    if result.guarantee.adjacency == "zero-out":
        return "contribution removed"
    return "replaced by someone as different from her as possible"


def _database(result: Audit) -> str:
    kept = result.guarantee.trust.wire == "trajectory"
    return " or its database, where raw data are kept in this trust model" if kept else ""


def _adversary(result: Audit) -> str:
    if result.adversary == "actions":
        return (
            "The adversary knows the program and sees every action that was shown to all other users; a classifier was "
            "trained on half of the runs and judged on the other half."
        )
    what = "each user's report" if result.guarantee.trust.noised_reports else "every noisy sum that is ever released"
    return (
        f"The adversary knows the program, the canary, all other users' data and {what}, and combines them in the "
        "statistically best way: more than anyone could in practice."
    )


def _attack_row(result: Audit, index: int) -> str:
    attack = result.attacks[index]
    bound = attack.evidence.lower_bound
    name = {
        "statistics": "as conspicuous as the declared bounds allow",
        "trajectory": "as conspicuous as a real user can be",
    }
    rates = (f"{100 * rate:.1f}%" for rate in attack.evidence.rates)
    cells = [name[attack.canary], f"{bound.epsilon:.3f}", bound.method, *rates]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _tightness(result: Audit) -> str:
    share = result.lower_bound_epsilon / result.claimed_epsilon
    if 0.8 <= share <= 1:
        return ", which also shows that the noise is not larger than it has to be"
    return ""


def _factor(odds: float) -> str:
    return f"{odds:.1f}" if odds < 100 else f"{odds:,.0f}"


CSS = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f6f4; color: #222; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p, ul { max-width: 46rem; }
.brand { color: #666; font-size: .9rem; margin: 0 0 .4rem; }
.lead { font-size: 1.1rem; overflow-wrap: anywhere; }
.note { color: #555; font-size: .92rem; }
.good, .bad { padding: .6rem .9rem; border-left: 4px solid #009e73; background: #e8f5f0; }
.bad { border-color: #d55e00; background: #fff3e0; }
figure { margin: 0; background: #fff; border: 1px solid #ddd; border-radius: 6px; overflow-x: auto; }
img { display: block; width: 100%; min-width: 40rem; height: auto; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid #ddd; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .5rem .9rem; border-bottom: 1px solid #eee; vertical-align: top; }
th { color: #555; font-size: .9rem; }
tbody tr:last-child td { border-bottom: 0; }
details { margin-top: 1rem; background: #fff; border: 1px solid #ddd; border-radius: 6px; padding: .6rem .9rem; }
summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.45; }
"""
