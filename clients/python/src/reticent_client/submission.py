# SPDX-License-Identifier: Apache-2.0
"""What an episode sends at its end, by trust model: formed once and kept, so that a retry sends the same bytes.

An *empty* submission shows nothing of the episode: noise alone in the local model, coins alone in the shuffle model, a
contribution of zero in the joint model. The server cannot tell it from any other (in the local and the shuffle model as
little as it can tell any two users apart), so leaving looks like staying.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from reticent_client.messages import form_messages
from reticent_client.report import noised_report
from reticent_wire.arrays import to_json
from reticent_wire.billboard import Billboard
from reticent_wire.boundary import Clipped
from reticent_wire.model import Model
from reticent_wire.trajectory import Trajectory

Kind = Literal["trajectory", "empty", "report", "messages"]


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
    """The service has counted the episode, or the shuffler has its messages.

    Attributes:
      version: the policy that the user was served.
      reference: the version that a report was formed under, None of other submissions. A report of a form that refers to
        rounds adds nothing if the round that counts it refers to another version by then.
    """

    episode: str
    status: str
    version: int
    reference: int | None = None

    @classmethod
    def read(cls, answer: dict[str, Any], submission: Submission) -> Receipt:
        """The receipt in the service's answer to a submission."""
        reference = submission.content.get("reference")
        return cls(str(answer["episode"]), str(answer["status"]), int(answer["version"]), reference)


class Played(NamedTuple):
    """What a submission is made of: where it belongs, what it is formed under, and what was seen (None shows nothing).

    Attributes:
      version: that its user was served. round, place: theirs. billboard: what a contribution is formed under.
      restores: how often the service's store had been restored when the user was admitted.
    """

    token: str
    version: int
    round: int
    place: int
    billboard: Billboard | None
    seen: Clipped[Trajectory] | None
    restores: int = 0


def plain(seen: Trajectory) -> dict[str, list[Any]]:
    """An episode as JSON says it, without its place."""
    return {"states": seen.states.tolist(), "actions": seen.actions.tolist(), "rewards": seen.rewards.tolist()}


def _trajectory(model: Callable[[], Model], played: Played) -> tuple[Kind, dict[str, Any]]:
    del model
    if played.seen is None:
        return "empty", {"token": played.token}
    return "trajectory", {"token": played.token, **played.seen.release(plain).value}  # this server may see it


def _report(model: Callable[[], Model], played: Played) -> tuple[Kind, dict[str, Any]]:
    assert played.billboard is not None  # the local model acts and reports by one
    return "report", {
        "token": played.token,
        "report": to_json(noised_report(model(), played.billboard, played.seen)),
        "reference": played.billboard.version,
    }


def _messages(model: Callable[[], Model], played: Played) -> tuple[Kind, dict[str, Any]]:
    assert played.billboard is not None  # as above
    sent = form_messages(model(), played.billboard, played.seen, played.round, played.place)
    # No token and no name: whatever could tie the numbers to a person stays here.
    return "messages", {
        "round": played.round, "place": played.place, "version": played.version, "restores": played.restores,
        "ones": to_json(sent.ones), "messages": to_json(sent.messages),
    }  # fmt: skip


SUBMISSIONS: dict[str, Callable[[Callable[[], Model], Played], tuple[Kind, dict[str, Any]]]] = {
    "joint": _trajectory,
    "local": _report,
    "shuffle": _messages,
}
"""What leaves the device at the end, by trust model. A trust model that is not here is refused before it begins."""
