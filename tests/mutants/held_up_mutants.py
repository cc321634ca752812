# SPDX-License-Identifier: Apache-2.0
"""Planted bugs by which one user's report or silence holds up another's. Importing this registers them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examinations import Examination, _named
from held_up import gathered, micro_batched

from mutants import QUICK, Patch, mutant
from reticent.service.processes.micro_batching import MicroBatcher
from reticent_client.micro_batching import MicroBatcher as ClientBatcher

QUICK |= {"full-group-leaves-at-once", "reports-linger-after-a-crowd"}


def held_up(way: str, story: Callable[[Path, bool], Any]) -> Examination:
    """Two stories that differ in whether one user reports: the other's report is treated alike."""

    def examine() -> list[str]:
        found = []
        for reports in (True, False):
            with tempfile.TemporaryDirectory() as where:
                found.append(story(Path(where), reports))
        return [] if found[0] == found[1] else ["a report is held up by another user's silence"]

    return _named(examine, "replay", {"held up": way})


GATHERED = held_up("in a backend", gathered)
BATCHED = held_up("in the service", lambda where, reports: micro_batched(where, reports, together=False))
HELD_UP = "held up by another"


@mutant("a client sends a group of reports as soon as it is full: who reports decides in which round the others count "
        "(we had this one)", GATHERED, HELD_UP)  # fmt: skip
def full_group_leaves_at_once(patch: Patch) -> None:
    real = ClientBatcher._lead

    def lead(self: ClientBatcher, kind: str, group: Any) -> None:
        while self._clock() < group.due and len(group.members) < self._rule.most:
            time.sleep(0.001)
        group.due = self._clock()
        real(self, kind, group)

    patch.setattr(ClientBatcher, "_lead", lead)


@mutant("the service waits for more reports after a group of several reports (we had this one)", BATCHED, HELD_UP)
def reports_linger_after_a_crowd(patch: Patch) -> None:
    real = MicroBatcher._wait_for_more

    def wait(self: MicroBatcher[Any, Any]) -> None:
        followed, self._follows = self._follows, None
        real(self)
        self._follows = followed

    patch.setattr(MicroBatcher, "_wait_for_more", wait)
