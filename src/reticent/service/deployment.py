"""The durable agent: the protocol of docs/delays.md, each of whose steps is one short transaction.

* *Admission* counts a user, seals the open round if it has had all its users, and pins the newest published version.
* *Submission* marks the episode and adds its statistics to the open round, both or neither. With a shuffler nothing is
  submitted here: a sealed round gets one *batch*.
* *Release* and *publication* are in :mod:`reticent.service.rounds`.

Formal guarantee (docs/service.md). Whatever crashes, retries and interleavings there are, the published releases are
distributed as those of :class:`reticent.service.embedded.DeployedAgent` with the same arrivals, each round's noise enters
one release and is drawn once, and a user's episode enters at most one round. Which version a user is served depends on
admissions and on how long planning takes, both public.
"""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.naming import split
from reticent.service.batches import overdue
from reticent.service.billboards import Billboard
from reticent.service.mechanism import Mechanism
from reticent.service.refusals import Refusal
from reticent.service.returning import Returning
from reticent.service.rounds import Rounds
from reticent.service.secrets import EpisodeToken, Secrets
from reticent.service.storage import records, tables
from reticent.service.storage.engine import Store
from reticent.service.witness import Witness
from reticent.worlds import Episode
from reticent_client.wire.shuffling import Tally

TICK = 10.0
"""Seconds between notes of how long the last round has waited."""


class _NotAdmitted(Exception):
    """Ends an admission's transaction, so that nothing of it remains."""


@dataclasses.dataclass(frozen=True)
class Opened:
    """What a user is told when she comes. ``reason`` says why she is served without being learned from.

    ``round`` and ``place`` are hers, both 0-based and public: they follow from the order of admissions, and decide what she
    is served of a version and how many coins she flips with a shuffler. ``reference`` is the version that her round's
    contributions refer to, if they do. A user who is not learned from has none of these.
    """

    episode: str
    token: str
    version: int
    learning: bool
    reason: str | None
    expires_at: float | None
    round: int | None = None
    place: int | None = None
    reference: int | None = None


class Deployment(Rounds):
    """One deployment as one worker sees it; everything that matters is in the store."""

    def __init__(
        self,
        mechanism: Mechanism,
        store: Store,
        secrets: Secrets,
        *,
        inline: bool = False,
        ticket_lifetime: float = 86_400.0,
        finish_after: float = 604_800.0,
        witness: Witness | None = None,
        canaries: int = 0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(mechanism, store, secrets, witness, canaries)
        self.returning = Returning(mechanism.guarantee.participation)
        self.contributions, self.inline = self.returning.participation.contributions, inline
        self.ticket_lifetime, self.finish_after = ticket_lifetime, finish_after
        self._clock, self._steady, self._ticked = clock, steady, steady()
        self._used_up = False

    # -- setting up ---------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything that must not change in the life of a deployment, by name: model, promise, schedule, noise, and every
        option of the agent whether it was given or not."""
        mechanism, guarantee = self.mechanism, self.mechanism.guarantee
        rules = mechanism.published.rules
        name, raw = split(mechanism.agent.name)
        entry = AGENTS.find(name)
        options = {key: option.default for key, option in entry.options.items()} | entry.read(raw)
        return {
            "model": self.model_digest, "agent": name, "contributions": self.contributions,
            "pan_private": mechanism.pan_private, "grid": mechanism.grid, "trust": guarantee.trust.name,
            "epsilon": guarantee.epsilon, "delta": guarantee.delta, "adjacency": guarantee.adjacency,
            "counter": mechanism.sums.counter.name, "releases": self.releases,
            "round_ends": mechanism.agent.schedule.ends.tolist(),
            "noise": [f"{sigma:.6e}" for sigma in mechanism.noise_scale.flat], "form": rules.form.name,
            "ticket_lifetime": self.ticket_lifetime, "finish_after": self.finish_after,
            **({"canaries": self.canaries.count} if self.canaries.count else {}),
            **({"participation": dataclasses.asdict(self.returning.participation)} if self.returning.active else {}),
            **{f"resolved {key}": str(value) for key, value in guarantee.settings.items()},
            **{f"option {key}": str(value) for key, value in options.items()},
            **{f"bound {key}": [f"{one:.6e}" for one in np.ravel(value)] for key, value in rules.bounds.items()},
        }  # fmt: skip

    def set_up(self, *, begin: bool = True) -> None:
        """Check that the store is this deployment's; with ``begin``, begin the deployment if the store is empty.

        Raises:
          InvalidInput: the store is empty or belongs to another model, promise or secret, or there is a witness of another
            one; nothing was changed.
        """
        found = None
        if self.store.has_tables():
            with self.store.read() as tx:
                found = records.deployment(tx)
        if found is None:
            if not begin:
                raise InvalidInput(
                    "database", "empty", "one that `reticent init` began", "check its path, or begin the deployment"
                )
            found = self._create()
        self._require_same(found)
        self.secrets, self.identity = self.secrets.of(found.identity), str(found.identity)
        if self.witness is not None:
            self.witness.read()
            if found.halted is None:
                self._attested(self.clock()[1], publishes=False)

    def _create(self) -> Any:
        """Begin the deployment; another worker may be faster."""
        state = self.mechanism.agent.init()
        first = self.mechanism.billboard(0, state)
        self.store.create_tables()
        with self.store.write() as tx:
            self.store.lock_setup(tx)
            found = records.deployment(tx)
            if found is not None:
                return found
            self.identity = uuid.uuid4().hex
            if self.witness is not None:
                self.witness.begin(self.identity)
            self.secrets = self.secrets.of(self.identity)
            self._begin(tx, state, first)
            return records.deployment(tx)

    def _require_same(self, found: Any) -> None:
        wanted, kept = json.loads(json.dumps(self.facts())), json.loads(found.facts)
        if found.format != tables.FORMAT or wanted != kept:
            changed = sorted(key for key in {*wanted, *kept} if wanted.get(key) != kept.get(key))
            raise InvalidInput(
                "database", f"of another deployment ({', '.join(changed) or 'format'})",
                "of this model, agent and number of users",
                "restore the configuration it was begun with, or start a new database with its own budget",
            )  # fmt: skip
        self.secrets.of(found.identity).unseal(found.key_check, "key check")

    def _begin(self, tx: Connection, state: Any, first: Billboard) -> None:
        sealed = self.secrets.seal(self.mechanism.to_bytes(state), "learner 0")
        records.insert_new(tx, tables.LEARNER, id=records.ONLY, version=0, state=sealed)
        records.insert_new(tx, tables.BILLBOARDS, version=0, content=first.to_bytes())
        records.insert_new(tx, tables.CHAIN, version=0, **self._entry(first, None, None))
        self._open_round(tx, 0)
        records.refer(tx, 0, 0)
        records.insert_new(
            tx, tables.DEPLOYMENT, id=records.ONLY, format=tables.FORMAT, identity=self.identity,
            facts=json.dumps(self.facts()), key_check=self.secrets.seal(b"", "key check"), admitted=0, open_round=0,
            served_version=0, waited=0.0, ticked_at=0.0, finished=False, halted=None,
        )  # fmt: skip

    def is_due(self) -> bool:
        """Whether the last round has waited for as long as it should, by a clock that cannot be set forward.

        Time counts only while it passes here and in the store: a clock that jumps nine days ahead adds no more than this
        process has lived since it last looked. Neither depends on reports.
        """
        now, steady = self._clock(), self._steady()
        with self.store.read() as tx:
            clock = records.deployment(tx)
        if clock.admitted < self.users or clock.finished:
            self._ticked = steady
            return False
        passed = steady - self._ticked
        if clock.ticked_at and passed < min(TICK, self.finish_after / 10):
            return bool(clock.waited >= self.finish_after)
        self._ticked = steady
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            counted = min(passed, max(0.0, now - clock.ticked_at)) if clock.ticked_at else 0.0
            records.change_deployment(tx, waited=clock.waited + counted, ticked_at=now)
        return bool(clock.waited + counted >= self.finish_after)

    # -- users --------------------------------------------------------------------------------------------------------

    def admit(self, user: str, episode: str | None = None) -> Opened:
        """Serve a user, and learn from her if she has not contributed and K users have not been admitted.

        Raises:
          Refusal: ``episode`` is another user's.
        """
        name, identity = self.secrets.name(user), episode or uuid.uuid4().hex
        if self.inline or self._used_up:  # else the lock is needed anyway, and the question is asked under it
            with self.store.read() as tx:
                known = self._without_admission(tx, records.deployment(tx), name, identity)
            if known is not None:
                return known
        if self.inline:
            self._end_full_round()
        try:
            opened = self._enter(name, identity)
        except (_NotAdmitted, IntegrityError):  # undone as a whole; another request of hers may have been faster
            with self.store.read() as tx:
                known = self._without_admission(tx, records.deployment(tx), name, identity)
            if known is None:
                raise Refusal("unavailable", "the admission collided with another one; try again") from None
            return known
        return opened

    def _enter(self, name: str, identity: str) -> Opened:
        """Admit a user in one transaction.

        Her own row comes first and the deployment's, at which all admissions queue, as late as possible.
        """
        until = self._clock() + self.ticket_lifetime
        with self.store.write() as tx:
            if records.episode(tx, identity) is not None or not records.count_user(tx, name, self.contributions):
                raise _NotAdmitted
            clock = records.count_admission(tx, self.users)
            if clock is None or clock.halted is not None:
                raise _NotAdmitted
            ended = self._is_full(clock.open_round, clock.admitted - 1)
            if ended:
                self._seal(tx, clock.open_round)
            admission, version = int(clock.admitted) - 1, int(clock.served_version)
            records.open_episode(
                tx, id=identity, user=name, admission=admission, version=version, expires_at=until
            )  # fmt: skip
            number, place = self.mechanism.agent.schedule.round_and_place(admission)
            if not self.returning.admits(tx, name, number):
                raise _NotAdmitted
            self.returning.admitted(tx, name, identity, number)
            if place == 0:  # the first of a round fixes what it refers to
                records.refer(tx, number, version)
            opened = self._admitted(tx, identity, version, until, admission)
        if ended:
            self.sealed.set()
        return opened

    def act(self, token: str, episode: str, step: int, state: int) -> tuple[int, int]:
        """The action of the pinned version, and that version; the same whenever it is asked for."""
        pinned = self._token(token, episode)
        for field, value, below in (
            ("step", step, self.mechanism.agent.model.horizon),
            ("state", state, self.mechanism.agent.model.states),
        ):
            if not 0 <= value < below:  # where she is, is hers: no message says it
                raise InvalidInput(field, "out of range", f"an integer from 0 to {below - 1}", "correct the request")
        billboard = self.billboard(pinned.version)
        return billboard.act(step, state, pinned.place, self.secrets.coin(episode, step)), pinned.version

    def submit_trajectory(self, token: str, episode: str, states: Any, actions: Any, rewards: Any) -> int:
        """Learn from an episode in the joint model; says the version it was played under.

        Raises:
          InvalidInput, Refusal: it was not counted, and nothing was changed.
        """
        if self.mechanism.wire != "trajectory":
            raise Refusal("wrong-trust", f"the server must not see trajectories in the {self._trust} model")
        pinned = self._learning_token(token, episode)
        played = self.mechanism.played(Episode(states, actions, rewards), pinned.place)
        if self.mechanism.formed_when_counted:
            return self._count(
                pinned, lambda reference: self.mechanism.exact_contribution(self.billboard(reference), played)
            )
        exact = self.mechanism.exact_contribution(self.billboard(pinned.version), played)
        return self._count(pinned, lambda _: exact)

    def submit_empty(self, token: str, episode: str) -> int:
        """Wait no longer for an episode in the joint model: it counts, and contributes nothing; says its version.

        Raises:
          Refusal: it was not counted, and nothing was changed.
        """
        if self.mechanism.wire != "trajectory":
            raise Refusal("wrong-trust", f"an empty contribution of the {self._trust} model is noise; send that")
        return self._count(self._learning_token(token, episode), lambda _: None)

    def submit_report(self, token: str, episode: str, report: np.ndarray, reference: int | None = None) -> int:
        """Learn from a report that was noised on the device, in units of the grid; says its version.

        ``reference`` is the version that it was formed under. If the round that counts it refers to another one by now,
        it counts and contributes nothing: nobody may ask for a second report.

        Raises:
          InvalidInput, Refusal: it was not counted, and nothing was changed.
        """
        if self.mechanism.wire == "trajectory":
            raise Refusal("wrong-trust", "no clip can be checked on a report; send the trajectory in the joint model")
        if self.mechanism.wire == "messages":
            raise Refusal("wrong-trust", "the server must not see one user's report; send messages to the shuffler")
        pinned, numbers = self._learning_token(token, episode), self.mechanism.checked_report(report)
        if not self.mechanism.formed_when_counted:
            return self._count(pinned, lambda _: numbers)
        if reference is None:
            raise InvalidInput(
                "reference", "missing", "the version that the report was formed under", "ask GET /v1/round for it"
            )
        return self._count(pinned, lambda current: numbers if current == reference else None)

    def submit_batch(self, batch: str, number: int, users: int, ones: np.ndarray, messages: np.ndarray) -> int:
        """Take a shuffler's batch of a sealed round; says of how many users. The first batch of a round is the only one.

        Raises:
          InvalidInput, Refusal: it was not taken, and nothing was changed.
        """
        if self.mechanism.wire != "messages":
            raise Refusal("wrong-trust", f"there is no shuffler in the {self._trust} model")
        total = self.mechanism.batches.doubled_sum(number, users, Tally(ones, messages))
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            taken, named = records.batch_of(tx, number), records.batch_named(tx, batch)
            if taken is not None and taken.id == batch:  # a retry: the answer is the same
                return int(taken.users)
            if taken is not None or named is not None:
                raise Refusal("batch-taken", "the round has had its batch, or the id was used; a round has one batch")
            if overdue(self.mechanism.batches, number, clock):
                raise Refusal("batch-late", f"round {number} is not waited for any longer; keep its batch to yourself")
            if number >= clock.open_round:
                if number > clock.open_round or not self._is_full(number, clock.admitted):
                    raise Refusal("round-open", f"round {number} has not had all its users; post its batch later")
                self._seal(tx, number)
            records.insert_new(tx, tables.BATCHES, round=number, id=batch, users=users)
            records.set_total(tx, number, self.secrets.seal(total.tobytes(), f"round {number}"))
        if self.inline:
            self.advance()
        else:
            self.sealed.set()
        return users

    def expire(self) -> int:
        """Wait no longer for episodes that are overdue; their users' places are used up, nothing is spent."""
        with self.store.write() as tx:
            return records.expire_before(tx, self._clock())

    def _without_admission(self, tx: Connection, clock: Any, name: str, identity: str) -> Opened | None:
        """What a user is told who need not or cannot be admitted now; None if she is to be admitted."""
        row = records.episode(tx, identity)
        if row is not None:
            if row.user != name:
                raise Refusal("episode-taken", "this episode id belongs to another user; draw a random one")
            return self._admitted(tx, row.id, row.version, row.expires_at, row.admission)
        if clock.halted is not None:
            return self._not_learned_from(identity, clock.served_version, "learning-stopped")
        if records.admissions(tx, name) >= self.contributions:
            return self._not_learned_from(identity, clock.served_version, "user-already-counted")
        self._used_up = bool(clock.admitted >= self.users)
        if self._used_up:
            return self._not_learned_from(identity, clock.served_version, "horizon-used-up")
        filling, _ = self.mechanism.agent.schedule.round_and_place(int(clock.admitted))
        if not self.returning.admits(tx, name, filling):
            return self._not_learned_from(identity, clock.served_version, "too-soon")
        return None

    def _admitted(self, tx: Connection, identity: str, version: int, until: float, admission: int) -> Opened:
        """What a user is told who came as number ``admission``."""
        number, place = self.mechanism.agent.schedule.round_and_place(admission)
        row = records.round_of(tx, number) if self.mechanism.formed_when_counted else None
        token = self.secrets.sign(EpisodeToken(identity, version, True, until, place))
        return Opened(
            identity, token, version, True, None, until, number, place, None if row is None else row.reference
        )

    def _not_learned_from(self, identity: str, version: int, reason: str) -> Opened:
        token = self.secrets.sign(EpisodeToken(identity, int(version), False, 0.0))
        return Opened(identity, token, int(version), False, reason, None)

    @property
    def _trust(self) -> str:
        return self.mechanism.guarantee.trust.name

    def _token(self, text: str, episode: str) -> EpisodeToken:
        token = self.secrets.read(text)
        if token.episode != episode:
            raise Refusal("unknown-episode", "the token is of another episode")
        return token

    def _learning_token(self, text: str, episode: str) -> EpisodeToken:
        token = self._token(text, episode)
        if not token.learning:
            raise Refusal("not-learning", "this episode was served without being learned from; nothing is expected")
        return token

    def _count(self, token: EpisodeToken, contribution: Callable[[int], np.ndarray | None]) -> int:
        """Count an episode; ``contribution`` makes of the open round's reference what is added, None being nothing.

        A genuine token is given out after its admission is committed. If the store does not know the episode, the store is
        not what it was: learning stops, since what it released since then may be released again.
        """
        with self.store.read() as tx:
            known, halted = records.episode(tx, token.episode) is not None, records.deployment(tx).halted
        if not known and halted is None:
            self.halt("an episode that was admitted is unknown to the store: it was rolled back")
        if not known or halted is not None:
            raise Refusal("learning-stopped", "the store was found to be rolled back; nothing is learned any more")
        with self.store.write() as tx:
            row = records.episode(tx, token.episode, lock=True)
            if row.state == "counted":  # a retry: the first one counts, and the answer is the same
                return token.version
            if row.state == "expired" or row.expires_at < self._clock():
                raise Refusal("episode-expired", "the episode was waited for no longer; nothing was spent")
            place = self._place(tx)
            if place is not None:  # a last round that is never released keeps nothing
                added = contribution(place.reference)
                if self.returning.counts(tx, row.user, token.episode, place.number) and added is not None:
                    total = self._total(place.number, place.total) + added
                    records.set_total(tx, place.number, self.secrets.seal(total.tobytes(), f"round {place.number}"))
            records.mark_counted(tx, token.episode)
        return token.version

    def _place(self, tx: Connection) -> Any:
        """The open round, locked; None if reports are taken but none is to be released any more."""
        while True:
            row = records.open_round(tx)
            if row is not None and (row.reference is not None or not self.mechanism.formed_when_counted):
                return row
            if (
                row is not None
            ):  # between two rounds, before the next one's first user: what it refers to is being planned
                raise Refusal("unavailable", "the next round is being prepared; try again")
            clock = records.deployment(tx)
            if clock.finished:
                raise Refusal("round-over", "the last round has ended; the policy is final")
            if clock.open_round >= self.releases:
                return None
