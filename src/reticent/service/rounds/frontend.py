# SPDX-License-Identifier: Apache-2.0
"""A deployment as those see it who meet users: admissions, actions, submissions and public numbers, without the agent.

Everything that matters is in the store, so that any number of these may serve one deployment. Rounds are sealed here; they
are released, and plans made, where the agent is: in the same process
(:class:`reticent.service.rounds.deployment.Deployment`), or in one of its own
(:mod:`reticent.service.processes.planner`), which a worker asks. Nothing here needs JAX.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.learning.control import Control
from reticent.naming import split
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.public_configuration import PublicConfiguration
from reticent.service.rounds.batches import overdue
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.submit import Submissions
from reticent.service.secrets import EpisodeToken, Secrets
from reticent.service.store import records, tables
from reticent.service.store.engine import Store
from reticent.service.store.migrations import layout_of, require_layout
from reticent_wire.shuffling import Tally
from reticent_wire.trajectory import clip_index

TICK = 10.0
"""Seconds between notes of how long the last round has waited."""


class Frontend(Submissions):
    """One deployment as one worker sees it; see the module docstring."""

    def __init__(
        self,
        configuration: PublicConfiguration,
        store: Store,
        secrets: Secrets,
        *,
        inline: bool = False,
        ticket_lifetime: float = 86_400.0,
        finish_after: float = 604_800.0,
        rollback_guard: RollbackGuard | None = None,
        canaries: int = 0,
        shadow: bool = False,
        control: Control | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            configuration, store, secrets, inline=inline, ticket_lifetime=ticket_lifetime, rollback_guard=rollback_guard,
            control=control, clock=clock,
        )  # fmt: skip
        self.finish_after, self.canary_rounds, self.shadow = finish_after, canaries, shadow
        self._steady, self._ticked = steady, steady()

    # -- what whoever has the agent says ------------------------------------------------------------------------------

    @abc.abstractmethod
    def diagnostics(self, version: int) -> dict[str, Any]:
        """What a published version's release says about its signal and its value, as plain values.

        Raises:
          Refusal: it was never published.
        """

    @abc.abstractmethod
    def watched(self) -> dict[str, Any] | None:
        """The verdict on canaries as plain values; None without canaries."""

    # -- setting up ---------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything that must not change in the life of a deployment, by name: model, promise, schedule, noise, and every
        option of the agent whether it was given or not."""
        configuration, guarantee, rules = (
            self.configuration,
            self.configuration.public_guarantee,
            self.configuration.published.rules,
        )
        return {
            "model": self.model_digest, "agent": split(configuration.name)[0], "contributions": self.contributions,
            "pan_private": configuration.pan_private, "grid": configuration.grid, "trust": guarantee.trust,
            "epsilon": guarantee.epsilon, "delta": guarantee.delta, "adjacency": guarantee.adjacency,
            "counter": configuration.counter, "releases": self.releases,
            "round_ends": configuration.schedule.ends.tolist(),
            "noise": [f"{sigma:.6e}" for sigma in configuration.noise_scale.flat], "form": rules.form.name,
            "ticket_lifetime": self.ticket_lifetime, "finish_after": self.finish_after,
            **({"canaries": self.canary_rounds} if self.canary_rounds else {}),
            **({"shadow": True} if self.shadow else {}),
            **({} if self.control is None else {"control": {"share": self.control.share, "version": self.control.version}}),
            **({"participation": dataclasses.asdict(self.returning.participation)} if self.returning.active else {}),
            **{f"resolved {key}": value for key, value in guarantee.settings.items()},
            **{f"option {key}": value for key, value in configuration.options.items()},
            **{f"bound {key}": [f"{one:.6e}" for one in np.ravel(value)] for key, value in rules.bounds.items()},
        }  # fmt: skip

    def set_up(self) -> None:
        """Check that the store is this deployment's.

        Raises:
          InvalidInput: the store is empty or belongs to another model, promise or secret, or there is a witness of another
            one; nothing was changed.
        """
        self._adopt(self._stored())

    def _stored(self) -> Any:
        """The row of the deployment that was begun in the store; None if none was."""
        if not self.store.has_tables():
            return None
        with self.store.read() as tx:
            require_layout(layout_of(tx))
            return records.deployment(tx)

    def _adopt(self, found: Any) -> None:
        if found is None:
            raise InvalidInput(
                "database", "empty", "one that `reticent init` began", "check its path, or begin the deployment"
            )
        self._require_same(found)
        self.secrets, self.identity = self.secrets.of(found.identity), str(found.identity)
        if self.rollback_guard is not None:
            self.restores = self.rollback_guard.read().restores
            if found.halted is None:
                self._attested()

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
        action, _ = self.decide(pinned, step, state)
        return action

    def decide(self, pinned: EpisodeToken, step: int, state: int) -> tuple[int, float]:
        """The action of the pinned version, and with what probability it was chosen.

        The state is the user's own: one that does not exist is taken for the nearest one, as on a device and in what is
        submitted later. A refusal would show it.

        Raises:
          InvalidInput: there is no such step.
        """
        published = self.configuration.published
        if not 0 <= step < published.horizon:
            bound = f"an integer from 0 to {published.horizon - 1}"
            raise InvalidInput("step", "out of range", bound, "correct the request")
        here, board = int(clip_index(state, published.states)), self.billboard(pinned.version)
        action = board.act(step, here, pinned.place, self.secrets.coin(pinned.episode, step))
        return action, board.published.probability(step, here, pinned.place, action)

    def submit_batch(
        self, batch: str, number: int, users: int, ones: np.ndarray, messages: np.ndarray, restores: int = 0
    ) -> int:
        """Take a shuffler's batch of a sealed round; says of how many users. The first batch of a round is the only one.

        ``restores`` is how often the store had been restored when its users came. Those of before a restore are not told
        from those of after it, who may be the same: their messages are for no batch any more.

        Raises:
          InvalidInput, Refusal: it was not taken, and nothing was changed.
        """
        if self.configuration.wire != "messages":
            raise Refusal("wrong-trust", f"there is no shuffler in the {self._trust} model")
        total = self.configuration.batches.doubled_sum(number, users, Tally(ones, messages))
        if restores != self.restores:
            raise Refusal("batch-late", "the store was restored since these users came; throw their messages away")
        with self.store.write() as tx:
            clock = records.deployment(tx, lock=True)
            taken, named = records.batch_of(tx, number), records.batch_named(tx, batch)
            if taken is None or taken.id != batch:  # else a retry: the answer is the same, and waits for the same
                if taken is not None or named is not None:
                    raise Refusal(
                        "batch-taken", "the round has had its batch, or the id was used; a round has one batch"
                    )
                self._require_due(number, clock)
                if number == clock.open_round:
                    self._seal(tx, number)
                records.insert_new(tx, tables.BATCHES, round=number, id=batch, users=users)
                records.set_total(tx, number, self.secrets.seal(total.tobytes(), f"round {number}"))
        if self.inline:
            self.advance()
        else:
            self.sealed.set()
        return users

    def _require_due(self, number: int, clock: Any) -> None:
        """Refuse the batch of a round that is waited for no longer, or not yet: a matter of admissions.

        Raises:
          Refusal: it is so.
        """
        if overdue(self.configuration.batches, number, clock):
            raise Refusal("batch-late", f"round {number} is not waited for any longer; keep its batch to yourself")
        if number > clock.open_round or not self._is_full(number, clock.admitted):
            raise Refusal("round-open", f"round {number} has not had all its users; post its batch later")
        if self.recorded() < self.configuration.schedule.ends[number]:
            raise Refusal("round-open", f"the users of round {number} are being recorded; post its batch later")

    def expire(self) -> int:
        """Wait no longer for episodes that are overdue; their users' places are used up, nothing is spent."""
        with self.store.write() as tx:
            return records.expire_before(tx, self._clock())
