# SPDX-License-Identifier: Apache-2.0
"""A service with a shuffler whose disk is lost and restored: in how many batches, and how often, is one user?

Service, journal, restore and shuffler are the real ones, joined without a network. :data:`ANN` sends the largest value that
there is and everybody else sends 0, so that a batch says how often she is in it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from durable import SECRET
from real_path import MODEL

from reticent.errors import InvalidInput, ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.service.durability.backup import back_up
from reticent.service.durability.restore import restore
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Secrets
from reticent.service.store.engine import Store
from reticent.service.store.tables import METADATA
from reticent_client import ServiceError, Shuffler
from reticent_wire.arrays import from_json
from reticent_wire.shuffling import Tally, tally_of

AGENT = "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=1"
USERS, SIZE, ANN = 12, 4, "ann"


class Joined:
    """A shuffler's connection to a deployment in this process; keeps what was posted, and after how many admissions."""

    def __init__(self, service: Deployment) -> None:
        self.service = service
        self.posted: list[tuple[int, dict[str, Any]]] = []

    def get(self, path: str) -> dict[str, Any]:
        return public_views.status(self.service) if path == "/v1/status" else public_views.model(self.service)

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        self.posted.append((int(self.service.clock()[0].admitted), content))
        shape = self.service.mechanism.noise_scale.shape
        ones, messages = (from_json(part, content[part], dtype="<i8", shape=shape) for part in ("ones", "messages"))
        given = content["batch"], content["round"], content["users"], ones, messages, content["restores"]
        try:
            self.service.submit_batch(*given)
        except InvalidInput as wrong:
            raise ServiceError(422, name="invalid-input", detail=str(wrong)) from None
        except Refusal as refused:
            raise ServiceError(refused.status, name=refused.kind, detail=str(refused)) from None
        return {}

    def close(self) -> None:
        """Nothing is open."""


class Restorable:
    """A deployment on a database that can be lost, its guard beside it, and a shuffler that is never restarted."""

    def __init__(self, where: Path, url: str, *, inline: bool) -> None:
        self.mechanism: Mechanism = make_mechanism(AGENT, MODEL, USERS, SecureNoise())
        self._where, self._url, self._inline = where, url, inline
        self.service = self._unopened()
        self.service.set_up()
        back_up(self.service.store, Secrets(SECRET), where / "copy")  # of before the first user
        self.connection = Joined(self.service)
        self.shuffler = Shuffler(self.connection, patience=0)  # type: ignore[arg-type]
        self.shuffler.post_due()
        self.sent: list[tuple[Any, Tally]] = []

    def _unopened(self) -> Deployment:
        guard = RollbackGuard(self._where / "witness", Secrets(SECRET))
        return Deployment(
            Context(self.mechanism, Store(self._url), Secrets(SECRET), inline=self._inline, rollback_guard=guard)
        )

    def come(self, user: str) -> Any:
        """A user comes, and sends at once if they are learned from."""
        opened = self.service.admit(user)
        if opened.learning:
            rules = self.mechanism.batches
            coins = rules.coins_at(opened.round, opened.place)
            value = rules.reach if user == ANN else 0 * rules.reach
            self.sent.append((opened, tally_of(value, rules.reach, coins // 2, coins)))
            self.hand_over(-1)
        return opened

    def hand_over(self, which: int) -> None:
        """Give the shuffler what a device sent, now or again; it may turn it away."""
        opened, tally = self.sent[which]
        with contextlib.suppress(InvalidInput):
            self.shuffler(opened.round, opened.place, *tally, opened.restores)

    def post(self) -> None:
        with contextlib.suppress(ReticentError):
            self.shuffler.post_due()

    def lose_and_restore(self) -> None:
        METADATA.drop_all(self.service.store.engine)
        self.service.store.close()
        again = self._unopened()
        restore(again, self._where / "copy")
        again.set_up()
        self.service = self.connection.service = again

    def times_ann_was_sent(self) -> int:
        """How often her value is in all batches that have left the shuffler; a posted batch is one, however often."""
        rules, batches = self.mechanism.batches, {}
        for _, content in self.connection.posted:
            batches[content["batch"]] = content
        found = 0.0
        for content in batches.values():
            ones = from_json("ones", content["ones"], dtype="<i8", shape=rules.reach.shape)
            value = ones - SIZE * rules.reach - rules.coins / 2
            found += float((value / np.maximum(rules.reach, 1))[rules.reach > 0].mean())
        return round(found)

    def close(self) -> None:
        self.service.store.close()


def lost_while_messages_wait(where: Path, url: str) -> list[str]:
    """She sends, the disk is lost before her round is posted, and she comes again."""
    played = Restorable(where, url, inline=True)
    findings = []
    try:
        for user in range(SIZE):
            played.come(f"user {user}")
        played.post()  # a first publication: the journal begins
        played.come(ANN)
        played.come("bob")
        played.lose_and_restore()
        played.post()  # the shuffler looks by its own clock, and finds out
        before, after = len(played.sent) - 2, len(played.sent)
        played.hand_over(before)  # her device tries again, with what it had
        for user in ("cid", "dee", ANN, "bob"):
            if not played.come(user).learning:
                findings.append("somebody is not learned from who is in no publication")
        played.hand_over(before)
        played.post()
        if len(played.sent) != after + SIZE:
            findings.append("a place was not given")
        if played.times_ann_was_sent() != 1:
            findings.append(f"one user is in published sums {played.times_ann_was_sent()} times")
        number = played.connection.posted[-1][1]["round"]
        if number != 1:
            findings.append("the restored round was not posted")
        findings += _taken_late(played)
    finally:
        played.close()
    return findings


def lost_rounds_with(sends: bool, where: Path, url: str) -> tuple[list[int], int]:
    """One user sends or not, after a restore that the shuffler has not seen: which rounds are posted, and how many lost."""
    played = Restorable(where, url, inline=True)
    try:
        for user in range(SIZE):
            played.come(f"user {user}")
        played.post()
        played.lose_and_restore()
        rules = played.mechanism.batches
        for user in (ANN, "bob", "cid", "dee"):  # the others are silent: they play on
            opened = played.service.admit(user)
            if user == ANN and sends:
                coins = rules.coins_at(opened.round, opened.place)
                played.sent.append((opened, tally_of(rules.reach, rules.reach, coins // 2, coins)))
                played.hand_over(-1)
        played.post()
        for user in range(SIZE):  # the next round's users come, and its batch is waited for no longer
            played.service.admit(f"later {user}")
        played.post()
        played.service.finish()
        played.service.advance()
        rounds = [int(content["round"]) for _, content in played.connection.posted]
        return rounds, int(public_views.status(played.service)["lost_rounds"])
    finally:
        played.close()


def lost_after_a_batch_left(where: Path, url: str) -> list[str]:
    """She is in a batch that the service has seen, and the disk is lost before anything of it is published."""
    played = Restorable(where, url, inline=False)
    try:
        for user in ("user 0", "user 1", "user 2", ANN):
            played.come(user)
        played.post()
        if played.times_ann_was_sent() != 1:
            return ["a full round was not posted"]
        played.lose_and_restore()
        played.come("cid")
        again = played.come(ANN)
        for user in ("dee", "eve"):
            played.come(user)
        played.post()
        if again.learning or played.times_ann_was_sent() != 1:
            return ["one user is in two batches that left the shuffler"]
        return []
    finally:
        played.close()


def _taken_late(played: Restorable) -> list[str]:
    """Whether the service takes a batch whose users came before the restore."""
    for user in ("fay", "gus", "hal", "ida"):
        played.service.admit(user)
    rules = played.mechanism.batches
    batch = rules.silent(2, range(SIZE))
    try:
        played.service.submit_batch("f" * 32, 2, SIZE, batch.ones, batch.messages, restores=0)
    except Refusal as refused:
        return [] if refused.kind == "batch-late" else [f"refused as {refused.kind}"]
    return ["a batch of before a restore is taken"]
