# SPDX-License-Identifier: Apache-2.0
"""Broken variants of the way from a shuffler to the service: silence that shows, batches that never come or come late.

Importing this registers them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import shuffler_examinations as ex

from mutants import QUICK, Patch, mutant
from reticent.service.mechanism import Mechanism
from reticent.service.rounds import batches, shuffled_batches
from reticent_client import shuffler
from reticent_client.shuffler import Shuffler
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.shuffling import Tally

QUICK |= {
    "shuffler-looks-when-a-user-sends",
    "batch-posted-when-all-have-sent",
    "dummies-without-coins",
    "lost-batch-stops-the-learning",
}


@mutant("a batch is posted when all users of its round have sent, not at its deadline (we had this one)",
        ex.SILENCE, "when a batch is posted depends")  # fmt: skip
def batch_posted_when_all_have_sent(patch: Patch) -> None:
    real = Shuffler.__call__

    def take(self: Shuffler, number: int, within: int, *sent: Any) -> None:
        real(self, number, within, *sent)
        if len(self._round(number).places) == self._rules.size(number):
            self.finish(number)

    patch.setattr(Shuffler, "__call__", take)


@mutant("a batch is of those who sent, so that its size says how many did (we had this one)", ex.SILENCE,
        "how many messages a batch has depends")  # fmt: skip
def batch_of_those_who_sent(patch: Patch) -> None:
    real = ShuffleRules.silent

    def unfilled(self: ShuffleRules, number: int, places: Any) -> Tally:
        if len(places) == self.size(number):  # the service's own dummies, of a round without a batch
            return real(self, number, places)
        return Tally(0 * self.reach, 0 * self.coins)

    patch.setattr(ShuffleRules, "silent", unfilled)


@mutant(
    "silent places are filled with an even number of coins that were not flipped", ex.DUMMIES, "coins were not flipped"
)
def dummies_without_coins(patch: Patch) -> None:
    real = ShuffleRules.silent

    def still(self: ShuffleRules, number: int, places: Any) -> Tally:
        made = real(self, number, places)
        return Tally(made.messages // 2, made.messages)

    patch.setattr(ShuffleRules, "silent", still)


@mutant("a shuffler that was restarted posts the rounds that were full before once more", ex.RESTART,
        "two different batches")  # fmt: skip
def batch_made_again_after_a_restart(patch: Patch) -> None:
    real = Shuffler._look

    def look(self: Shuffler) -> Any:
        self._looked = True
        return real(self)

    patch.setattr(Shuffler, "_look", look)


@mutant("a round whose batch never comes stops the learning (we had this one)", ex.LOST, "the learning has stopped")
def lost_batch_stops_the_learning(patch: Patch) -> None:
    patch.setattr(batches, "overdue", lambda rules, number, clock: False)


@mutant("a batch that comes after its round was released is taken", ex.LOST, "a late batch is taken")
def late_batch_taken(patch: Patch) -> None:
    patch.setattr(shuffled_batches, "overdue", lambda rules, number, clock: False)


@mutant("a round without a batch is released as a sum of zeros, without a coin", ex.LOST, "has no noise")
def lost_round_without_coins(patch: Patch) -> None:
    patch.setattr(batches, "dummies_alone", lambda rules, number: np.zeros(rules.reach.shape, np.int64))


@mutant("the learner takes a round without a batch for one whose users sent zeros", ex.LOST, "is learned from")
def lost_round_learned_from(patch: Patch) -> None:
    real = Mechanism.close

    def close(self: Mechanism, *given: Any) -> Any:
        return real(self, *given[:6])

    patch.setattr(Mechanism, "close", close)


@mutant("a user who is too late for the round's batch is added to what was posted, for the next try", ex.SILENCE,
        "a batch changes after it was fixed")  # fmt: skip
def latecomer_added_to_a_fixed_batch(patch: Patch) -> None:
    real = Shuffler.__call__

    def take(self: Shuffler, number: int, within: int, ones: Any, messages: Any, restores: int = 0) -> None:
        gathered = self._round(number)
        if gathered.batch is None:
            real(self, number, within, ones, messages, restores)
            return
        gathered.batch = {**gathered.batch, "ones": shuffler.to_json(gathered.ones + ones)}
        self._connection.post("/v1/batches", gathered.batch)

    patch.setattr(Shuffler, "__call__", take)


@mutant("a shuffler looks for a restore when a user sends, and leaves alone what is full then (we had this one)",
        ex.LOOKS, "which rounds are lost after a restore depends")  # fmt: skip
def shuffler_looks_when_a_user_sends(patch: Patch) -> None:
    real = Shuffler.__call__

    def take(self: Shuffler, number: int, within: int, ones: Any, messages: Any, restores: int = 0) -> None:
        if restores > self._restores:
            self._look()
        real(self, number, within, ones, messages, restores)

    patch.setattr(Shuffler, "__call__", take)
