# SPDX-License-Identifier: Apache-2.0
"""Privacy options that every agent with one noised vector per user has: the promise, trust and participation."""

from __future__ import annotations

import dataclasses
import math

from reticent.agents.score.calibration import most_exposed
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.participation import Participation
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import TrustName, trust_named


@dataclasses.dataclass(frozen=True)
class VectorPrivacy:
    """The promise about one vector per user.

    Attributes:
      trust: who is trusted with raw data: the server (``joint``), only a shuffler (``shuffle``), or no other party
        (``local``).
      epsilon, delta: the promise.
      adjacency: what may change about one user: everything (``replace``), or their contribution is zero and their place
        is kept (``zero-out``).
      honest: in the shuffle model, the share of every round's users who can be relied upon to follow the protocol.
    """

    trust: TrustName = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    adjacency: Adjacency = "replace"
    honest: float = 1.0

    def check_honest(self) -> None:
        """Raise if ``honest`` is chosen in a trust model that does not rely on other users."""
        if self.honest != 1 and trust_named(self.trust).wire != "messages":
            raise InvalidInput("honest", self.honest, f"1 with trust={self.trust}", "it is the shuffle model's")


@dataclasses.dataclass(frozen=True)
class RepeatedVectorPrivacy(VectorPrivacy):
    """The promise about all vectors of a user who may return.

    Attributes:
      deployment: noise on an integer grid, as a service draws it.
      contributions, per_round, gap: how often a user may contribute in all and in one round, and how many rounds apart
        (:mod:`reticent.privacy.participation`). The promise is about all of it together.
    """

    deployment: bool = False
    contributions: int = 1
    per_round: int = 1
    gap: int = 1

    @property
    def participation(self) -> Participation:
        return Participation(self.contributions, self.per_round, self.gap)

    @property
    def round_strength(self) -> float:
        """μ that a round's sum (or a report) may have, so that all of a user's together keep the promise."""
        charged = most_exposed(trust_named(self.trust), self.participation)
        return mu_of(self.epsilon, self.delta) / math.sqrt(charged)
