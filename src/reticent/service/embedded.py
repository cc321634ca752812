# SPDX-License-Identifier: Apache-2.0
"""The deployed agent inside a Python program: the service's mechanism without its store.

:class:`DeployedAgent` is a thin stateful shell. Everything that matters for the promise — what a user's episode adds, what
noise covers it, what a round's end makes of it — is :class:`reticent.service.mechanism.Mechanism`, as in the service.

A user's *place* is theirs from the moment they are admitted, whatever their data are: rounds end on admissions, which
are public, and never on what came back. Values out of range are clipped; a user who does not come back is told of by
:meth:`skip`. Only the public *form* of an episode (its lengths and types) may be refused, which changes and spends nothing.

Two protocols, which are not mixed:

* *in order* (the paper): each user acts by :meth:`DeployedAgent.act`, and ``submit(user, episode)`` (or ``skip(user)``)
  uses up their place before the next one comes;
* *overlapping*: ``begin(user)`` admits them and hands out a :class:`Ticket` with their place and the plan of its
  version, by which they act; ``submit(ticket, episode)`` counts their episode into whichever round is open then.
  Tickets may come back in any order, or never.

A contribution is formed under the plan that its user was served, or under that of the round that counts it, as the wire's
form says (:attr:`reticent_wire.forms.form.Form.formed_under`).

A round's end can be interrupted (Ctrl-C, memory, a compiler's error). Its sum and its noise are therefore kept together, in
one assignment, before anything is computed from them (:class:`SealedRound`), and the next call of any method finishes
the same round with the same noise before it does anything else. A round is released once.
"""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Hashable
from typing import Any

import numpy as np

from reticent.agents.typed import AgentOptions
from reticent.errors import InvalidInput
from reticent.learning.control import Control, ControlPlaces
from reticent.learning.learner import AgentState
from reticent.learning.plan import AnyPlan
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.ledger import Entry
from reticent.privacy.noise import SecureNoise
from reticent.service.billboards import Billboard
from reticent.service.mechanism import make_mechanism
from reticent.worlds import Episode, Model
from reticent_wire.forms.form import Belief


@dataclasses.dataclass(frozen=True, eq=False)  # plans are arrays, which have no single truth value to compare by
class Ticket:
    """What an admitted user is given: the version they are served, and their place in their round, 0-based.

    ``plan`` is what they are served of the version.
    """

    user: Hashable
    version: int
    billboard: Billboard
    plan: AnyPlan
    place: int

    def act(self, step: int, state: int, uniform: float | None = None) -> int:
        """Their action at 0-based ``step``; ``uniform`` in [0, 1), by default the operating system's, where it is
        random."""
        return self.billboard.published.choose(step, state, self.place, uniform)


@dataclasses.dataclass(frozen=True, eq=False)
class SealedRound:
    """Everything that ending a round depends on: what is released, and all that follows, is a function of this.

    Attributes:
      number: of the round. state, board: the agent and its billboard before the round's end.
      total, noise: the round's sum and what covers it, drawn once.
    """

    number: int
    state: AgentState
    board: Billboard
    total: np.ndarray
    noise: np.ndarray | None


class DeployedAgent:
    """Serves users one after another or many at once, and learns from each at most once.

    Formal guarantee. Everything this object publishes (:attr:`plan`, :attr:`ledger`) keeps :attr:`guarantee`: statistics
    are clipped, rounded to a grid whose effect on the sensitivity is calibrated for and summed as integers; the noise is
    exact discrete Gaussian from the operating system's entropy, drawn once per round (or per report, in the local model),
    also where ending a round was interrupted at any point and done again (:class:`SealedRound`): all attempts compute the
    same release, and :attr:`ledger` counts it from the moment its noise is kept. An interrupted user is counted once or not
    at all.
    With tickets the same (ε, δ) holds however arrivals depend on the users' data (:mod:`reticent.privacy.late_reports`).

    Memory does not grow with versions: a plan is kept while it is in force or a ticket of its version is out.

    ``source`` is made here unless several agents share one.

    With a ``control`` that share of every round's places is served version 0 (:mod:`reticent.learning.control`), by an
    ``identity`` of this object's own.

    Raises:
      InvalidInput: the agent cannot be deployed, or its users must send messages through a shuffler; nothing was spent.
    """

    def __init__(
        self,
        spec: str | AgentOptions,
        model: Model,
        episodes: int,
        source: SecureNoise | None = None,
        control: Control | None = None,
    ) -> None:
        self.mechanism = make_mechanism(str(spec), model, episodes, source or SecureNoise())
        if self.mechanism.wire == "messages":
            raise InvalidInput(
                "trust", self.guarantee.trust.name, "one without a shuffler in this object",
                "users' messages must meet a shuffler: use the service",
            )  # fmt: skip
        self.control, self.identity = control, uuid.uuid4().hex
        self._state = self.mechanism.agent.init()
        self._first = self._board = self.mechanism.billboard(0, self._state)
        self._plan = self.mechanism.plan_of(self._board)
        self._open = self.mechanism.first_sum()
        self._sealed: SealedRound | None = None
        self._users: set[Hashable] = set()
        self._out: dict[Hashable, Ticket] = {}
        self._out_by_version: collections.Counter[int] = collections.Counter()
        self._versions: dict[int, Billboard] = {}
        self._overlapping = False

    # -- what is public -----------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What each user is promised."""
        return self.mechanism.guarantee

    @property
    def plan(self) -> AnyPlan:
        """The billboard: a function of past releases only."""
        self._finish_interrupted()
        return self._plan

    @property
    def place(self) -> int:
        """The place in their round, 0-based, of the user who comes next."""
        return self.mechanism.agent.schedule.place_of(self.users)

    def act(self, step: int, state: int, uniform: float | None = None) -> int:
        """In order: the action of the user who comes next; ``uniform`` as for a ticket."""
        self._finish_interrupted()
        return self._served.published.choose(step, state, self.place, uniform)

    def belief(self, ticket: Ticket | None = None) -> Belief | None:
        """What the user of ``ticket``, or the next in order, acts on at first; None where users act by :meth:`act`.

        It belongs on the user's device: act by it, and let it observe every step.
        """
        self._finish_interrupted()
        board = (self._served if ticket is None else ticket.billboard).published
        model = self.mechanism.published
        return model.rules.form.belief(model, board) if board.remembers else None

    @property
    def _served(self) -> Billboard:
        """What the user who comes next is served: the plan in force, or the control's. After the K-th there is no place."""
        if self.control is None or self.finished:
            return self._board
        number, place = self.mechanism.agent.schedule.round_and_place(self.users)
        return self._first if self._controls_of(number, self.control).has(place) else self._board

    def _controls_of(self, number: int, control: Control) -> ControlPlaces:
        return control.places(self.mechanism.agent.schedule, number, self.identity)

    @property
    def version(self) -> int:
        """Which plan is in force: the number of releases before it."""
        return self._board.version

    @property
    def users(self) -> int:
        """How many users have been admitted (a public number, unlike how many of their reports have come)."""
        return len(self._users)

    @property
    def finished(self) -> bool:
        """Whether all K users have been admitted; in order, the plan is then final."""
        return self.users >= self.mechanism.agent.schedule.episodes

    @property
    def ledger(self) -> Entry:
        """What has been spent so far, and what is left; a round that was interrupted after its noise was drawn is spent."""
        drawn = self.version if self._sealed is None else self._sealed.number + 1
        return self.guarantee.ledger.entries([min(drawn, self.guarantee.releases)])[0]

    # -- what is not --------------------------------------------------------------------------------------------------

    @property
    def tickets_out(self) -> int:
        """How many admitted users have not come back. Not public: whether a user comes back is their secret."""
        return len(self._out)

    @property
    def versions_kept(self) -> tuple[int, ...]:
        """Versions whose plans are held for tickets that are out."""
        return tuple(sorted(self._versions))

    # -- users in order -----------------------------------------------------------------------------------------------

    def submit(self, user: Hashable | Ticket, contribution: Any, reference: int | None = None) -> None:
        """Learn from one user; their second contribution is refused, and so is one after the K-th user.

        ``user`` is their ticket, or their name: with a ticket out it stands for that, and otherwise (in order) admits them.

        ``contribution`` is their episode in the joint model, where the statistics are clipped and rounded here and nowhere
        else, and what :meth:`report` returned on their device in the local model, where it is already private.
        ``reference`` is then the :attr:`version` that was in force when it was formed, by default the one that is; if
        reports refer to the round that counts them and another one is open by now, theirs counts and contributes nothing.

        Raises:
          InvalidInput: they were counted before, K users have been, or the contribution has not the form of one;
            nothing was changed or spent.
        """
        self._finish_interrupted()
        if isinstance(user, Ticket) or user in self._out:
            self._submit_late(user, contribution, reference)
            return
        self._require_in_order(user)
        report = self._reported(self._formed_under(None), self.place, contribution, reference)
        self._users.add(user)
        self._count(report)
        self._end_full_round()

    def skip(self, user: Hashable) -> None:
        """A user, in order, who sent nothing: their place is used up, as if they had contributed nothing.

        Raises:
          InvalidInput: they were counted before, or K users have been; nothing was changed.
        """
        self._finish_interrupted()
        if user in self._out:
            self.expire(user)
            return
        self._require_in_order(user)
        self._users.add(user)
        self._end_full_round()

    def report(self, episode: Episode, ticket: Ticket | None = None) -> np.ndarray:
        """What the user of ``episode`` sends: clipped statistics in steps of the grid, noised in the local model.

        In the local model this belongs on the user's device. ``ticket`` is theirs; without one they are the next in order.
        """
        self._finish_interrupted()
        place = self.place if ticket is None else ticket.place
        return self.mechanism.contribution(self._formed_under(ticket), episode, place)

    # -- users who overlap --------------------------------------------------------------------------------------------

    def begin(self, user: Hashable) -> Ticket:
        """Admit a user and say which plan they are served; ends the round first if it has had all its users.

        Raises:
          InvalidInput: they were admitted before, or K users have been; nothing was changed or spent.
        """
        if self.users and not self._overlapping:
            raise InvalidInput(
                "user", "given a ticket", "served in order like those before", "use submit(user, episode)"
            )
        self._require_admissible(user)
        self._overlapping = True
        self._end_full_round()
        place, board = self.place, self._served
        plan = self._plan if board is self._board else self.mechanism.plan_of(board)
        ticket = Ticket(user, board.version, board, self.mechanism.agent.served(plan, place), place)
        self._users.add(user)
        self._out[user] = ticket
        self._out_by_version[board.version] += 1
        self._versions[board.version] = board
        return ticket

    def expire(self, user: Hashable) -> None:
        """Wait no longer for a user with a ticket: their place is used up, their report will be refused, nothing is
        spent."""
        if user not in self._out:
            raise InvalidInput("user", "without a ticket that is out", "one who is waited for", "see tickets_out")
        self._redeem(user)

    def finish(self) -> None:
        """End the last round of users who overlap; reports that come later are refused.

        No admission can end it, so the operator's clock does. To keep the promise, the time must not depend on which
        reports have come: not "when all are back", but say "a week after the last user was admitted".

        Raises:
          InvalidInput: not all K users have been admitted; nothing was changed or spent.
        """
        if not self.finished:
            users = self.mechanism.agent.schedule.episodes
            raise InvalidInput("users", self.users, f"K = {users}", "rounds end as the schedule says")
        self._end_full_round()
        for waiting in (self._out, self._out_by_version, self._versions):
            waiting.clear()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _submit_late(self, user: Hashable | Ticket, contribution: Any, reference: int | None) -> None:
        """Learn from a user with a ticket, as it is kept here."""
        name = user.user if isinstance(user, Ticket) else user
        if name not in self._out:
            known = name in self._users
            raise InvalidInput(
                "ticket", "used up" if known else "unknown", "out", "each ticket is good for one episode, in time"
            )
        ticket = self._out[name]
        if isinstance(user, Ticket) and (user.version, user.place) != (ticket.version, ticket.place):
            wanted = f"{ticket.version}, as they were served"
            raise InvalidInput("ticket.version", user.version, wanted, "send their own ticket")
        report = self._reported(self._formed_under(ticket), ticket.place, contribution, reference)
        self._redeem(name)  # first: interrupted between the two, a report is lost and not counted twice
        self._count(report)

    def _require_in_order(self, user: Hashable) -> None:
        self._require_admissible(user)
        if self._overlapping:
            raise InvalidInput(
                "user", "without a ticket", "admitted by begin()", "it is unknown which plan they were served"
            )

    def _require_admissible(self, user: Hashable) -> None:
        if user in self._users:
            raise InvalidInput("user", "already counted", "new", "each user may contribute one episode")
        if self.finished:
            raise InvalidInput(
                "users", self.users + 1, f"at most K = {self.mechanism.agent.schedule.episodes}",
                "the promise covers K users; go on serving the final plan, or start a new agent with its own budget",
            )  # fmt: skip

    def _redeem(self, user: Hashable) -> None:
        version = self._out.pop(user).version
        self._out_by_version[version] -= 1
        if not self._out_by_version[version]:
            del self._versions[version], self._out_by_version[version]

    def _formed_under(self, ticket: Ticket | None) -> Billboard:
        """What a contribution of now is made of: the open round's plan, or that which they were served."""
        if self.mechanism.formed_when_counted:
            return self._board
        return self._served if ticket is None else ticket.billboard

    def _reported(self, board: Billboard, place: int, contribution: Any, reference: int | None) -> np.ndarray:
        """The integers to add: made here from an episode, or ready-made (and private already) in the local model."""
        if self.guarantee.trust.noised_reports:
            report = self.mechanism.checked_report(contribution)
            stale = self.mechanism.formed_when_counted and reference not in (None, self.version)
            return np.zeros_like(report) if stale else report
        if not isinstance(contribution, Episode):
            kind = type(contribution).__name__
            model = self.guarantee.trust.name
            raise InvalidInput("contribution", kind, f"an Episode in the {model} model", "send the episode itself")
        return self.mechanism.contribution(board, contribution, place)

    def _count(self, report: np.ndarray) -> None:
        self._open = self._open + report

    def _finish_interrupted(self) -> None:
        """Finish what an interruption left: a sealed round and, in order, a full one (its last user's data were lost)."""
        if self._overlapping:
            self._publish_sealed()
        else:
            self._end_full_round()

    def _end_full_round(self) -> None:
        """End the open round if it has had all its users, and is one that is released: a matter of public numbers."""
        self._publish_sealed()
        schedule, number = self.mechanism.agent.schedule, self.version
        if number < schedule.releases and self.users >= schedule.ends[number]:
            noise = self.mechanism.round_noise()
            self._sealed = SealedRound(number, self._state, self._board, self._open, noise)
            self._publish_sealed()

    def _publish_sealed(self) -> None:
        """Finish the round that is sealed, if one is: for the first time, or again after an interruption.

        All is computed from the sealed round before anything is assigned, and the seal is lifted last: done again, each
        assignment repeats what it was.
        """
        sealed = self._sealed
        if sealed is None:
            return
        # In this object plans are made at once, so that a round refers to the plan made for it, controls' too.
        reference, group = None, None
        if self.control is not None and sealed.number and self.mechanism.formed_when_counted:
            reference, group = sealed.board, (self._first, self._controls_of(sealed.number, self.control))
        state, _ = self.mechanism.close(
            sealed.number, sealed.state, sealed.board, sealed.total, sealed.noise, reference, control=group
        )
        board = self.mechanism.billboard(sealed.number + 1, state)
        self._plan, self._open = self.mechanism.plan_of(board), self.mechanism.first_sum()
        self._state, self._board = state, board
        self._sealed = None
