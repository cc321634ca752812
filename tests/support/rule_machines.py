# SPDX-License-Identifier: Apache-2.0
"""Rule machines: hypothesis chooses what users, apps, operators and failing machines do, and an oracle checks each step.

* :class:`JointMachine` and :class:`PanPrivateMachine`: a deployment on a store (SQLite, unless a test says another), in
  this process. :class:`TwoWorkers`: two of them on one store, which some requests reach at the same time.
* :class:`AgentMachine`: an agent inside a program that is interrupted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import hypothesis.strategies as st
import numpy as np
import sqlalchemy as sa
from durable import SECRET
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from interruptions import INTERRUPTS, episode, fresh_agent, interrupted, recorded_attempts, twin
from real_path import MODEL, played
from release_oracle import Oracle, RecordedNoise, Search, killed_at

from reticent.errors import InvalidInput, ReticentError
from reticent.service.durability.backup import back_up
from reticent.service.durability.erasure import erase
from reticent.service.durability.restore import restore
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.http import groups, schemas
from reticent.service.http.episodes import RequestHandlers
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.service.rounds.admit import Opened
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.submit import Sent
from reticent.service.secrets import Secrets
from reticent.service.store.engine import Store
from reticent.service.store.tables import METADATA, ROUNDS
from reticent.worlds import Episode

T = TypeVar("T")
USERS, NAMES, LIFETIME = 6, 9, 100.0
"""Three rounds of two; more users come than are learned from."""

FORMS = st.sampled_from(["ordinary", "ordinary", "wild", "malformed"])
KILLS = st.one_of(st.just(0), st.just(0), st.integers(1, 14))
"""At which write the process dies; 0 is never."""
CHOICES = st.integers(0, 30)
POINTS = 450
"""Bytecodes and calls of one call of an agent, about: where it may be interrupted."""


class Came(NamedTuple):
    """An admission, in the time between two restores that it is of."""

    user: str
    opened: Opened
    epoch: int


@functools.cache
def mechanism(pan_private: bool) -> Mechanism:
    """Small rounds, with noise that is remembered. It holds no state but that."""
    spec = "private-linopt-vi:first=2,growth=1,epsilon=4"
    return make_mechanism(spec, MODEL, USERS, RecordedNoise(), pan_private=pan_private)


def sent(form: str, seed: int) -> Episode:
    """An episode that is ordinary, has values that are none, or has not the form of one."""
    one = played(seed, -1 if form == "wild" else None)
    return one._replace(states=one.states[:0]) if form == "malformed" else one


class JointMachine(RuleBasedStateMachine):
    """Admissions, submissions, planning, deaths, restores and erasures on one store, in any order."""

    PAN_PRIVATE: ClassVar[bool] = False
    search: ClassVar[Search] = Search()
    database: ClassVar[str | None] = None
    """Of all examples, which empty it; by default each has a file of its own."""

    @initialize(inline=st.booleans())
    def begin(self, inline: bool) -> None:
        self.search.examples += 1
        self.folder = tempfile.TemporaryDirectory()
        if self.database is not None:
            with contextlib.closing(Store(self.database)) as before:
                METADATA.drop_all(before.engine)
        self.where, self.inline, self.now = Path(self.folder.name), inline, 1_000.0
        self.mechanism = mechanism(self.PAN_PRIVATE)
        assert isinstance(self.mechanism.source, RecordedNoise)
        self.mechanism.source.draws.clear()
        self.oracle = Oracle(
            self.search, self.mechanism.noise_scale > 0, self.mechanism.source.draws, self.mechanism.in_halves
        )
        self.came: list[Came] = []
        self.counted: set[str] = set()
        self.used_up: set[str] = set()  # users who must not be admitted again
        self.perhaps: set[str] = set()  # users who came before a restore that may have lost their admission
        self.erased: set[str] = set()
        self.admitted = self.open_round = self.epoch = self.published = 0
        self.finished = False
        self.identities, self.copies = itertools.count(), itertools.count()
        self.service = self._unopened()
        self.service.set_up()
        self.backups = [self._back_up()]

    # -- users and apps -------------------------------------------------------------------------------------------------

    @rule(user=st.integers(0, NAMES), again=CHOICES, kill=KILLS)
    def admit(self, user: int, again: int, kill: int) -> None:
        """A user comes, or an app asks again with an old episode's id."""
        name, identity = f"user {user}", f"{next(self.identities):032x}"
        if again < len(self.came) and again % 3 == 0:
            name, identity = self.came[again].user, self.came[again].opened.episode
        known = any(one.opened.episode == identity and one.epoch == self.epoch for one in self.came)
        opened = self._alive(kill, lambda: self.service.admit(name, identity))
        entered = int(self.service.clock()[0].admitted) - self.admitted
        if entered:
            if known or name in self.used_up or entered > 1:
                self.search.violated("a user is admitted twice")
            while self.open_round < 3 and self.admitted >= self.mechanism.schedule.ends[self.open_round]:
                self.open_round += 1
            self.admitted += 1
            self.used_up.add(name)
            self.perhaps.discard(name)
            self.erased.discard(name)
            self.came.append(Came(name, opened, self.epoch))
        elif not known and name not in self.used_up | self.perhaps and self.admitted < USERS:
            self.search.violated("a user who has contributed nothing is turned away")

    @rule(users=st.integers(1, 3), send=st.booleans(), kill=KILLS)
    def come(self, users: int, send: bool, kill: int) -> None:
        """New users come, and may send at once: the usual case."""
        new = [user for user in range(2 * NAMES) if f"user {user}" not in self.used_up]
        for user in new[:users]:
            before = len(self.came)
            self.admit(user, NAMES + before, 0)
            if send and len(self.came) > before:
                self.submit(before, "ordinary", kill)

    @precondition(lambda self: self.came)
    @rule(which=CHOICES, state=st.sampled_from([-1, 0, 2, 10**6]))
    def act(self, which: int, state: int) -> None:
        one = self._chosen(which)
        pinned = self.service.submissions.token(one.opened.token, one.opened.episode)
        assert 0 <= self.service.act(pinned, 0, state) < MODEL.actions

    @precondition(lambda self: self.came)
    @rule(which=CHOICES, form=FORMS, kill=KILLS)
    def submit(self, which: int, form: str, kill: int) -> None:
        """An episode is sent: in time, late, again, or with a process that dies over it."""
        one = self._chosen(which)
        values = sent(form, which)
        self._count(one, form, values)
        with contextlib.suppress(ReticentError):
            self._alive(kill, lambda: self.service.submit_trajectory(one.opened.token, one.opened.episode, *values))

    @precondition(lambda self: self.came)
    @rule(members=st.lists(st.tuples(CHOICES, FORMS), min_size=2, max_size=4))
    def group(self, members: list[tuple[int, str]]) -> None:
        """An app's server sends several episodes in one body, as the service reads it."""
        newest = self.came[-4:]
        several = [(newest[which % len(newest)], form, sent(form, which)) for which, form in members]
        for one, form, values in several:
            self._count(one, form, values)
        body = [
            {
                "episode": one.opened.episode,
                "token": one.opened.token,
                "states": values.states.tolist(),
                "actions": values.actions.tolist(),
                "rewards": [None if np.isnan(reward) else reward for reward in values.rewards.tolist()],
            }
            for one, _, values in several
        ]
        with contextlib.suppress(ReticentError):
            self._together(json.dumps({"trajectories": body}).encode())

    @precondition(lambda self: self.came)
    @rule()
    def wait(self) -> None:
        """All who are waited for are too late from now on."""
        self.now += 2 * LIFETIME
        self.service.expire()

    # -- operators and machines -----------------------------------------------------------------------------------------

    @rule(kill=KILLS)
    def plan(self, kill: int) -> None:
        self._alive(kill, lambda: self.service.advance())

    @precondition(lambda self: self.came)
    @rule()
    def interrupt(self) -> None:
        """The process dies between two requests."""
        self._reopen()

    @precondition(lambda self: self.came)
    @rule()
    def copy(self) -> None:
        self.backups.append(self._back_up())

    @precondition(lambda self: self.came)
    @rule(which=CHOICES, lost=st.booleans(), kill=KILLS)
    def put_back(self, which: int, lost: bool, kill: int) -> None:
        """The store is restored from a backup, over what is there or after the disk was lost."""
        if lost:
            METADATA.drop_all(self.service.store.engine)
        path = self.backups[which % len(self.backups)]

        def restored() -> Any:
            return restore(self.service, path, replace=True)

        self.service.store.close()
        self.service = self._unopened()
        found, drawn = None, len(self.oracle.draws)
        if kill:
            with killed_at(kill):
                found = restored()
        if found is None:
            self.service.store.close()
            self.service, drawn = self._unopened(), len(self.oracle.draws)
            found = restored()
        self.service.set_up()
        if found.releases < self.published:
            self.search.violated("a restore forgets what was published")
        self.epoch += 1
        self.oracle.forget_from(found.releases, drawn)
        self.admitted = found.admitted
        reached = int(np.searchsorted(self.mechanism.schedule.ends, found.admitted, side="left"))
        self.open_round = min(max(found.releases, reached), 3)
        self.finished = bool(self.service.clock()[0].finished)
        released = {self.oracle.users[one] for counted in self.oracle.rounds.values() for one in counted}
        self.perhaps |= self.used_up - released - self.erased
        self.used_up = released | self.erased

    @rule(user=st.integers(0, NAMES), kill=KILLS)
    def erase(self, user: int, kill: int) -> None:
        name = f"user {user}"
        self._alive(kill, lambda: erase(self.service.store, Secrets(SECRET), self.service.rollback_guard, name))
        self.erased.add(name)
        self.used_up.add(name)
        self.perhaps.discard(name)

    @precondition(lambda self: self.admitted == USERS)
    @rule(kill=KILLS)
    def finish(self, kill: int) -> None:
        self._alive(kill, lambda: self.service.finish())
        self.open_round, self.finished = 3, True

    # -- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def every_sum_is_of_its_users(self) -> None:
        """Everything in the store is opened, as somebody with the secret could."""
        with self.service.store.read() as tx:
            rows = tx.execute(sa.select(ROUNDS).order_by(ROUNDS.c.number)).all()
        before = 0 * self.mechanism.noise_scale
        for row in rows:
            if row.state == "released":
                release = np.frombuffer(row.release, "<f8").reshape(before.shape) / self.mechanism.grid
                self.oracle.released(row.number, (release - before).astype(np.int64))
                before = release  # a release is of all rounds up to its own
            else:
                self.oracle.look(row.number, row.state == "sealed", self._opened_sum(row))
        clock, _ = self.service.clock()
        self.published = max(self.published, int(clock.served_version))
        assert (clock.halted, clock.admitted, clock.open_round) == (None, self.admitted, self.open_round)

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.store.close()
            self.folder.cleanup()

    # -- inside ---------------------------------------------------------------------------------------------------------

    def _unopened(self) -> Deployment:
        guard = RollbackGuard(self.where / "witness", Secrets(SECRET))
        return Deployment(
            Context(
                self.mechanism, Store(self.database or f"sqlite:///{self.where / 'service.db'}"), Secrets(SECRET),
                inline=self.inline, rollback_guard=guard, now=lambda: self.now, steady=lambda: self.now,
                ticket_lifetime=LIFETIME,
            )
        )  # fmt: skip

    def _reopen(self) -> None:
        self.service.store.close()
        self.service = self._unopened()
        self.service.set_up()

    def _alive(self, kill: int, action: Callable[[], T]) -> T:
        """``action`` in a process that may die over it; then another one is started, and asked the same."""
        if kill:
            with killed_at(kill):
                return action()
            self._reopen()
        return action()

    def _back_up(self) -> Path:
        path = self.where / f"copy {next(self.copies)}"
        back_up(self.service.store, Secrets(SECRET), path, restores=self.service.context.restores)
        return path

    def _chosen(self, which: int) -> Came:
        return self.came[which % len(self.came)]

    def _count(self, one: Came, form: str, values: Episode) -> None:
        """What the oracle says that a submission of now does."""
        identity = f"{one.epoch} {one.opened.episode}"
        over = one.epoch != self.epoch or (one.opened.expires_at or 0.0) < self.now or self.finished
        if over or form == "malformed" or one.user in self.erased or identity in self.counted:
            return
        self.counted.add(identity)
        board = self.service.billboard(one.opened.version)
        trajectory = self.mechanism.played(Sent(*values), one.opened.place)
        integers = self.mechanism.exact_contribution(board, trajectory)
        self.oracle.count(self.open_round, identity, one.user, integers)

    def _together(self, body: bytes) -> Sequence[Any]:
        read = schemas.Trajectories.apart(body)
        assert read is not None
        handlers = RequestHandlers(self.service, None, 0.0)
        try:
            return asyncio.run(groups.submit_trajectories(read, handlers)).receipts
        finally:
            handlers.close()

    def _opened_sum(self, row: Any) -> np.ndarray:
        for label in (f"closed round {row.number}", f"round {row.number}"):
            with contextlib.suppress(Exception):
                return self.service.context._array(self.service.secrets.unseal(row.total, label))
        raise AssertionError("a sum does not open")


class PanPrivateMachine(JointMachine):
    """The same with a store that may be looked into."""

    PAN_PRIVATE = True


class TwoWorkers(JointMachine):
    """Two processes of one deployment: users reach one or the other, and some of them both at the same time.

    Both are stopped for a restore, as an operator must.
    """

    @initialize(inline=st.booleans())
    def begin(self, inline: bool) -> None:
        super().begin(inline)
        self.other = self._joined()

    @rule()
    def switch(self) -> None:
        """The next requests reach the other worker, with what it remembers."""
        self.service, self.other = self.other, self.service

    @precondition(lambda self: self.came)
    @rule(which=CHOICES, form=FORMS)
    def submit_to_both(self, which: int, form: str) -> None:
        """An app sends an episode twice, and both workers have it at once."""
        one = self._chosen(which)
        values = sent(form, which)
        self._count(one, form, values)
        self._at_once(lambda service: service.submit_trajectory(one.opened.token, one.opened.episode, *values))

    @precondition(lambda self: self.came)
    @rule()
    def plan_in_both(self) -> None:
        self._at_once(lambda service: service.advance())

    @precondition(lambda self: self.came)
    @rule(which=CHOICES, lost=st.booleans(), kill=KILLS)
    def put_back(self, which: int, lost: bool, kill: int) -> None:
        self.other.store.close()
        super().put_back(which, lost, kill)
        self.other = self._joined()

    def _joined(self) -> Deployment:
        worker = self._unopened()
        worker.set_up()
        return worker

    def _at_once(self, action: Callable[[Deployment], Any]) -> None:
        def tried(service: Deployment) -> None:
            with contextlib.suppress(ReticentError):
                action(service)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(tried, (self.service, self.other)))

    def teardown(self) -> None:
        if hasattr(self, "other"):
            self.other.store.close()
        super().teardown()


class AgentMachine(RuleBasedStateMachine):
    """An agent inside a program: users in order or with tickets, each call of which may be interrupted anywhere.

    An interrupted user is counted or not: the oracle takes both, but nothing else.
    """

    search: ClassVar[Search] = Search()

    @initialize(tickets=st.booleans())
    def begin(self, tickets: bool) -> None:
        self.search.examples += 1
        self.agent, self.tickets = twin(fresh_agent()), tickets
        self.users = itertools.count()
        self.out: list[tuple[Any, int]] = []
        self.round: list[tuple[np.ndarray, bool]] = []
        self.number = 0
        self.attempts = contextlib.ExitStack()
        self.closed = self.attempts.enter_context(recorded_attempts())

    @precondition(lambda self: not self.agent.finished)
    @rule(at=st.one_of(st.just(0), st.integers(1, POINTS)))
    def come(self, at: int) -> None:
        user = next(self.users)
        if self.tickets:
            if self._call(lambda: self.out.append((self.agent.begin(user), user)), at) and user in self.agent._out:
                self.out.append((self.agent._out[user], user))
            return
        self._settle()
        report = self.agent.report(episode(user))
        sure = not self._call(lambda: self.agent.submit(user, episode(user)), at)
        self.round.append((report, sure))
        if not sure:
            self._retry(lambda: self.agent.submit(user, episode(user)))

    @precondition(lambda self: self.out)
    @rule(which=CHOICES, at=st.one_of(st.just(0), st.integers(1, POINTS)))
    def submit(self, which: int, at: int) -> None:
        ticket, user = self.out.pop(which % len(self.out))
        self._settle()
        report = self.agent.report(episode(user), ticket)
        sure = not self._call(lambda: self.agent.submit(ticket, episode(user)), at)
        self.round.append((report, sure))
        if not sure:
            self._retry(lambda: self.agent.submit(ticket, episode(user)))

    @precondition(lambda self: self.agent.finished and self.tickets)
    @rule(at=st.one_of(st.just(0), st.integers(1, POINTS)))
    def finish(self, at: int) -> None:
        self._call(self.agent.finish, at)
        self._retry(self.agent.finish)
        self.out.clear()

    @rule(at=st.one_of(st.just(0), st.integers(1, POINTS)))
    def look_up(self, at: int) -> None:
        """Somebody reads the plan in force."""
        self._call(lambda: self.agent.plan, at)

    @invariant()
    def a_round_is_closed_once_with_the_sum_of_its_users(self) -> None:
        attempts: dict[int, set[Any]] = {}
        for one in self.closed:
            attempts.setdefault(one.number, set()).add(one)
        for number, several in attempts.items():
            if len(several) > 1:
                self.search.violated(
                    f"round {number} is released {len(several)} times, with other noise or another sum"
                )
        self._settle()

    def teardown(self) -> None:
        if hasattr(self, "attempts"):
            self.attempts.close()

    def _call(self, action: Callable[[], Any], at: int) -> bool:
        """Whether a call was interrupted, at this point of it."""
        if at:
            return interrupted(action, at, INTERRUPTS[at % 2])
        action()
        return False

    def _retry(self, action: Callable[[], Any]) -> None:
        """The user tries again, and is told if there was no need to."""
        with contextlib.suppress(InvalidInput):
            action()

    def _settle(self) -> None:
        """Have an interrupted round finished, and hold the sums of rounds closed since the last time to their users."""
        assert self.agent.plan is not None
        for one in self.closed:
            if one.number < self.number:
                continue
            self.number, self.search.releases = one.number + 1, self.search.releases + 1
            total = np.frombuffer(one.total, np.int64).reshape(self.agent._open.shape)
            if not self._possible(total):
                self.search.violated(f"round {one.number} is not the sum of its users, each once")
            self.round.clear()

    def _possible(self, total: np.ndarray) -> bool:
        doubtful = [report for report, sure in self.round if not sure]
        certain = sum((report for report, sure in self.round if sure), np.zeros_like(total))
        return any(
            np.array_equal(total, certain + sum(several, np.zeros_like(total)))
            for many in range(len(doubtful) + 1)
            for several in itertools.combinations(doubtful, many)
        )
