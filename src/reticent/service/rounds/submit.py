# SPDX-License-Identifier: Apache-2.0
"""Submissions: what comes within a moment is counted in one transaction, each episode once, all of it or nothing.

Each member of a group is decided by itself, under the lock of its own episode: counted before (a retry, same answer),
expired, or to be counted. What the latter add is summed as integers and added to the open round's sum in one step, which is
the same sum as one by one. A member that is refused adds nothing and does not keep others from being counted. Receipts
are given after the commit.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy.engine import Connection

from reticent.errors import InvalidInput, ReticentError
from reticent.service.rounds.context import AnyContext
from reticent.service.rounds.integrity import halt
from reticent.service.rounds.refusals import Refusal
from reticent.service.secrets import EpisodeToken
from reticent.service.store import records
from reticent_wire.boundary import Clipped, Raw, clip_each
from reticent_wire.trajectory import Trajectory


class Sent(NamedTuple):
    """An episode as it was sent, whatever it is."""

    states: Any
    actions: Any
    rewards: Any


class Submission(NamedTuple):
    """A well-formed submission: an episode that was ``played``, a ``report`` of one, or neither, which adds nothing.

    ``reference`` is the version that the report was formed under, if that matters.
    """

    token: EpisodeToken
    played: Clipped[Trajectory] | None = None
    report: np.ndarray | None = None
    reference: int | None = None


Formed = Mapping[str, "Clipped[np.ndarray] | ReticentError | None"]
"""What episodes add, None being nothing, or why they cannot be counted; by id."""


class _Stopped(Exception):
    """Ends a group's transaction: nothing is learned any more."""


class Submissions:
    """Reads and counts what users submit; see the module docstring."""

    def __init__(self, context: AnyContext) -> None:
        self.context = context

    def submit_trajectory(self, token: str, episode: str, states: Any, actions: Any, rewards: Any) -> int:
        """Learn from an episode in the joint model; says the version it was played under.

        Raises:
          InvalidInput, Refusal: it was not counted, and nothing was changed.
        """
        return self._count(self.trajectory(token, episode, Raw(Sent(states, actions, rewards))))

    def submit_empty(self, token: str, episode: str) -> int:
        """Wait no longer for an episode in the joint model: it counts, and contributes nothing; says its version.

        Raises:
          Refusal: it was not counted, and nothing was changed.
        """
        return self._count(self.empty(token, episode))

    def submit_report(self, token: str, episode: str, report: np.ndarray, reference: int | None = None) -> int:
        """Learn from a report that was noised on the device, in units of the grid; says its version.

        ``reference`` is the version that it was formed under. If the round that counts it refers to another one by now,
        it counts and contributes nothing: a second report must not be asked for.

        Raises:
          InvalidInput, Refusal: it was not counted, and nothing was changed.
        """
        return self._count(self.report(token, episode, report, reference))

    # -- well-formed submissions ----------------------------------------------------------------------------------------

    def trajectory(self, token: str, episode: str, sent: Raw[Sequence[Any]]) -> Submission:
        """A trajectory that can be counted, of states, actions and rewards; see :meth:`submit_trajectory`."""
        if self.context.configuration.wire != "trajectory":
            raise self._refused_trajectory
        pinned = self._learning_token(token, episode)
        return Submission(pinned, sent.clip(lambda seen: self.context.configuration.played(Sent(*seen), pinned.place)))

    def trajectories(self, several: Sequence[tuple[str, str, Raw[Sequence[Any]]]]) -> list[Submission | ReticentError]:
        """:meth:`trajectory` of several, each by token, episode and what was sent; a refused member is told why.

        Members are formed one by one, always: there is no way that is taken only if one of them is malformed.
        """
        if self.context.configuration.wire != "trajectory":
            return [self._refused_trajectory] * len(several)
        pinned = [self._learning_token_or_refusal(token, episode) for token, episode, _ in several]
        places = [one.place if isinstance(one, EpisodeToken) else None for one in pinned]
        played = clip_each(
            [sent for _, _, sent in several],
            lambda seen: self.context.configuration.each_played([Sent(*one) for one in seen], places),
        )
        return [_formed_by(*each) for each in zip(pinned, played, strict=True)]

    def empty(self, token: str, episode: str) -> Submission:
        """An empty contribution; see :meth:`submit_empty`."""
        if self.context.configuration.wire != "trajectory":
            raise Refusal("wrong-trust", f"an empty contribution of the {self._trust} model is noise; send that")
        return Submission(self._learning_token(token, episode))

    def report(self, token: str, episode: str, report: np.ndarray, reference: int | None = None) -> Submission:
        """A report that can be counted; see :meth:`submit_report`."""
        if self.context.configuration.wire == "trajectory":
            raise Refusal("wrong-trust", "no clip can be checked on a report; send the trajectory in the joint model")
        if self.context.configuration.wire == "messages":
            raise Refusal("wrong-trust", "the server must not see one user's report; send messages to the shuffler")
        pinned, numbers = self._learning_token(token, episode), self.context.configuration.checked_report(report)
        if self.context.configuration.formed_when_counted and reference is None:
            raise InvalidInput(
                "reference", "missing", "the version that the report was formed under", "ask GET /v1/round for it"
            )
        return Submission(pinned, report=numbers, reference=reference)

    @property
    def _refused_trajectory(self) -> Refusal:
        return Refusal("wrong-trust", f"the server must not see trajectories in the {self._trust} model")

    @property
    def _trust(self) -> str:
        return self.context.configuration.public_guarantee.trust

    def token(self, text: str, episode: str) -> EpisodeToken:
        """What was pinned for an episode when it was opened.

        Raises:
          InvalidInput, Refusal: the token is not genuine, or another episode's.
        """
        token = self.context.secrets.read(text)
        if token.episode != episode:
            raise Refusal("unknown-episode", "the token is of another episode")
        return token

    def _learning_token(self, text: str, episode: str) -> EpisodeToken:
        token = self.token(text, episode)
        if not token.learning:
            raise Refusal("not-learning", "this episode was served without being learned from; nothing is expected")
        return token

    def _learning_token_or_refusal(self, text: str, episode: str) -> EpisodeToken | ReticentError:
        try:
            return self._learning_token(text, episode)
        except ReticentError as refusal:
            return refusal

    # -- counting -------------------------------------------------------------------------------------------------------

    def _count(self, submission: Submission) -> int:
        (answer,) = self.count_all([submission])
        if isinstance(answer, ReticentError):
            raise answer
        return answer

    def count_all(self, submissions: Sequence[Submission]) -> list[int | ReticentError]:
        """Count the episodes of all who came together; the version of each, or why it was not counted.

        An episode that is in the group twice is counted by its first submission; the others get the same receipt.

        A genuine token is given out after its admission is committed. If the store does not know the episode, the store is
        not what it was: learning stops, since what it released since then may be released again. A token of before a
        restore proves nothing new: what was not published by then is lost, and known to be.
        """
        first: dict[str, Submission] = {}
        for one in submissions:
            first.setdefault(one.token.episode, one)
        try:
            refused = self._count_distinct(first)
        except _Stopped:
            stopped = Refusal("learning-stopped", "the store was found to be rolled back; nothing is learned any more")
            return [stopped] * len(submissions)
        return [refused.get(one.token.episode, one.token.version) for one in submissions]

    def _count_distinct(self, group: dict[str, Submission]) -> dict[str, ReticentError]:
        """Count a group in one transaction; says who was refused, and why.

        A user who was erased gets the answer of one who was not: a receipt while the episode could be counted, whether it
        had been or not, and otherwise the same refusal as all others.
        """
        with self.context.store.write() as tx:
            rows = records.episodes(tx, list(group), lock=True)
            unknown = self._neither_here_nor_erased(tx, [one.token for key, one in group.items() if key not in rows])
            lost = {token.episode for token in unknown if token.restores < self.context.restores}
            clock = records.deployment(tx)
            rolled_back, halted = len(unknown) > len(lost), clock.halted
            if not rolled_back and halted is None:
                over = {key for key, one in group.items() if key not in lost and self._is_over(one.token, clock)}
                refused = self._add(tx, {key: one for key, one in group.items() if key not in over | lost}, rows)
                gone = Refusal("episode-expired", "the episode was lost with the store; nothing was spent")
                late = Refusal("episode-expired", "the episode is waited for no longer; what came in time was counted")
                return {**refused, **dict.fromkeys(lost, gone), **dict.fromkeys(over, late)}
        if rolled_back and halted is None:
            halt(self.context, "an episode that was admitted is unknown to the store: it was rolled back")
        raise _Stopped

    def _is_over(self, token: EpisodeToken, clock: Any) -> bool:
        """Whether nothing is counted for a token any more, whatever has come: a matter of the clock,
        of the last round's end and of restores."""
        return bool(
            clock.finished or token.expires_at < self.context.expiry_time() or token.restores < self.context.restores
        )

    def _neither_here_nor_erased(self, tx: Connection, tokens: Sequence[EpisodeToken]) -> list[EpisodeToken]:
        """Tokens of episodes unknown to the store; the others were erased, which proves nothing about the store."""
        if not tokens:
            return []
        stand_ins = {token: self.context.secrets.erased(token.episode) for token in tokens}
        erased = records.episodes(tx, list(stand_ins.values()))
        return [token for token in tokens if stand_ins[token] not in erased]

    def _formed(self, group: Iterable[Submission], reference: int | None) -> Formed:
        """What each adds if the open round has this reference."""
        open_ended = self.context.configuration.formed_when_counted
        made: dict[str, Clipped[np.ndarray] | ReticentError | None] = {}
        played: dict[int | None, list[Submission]] = {}
        for one in group:
            if one.played is not None:
                played.setdefault(reference if open_ended else one.token.version, []).append(one)
            elif one.report is not None and (not open_ended or one.reference == reference):
                made[one.token.episode] = Clipped(one.report)  # within the limits that it was checked for
            else:
                made[one.token.episode] = None
        for version, several in played.items():
            made.update(self._formed_under(version, several))
        return made

    def _formed_under(self, version: Any, several: Sequence[Submission]) -> Formed:
        """What episodes add under one version, all at once; if that fails, who of them it is."""
        identities = [one.token.episode for one in several]
        try:
            board = self.context.plans.billboard(version)
            played = Clipped.all_of([one.played for one in several if one.played is not None])
            rows = played.within(lambda seen: self.context.configuration.exact_contributions(board, seen))
        except ReticentError as problem:
            if len(several) == 1:
                return {identities[0]: problem}
            return {key: value for one in several for key, value in self._formed_under(version, [one]).items()}
        return {key: rows.within(operator.itemgetter(index)) for index, key in enumerate(identities)}

    def _add(self, tx: Connection, group: dict[str, Submission], rows: dict[str, Any]) -> dict[str, ReticentError]:
        """Add what those contribute whose episodes are in ``rows`` and were not counted, and mark them; the caller holds
        their locks.

        Episodes that are marked expired are among them if this worker's clock still waits for them: another worker's was
        ahead. Were they refused, an app would learn who was erased: an erased user's episode has no such mark. For the same
        reason all are refused while the next round is being prepared, retries and those of erased users too.
        """
        refused: dict[str, ReticentError] = {}
        if not group:
            return refused
        try:
            place = self._place(tx)
        except Refusal as refusal:
            return dict.fromkeys(list(group), refusal)
        taken = [key for key in group if key in rows and rows[key].state != "counted"]  # else a retry, answered alike
        if place is not None:  # a last round that is never released keeps nothing
            made = self._formed((group[identity] for identity in taken), place.reference)
            for identity in taken:
                wrong = made[identity]
                if isinstance(wrong, ReticentError):
                    refused[identity] = wrong
            taken = [identity for identity in taken if identity not in refused]
            # Asked under the round's lock, one after the other; who came in too many rounds counts, and adds nothing.
            counted = [
                identity
                for identity in taken
                if self.context.returning.counts(tx, rows[identity].user, identity, place.number)
            ]
            added = [row for row in (made[identity] for identity in counted) if isinstance(row, Clipped)]
            if added:
                rows_of_sum = Clipped.all_of([self.context.total(place.number, place.total), *added])
                total: Clipped[np.ndarray] = rows_of_sum.within(lambda exact: np.sum(exact, axis=0))
                records.set_total(tx, place.number, self.context.sealed_total(place.number, total))
        if taken:
            records.mark_counted(tx, taken)
        return refused

    def _place(self, tx: Connection) -> Any:
        """The open round, locked; None if reports are taken but none is to be released any more."""
        while True:
            row = records.open_round(tx)
            if row is not None and (row.reference is not None or not self.context.configuration.formed_when_counted):
                return row
            if row is not None:  # between two rounds, before the next one's first user: its reference is being planned
                raise Refusal("unavailable", "the next round is being prepared; try again")
            clock = records.deployment(tx)
            if clock.finished:
                raise Refusal("round-over", "the last round has ended; the policy is final")
            if clock.open_round >= self.context.releases:
                return None


def _formed_by(
    token: EpisodeToken | ReticentError, played: Clipped[Trajectory] | ReticentError
) -> Submission | ReticentError:
    """A member's submission, or the first thing that is wrong with it."""
    if isinstance(token, ReticentError):
        return token
    return played if isinstance(played, ReticentError) else Submission(token, played)
