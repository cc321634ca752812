# SPDX-License-Identifier: Apache-2.0
"""Broken variants of how a stay ends on its device, and of a shuffler that was not started.

Importing this registers them."""

from __future__ import annotations

from typing import Any

import stays_examinations as examined

from mutants import QUICK, Patch, mutant
from reticent_client.episode import Episode
from reticent_client.memory import BeliefMemory
from reticent_client.shuffler import Shuffler
from reticent_client.stays import StayFile

QUICK |= {"stay-reported-by-every-process", "shuffler-takes-before-it-looks"}


@mutant("stays: every process that has a stay open reports it", examined.shared, "two reports")
def stay_reported_by_every_process(patch: Patch) -> None:
    def take(self: StayFile, user: str, episode: str) -> bool:
        del episode
        self.erase(user)
        return True

    patch.setattr(StayFile, "take", take)


@mutant("stays: one more visit brings an erased stay back", examined.erased, "kept again|is reported")
def erased_stay_comes_back(patch: Patch) -> None:
    patch.setattr(StayFile, "go_on", StayFile.keep)


@mutant("belief: a visit that is under way brings back what the user has erased (we had this one)",
        examined.forgotten, "remembered")  # fmt: skip
def erased_belief_comes_back(patch: Patch) -> None:
    def keep(self: BeliefMemory, user: str, model: str, likelihoods: Any) -> None:
        with self._file.alone():
            self._file.write(self._file.read() | {user: {model: likelihoods.on_device(list)}})

    patch.setattr(BeliefMemory, "keep", keep)


@mutant(
    "stays: a report of a stay is formed and sent although its ticket has expired", examined.expired, "nobody waits"
)
def expired_stay_reported(patch: Patch) -> None:
    patch.setattr(Episode, "_require_time", lambda self: None)


@mutant(
    "shuffler: messages are taken before it has looked which rounds are full, and are lost",
    examined.unstarted,
    "and lost",
)
def shuffler_takes_before_it_looks(patch: Patch) -> None:
    patch.setattr(Shuffler, "require_started", lambda self: None)
