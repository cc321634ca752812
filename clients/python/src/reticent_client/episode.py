# SPDX-License-Identifier: Apache-2.0
"""One user's episode on their device: act, observe, and at the end send what the trust model allows, once.

Nothing but actions' requests (if the server acts) leaves before the last step. What is sent at the end is formed once and
kept: a retry sends the same bytes, so noise is never drawn twice for one episode, which would let the two be averaged.

What a user did never stops an episode: rewards and states out of range are clipped, since an exception would abandon it and
the service would see that nothing came. For the same reason an episode that is left early sends an empty submission where
the service may not know (:mod:`reticent_client.submission`).
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent_client.budget import BudgetSpent
from reticent_client.decisions import Decision
from reticent_client.problems import ServiceError
from reticent_client.stays import EXPIRED, NOT_KEPT, OVER, REMEDY, Saved, StayExpired, StayNotKept
from reticent_client.submission import SUBMISSIONS, Played, Receipt, Submission, plain
from reticent_wire.billboard import Billboard
from reticent_wire.boundary import Clipped, Raw
from reticent_wire.errors import InvalidInput
from reticent_wire.forms.form import Belief
from reticent_wire.trajectory import Trajectory, index_within, number_of, reward_within

if TYPE_CHECKING:
    from reticent_client.client import Client

Number = TypeVar("Number", int, float)
Status = Literal["new", "open", "counted", "sent", "served", "empty", "abandoned"]


MOST_STATES = 2**31
"""What states are clipped to where their number is unknown here: in the joint model, if the service chooses actions."""

EMPTY_SENT, NOTHING_SENT = "an empty submission was sent", "nothing was submitted"
"""What is said of an episode that was left early."""

SPENT = "device-budget-spent"
"""Why a user is not learned from although the service would."""


class EpisodeAbandoned(UserWarning):
    """An episode was left before its last step; nothing of it was submitted."""


class Episode:
    """One episode; use it as a context manager, which opens it and submits it at the end.

    Leaving early, or with an exception, submits nothing of it: in the local and the shuffle model an empty submission is
    sent instead, so that the service does not see that they left; in the joint model nothing is, and the user's place
    is used up. Not safe to share between threads.

    Attributes:
      id: chosen here, so that opening may be repeated safely.
      status: ``new``, ``open``, ``counted`` (learned from), ``sent`` (in the shuffler's hands), ``served`` (finished, but
        not learned from), ``empty`` (an empty submission was sent) or ``abandoned``.
      version: the policy version they are served. place: theirs in their round, 0-based, which may decide what they are
        served of it; None if they are not learned from. horizon: number of steps of one visit. visits: of their stay, all
        of which are reported once; 1 where every episode is reported. learning: whether they will be learned from, and
        if not, ``reason`` why. These are known once it is open.
      clipped: how many states and rewards were out of range so far, and were taken for the nearest that are not. This
        is about the user: it is for tests on the device, and must not leave it.
      probability: with which the last action was chosen. It follows from what is published and from their place.
      receipt: what the service answered, if it was counted.
    """

    def __init__(self, client: Client, user: str, episode: str | None = None, enrolment: str | None = None) -> None:
        self._client, self.user, self._enrolment = client, user, enrolment
        self.id = uuid.uuid4().hex if episode is None else episode
        self.status: Status = "new"
        self.version = self.horizon = -1
        self.visits = 1
        self.learning = False
        self.reason: str | None = None
        self.clipped = 0
        self.receipt: Receipt | None = None
        self.probability: float | None = None
        self._token = ""
        self.place: int | None = None
        self._round, self._reference, self._restores = -1, None, 0
        self._billboard: Billboard | None = None
        self._belief: Belief | None = None
        self._states: list[Clipped[int]] = []
        self._actions: list[int] = []
        self._rewards: list[Clipped[float]] = []
        self._observed = 0
        self._submission: Submission | None = None
        self._empty = False
        self._opened: dict[str, Any] = {}
        self._expires_at: float | None = None

    # -- the episode --------------------------------------------------------------------------------------------------

    def open(self) -> Episode:
        """Ask the service to admit them; safe to call again after a failure.

        Raises:
          InvalidInput: the service's trust model or noise is not what the client demands; they were not named to it.
          ServiceError, Unreachable: it refused, or did not answer.
        """
        if self.status != "new":
            raise InvalidInput("episode", self.status, "new", "start another one with client.episode(user)")
        self._client.require_trustworthy()
        self.opened(self._client.open(self.named))
        return self

    @property
    def named(self) -> dict[str, str]:
        """What the service is told of them when they come."""
        vouched = {} if self._enrolment is None else {"enrolment": self._enrolment}
        return {"user": self.user, "episode": self.id} | vouched

    def opened(self, opened: dict[str, Any]) -> None:
        """Take the service's answer to their coming."""
        self._client.require_rules(opened)
        self._admitted(opened)
        if self._kept:
            self._client.stays.keep(self.user, self._finished_visits)  # type: ignore[union-attr]

    def _admitted(self, opened: dict[str, Any]) -> None:
        client, self._opened = self._client, opened
        if opened["trust"] != client.trust:
            raise InvalidInput(
                "trust", opened["trust"], f"{client.trust}, as the service said before", "do not send; start again"
            )
        version = int(opened["version"])
        if client.act == "device" or client.trust != "joint":
            self._billboard = client.billboard(version)
            self._belief = client.belief(self._billboard, self.user)
            self.visits = client.visits(self._billboard)
        self._token, self.version, self.horizon = str(opened["token"]), version, int(opened["horizon"])
        if self._billboard is not None and self._billboard.horizon != self.horizon:
            raise InvalidInput(
                "horizon", self.horizon, f"{self._billboard.horizon}, the billboard's", "do not send; ask its operator"
            )
        self.learning, self.reason = bool(opened["learning"]), opened["reason"]
        if self.learning:
            self._round, self.place = int(opened["round"]), int(opened["place"])
            self._reference = opened["reference"]
            self._restores = int(opened.get("restores", 0))
        if self.learning and client.budget is not None and not client.budget.allows(self.user, self._round):
            self.learning, self.reason = False, SPENT
        self._expires_at = None if opened.get("expires_at") is None else float(opened["expires_at"])
        self._require_time()
        self.status = "open"

    def resumed(self, kept: Saved) -> None:
        """Go on with a stay after its finished visits, as :meth:`_keep_visits` kept them."""
        self._admitted(kept["opened"])
        steps = self.horizon * (len(kept["actions"]) // self.horizon)
        self._states = [self._clipped_state(Raw(state)) for state in kept["states"][: steps + steps // self.horizon]]
        self._actions = [int(action) for action in kept["actions"][:steps]]
        self._rewards = [Raw(reward).clip(reward_within) for reward in kept["rewards"][:steps]]
        for step, (action, reward) in enumerate(zip(self._actions, self._rewards, strict=True)):
            place = step + step // self.horizon
            self._learn(self._states[place], action, reward, self._states[place + 1])
        self._observed = steps

    @property
    def belief(self) -> NDArray[np.float64] | None:
        """What this device believes of its own user by now: the probability of each kind, the blend last, or the expected
        vector of tastes; None where users act by the policy alone. It is for showing it to the user, and must not leave
        the device."""
        return None if self._belief is None else self._belief.known

    @property
    def step(self) -> int:
        """How many steps have been observed."""
        return self._observed

    @property
    def complete(self) -> bool:
        """Whether all H steps of all visits have been observed."""
        return self.step == self.horizon * self.visits

    @property
    def visit(self) -> int:
        """The 0-based visit that the next step belongs to."""
        return self.step // self.horizon

    def act(self, state: SupportsIndex | SupportsFloat | None) -> int:
        """The action in ``state``, by the policy version they are served. Asked again in the same step, it is the same.

        In a stay the first action after H steps begins the next visit, in whatever state that begins.
        """
        self._require_open()
        here = self._clipped_state(Raw(state))
        if self.complete:
            raise InvalidInput("step", self.step, f"below {self.horizon * self.visits}", "the episode is over")
        if len(self._states) == self.visit * (self.horizon + 1):  # a visit begins
            self._states.append(here)
        elif here.on_device(int) != self._states[-1].on_device(int):  # the app's mistake, not the user's
            raise InvalidInput("state", "another one", "the one that was observed last", "act where they are")
        if len(self._actions) == self.step:
            self._actions.append(here.on_device(self._decide))
        return self._actions[-1]

    def observe(self, reward: SupportsFloat | None, next_state: SupportsIndex | SupportsFloat | None) -> None:
        """What followed the last action: its reward, clipped to [0, 1], and the state it led to.

        What is missing or no number counts as 0, and a fraction of a state is dropped: nothing here is refused.
        """
        self._require_open()
        if len(self._actions) == self.step:
            raise InvalidInput("observation", "without an action", "after act()", "call act(state) first")
        inside = Raw(reward).clip(self._counted(reward_within))
        there = self._clipped_state(Raw(next_state))
        self._learn(self._states[-1], self._actions[-1], inside, there)
        self._rewards.append(inside)
        self._states.append(there)
        self._observed += 1
        if self._observed % self.horizon == 0:
            self._keep_visits()

    def abandon(self) -> None:
        """End it without submitting anything, which the service can see; :meth:`submit_empty` does not show it."""
        if self.status in ("new", "open"):
            self.status = "abandoned"
            self._forget()

    def submit(self) -> Receipt | None:
        """Send what the trust model allows; None if they are not learned from. The context manager does this at its end.

        After a failure it may be called again: the same bytes are sent, with the same noise.

        Raises:
          InvalidInput: not all steps were observed.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        if self.status in ("counted", "sent", "served", "empty"):
            return self.receipt
        self._require_open()
        if not self.ready:
            raise InvalidInput("steps", self.step, f"{self.horizon * self.visits} in all", "observe every step first")
        return self._send()

    def submit_empty(self) -> Receipt | None:
        """End it, at whatever step, by sending what shows nothing of it: leaving looks like staying.

        Once a submission has been formed there is no other: a second one, with other noise, could be averaged with it.

        Raises:
          InvalidInput: it is not open.
          ServiceError, Unreachable: the service refused, or did not answer; it may be called again.
        """
        if self.status in ("counted", "sent", "served", "empty"):
            return self.receipt
        self._require_open()
        self.leave_empty()
        return self._send()

    @property
    def submission(self) -> Submission:
        """What is sent at the end; formed, and in the local model noised, when first asked for, and then kept."""
        if self._submission is None:
            self._require_open()
            if not (self.ready and self.learning):
                raise InvalidInput("episode", "not complete, or not learned from", "both", "see .step and .learning")
            client, place = self._client, -1 if self.place is None else self.place
            board = None
            if client.trust != "joint":  # public, and first: if the service does not answer, nothing was charged
                own = self._reference if client.trust == "shuffle" else None
                board = client.reference(self.version, own)
            self._take_visits()  # before anything is formed, so that no crash gives it back
            if client.budget is not None:  # likewise
                client.budget.spend(self.user, self._round)
            seen = None if self._empty else self.trajectory
            played = Played(self._token, self.version, self._round, place, board, seen, self._restores)
            kind, content = SUBMISSIONS[client.trust](lambda: client.model, played)
            self._submission = Submission(self.id, kind, content)
        return self._submission

    # -- as a context manager -----------------------------------------------------------------------------------------

    def __enter__(self) -> Episode:
        return self.open() if self.status == "new" else self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status == "open" and self.complete and problem is None:
            self.submit()
        elif self.leaves or (self.status == "open" and self.complete):
            self.say_left(problem, self._leave(problem))

    @property
    def leaves(self) -> bool:
        """Whether it would be left early if it ended now. A stay that is kept goes on with the next visit."""
        return self.status == "open" and not self.complete and not self._kept

    @property
    def ready(self) -> bool:
        """Whether it can be submitted: it is complete, or was left and shows nothing."""
        return self.complete or self._empty

    def leave_empty(self) -> None:
        """Have the next submission show nothing of it: what :meth:`submit_empty` does before it sends."""
        self._empty = self._submission is None or self._empty

    def say_left(self, problem: BaseException | None, sent: str) -> None:
        """Tell the app that it was left early, and what was ``sent``: by a note on the ``problem``, or a warning."""
        said = f"episode {self.id} was left after {self.step} of {self.horizon * self.visits} steps; {sent}"
        if problem is None:
            warnings.warn(said, EpisodeAbandoned, stacklevel=3)
        else:
            problem.add_note(said)

    def _leave(self, problem: BaseException | None) -> str:
        """End it early; says what was sent. Whatever goes wrong on the way must not hide why they left."""
        stopped = problem is not None and not isinstance(problem, Exception)  # Ctrl-C waits for no network
        if self._client.trust != "joint" and not stopped:
            try:
                self.submit_empty()
            except Exception as failure:  # of the service, or of whatever hands messages to a shuffler
                return self.failed_to_leave(failure)
            return EMPTY_SENT
        self.abandon()
        return NOTHING_SENT

    def failed_to_leave(self, failure: Exception) -> str:
        """Give it up after its empty submission failed; says so."""
        self.abandon()
        return f"an empty submission failed ({type(failure).__name__}): {NOTHING_SENT}"

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def trajectory(self) -> Clipped[Trajectory]:
        """What was observed, while the episode is open."""
        actions, place = np.asarray(self._actions, np.int64), self.place
        rewards = Clipped.all_of(self._rewards)
        return Clipped.all_of(self._states).within(
            lambda states: Trajectory(
                np.array(states, np.int64), actions, np.array(rewards.on_device(list), np.float64), place
            )
        )

    def prepared(self) -> Submission | None:
        """What is to be sent; None if the user is not learned from, which another episode of theirs may decide."""
        if self._submission is None:
            self._require_time()
        if self.learning:
            try:
                return self.submission
            except BudgetSpent:
                self.learning, self.reason = False, SPENT
            except StayNotKept:
                self.learning, self.reason = False, NOT_KEPT
        return None

    def _send(self) -> Receipt | None:
        submission = self.prepared()
        if submission is None:
            self.status = "served"
        else:
            try:
                answer = self._client.send(submission)
            except ServiceError as refusal:
                self.refused(refusal)
                raise
            self._settled(answer)
        self._keep()
        self._forget()
        return self.receipt

    def counted(self, answer: dict[str, Any]) -> None:
        """Take the service's answer to the user's submission."""
        self._settled(Receipt.read(answer, self.submission))
        self._keep()
        self._forget()

    def refused(self, refusal: ServiceError) -> None:
        """Take the service's refusal of the user's submission: a stay that is over is kept no longer."""
        if self.visits > 1 and refusal.name in OVER:
            self._erase_visits()
            refusal.add_note(f"the stay is not reported, and kept on this device no longer; {REMEDY}")

    def _settled(self, receipt: Receipt) -> None:
        sent: Status = "sent" if self.submission.kind == "messages" else "counted"
        self.receipt, self.status = receipt, "empty" if self._empty else sent

    def _decide(self, state: int) -> int:
        action, self.probability = self._choose(state)
        if self._client.decisions is not None:
            self._client.decisions(Decision(self.id, self.version, self.step, state, action, self.probability))
        return action

    def _choose(self, state: int) -> tuple[int, float]:
        """An action, and with what probability it was chosen."""
        if self._belief is not None:
            return self._belief.act(self.step % self.horizon, state), 1.0
        if self._billboard is not None:
            step = self.step % self.horizon
            action = self._billboard.choose(step, state, self.place)
            return action, self._billboard.probability(step, state, self.place, action)
        content = {"token": self._token, "step": self.step, "state": state}
        answer = self._client.connection.post(
            f"/v1/episodes/{self.id}/actions", content, route="/v1/episodes/{episode}/actions"
        )
        return int(answer["action"]), float(answer["probability"])

    def _clipped_state(self, state: Raw[SupportsIndex | SupportsFloat | None]) -> Clipped[int]:
        below = MOST_STATES if self._billboard is None else self._billboard.states
        return state.clip(self._counted(lambda given: index_within(given, below)))

    def _counted(self, clip: Callable[[Any], Number]) -> Callable[[Any], Number]:
        """The clip, which notes for tests on the device whether it changed anything."""

        def inside(given: Any) -> Number:
            within = clip(given)
            self.clipped += bool(within != number_of(given))
            return within

        return inside

    def _require_open(self) -> None:
        if self.status != "open":
            raise InvalidInput("episode", self.status, "open", "use `with client.episode(user) as episode:`")

    def _keep(self) -> None:
        """Remember what this visit told about the user, if the app asked for that; after what is sent was sent."""
        memory = self._client.memory
        if memory is not None and self._belief is not None and self.complete:
            memory.keep(self.user, self._client.model.digest, self._belief.likelihoods)

    def _learn(self, here: Clipped[int], action: int, earned: Clipped[float], there: Clipped[int]) -> None:
        """Let the belief take one step, where there is one."""
        if self._belief is not None:
            state, reward, following = (one.on_device(lambda value: value) for one in (here, earned, there))
            self._belief.observe(int(state), action, reward, int(following))

    @property
    def _kept(self) -> bool:
        """Whether finished visits are kept on this device until the report."""
        return self._client.stays is not None and self.visits > 1

    @property
    def _finished_visits(self) -> Saved:
        """What is kept of a stay on this device."""
        return {"opened": self._opened, **self.trajectory.on_device(plain)}

    def _keep_visits(self) -> None:
        """Keep one more finished visit of a stay on this device, if the app asked for that."""
        if self._client.stays is not None and self.visits > 1:
            self._client.stays.go_on(self.user, self._finished_visits)

    def _take_visits(self) -> None:
        """Take a kept stay to report it, where noise is drawn for it; elsewhere it is kept until it is counted."""
        stays = self._client.stays
        if stays is None or self.visits == 1:
            return
        take = stays.holds if self._client.trust == "joint" else stays.take
        if not take(self.user, self.id):
            raise StayNotKept

    def _require_time(self) -> None:
        """Report nothing of a stay whose ticket has expired by this device's clock, and say so."""
        if self.learning and self.visits > 1 and self._expires_at is not None and self._expires_at < time.time():
            self.learning, self.reason = False, EXPIRED
            warnings.warn(StayExpired(self._expires_at), stacklevel=2)

    def _erase_visits(self) -> None:
        if self._client.stays is not None and self.visits > 1:
            self._client.stays.take(self.user, self.id)

    def _forget(self) -> None:
        """Raw data are kept no longer than they are needed."""
        self._erase_visits()
        self._states, self._actions, self._rewards, self._belief = [], [], [], None
