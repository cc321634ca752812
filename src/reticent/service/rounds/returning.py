# SPDX-License-Identifier: Apache-2.0
"""Users who return: the pattern that their noise is for, enforced at the door and again when a report arrives.

Noise for g contributions at most one a round is √g times that for one; for g anywhere it is g times
(:mod:`reticent.privacy.participation`). So the service must keep to the pattern, whatever users do:

* *At the door.* A user is admitted if one more place in the round that is filling keeps to the pattern of the user's
  earlier places. Places are public, and nothing else is asked: a user who is turned away is served without being
  learned from.
* *On arrival.* Reports may be late, so that two from different rounds arrive in one. A report is counted if one more in
  the round that is open keeps to the pattern of the rounds that *counted* earlier ones. If not, it adds nothing; the
  answer is the same, so that it does not show.

Formal guarantee. The rounds that count a user's reports keep to the pattern, for any order of arrivals and any number of
workers: a round's row is locked while a report is added to it, so that two reports of one user are checked one after
the other.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from reticent.privacy.participation import Participation, allowed
from reticent.service.store import visits


class Returning:
    """Keeps one deployment to a pattern; does nothing where every g contributions are as good as any others."""

    def __init__(self, participation: Participation) -> None:
        self.participation = participation
        self.active = participation.contributions > 1 and (
            participation.per_round < participation.contributions or participation.gap > 1
        )

    def admits(self, tx: Connection, name: str, number: int) -> bool:
        """Whether a user may have one more place in round ``number``: a matter of public numbers."""
        return not self.active or allowed(self.participation, visits.rounds_admitted(tx, name), number)

    def admitted(self, tx: Connection, name: str, episode: str, number: int) -> None:
        """Note that the user has a place in round ``number``."""
        if self.active:
            visits.note_admission(tx, name, episode, number)

    def counts(self, tx: Connection, name: str, episode: str, number: int) -> bool:
        """Whether a user's report is counted in round ``number``, whose lock the caller holds; it is noted if so."""
        if not self.active:
            return True
        if not allowed(self.participation, visits.rounds_counted(tx, name), number):
            return False
        visits.note_counting(tx, name, episode, number)
        return True
