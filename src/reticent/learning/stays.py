# SPDX-License-Identifier: Apache-2.0
"""Stays: several visits of one user that are reported once.

Formal guarantee. A stay is one report, formed from all its visits and clipped as a whole, so that a user who comes V times
moves one round's sum as far as a user who comes once: an agent's noise does not depend on V, and its promise is about the
person and everything that they did in the stay. Which version a user acted by, how often they came and what they did change
the report inside the ball and nothing else.

**One stay, one version.** All visits of a stay are by the version that was served at its first visit. What a report is on
average is then a function of that version, of the round that counts the report, and of the truth. Where a share φ of a
round's users did otherwise (left early, lost the report), the mean of reports in the unit ball is at most 2φ away from it.
"""

from __future__ import annotations

from reticent.errors import InvalidInput

MOST_VISITS = 10_000
"""Visits of one stay beyond which a declaration is more likely a mistake than a plan."""


def check_visits(visits: int) -> None:
    """Raise unless ``visits`` is a number of visits.

    Raises:
      InvalidInput: it is none.
    """
    if isinstance(visits, bool) or not isinstance(visits, int) or not 1 <= visits <= MOST_VISITS:
        bound = f"an integer from 1 to {MOST_VISITS:,}"
        raise InvalidInput("visits", visits, bound, "declare how often one user returns before they report")


def of_a_stay(visits: int) -> str:
    """What a promise says where ``visits`` are reported once; nothing where each is reported."""
    if visits == 1:
        return ""
    return (
        f" A user comes up to {visits:,} times and reports once: the promise is about the person, and covers everything"
        " that they did in all these visits. Until the report the device keeps the visits: data at rest."
    )
