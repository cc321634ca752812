# SPDX-License-Identifier: Apache-2.0
"""Leaks that the service had or could have, planted again: for the tables of planted bugs and for the rule machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reticent.errors import InvalidInput
from reticent.service.durability import restore
from reticent.service.embedded import DeployedAgent, SealedRound
from reticent.service.http import groups, schemas
from reticent.service.rounds import public_views, recorded_admissions, shuffled_batches
from reticent.service.rounds.deployment import Deployment
from reticent.service.store import records
from reticent_client.shuffler import Shuffler

Patch = pytest.MonkeyPatch


def submit_as_one_body() -> Callable[..., Any]:
    """A handler of a group of episodes that one malformed member refuses whole."""
    real = groups.submit_trajectories

    async def submit(body: schemas.Trajectories, handlers: Any) -> Any:
        for one in body.each:
            if isinstance(one, InvalidInput):
                raise one
        return await real(body, handlers)

    return submit


def interrupted_round_drawn_again(patch: Patch) -> None:
    def end(self: DeployedAgent) -> None:
        schedule, number = self.mechanism.agent.schedule, self.version
        if number < schedule.releases and self.users >= schedule.ends[number]:
            sealed = SealedRound(number, self._state, self._board, self._open, self.mechanism.round_noise())
            self._state, _ = self.mechanism.close(number, sealed.state, sealed.board, sealed.total, sealed.noise)
            self._board = self.mechanism.billboard(number + 1, self._state)
            self._plan, self._open = self.mechanism.plan_of(self._board), self.mechanism.first_sum()

    patch.setattr(DeployedAgent, "_end_full_round", end)


def restore_keeps_unreleased_sums(patch: Patch) -> None:
    room, begin, kept = restore._require_room, restore._begin_again, {}

    def looking(deployment: Deployment, replace: bool) -> None:
        room(deployment, replace)
        kept.clear()
        if deployment.store.has_tables():
            with deployment.store.read() as tx:
                kept.update({row.number: row.total for row in records.unreleased(tx)})

    def beginning(tx: Any, *given: Any) -> Any:
        done = begin(tx, *given)
        for number, total in kept.items():
            records.set_total(tx, number, total)
        return done

    patch.setattr(restore, "_require_room", looking)
    patch.setattr(restore, "_begin_again", beginning)


def messages_of_before_a_restore_kept(patch: Patch) -> None:
    real = Shuffler._look

    def look(self: Shuffler) -> Any:
        kept = dict(self._held.get(self._restores, {}))
        found = real(self)
        self._held.setdefault(self._restores, {}).update(kept)
        return found

    patch.setattr(Shuffler, "_look", look)


def batch_left_before_its_users_are_recorded(patch: Patch) -> None:
    for module in (recorded_admissions, shuffled_batches, public_views):
        patch.setattr(module, "recorded", lambda context: int(context.clock()[0].admitted))
