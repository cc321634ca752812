# SPDX-License-Identifier: Apache-2.0
"""Examinations of shuffler and service together: the real ones, joined without a network."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from durable import SECRET
from examinations import Examination, _named
from real_path import MODEL
from restored_shuffle import Joined, lost_after_a_batch_left, lost_rounds_with, lost_while_messages_wait

from reticent.errors import InvalidInput, ReticentError
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.service.rounds import public_views
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import Secrets
from reticent.service.store import records
from reticent.service.store.engine import Store
from reticent_client import Shuffler
from reticent_wire.shuffling import Tally, tally_of

USERS, SIZE = 12, 4
REGRESSIONS = "private-linopt-vi:trust=shuffle,first=4,growth=1,epsilon=20"
FLAGSHIP = "private-score-vi:trust=shuffle,first=0.4,growth=1,epsilon=20"


@contextlib.contextmanager
def joined(agent: str) -> Iterator[Joined]:
    with tempfile.TemporaryDirectory() as where:
        mechanism = make_mechanism(agent, MODEL, USERS, SecureNoise())
        service = Deployment(Context(mechanism, Store(f"sqlite:///{where}/service.db"), Secrets(SECRET), inline=True))
        service.set_up()
        try:
            yield Joined(service)
        finally:
            service.store.close()


def _sent_by(connection: Joined, user: int) -> Tally:
    """What a user sends whose value is 0 and half of whose coins are ones."""
    rules = connection.service.mechanism.batches
    coins = rules.coins_at(*divmod(user, SIZE))
    return tally_of(0 * rules.reach, rules.reach, coins // 2, coins)


def _hand_over(shuffler: Shuffler, connection: Joined, user: int) -> None:
    shuffler(*divmod(user, SIZE), *_sent_by(connection, user))


def _story(silent: set[int]) -> tuple[list[tuple[int, int]], list[Any], list[str]]:
    """When batches were posted and of how many messages, whoever is silent; and what else was wrong."""
    findings = []
    with joined(REGRESSIONS) as connection, Shuffler(connection, patience=1e6) as shuffler:  # type: ignore[arg-type]
        shuffler.post_due()
        for user in range(USERS):
            connection.service.admit(f"user {user}")
            with contextlib.suppress(ReticentError):
                if user not in silent:
                    _hand_over(shuffler, connection, user)
            with contextlib.suppress(ReticentError):
                shuffler.post_due()
            if user == SIZE + 2 and silent:  # too late: the first round's batch was posted with this admission
                with contextlib.suppress(ReticentError):
                    _hand_over(shuffler, connection, 1)
        times = [(admitted, content["round"]) for admitted, content in connection.posted]
        sizes = [content["messages"]["data"] for _, content in connection.posted]
        if len({content["ones"]["data"] for _, content in connection.posted if content["round"] == 0}) > 1:
            findings.append("a batch changes after it was fixed")
    return times, sizes, findings


def silence() -> Examination:
    """Two runs that differ in whether one user sends: batches at the same times and of as many messages."""

    def examine() -> list[str]:
        everybody, without = _story(set()), _story({1})
        findings = [*everybody[2], *without[2]]
        if everybody[0] != without[0]:
            findings.append("when a batch is posted depends on who sent")
        if everybody[1][: len(without[1])] != without[1]:
            findings.append("how many messages a batch has depends on who sent")
        return findings

    return _named(examine, "device", {"shuffler": "silence"})


def dummies() -> Examination:
    """Whether what fills silent places is as noisy as its users would have been."""

    def examine() -> list[str]:
        rules = make_mechanism(REGRESSIONS, MODEL, USERS, SecureNoise()).batches
        drawn = np.stack([rules.silent(0, {1, 2}).ones for _ in range(200)]).astype(np.float64)
        coins = (rules.silent(0, {1, 2}).messages - 4 * rules.reach)[rules.coins > 0]
        units = (drawn - 2 * rules.reach)[:, rules.coins > 0] / np.sqrt(coins / 4)
        # 200 heads of many coins each: their variance is within 0.5 and 1.6 of the binomial's but for 1e-7.
        spread = units.var(axis=0)
        return [] if ((spread > 0.5) & (spread < 1.6)).all() else ["coins were not flipped for silent places"]

    return _named(examine, "distribution", {"shuffler": "dummies"})


def restart() -> Examination:
    """A shuffler that posted a round and was started again, before the round was released to anybody's knowledge."""

    def examine() -> list[str]:
        with joined(REGRESSIONS) as connection:
            for _ in range(2):
                shuffler = Shuffler(connection, patience=0)  # type: ignore[arg-type]
                with contextlib.suppress(ReticentError):
                    shuffler.post_due()
                for user in range(SIZE):
                    connection.service.admit(f"user {user}")
                    with contextlib.suppress(InvalidInput):
                        _hand_over(shuffler, connection, user)
                with contextlib.suppress(ReticentError):
                    shuffler.post_due()
            different = {content["ones"]["data"] for _, content in connection.posted if content["round"] == 0}
        return ["a round has two different batches"] if len(different) > 1 else []

    return _named(examine, "device", {"shuffler": "restart"})


def lost() -> Examination:
    """No batch ever comes: rounds are released at their deadlines, as coins alone, and teach nothing."""

    def examine() -> list[str]:
        findings = []
        with joined(FLAGSHIP) as connection:
            service = connection.service
            ends = service.mechanism.agent.schedule.ends
            for user in range(USERS):
                service.admit(f"user {user}")
            service.finish()
            service.advance()
            status = public_views.status(service)
            if (status["version"], status["lost_rounds"]) != (len(ends), len(ends)):
                findings.append("the learning has stopped with a batch that never comes")
            rules = service.mechanism.batches
            with contextlib.suppress(Refusal):
                service.submit_batch("f" * 32, 0, SIZE, *rules.silent(0, range(SIZE)))
            with service.store.read() as tx:
                if records.batch_of(tx, 0) is not None:
                    findings.append("a late batch is taken")
                release = records.round_of(tx, 0).release
            if release is not None and not np.frombuffer(release, "<f8").any():
                findings.append("a round that was lost has no noise")
            if status["version"] and rules.coins.any():
                before, after = (service.mechanism.memory_of(service.billboard(version)) for version in (0, 1))
                if not all(np.array_equal(one, other) for one, other in zip(before[0], after[0], strict=True)):
                    findings.append("a round that was lost is learned from")
        return findings

    return _named(examine, "device", {"shuffler": "lost"})


def restored() -> Examination:
    """The service's disk is lost and restored: every user is in one batch at most of all that ever leave the shuffler."""

    def examine() -> list[str]:
        findings = []
        for number, lose in enumerate((lost_while_messages_wait, lost_after_a_batch_left)):
            with tempfile.TemporaryDirectory() as where:
                findings += lose(Path(where), f"sqlite:///{where}/{number}.db")
        return findings

    return _named(examine, "device", {"shuffler": "restored"})


def looks() -> Examination:
    """Two runs after a restore that differ in whether one user sends: the same rounds are posted, and as many lost."""

    def examine() -> list[str]:
        found = []
        for sends in (True, False):
            with tempfile.TemporaryDirectory() as where:
                found.append(lost_rounds_with(sends, Path(where), f"sqlite:///{where}/service.db"))
        return [] if found[0] == found[1] else ["which rounds are lost after a restore depends on who sent"]

    return _named(examine, "device", {"shuffler": "looks"})


SILENCE, DUMMIES, RESTART, LOST = silence(), dummies(), restart(), lost()
RESTORED, LOOKS = restored(), looks()
