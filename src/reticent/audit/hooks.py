# SPDX-License-Identifier: Apache-2.0
"""What a family of agents tells the audit: the seam between ``agents`` and ``audit``.

An agent's family supplies an object with some of the methods below, by
:class:`reticent.learning.capabilities.HasAuditHooks`. The audit asks what it can do and knows no family by name; a third
party's agent brings its own object. Types that both sides use are in :mod:`reticent.privacy.neighbouring_datasets`, so that
no agent imports the audit.

Agents that release noisy sums (:class:`reticent.privacy.sums.PrivateSums`) bring :class:`Neighbours`, and that is all:
matched filter, replay with hidden noise, the search for the worst pair and the law of the noise follow from the sums. An
agent with one clipped vector per user is such a one, its contribution being an array ``(1, D)`` with one declared group.
Agents that release something else bring an adversary of their own, and a replay where the proof has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from reticent.errors import InvalidInput
from reticent.learning.aggregator import PyTree
from reticent.learning.capabilities import audit_hooks
from reticent.learning.learner import AnyLearner
from reticent.privacy.neighbouring_datasets import Pair, Replay, Scores, Tell, User

__all__ = ["Neighbours", "OwnReleases", "OwnReplay", "neighbours_of"]


@runtime_checkable
class Neighbours(Protocol):
    """Proposals of users who differ as much as the code lets them; observations are what the aggregator is shown.

    Under zero-out adjacency every replacement is :meth:`nothing`.
    """

    def nothing(self) -> PyTree:
        """The observation that contributes nothing."""
        ...

    def worst_cases(self, count: int, seed: int) -> Sequence[Pair[PyTree]]:
        """What the proof calls worst, and what an attacker would try; ``count`` random variations of what can vary."""
        ...

    def random_pairs(self, count: int, seed: int) -> Sequence[Pair[PyTree]]:
        """Random ones, in and out of bounds; the search climbs from these where observations are real numbers."""
        ...

    def possible_pair(self, world: Any, seed: int) -> Pair[PyTree]:
        """Two users that ``world`` can produce, as far apart as can be found."""
        ...


@runtime_checkable
class OwnReleases(Protocol):
    """An adversary for releases that are not noisy sums."""

    def canaries(self, world: Any, seed: int) -> Sequence[tuple[str, Pair[PyTree]]]:
        """Pairs to attack with, each with the kind of canary it is: ``statistics`` or ``trajectory``."""
        ...

    def play(self, pair: Pair[PyTree], trials: int, seed: int, tell: Tell | None = None) -> Scores:
        """Scores of ``trials`` trials each without and with the canary; larger ones speak for it."""
        ...


@runtime_checkable
class OwnReplay(Protocol):
    """The privacy proof carried out on releases that are not noisy sums."""

    def replay(self, users: Sequence[User], changed: int, other: User, seed: int) -> Replay:
        """Compare the runs of ``users`` and of the same users with number ``changed`` (0-based) replaced."""
        ...


def neighbours_of(agent: AnyLearner) -> Neighbours:
    """The family's proposals of neighbours.

    Raises:
      InvalidInput: it has none.
    """
    hooks = audit_hooks(agent)
    if not isinstance(hooks, Neighbours):
        raise InvalidInput(
            "audit hooks", type(hooks).__name__, "of a family that releases noisy sums",
            "give them the methods of reticent.audit.hooks.Neighbours",
        )  # fmt: skip
    return hooks
