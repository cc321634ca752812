# SPDX-License-Identifier: Apache-2.0
"""Admissions: users who come within a moment are admitted in one transaction, each as if alone.

A group is decided member by member: who has come before, who has contributed, how much room there is. Those who are not
admitted write nothing, so none of them stands in the way of the others; those who are get places in the order in which they
came. Rounds are sealed between them as between single admissions. Answers are given after the commit.

Lock order, here and everywhere: users (by name), the deployment, the open round. A submission takes episodes (by id), then
the open round. No user holds a later one while waiting for an earlier one.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from reticent.service.rounds.close import Closing
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.recorded_admissions import record_full_rounds
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import EpisodeToken
from reticent.service.store import records


class Arrival(NamedTuple):
    """A user who comes, by stored name, and the id of the episode."""

    user: str
    episode: str


@dataclasses.dataclass(frozen=True)
class Opened:
    """What a user is told on admission. ``reason`` says why the user is served without being learned from.

    ``round`` and ``place`` are theirs, both 0-based and public: they follow from the order of admissions, and decide
    what they are served of a version and how many coins they flip with a shuffler. ``reference`` is the version that
    their round's contributions refer to, if they do. A user who is not learned from has none of these. ``restores``
    says how often the
    store had been restored by then: a shuffler takes the user's messages while that is so.
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
    restores: int = 0


class _NoRoom(Exception):
    """Ends a group's transaction, so that nothing of it remains; ``room`` users can be admitted at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        super().__init__(room)


class _TooSoon(Exception):
    """Ends the transaction of a user whose next place would be too near to an earlier one."""


class Admissions:
    """Admits users; ``advance`` has sealed rounds released and their plans published, where planning is inline."""

    def __init__(self, context: AnyContext, closing: Closing, advance: Callable[[], int]) -> None:
        self.context, self._closing, self._advance = context, closing, advance
        self._used_up = False

    def admit(self, user: str, episode: str | None = None) -> Opened:
        """Serve a user, and learn from the user who has not contributed while fewer than K users have been admitted.

        Raises:
          Refusal: ``episode`` is another user's.
        """
        (answer,) = self.admit_all([(user, episode)])
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def admit_all(self, users: Sequence[tuple[str, str | None]]) -> list[Opened | Refusal]:
        """:meth:`admit` for all who came together, in their order; a refusal is the answer of the one member who gets it.

        Who is in the group twice, by name or by episode, is asked again after the first time is committed: a retry.
        """
        asked = [Arrival(self.context.secrets.name(user), episode or uuid.uuid4().hex) for user, episode in users]
        answers: dict[int, Opened | Refusal] = {}
        waiting = list(range(len(asked)))
        while waiting:
            turn, waiting = _first_of_each(asked, waiting)
            answers.update(zip(turn, self._admit_distinct([asked[index] for index in turn]), strict=True))
        return [answers[index] for index in range(len(asked))]

    def _admit_distinct(self, group: Sequence[Arrival]) -> list[Opened | Refusal]:
        """Answers for arrivals no two of which share a user or an episode."""
        answers: dict[Arrival, Opened | Refusal] = {}
        entering = list(group)
        # Where users return, whether a user may come depends on the round of the next place: one at a time.
        size = most = 1 if self.context.returning.active else len(entering)
        while entering and size:
            if (
                self.context.inline or self._used_up
            ):  # else the lock is needed anyway, and the question is asked under it
                answers.update(self._without_admission(entering))
                entering = [one for one in entering if one not in answers]
            if not entering:
                break
            if self.context.inline:  # after they were asked: the last round does not end because a user came too late
                self._closing.seal_if_full()
                self._advance()
            try:
                answers.update(self._enter(entering[:size]))
            except _NoRoom as full:
                size = min(full.room, most)
                continue
            except _TooSoon:
                pass  # undone; the user is told below
            except IntegrityError:  # undone as a whole: an id was taken elsewhere meanwhile; one by one, then
                if size > 1:
                    size = 1
                    continue
            entering = entering[size:]
        rest = [one for one in group if one not in answers]
        if rest:
            answers.update(self._without_admission(rest))
        collided = Refusal("unavailable", "the admission collided with another one; try again")
        return [answers.get(one, collided) for one in group]

    def _enter(self, group: Sequence[Arrival]) -> dict[Arrival, Opened]:
        """Admit in one transaction all of a group who can be; the others have written nothing.

        Their own rows come first and the deployment's, at which all admissions queue, as late as possible.
        """
        until = self.context.expiry_time() + self.context.ticket_lifetime
        with self.context.store.write() as tx:
            known = self._known(tx, group)
            new = [one for one in group if one not in known]
            counted = records.count_users(tx, [one.user for one in new], self.context.contributions) if new else set()
            new = [one for one in new if one.user in counted]
            if not new:
                return {}
            clock = records.count_admissions(tx, len(new))
            first, number = int(clock.admitted) - len(new), int(clock.open_round)
            version = records.version_to_serve(clock)
            room = self._room(clock, first)
            if room < len(new):
                raise _NoRoom(room)
            for admission in range(first, first + len(new)):
                if self._closing.is_full(number, admission):
                    self._closing.seal(tx, number)
                    number += 1
            places = [self.context.configuration.schedule.round_and_place(first + index) for index in range(len(new))]
            pinned = [self._pinned(version, *place) for place in places]
            own = [(one.episode, one.user, first + index, pinned[index]) for index, one in enumerate(new)]
            records.insert_episodes(tx, own, until)
            for one, (begun, place) in zip(new, places, strict=True):
                if not self.context.returning.admits(tx, one.user, begun):
                    raise _TooSoon
                self.context.returning.admitted(tx, one.user, one.episode, begun)
                if place == 0:  # the first of a round fixes what it refers to, though this user may be a control
                    records.set_reference(tx, begun, version)
            references = self._references(tx, (begun for begun, _ in places))
        if number > clock.open_round:
            self.context.sealed.set()
        record_full_rounds(self.context, int(clock.admitted))
        return {
            one: self._admitted(one.episode, served, until, place, references)
            for one, served, place in zip(new, pinned, places, strict=True)
        }

    def _pinned(self, version: int, number: int, place: int) -> int:
        """What the user at this place is served; ``version`` is served to all but controls."""
        controls = self.context.control_places(number)
        return (
            version
            if self.context.control is None or controls is None or not controls.has(place)
            else self.context.control.version
        )

    def _room(self, clock: Any, admitted: int) -> int:
        """How many users can be admitted in one transaction after ``admitted``; inline, a round's end comes between."""
        if clock.halted is not None:
            return 0
        room = max(0, self.context.users - admitted)
        if self.context.inline and clock.open_round < self.context.releases:
            left = int(self.context.configuration.schedule.ends[clock.open_round]) - admitted
            room = min(room, left or room)
        return room

    def _without_admission(self, group: Sequence[Arrival]) -> dict[Arrival, Opened | Refusal]:
        """What those of a group are told who need not or cannot be admitted now."""
        with self.context.store.read() as tx:
            clock = records.deployment(tx)
            known = self._known(tx, group)
            admissions = records.admissions(tx, [one.user for one in group])
            numbers = (self.context.configuration.schedule.round_and_place(row.admission)[0] for row in known.values())
            references = self._references(tx, numbers)
            filling, _ = self.context.configuration.schedule.round_and_place(
                min(int(clock.admitted), self.context.users - 1)
            )
            too_soon = {one.user for one in group if not self.context.returning.admits(tx, one.user, filling)}
        self._used_up, version = bool(clock.admitted >= self.context.users), records.version_to_serve(clock)
        answers: dict[Arrival, Opened | Refusal] = {}
        for one in group:
            row, had = known.get(one), admissions.get(one.user, 0)
            if row is not None and row.user not in (one.user, self.context.secrets.disowned(*one)):
                taken = "this episode id belongs to another user; draw a random one"
                answers[one] = Refusal("episode-taken", taken)
            elif row is not None:  # admitted before; whether the user was erased since is the admin's to know
                place = self.context.configuration.schedule.round_and_place(row.admission)
                answers[one] = self._admitted(one.episode, row.version, row.expires_at, place, references)
            elif clock.halted is not None:
                answers[one] = self._not_learned_from(one.episode, version, "learning-stopped")
            elif had >= self.context.contributions:
                answers[one] = self._not_learned_from(one.episode, version, "user-already-counted")
            elif self._used_up:
                answers[one] = self._not_learned_from(one.episode, version, "horizon-used-up")
            elif one.user in too_soon:
                answers[one] = self._not_learned_from(one.episode, version, "too-soon")
        return answers

    def _known(self, tx: Connection, group: Sequence[Arrival]) -> dict[Arrival, Any]:
        """The rows of those whose episodes were admitted before, also if they were erased since and are no user's."""
        erased = {one: self.context.secrets.erased(one.episode) for one in group}
        rows = records.episodes(tx, [*(one.episode for one in group), *erased.values()])
        found = {one: rows.get(one.episode, rows.get(erased[one])) for one in group}
        return {one: row for one, row in found.items() if row is not None}

    def _references(self, tx: Connection, numbers: Iterable[int]) -> Mapping[int, int | None]:
        """What the rounds refer to, where contributions do."""
        return records.references(tx, sorted(set(numbers))) if self.context.configuration.formed_when_counted else {}

    def _admitted(
        self, identity: str, version: int, until: float, where: tuple[int, int], references: Mapping[int, int | None]
    ) -> Opened:
        """What a user is told whose round and place are ``where``."""
        number, place = where
        token = self.context.secrets.sign(EpisodeToken(identity, version, True, until, place, self.context.restores))
        return Opened(
            identity, token, version, True, None, until, number, place, references.get(number), self.context.restores
        )

    def _not_learned_from(self, identity: str, version: int, reason: str) -> Opened:
        token = self.context.secrets.sign(EpisodeToken(identity, version, False, 0.0, None, self.context.restores))
        return Opened(identity, token, version, False, reason, None, restores=self.context.restores)


def _first_of_each(asked: Sequence[Arrival], waiting: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those of ``waiting`` whose user and episode do not occur before them, and the others."""
    seen: set[str] = set()
    first: list[int] = []
    later: list[int] = []
    for index in waiting:
        one = asked[index]
        (later if one.user in seen or one.episode in seen else first).append(index)
        seen.update(one)
    return first, later
