# SPDX-License-Identifier: Apache-2.0
"""Rule machines of the models in which devices hide users: hypothesis chooses, and every message is traced by construction.

* :class:`ShuffleMachine`: each user has a coordinate of their own and sends one grid step in it. All coins show tails, also
  those of silent places, so that a batch and a release say exactly how often each user is in them.
* :class:`LocalMachine`: each user has a device with a budget file. Every report that leaves it is kept; two different ones
  of one user are noised twice.

Service, journal, restore, shuffler, client and budget are the real ones, joined without a network.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import sqlalchemy as sa
from durable import SECRET
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from real_path import MODEL, played
from release_oracle import Search
from restored_shuffle import AGENT, SIZE, USERS, Joined

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
from reticent.service.store.tables import METADATA, ROUNDS
from reticent_client import Budget, Client, ServiceError, Shuffler
from reticent_client.episode import Episode
from reticent_wire import shuffle_rules
from reticent_wire.arrays import from_json
from reticent_wire.shuffling import tally_of

CHOICES = st.integers(0, 30)
NAMES = 6
"""Users of the shuffle model: fewer than places, so that those come again whom a restore has forgotten."""
LOCAL = "private-linopt-vi:trust=local,first=4,growth=1,epsilon=1"


@functools.cache
def mechanism(spec: str) -> Mechanism:
    """Making one takes longer than an example, and it holds no state."""
    return make_mechanism(spec, MODEL, USERS, SecureNoise())


class RestoredService(RuleBasedStateMachine):
    """A service whose store is copied, lost and restored at any time."""

    SPEC: ClassVar[str]
    search: ClassVar[Search] = Search()

    def open_service(self, inline: bool) -> None:
        self.search.examples += 1
        self.folder = tempfile.TemporaryDirectory()
        self.where, self.inline = Path(self.folder.name), inline
        self.copies: list[Path] = []
        self.service = self._unopened()
        self.service.set_up()
        self.copy()

    @rule()
    def copy(self) -> None:
        self.copies.append(self.where / f"copy {len(self.copies)}")
        back_up(self.service.store, Secrets(SECRET), self.copies[-1], restores=self.service.context.restores)

    @rule()
    def plan(self) -> None:
        self.service.advance()

    @rule(which=CHOICES)
    def lose_and_restore(self, which: int) -> None:
        METADATA.drop_all(self.service.store.engine)
        self.service.store.close()
        again = self._unopened()
        restore(again, self.copies[which % len(self.copies)])
        again.set_up()
        self.service = again
        self.restarted()

    def restarted(self) -> None:
        """The service runs again, on another store."""

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.store.close()
            self.folder.cleanup()

    def _unopened(self) -> Deployment:
        guard = RollbackGuard(self.where / "witness", Secrets(SECRET))
        store = Store(f"sqlite:///{self.where / 'service.db'}")
        return Deployment(
            Context(mechanism(self.SPEC), store, Secrets(SECRET), inline=self.inline, rollback_guard=guard)
        )


class ShuffleMachine(RestoredService):
    """A service with a shuffler that is never restarted."""

    SPEC = AGENT

    @initialize(inline=st.booleans())
    def begin(self, inline: bool) -> None:
        self.tails = mock.patch.object(shuffle_rules, "secure_heads", return_value=0)
        self.tails.start()
        self.open_service(inline)
        self.rules = self.service.mechanism.batches
        self.coordinates = np.argwhere(self.rules.reach > 0)
        assert len(self.coordinates) >= NAMES
        self.sent: list[tuple[Any, Any]] = []
        self.connection = Joined(self.service)
        self.shuffler = Shuffler(self.connection, patience=0)  # type: ignore[arg-type]
        self.shuffler.post_due()

    @rule(first=st.integers(0, NAMES - 1), users=st.integers(1, SIZE), send=st.booleans())
    def come(self, first: int, users: int, send: bool) -> None:
        """Users come, for the first time or again, and may send at once."""
        for user in range(first, first + users):
            which = user % NAMES
            opened = self.service.admit(f"user {which}")
            if opened.learning:
                coins, value = self.rules.coins_at(opened.round, opened.place), 0 * self.rules.reach
                value[tuple(self.coordinates[which])] = 1
                self.sent.append((opened, tally_of(value, self.rules.reach, 0 * coins, coins)))
                if send:
                    self.send(-1)

    @precondition(lambda self: self.sent)
    @rule(which=CHOICES)
    def send(self, which: int) -> None:
        """A device sends, late or again; the shuffler may turn it away."""
        opened, tally = self.sent[which % len(self.sent) if which >= 0 else which]
        with contextlib.suppress(InvalidInput):
            self.shuffler(opened.round, opened.place, *tally, opened.restores)

    @rule(first=st.integers(0, NAMES - 1), under_way=st.integers(0, SIZE - 1), which=CHOICES, looked=st.booleans())
    def restore_and_fill(self, first: int, under_way: int, which: int, looked: bool) -> None:
        """The store is lost while users are on their way and have sent; the next ones to come fill a round.

        The shuffler looks at times of its own: before they come, or only after.
        """
        if under_way:
            self.come(first + 1, under_way, True)
        self.lose_and_restore(which)
        if looked:
            self.post()
        self.come(first, SIZE, True)
        self.post()

    @rule(first=st.integers(0, NAMES - 1))
    def play_a_round(self, first: int) -> None:
        """Users come, send and are posted, as on most days."""
        self.come(first, SIZE, True)
        self.post()

    @rule()
    def post(self) -> None:
        with contextlib.suppress(ReticentError):
            self.shuffler.post_due()

    def restarted(self) -> None:
        self.connection.service = self.service

    @invariant()
    def every_user_is_in_one_sum_once(self) -> None:
        batches = {content["batch"]: content for _, content in self.connection.posted}
        shape = self.rules.reach.shape
        left = [
            from_json("ones", one["ones"], dtype="<i8", shape=shape) - SIZE * self.rules.reach
            for one in batches.values()
        ]
        self._hold(left, "the batches that left the shuffler")
        with self.service.store.read() as tx:
            rows = tx.execute(sa.select(ROUNDS).where(ROUNDS.c.state == "released").order_by(ROUNDS.c.number)).all()
        sums = [np.frombuffer(row.release, "<f8").reshape(shape) / self.service.mechanism.grid for row in rows]
        before = [np.zeros(shape), *sums[:-1]] if sums else []
        published = [
            np.rint(now - then + self.rules.coins / 2).astype(np.int64) for now, then in zip(sums, before, strict=True)
        ]
        self._hold(published, "the published sums")
        self.search.releases += len(published) > 0

    def _hold(self, sums: list[np.ndarray], what: str) -> None:
        """Hold sums to what each user may add: one step in their own coordinate, once in all."""
        if not sums:
            return
        assert all(one.min() >= 0 and one.sum() <= SIZE for one in sums), (
            what
        )  # the trace reads users, and nothing else
        times = np.sum(sums, axis=0).max()
        if times > 1:
            self.search.violated(f"one user is {times} times in {what}")

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "tails"):
            self.tails.stop()


class Device(Joined):
    """A device's connection to the service in this process; keeps every report that leaves."""

    def __init__(self, service: Callable[[], Deployment], budget: Path) -> None:
        self._service, self._budget = service, budget
        self.url, self.left, self.cut = "http://127.0.0.1", [], False
        self.start()

    def start(self) -> None:
        """The app begins, or begins again: what is on the disk is all that it remembers."""
        client = Client(self.url, None, trust="local", budget=Budget(self._budget))
        client.connection.close()
        client.connection = self  # type: ignore[assignment]
        self.client, self.episode = client, None

    def get(self, path: str, *, route: str | None = None) -> dict[str, Any]:
        service = self._service()
        if path == "/v1/round":
            number, reference = service.open_round()
            return {"round": number, "reference": reference}
        if path.startswith("/v1/billboards/"):
            board = service.billboard(int(path.rpartition("/")[2]))
            return board.to_json(final=False, model=service.configuration.model_digest)
        return public_views.status(service) if path == "/v1/status" else public_views.model(service)

    def post(self, path: str, content: dict[str, Any], *, route: str | None = None) -> dict[str, Any]:
        service = self._service()
        if path == "/v1/episodes":
            opened = vars(service.admit(content["user"], content["episode"]))
            return {**opened, "trust": "local", "horizon": MODEL.horizon}
        self.left.append(json.dumps(content["report"], sort_keys=True))
        if self.cut:
            raise ServiceError(503, name="unavailable", detail="the network is down")
        shape = service.configuration.report_limit.shape
        report = from_json("report", content["report"], dtype="<i8", shape=shape)
        episode = path.split("/")[3]
        try:
            version = service.submit_report(content["token"], episode, report, content.get("reference"))
        except Refusal as refused:
            raise ServiceError(refused.status, name=refused.kind, detail=str(refused)) from None
        return {"episode": episode, "status": "counted", "version": version}


class LocalMachine(RestoredService):
    """A service of the local model, and devices that crash, lose their connection and are asked again."""

    SPEC = LOCAL

    @initialize(inline=st.booleans())
    def begin(self, inline: bool) -> None:
        self.open_service(inline)
        self.seeds = itertools.count()
        self.devices = {user: Device(lambda: self.service, self.where / f"budget {user}") for user in range(USERS + 2)}

    @rule(user=CHOICES, cut=st.booleans())
    def visit(self, user: int, cut: bool) -> None:
        """A user plays an episode, or goes on with the one that could not be sent; the report may get lost on its way."""
        name = user % len(self.devices)
        device = self.devices[name]
        device.cut = cut
        with contextlib.suppress(ReticentError):
            if device.episode is None:
                device.episode = self._played(device, f"user {name}")
            device.episode.submit()
            device.episode = None

    def _played(self, device: Device, user: str) -> Episode:
        seen = played(next(self.seeds))
        episode = device.client.episode(user).open()
        for state, reward, there in zip(seen.states[:-1], seen.rewards, seen.states[1:], strict=True):
            episode.act(state)
            episode.observe(reward, there)
        return episode

    @rule(user=CHOICES)
    def restart(self, user: int) -> None:
        """An app is killed and started again."""
        self.devices[user % len(self.devices)].start()

    @invariant()
    def one_report_of_a_user_leaves_the_device(self) -> None:
        for user, device in self.devices.items():
            if len(set(device.left)) > 1:
                self.search.violated(f"{len(set(device.left))} reports of user {user} left the device, noised apart")
        self.search.releases = max(self.search.releases, sum(bool(one.left) for one in self.devices.values()))
