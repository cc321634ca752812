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
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from reticent.errors import InvalidInput
from reticent.service import models
from reticent.service.billboards import Billboard
from reticent.service.mechanism import Mechanism
from reticent.service.refusals import Refusal
from reticent.service.rounds import Rounds
from reticent.service.secrets import EpisodeToken, Secrets
from reticent.service.storage import records, tables
from reticent.service.storage.engine import Store
from reticent.worlds import Episode
from reticent_client.wire.shuffling import Tally


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
        contributions: int = 1,
        inline: bool = False,
        ticket_lifetime: float = 86_400.0,
        finish_after: float = 604_800.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(mechanism, store, secrets)
        self.contributions, self.inline = contributions, inline
        self.ticket_lifetime, self.finish_after = ticket_lifetime, finish_after
        self.model_digest = models.fingerprint(mechanism.agent.model)
        self._clock = clock
        self._used_up = False

    # -- setting up ---------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """What must not change in the life of a deployment: model, promise, schedule and noise."""
        mechanism, guarantee = self.mechanism, self.mechanism.guarantee
        rules = mechanism.published.rules
        facts = [
            tables.FORMAT, self.model_digest, mechanism.agent.method, self.contributions, mechanism.pan_private,
            mechanism.grid, guarantee.trust.name, guarantee.epsilon, guarantee.delta, guarantee.adjacency,
            mechanism.sums.counter.name, self.releases, mechanism.agent.schedule.ends.tolist(),
            [f"{sigma:.6e}" for sigma in mechanism.noise_scale.flat],
            {key: str(value) for key, value in sorted(guarantee.settings.items())},
            rules.form.name, {name: [f"{bound:.6e}" for bound in np.ravel(rules.bounds[name])] for name in rules.bounds},
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def set_up(self) -> None:
        """Create the store, or check that it is this deployment's.

        Raises:
          InvalidInput: it belongs to another model, promise or secret; nothing was changed.
        """
        self.store.create_tables()
        with self.store.read() as tx:
            found = records.deployment(tx)
        if found is None:
            state = self.mechanism.agent.init()
            first = self.mechanism.billboard(0, state)
            with self.store.write() as tx:
                self.store.lock_setup(tx)
                found = records.deployment(tx)
                if found is None:
                    self._begin(tx, state, first)
                    found = records.deployment(tx)
        if found.format != tables.FORMAT or found.fingerprint != self.fingerprint():
            raise InvalidInput(
                "database", "of another deployment", "of this model, agent and number of users",
                "restore the configuration it was begun with, or start a new database with its own budget",
            )  # fmt: skip
        self.secrets.unseal(found.key_check, "key check")

    def _begin(self, tx: Connection, state: Any, first: Billboard) -> None:
        sealed = self.secrets.seal(self.mechanism.to_bytes(state), "learner 0")
        records.insert_new(tx, tables.LEARNER, id=records.ONLY, version=0, state=sealed)
        records.insert_new(tx, tables.BILLBOARDS, version=0, content=first.to_bytes())
        self._open_round(tx, 0)
        records.refer(tx, 0, 0)
        records.insert_new(
            tx, tables.DEPLOYMENT, id=records.ONLY, format=tables.FORMAT, fingerprint=self.fingerprint(),
            key_check=self.secrets.seal(b"", "key check"), admitted=0, open_round=0, served_version=0,
            last_admitted_at=0.0, finished=False,
        )  # fmt: skip

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
        now = self._clock()
        until = now + self.ticket_lifetime
        with self.store.write() as tx:
            if records.episode(tx, identity) is not None or not records.count_user(tx, name, self.contributions):
                raise _NotAdmitted
            clock = records.count_admission(tx, self.users, now)
            if clock is None:
                raise _NotAdmitted
            ended = self._is_full(clock.open_round, clock.admitted - 1)
            if ended:
                self._seal(tx, clock.open_round)
            admission, version = int(clock.admitted) - 1, int(clock.served_version)
            records.open_episode(
                tx, id=identity, user=name, admission=admission, version=version, expires_at=until
            )  # fmt: skip
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
        if records.admissions(tx, name) >= self.contributions:
            return self._not_learned_from(identity, clock.served_version, "user-already-counted")
        self._used_up = bool(clock.admitted >= self.users)
        if self._used_up:
            return self._not_learned_from(identity, clock.served_version, "horizon-used-up")
        return None

    def _admitted(self, tx: Connection, identity: str, version: int, until: float, admission: int) -> Opened:
        """What a user is told who came as number ``admission``; the first of a round fixes what it refers to."""
        number, place = self.mechanism.agent.schedule.round_and_place(admission)
        if place == 0:
            records.refer(tx, number, version)
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
        """Count an episode; ``contribution`` makes of the open round's reference what is added, None being nothing."""
        with self.store.write() as tx:
            row = records.episode(tx, token.episode, lock=True)
            if row is None:
                raise Refusal("unknown-episode", "no such episode was admitted")
            if row.state == "counted":  # a retry: the first one counts, and the answer is the same
                return token.version
            if row.state == "expired" or row.expires_at < self._clock():
                raise Refusal("episode-expired", "the episode was waited for no longer; nothing was spent")
            place = self._place(tx)
            if place is not None:  # a last round that is never released keeps nothing
                added = contribution(place.reference)
                if added is not None:
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
