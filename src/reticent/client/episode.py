"""One user's episode on her device: act, observe, and at the end send what the trust model allows, once.

Nothing but actions' requests (if the server acts) leaves before the last step. What is sent at the end is formed once and
kept: a retry sends the same bytes, so noise is never drawn twice for one episode, which would let the two be averaged.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import uuid
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from reticent.client.messages import form_messages
from reticent.client.published import Billboard
from reticent.client.report import Trajectory, noised_report
from reticent.errors import InvalidInput
from reticent.service.arrays import to_json

if TYPE_CHECKING:
    from reticent.client.client import Client

Status = Literal["new", "open", "counted", "sent", "served", "abandoned"]
Kind = Literal["trajectory", "report", "messages"]


class EpisodeAbandoned(UserWarning):
    """An episode was left before its last step; nothing was submitted."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """What an episode sends at its end, ready to be sent again: keep it to finish after an outage or a restart."""

    episode: str
    kind: Kind
    content: dict[str, Any]
    """For the service; ``messages`` are for the shuffler, and the service must not see them."""

    @property
    def path(self) -> str:
        return f"/v1/episodes/{self.episode}/{self.kind}"


@dataclasses.dataclass(frozen=True)
class Receipt:
    """The service has counted the episode, or the shuffler has its messages; ``version`` is the policy she was served."""

    episode: str
    status: str
    version: int


class Episode:
    """One episode; use it as a context manager, which opens it and submits it at the end.

    Leaving early, or with an exception, abandons it: nothing is submitted, and the user's place is used up. Not safe to
    share between threads.

    Attributes:
      id: chosen here, so that opening may be repeated safely.
      status: ``new``, ``open``, ``counted`` (learned from), ``sent`` (in the shuffler's hands), ``served`` (finished, but
        not learned from) or ``abandoned``.
      version: the policy version she is served. horizon: number of steps. learning: whether she will be learned from,
      and if not, ``reason`` why. These are known once it is open.
      receipt: what the service answered, if it was counted.
    """

    def __init__(self, client: Client, user: str, episode: str | None = None) -> None:
        self._client, self.user = client, user
        self.id = uuid.uuid4().hex if episode is None else episode
        self.status: Status = "new"
        self.version = self.horizon = -1
        self.learning, self.reason = False, None
        self.receipt: Receipt | None = None
        self._token = ""
        self._place = (-1, -1)
        self._billboard: Billboard | None = None
        self._states: list[int] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._submission: Submission | None = None

    # -- the episode --------------------------------------------------------------------------------------------------

    def open(self) -> Episode:
        """Ask the service to admit her; safe to call again after a failure.

        Raises:
          InvalidInput: the service's trust model or noise is not what the client demands; she was not named to it.
          ServiceError, Unreachable: it refused, or did not answer.
        """
        if self.status != "new":
            raise InvalidInput("episode", self.status, "new", "start another one with client.episode(user)")
        client = self._client
        client.require_trustworthy()
        opened = client.connection.post("/v1/episodes", {"user": self.user, "episode": self.id})
        if opened["trust"] != client.trust:
            raise InvalidInput(
                "trust", opened["trust"], f"{client.trust}, as the service said before", "do not send; start again"
            )
        version = int(opened["version"])
        if client.act == "device" or client.trust != "joint":
            self._billboard = client.billboard(version)
        self._token, self.version, self.horizon = str(opened["token"]), version, int(opened["horizon"])
        self.learning, self.reason = bool(opened["learning"]), opened["reason"]
        if client.trust == "shuffle" and self.learning:
            self._place = int(opened["round"]), int(opened["number"])
        self.status = "open"
        return self

    @property
    def step(self) -> int:
        """How many steps have been observed."""
        return len(self._rewards)

    @property
    def complete(self) -> bool:
        """Whether all H steps have been observed."""
        return self.step == self.horizon

    def act(self, state: SupportsIndex) -> int:
        """The action in ``state``, by the policy version she is served. Asked again in the same step, it is the same."""
        self._require_open()
        here = self._checked_state(state)
        if self.complete:
            raise InvalidInput("step", self.step, f"below the horizon {self.horizon}", "the episode is over")
        if self._states and here != self._states[-1]:
            raise InvalidInput("state", here, f"{self._states[-1]}, as observed last", "act where she is")
        if not self._states:
            self._states.append(here)
        if len(self._actions) == self.step:
            self._actions.append(self._choose(here))
        return self._actions[-1]

    def observe(self, reward: float, next_state: SupportsIndex) -> None:
        """What followed the last action: its reward in [0, 1], and the state it led to."""
        self._require_open()
        if len(self._actions) == self.step:
            raise InvalidInput("observation", "without an action", "after act()", "call act(state) first")
        number = float(reward)
        if not (math.isfinite(number) and 0 <= number <= 1):
            raise InvalidInput("reward", reward, "in [0, 1]", "rescale rewards before they are observed")
        there = self._checked_state(next_state)
        self._rewards.append(number)
        self._states.append(there)

    def abandon(self) -> None:
        """End it without submitting anything."""
        if self.status in ("new", "open"):
            self.status = "abandoned"
            self._forget()

    def submit(self) -> Receipt | None:
        """Send what the trust model allows; None if she is not learned from. The context manager does this at its end.

        After a failure it may be called again: the same bytes are sent, with the same noise.

        Raises:
          InvalidInput: not all steps were observed.
          ServiceError, Unreachable: the service refused, or did not answer.
        """
        if self.status in ("counted", "sent", "served"):
            return self.receipt
        self._require_open()
        if not self.complete:
            raise InvalidInput("steps", self.step, f"{self.horizon}, the horizon", "observe every step first")
        if not self.learning:
            self.status = "served"
        else:
            self.receipt = self._client.send(self.submission)
            self.status = "sent" if self.submission.kind == "messages" else "counted"
        self._forget()
        return self.receipt

    @property
    def submission(self) -> Submission:
        """What is sent at the end; formed, and in the local model noised, when first asked for, and then kept."""
        if self._submission is None:
            self._require_open()
            if not (self.complete and self.learning):
                raise InvalidInput("episode", "not complete, or not learned from", "both", "see .step and .learning")
            kind, content = FORMS[self._client.trust](self)
            self._submission = Submission(self.id, kind, content)
        return self._submission

    # -- as a context manager -----------------------------------------------------------------------------------------

    def __enter__(self) -> Episode:
        return self.open() if self.status == "new" else self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status != "open":
            return
        if problem is not None or not self.complete:
            said = f"episode {self.id} was abandoned after {self.step} of {self.horizon} steps; nothing was submitted"
            self.abandon()
            if problem is None:
                warnings.warn(said, EpisodeAbandoned, stacklevel=2)
            else:
                problem.add_note(said)
            return
        self.submit()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def trajectory(self) -> Trajectory:
        """What was observed, while the episode is open."""
        return Trajectory(
            np.asarray(self._states, np.int64),
            np.asarray(self._actions, np.int64),
            np.asarray(self._rewards, np.float64),
        )

    def _choose(self, state: int) -> int:
        if self._billboard is not None:
            return self._billboard.act(self.step, state)
        content = {"token": self._token, "step": self.step, "state": state}
        answer = self._client.connection.post(
            f"/v1/episodes/{self.id}/actions", content, route="/v1/episodes/{episode}/actions"
        )
        return int(answer["action"])

    def _checked_state(self, state: SupportsIndex) -> int:
        number = operator.index(state)
        states = None if self._billboard is None else self._billboard.states  # else the service checks
        if number < 0 or (states is not None and number >= states):
            most = "" if states is None else f" to {states - 1}"
            raise InvalidInput("state", number, f"an integer from 0{most}", "number states as the model does")
        return number

    def _require_open(self) -> None:
        if self.status != "open":
            raise InvalidInput("episode", self.status, "open", "use `with client.episode(user) as episode:`")

    def _forget(self) -> None:
        """Raw data are kept no longer than they are needed."""
        self._states, self._actions = [], []


def _trajectory_form(episode: Episode) -> tuple[Literal["trajectory"], dict[str, Any]]:
    seen = episode.trajectory
    return "trajectory", {
        "token": episode._token,
        "states": seen.states.tolist(),
        "actions": seen.actions.tolist(),
        "rewards": seen.rewards.tolist(),
    }


def _report_form(episode: Episode) -> tuple[Literal["report"], dict[str, Any]]:
    assert episode._billboard is not None  # opening fetched it: the local model acts on the device
    report = noised_report(episode._client.model, episode._billboard, episode.trajectory)
    return "report", {"token": episode._token, "report": to_json(report)}


def _messages_form(episode: Episode) -> tuple[Literal["messages"], dict[str, Any]]:
    assert episode._billboard is not None  # as above
    number, within = episode._place
    sent = form_messages(episode._client.model, episode._billboard, episode.trajectory, number, within)
    # No token and no name: whatever could tie the numbers to a person stays here.
    return "messages", {
        "round": number, "number": within, "version": episode.version,
        "ones": to_json(sent.ones), "messages": to_json(sent.messages),
    }  # fmt: skip


FORMS: dict[str, Callable[[Episode], tuple[Kind, dict[str, Any]]]] = {
    "joint": _trajectory_form,
    "local": _report_form,
    "shuffle": _messages_form,
}
"""What leaves the device at the end, by trust model. A trust model that is not here is refused before it begins."""
