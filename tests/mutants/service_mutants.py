# SPDX-License-Identifier: Apache-2.0
"""Broken variants of where two features of the service meet. Importing this registers them."""

from __future__ import annotations

import inspect
import json
import logging
from typing import Any

import fixes_taken_out as planted
import numpy as np
import path_examinations as path
import service_examinations as ex
import shuffler_examinations
import sqlalchemy as sa

from mutants import QUICK, Patch, mutant
from reticent.errors import InvalidInput
from reticent.service.durability import restore
from reticent.service.http import episodes, fast_path, members, public_routes, rates, schemas
from reticent.service.mechanism import Mechanism
from reticent.service.rounds.act import Actions
from reticent.service.rounds.admit import Admissions
from reticent.service.rounds.canaries import Canaries
from reticent.service.rounds.close import Closing
from reticent.service.rounds.refusals import Refusal
from reticent.service.rounds.release import Releases
from reticent.service.rounds.shuffled_batches import ShuffledBatches
from reticent.service.rounds.submit import Submissions
from reticent.service.secrets import Secrets
from reticent.service.store import records, tables
from reticent_wire import trajectory

CLASSES: dict[str, tuple[str, ...]] = {
    "meeting": (
        "group-validated-as-one-body", "state-out-of-range-refused", "fraction-refused", "long-number-refused",
        "model-kept-for-ever",
        "pan-private-sum-closed-by-the-planner", "messages-of-before-a-restore-kept",
        "batch-left-before-its-users-are-recorded", "batch-of-before-a-restore-taken",
        "erased-user-told-to-the-app", "marked-episodes-refused", "erased-user-told-between-rounds",
        "late-report-forgotten-by-a-restore", "raw-sum-in-a-debug-line",
        "restore-keeps-unreleased-sums", "user-counted-per-app", "canary-with-the-rounds-noise",
        "canary-with-the-users-sum",
    ),
}  # fmt: skip

QUICK |= set(CLASSES["meeting"]) - {"raw-sum-in-a-debug-line"}


@mutant("a group is validated as one body: a member's malformed episode refuses all (we had this one)", ex.GROUP,
        "the form of one member refuses")  # fmt: skip
def group_validated_as_one_body(patch: Patch) -> None:
    routes = fast_path.direct_routes
    broken = {"/v1/groups/trajectories": fast_path.Direct(schemas.Trajectories, planted.submit_as_one_body(), 200)}
    patch.setattr(fast_path, "direct_routes", lambda routers: {**routes(routers), **broken})


@mutant("an app that asks for an action in a state out of range is refused (we had this one)", ex.STATES,
        "a state out of range is refused")  # fmt: skip
def state_out_of_range_refused(patch: Patch) -> None:
    real = Actions.decide

    def decide(self: Actions, pinned: Any, step: int, state: Any) -> Any:
        if not 0 <= state._value < self.context.configuration.published.states:  # past the typed boundary
            raise InvalidInput("state", "out of range", "a state", "correct the request")
        return real(self, pinned, step, state)

    patch.setattr(Actions, "decide", decide)


@mutant("a state with a fraction is of another kind, and refused (we had this one)", ex.NUMBERS,
        "of a kind that is refused")  # fmt: skip
def fraction_refused(patch: Patch) -> None:
    real = trajectory.whole_number

    def whole(value: Any) -> Any:
        return value if isinstance(value, float) and value % 1 else real(value)

    patch.setattr(trajectory, "whole_number", whole)


@mutant("a number of more digits than Python reads is refused (we had this one)", ex.LONG_NUMBERS,
        "many digits is refused")  # fmt: skip
def long_number_refused(patch: Patch) -> None:
    patch.setattr(members, "read", lambda schema, body: schema.model_validate_json(body))


@mutant("caches may keep the model that says how much noise a device adds, by a tag that is not of that (we had this one)",
        ex.ANOTHER_MODEL, "the model of another deployment")  # fmt: skip
def model_kept_for_ever(patch: Patch) -> None:
    real = public_routes._cached

    def cached(content: bytes, control: str, known: str | None) -> Any:
        answer = real(content, control, None)
        tag = json.loads(content).get("digest", "of a plan")
        answer.headers["ETag"] = tag
        answer.status_code = 304 if known == tag else 200
        return answer

    patch.setattr(public_routes, "_cached", cached)


@mutant("pan-private: the second half of a round's noise comes with its planner, not when it is sealed (we had this one)",
        ex.TWO_LOOKS, "two looks into the store")  # fmt: skip
def pan_private_sum_closed_by_the_planner(patch: Patch) -> None:
    patch.setattr(Closing, "close_sum", lambda self, tx, number: None)


mutant(
    "a shuffler keeps what was handed over before the service's store was restored (we had this one)",
    shuffler_examinations.RESTORED,
    "published sums 2 times",
)(planted.messages_of_before_a_restore_kept)


mutant(
    "a batch leaves the shuffler before its users are in the journal: a restore forgets them",
    shuffler_examinations.RESTORED,
    "two batches that left",
)(planted.batch_left_before_its_users_are_recorded)


@mutant("the service takes a batch of users who came before a restore", shuffler_examinations.RESTORED,
        "a batch of before a restore")  # fmt: skip
def batch_of_before_a_restore_taken(patch: Patch) -> None:
    real = ShuffledBatches.submit_batch

    def submit(self: ShuffledBatches, *batch: Any, restores: int = 0) -> int:
        return real(self, *batch[:5], restores=self.context.restores)

    patch.setattr(ShuffledBatches, "submit_batch", submit)


@mutant("an app that opens an old episode again learns whether its user was erased (we had this one)", ex.ERASURE,
        "an app is told who was erased")  # fmt: skip
def erased_user_told_to_the_app(patch: Patch) -> None:
    patch.setattr(Secrets, "disowned", lambda self, name, episode: "")
    real = Admissions._without_admission

    def told(self: Admissions, group: Any) -> Any:
        answers = real(self, group)
        with self.context.store.read() as tx:
            rows = self._known(tx, group)
            version = records.version_to_serve(records.deployment(tx))
        for one, row in rows.items():
            if row.state == "erased":
                answers[one] = self._not_learned_from(one.episode, version, "user-already-counted")
        return answers

    patch.setattr(Admissions, "_without_admission", told)


@mutant("an episode that another worker's clock has expired is refused, but an erased user's is not (we had this one)",
        ex.MARKED, "an app is told who was erased")  # fmt: skip
def marked_episodes_refused(patch: Patch) -> None:
    real = Submissions._add

    def add(self: Submissions, tx: Any, group: Any, rows: Any) -> Any:
        late = Refusal("episode-expired", "the episode was waited for no longer; nothing was spent")
        marked = {key for key, row in rows.items() if row.state == "expired"}
        others = {key: row for key, row in rows.items() if key not in marked}
        return {**real(self, tx, group, others), **dict.fromkeys(marked, late)}

    patch.setattr(Submissions, "_add", add)


@mutant("while a round is prepared all episodes are refused but those that were counted or erased (we had this one)",
        ex.PREPARED, "an app is told who was erased")  # fmt: skip
def erased_user_told_between_rounds(patch: Patch) -> None:
    real = Submissions._add

    def add(self: Submissions, tx: Any, group: Any, rows: Any) -> Any:
        return real(self, tx, {key: one for key, one in group.items() if key in rows}, rows)

    patch.setattr(Submissions, "_add", add)


@mutant("a restore takes a copy's word for who has not reported yet (we had this one)", ex.LATE_AND_RESTORED,
        "less than the gap apart")  # fmt: skip
def late_report_forgotten_by_a_restore(patch: Patch) -> None:
    real = restore._remember_visits

    def remember(tx: Any, schedule: Any, released: int) -> None:
        real(tx, schedule, released)
        counted = sa.select(tables.EPISODES.c.id).where(tables.EPISODES.c.state == "counted")
        tx.execute(sa.update(tables.VISITS).where(tables.VISITS.c.episode.not_in(counted)).values(counted_in=None))

    patch.setattr(restore, "_remember_visits", remember)


@mutant("a line for debugging has a round's raw sum", path.replayed_path("service", "swap"), "what is logged depends")
def raw_sum_in_a_debug_line(patch: Patch) -> None:
    real = Mechanism.close

    def closing(self: Mechanism, number: int, state: Any, served: Any, total: Any, *rest: Any, **more: Any) -> Any:
        logging.getLogger("reticent.service").debug("round %d closes with %s", number, np.asarray(total).ravel())
        return real(self, number, state, served, total, *rest, **more)

    patch.setattr(Mechanism, "close", closing)


mutant(
    "a restore over a live store keeps the sums of rounds that were not released", ex.REPLACED, "outlives a restore"
)(planted.restore_keeps_unreleased_sums)


@mutant("a user is known by the app's key and their id: through two apps they count twice", ex.TWO_KEYS,
        "once for each app")  # fmt: skip
def user_counted_per_app(patch: Patch) -> None:
    real = episodes.comer

    def comer(asked: Any, handlers: Any, now: float) -> Any:
        user, identity = real(asked, handlers, now)
        charged = rates.CHARGED.get()
        return f"{user} {'' if charged is None else charged.caller}", identity

    patch.setattr(episodes, "comer", comer)


@mutant("the first canary has the noise of the round that is released beside it", ex.CANARIES,
        "a canary has the noise of a users' round")  # fmt: skip
def canary_with_the_rounds_noise(patch: Patch) -> None:
    real, last = Mechanism.round_noise, []

    def noise(self: Mechanism) -> Any:
        last.append(real(self) if len(last) % 2 == 0 else last[-1])
        return last[-1]

    patch.setattr(Mechanism, "round_noise", noise)


@mutant("a canary round is given the users' sum", ex.CANARIES, "a canary round has users in it")
def canary_with_the_users_sum(patch: Patch) -> None:
    release, rounds = Releases._release, []

    def releasing(self: Releases, number: int) -> None:
        with self.context.store.read() as tx:
            rounds.append(self.context.closed_total(number, records.round_of(tx, number).total)._value)
        release(self, number)

    first = Mechanism.first_sum
    patch.setattr(Releases, "_release", releasing)
    patch.setattr(Mechanism, "first_sum", lambda self: rounds[-1] if rounds and _in_canaries() else first(self))


def _in_canaries() -> bool:
    """Whether a canary round is being made."""
    return any(frame.function == Canaries.release.__name__ for frame in inspect.stack()[1:4])
