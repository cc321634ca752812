"""The durable agent: the protocol of docs/delays.md, each of whose steps is one short transaction.

* *Admission* (:mod:`reticent.service.admissions`) counts a user, seals the open round if it has had all its users, and
  pins the newest published version. Users who come together are admitted together.
* *Submission* (:mod:`reticent.service.submissions`) marks the episode and adds its statistics to the open round, both or
  neither. With a shuffler nothing is submitted there: a sealed round gets one *batch*.
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

from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.naming import split
from reticent.service.batches import overdue
from reticent.service.billboards import Billboard
from reticent.service.mechanism import Mechanism
from reticent.service.refusals import Refusal
from reticent.service.secrets import EpisodeToken, Secrets
from reticent.service.storage import records, tables
from reticent.service.storage.engine import Store
from reticent.service.storage.migrations import layout_of, require_layout
from reticent.service.submissions import Submissions
from reticent.service.witness import Witness
from reticent_client.wire.shuffling import Tally

TICK = 10.0
"""Seconds between notes of how long the last round has waited."""


class Deployment(Submissions):
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
        super().__init__(
            mechanism, store, secrets, inline=inline, ticket_lifetime=ticket_lifetime, witness=witness, canaries=canaries,
            clock=clock,
        )  # fmt: skip
        self.finish_after = finish_after
        self._steady, self._ticked = steady, steady()

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
                require_layout(layout_of(tx))
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
            self.restores = self.witness.read().restores
            if found.halted is None:
                self._attested()

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
        require_layout(found.format)
        if wanted != kept:
            changed = sorted(key for key in {*wanted, *kept} if wanted.get(key) != kept.get(key))
            raise InvalidInput(
                "database", f"of another deployment ({', '.join(changed)})",
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
            served_version=0, waited=0.0, ticked_at=0.0, finished=False, halted=None, fallback=None,
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

    def pinned(self, token: str, episode: str) -> EpisodeToken:
        """What was pinned for an episode when it was opened.

        Raises:
          InvalidInput, Refusal: the token is not genuine, or another episode's.
        """
        return self._token(token, episode)

    def act(self, pinned: EpisodeToken, step: int, state: int) -> int:
        """The action of the pinned version; the same whenever it is asked for."""
        for field, value, below in (
            ("step", step, self.mechanism.agent.model.horizon),
            ("state", state, self.mechanism.agent.model.states),
        ):
            if not 0 <= value < below:  # where she is, is hers: no message says it
                raise InvalidInput(field, "out of range", f"an integer from 0 to {below - 1}", "correct the request")
        return self.billboard(pinned.version).act(step, state, pinned.place, self.secrets.coin(pinned.episode, step))

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
