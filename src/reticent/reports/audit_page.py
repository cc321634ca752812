# SPDX-License-Identifier: Apache-2.0
"""The page of an audit: one HTML file for a data-protection officer, without formulas."""

from __future__ import annotations

import json
import math
from typing import Any

from reticent.audit.attack import Attack, Audit
from reticent.privacy.guarantee import CHANGES
from reticent.reports.pages import render

__all__ = ["audit_body", "audit_html"]

CANARIES = {
    "statistics": "as conspicuous as the declared bounds allow",
    "trajectory": "as conspicuous as a real user can be",
}


def audit_html(result: Audit, picture: bytes, date: str = "") -> str:
    """The whole page; ``picture`` is a PNG and goes into it."""
    return render("audit.html", date=date, **_values(result, picture))


def audit_body(result: Audit, picture: bytes) -> str:
    """What the page says below its title; also a section of a run's report."""
    return render("audit_body.html", **_values(result, picture))


def _values(result: Audit, picture: bytes) -> dict[str, Any]:
    guarantee, odds = result.guarantee, math.exp(result.claimed_epsilon)
    share = result.lower_bound_epsilon / result.claimed_epsilon
    released = "each user's report" if guarantee.trust.noised_reports else "every noisy sum that is ever released"
    sees = "everything that is published" if result.adversary == "releases" else "every action shown to all other users"
    return {
        "audit": result,
        "picture": picture,
        "sees": sees,
        "missing_noise": [evidence.sentence() for evidence in result.degenerate],
        "exposed": guarantee.trust.exposed.rstrip(","),
        "change": CHANGES[guarantee.adjacency],
        "trusted": guarantee.trust.trusted,
        "reliance": guarantee.reliance,
        "factor": f"{odds:.1f}" if odds < 100 else f"{odds:,.0f}",
        "zero_out": guarantee.adjacency == "zero-out",
        "released": released,
        "attacks": [_row(attack) for attack in result.attacks],
        "share": min(share, 9.99),
        "tight": 0.8 <= share <= 1,
        "keeps_raw": guarantee.trust.wire == "trajectory",
        "numbers": json.dumps(result.to_dict(), indent=2, ensure_ascii=False),
    }


def _row(attack: Attack) -> tuple[str, ...]:
    bound = attack.evidence.lower_bound
    rates = (f"{100 * rate:.1f}%" for rate in attack.evidence.rates)
    return (CANARIES[attack.canary], f"{bound.epsilon:.3f}", bound.method, *rates)
