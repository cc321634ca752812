# SPDX-License-Identifier: Apache-2.0
"""How long a deployment waits: for one user's report, and for the reports of the last round.

A stay of several visits is reported after the last of them, which may be weeks after its admission. A service knows how
many visits a stay has, but not how far apart they are: so no default is right for stays, and one made for a single visit
would lose nearly all of their reports. Where a stay has several visits the operator has to say how long one may last.
"""

from __future__ import annotations

from reticent.errors import InvalidInput

DAY, WEEK = 86_400.0, 604_800.0


def waiting_times(visits: int, ticket_lifetime: float | None, finish_after: float | None) -> tuple[float, float]:
    """Seconds until an open episode of so many ``visits`` expires, and from the K-th admission to the last release.

    >>> waiting_times(1, None, None)
    (86400.0, 604800.0)
    >>> waiting_times(42, 60 * DAY, None)
    (5184000.0, 5184000.0)

    Raises:
      InvalidInput: stays would be cut off: the first time was not said, or the second is shorter than it.
    """
    if visits == 1:
        return ticket_lifetime or DAY, WEEK if finish_after is None else finish_after
    if ticket_lifetime is None:
        raise InvalidInput(
            "ticket_lifetime", "missing", f"given where a stay has {visits} visits",
            "set it to the seconds from a user's first visit to the last, and some days more: the report of a longer stay "
            "is refused",
        )  # fmt: skip
    if finish_after is None:
        return ticket_lifetime, max(WEEK, ticket_lifetime)
    if finish_after < ticket_lifetime:
        raise InvalidInput(
            "finish_after", finish_after,
            f"at least ticket_lifetime, {ticket_lifetime:g}, where a stay has {visits} visits",
            "raise it or leave it out: the last round would end before the last users' stays do",
        )  # fmt: skip
    return ticket_lifetime, finish_after
