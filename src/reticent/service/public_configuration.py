# SPDX-License-Identifier: Apache-2.0
"""The public configuration of a deployment in plain values and NumPy: all that a worker of the service needs.

A worker admits users, chooses their actions from a published plan, forms what their episodes add and adds it to a sum of
integers. None of this needs the agent itself, or JAX. :class:`reticent.service.mechanism.Mechanism` is this with the
agent, which ends rounds and makes plans; it is made once, and workers are handed its public part.

What an episode contributes is formed by the wire's form (:mod:`reticent_wire.forms`), as on a device: the very
source that a simulation runs with JAX. Sums are kept as whole multiples of the calibration's grid, so that adding is exact
and the order of users cannot show.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.account import Account
from reticent.privacy.ledger import CounterShare
from reticent.privacy.noise import SecureNoise
from reticent.privacy.participation import Participation
from reticent.service.billboards import Billboard
from reticent_wire.grid import TAIL
from reticent_wire.model import Model as PublishedModel
from reticent_wire.shuffle_rules import ShuffleRules
from reticent_wire.trajectory import Trajectory, each_well_formed, plain_array, well_formed


@dataclasses.dataclass(frozen=True, eq=False)
class PublicGuarantee:
    """A :class:`~reticent.privacy.guarantee.Guarantee` in plain values, serialisable for display.

    Attributes:
      sentence: the promise in plain words. not_covered: what is not promised.
      trust: the trust model's name. wire: what users send in it: ``trajectory``, ``report`` or ``messages``.
      noised_reports: whether every report is private by itself.
      account, shares, exposure, round_ends: the ledger's: how costs add up, what is noised how, and when it is released.
      settings: the agent's options as they were resolved, as text.
    """

    sentence: str
    not_covered: tuple[str, ...]
    trust: str
    wire: str
    noised_reports: bool
    adjacency: str
    epsilon: float
    delta: float
    participation: Participation
    account: Account
    shares: tuple[CounterShare, ...]
    exposure: np.ndarray
    round_ends: np.ndarray
    settings: Mapping[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class PublicConfiguration:
    """The public configuration of one deployment. It holds no state and depends on no user.

    Attributes:
      name: the agent's, with its options. method, counter: of the agent, for display.
      options: every option of the agent, whether it was given or not, as text.
      schedule: when rounds end.
      published: what devices get of model and rules, and what contributions are made with, there as here; no digest.
      model_digest: of the whole model. initial: its first states. names: what states and actions are called.
      contribution_bound: the most that a clipped contribution is away from 0 in each coordinate, ``(H, D)``.
      floor: least probability of every action, of an agent that has such an option.
      public_guarantee: to each *user*, all contributions and (pan-private) one intrusion included.
      epsilons: ε by strength of the ledger, as far as it was worked out.
      noise_factor: how many times as much noise as for one contribution and no intrusion: g, or √2·g.
      pan_private: whether a round's noise comes in two halves, before its first user and when it is sealed.
      source: of noise; None for a worker that has none to draw.
    """

    name: str
    method: str
    counter: str
    options: Mapping[str, str]
    schedule: Schedule
    published: PublishedModel
    model_digest: str
    initial: np.ndarray
    names: Mapping[str, Any] | None
    contribution_bound: np.ndarray
    floor: float
    public_guarantee: PublicGuarantee
    epsilons: dict[float, float]
    noise_factor: float
    pan_private: bool
    source: SecureNoise | None

    @property
    def wire(self) -> str:
        """What users send: ``trajectory``, ``report`` or ``messages``."""
        return self.public_guarantee.wire

    @property
    def grid(self) -> float:
        return self.published.rules.grid

    @property
    def unit(self) -> float:
        """What one in a round's stored sum stands for: the grid, or half of it, since coins may be odd in number."""
        return self.grid / 2 if self.wire == "messages" else self.grid

    @property
    def batches(self) -> ShuffleRules:
        """What batches must look like, in the shuffle model."""
        rules = self.published.rules.shuffle
        if rules is None:
            raise InvalidInput("trust", self.public_guarantee.trust, "shuffle", "there are no batches in other models")
        return rules

    @property
    def noise_scale(self) -> np.ndarray:
        """σ per coordinate, ``(H, D)``."""
        return self.published.rules.noise_scale

    @functools.cached_property
    def report_limit(self) -> np.ndarray:
        """The largest integer that an honest local report has in each coordinate, ``(H, D)``."""
        return np.ceil((self.contribution_bound + TAIL * self.noise_scale) / self.grid).astype(np.int64)

    @functools.cached_property
    def rules_digest(self) -> str:
        """What devices know the rules by, by which they add noise: of other noise it is another."""
        content = json.dumps(self.published.rules.to_json(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    # -- one user -----------------------------------------------------------------------------------------------------

    @property
    def formed_when_counted(self) -> bool:
        """Whether contributions are formed under the open round's reference, and not under what their users were served."""
        return self.published.rules.form.formed_under == "open"

    def contribution(self, billboard: Billboard, episode: Any, place: int | None = None) -> np.ndarray:
        """What the user of ``episode`` adds, in units of the grid: clipped and rounded, and noised in the local model.

        ``place`` is the user's in their round. Values out of range are private and are clipped: refusing them would
        show them.

        Raises:
          InvalidInput: the public form of the episode is wrong: lengths, or what kind of numbers there are. No value is
            quoted.
        """
        exact = self.exact_contribution(billboard, self.played(episode, place))
        return exact + self._draw(()) if self.public_guarantee.noised_reports else exact

    def played(self, episode: Any, place: int | None) -> Trajectory:
        """An episode with every value in range.

        Raises:
          InvalidInput: its public form is wrong.
        """
        return well_formed(self.published, episode.states, episode.actions, episode.rewards, place)

    def each_played(self, episodes: Sequence[Any], places: Sequence[int | None]) -> list[Trajectory | InvalidInput]:
        """:meth:`played` of several episodes, or why one of them is refused; no member is refused for another's form."""
        return each_well_formed(self.published, episodes, places)

    def exact_contribution(self, billboard: Billboard, played: Trajectory) -> np.ndarray:
        """What an episode adds under a billboard, without noise."""
        return self.published.steps(billboard.published, played)

    def exact_contributions(self, billboard: Billboard, played: Sequence[Trajectory]) -> np.ndarray:
        """:meth:`exact_contribution` of several episodes under one billboard, ``(N, H, D)``."""
        return self.published.steps_of_all(billboard.published, played)

    def checked_report(self, report: Any) -> np.ndarray:
        """A local report as integers, if it can be one.

        Raises:
          InvalidInput: it cannot: another shape, fractions, or farther out than any honest report.
        """
        numbers, limit = plain_array("report", report), self.report_limit
        if numbers.shape != limit.shape or not np.issubdtype(numbers.dtype, np.integer):
            kind = type(report).__name__
            raise InvalidInput("report", kind, f"whole numbers of shape {limit.shape}", "send what report() returned")
        if not ((numbers >= -limit) & (numbers <= limit)).all():
            raise InvalidInput(
                "report", "out of range", "within the model's limit", "send what the client library made"
            )
        return numbers.astype(np.int64)

    def read_billboard(self, version: int, content: bytes) -> Billboard:
        """A billboard as it was stored."""
        form, actions = self.published.rules.form.name, self.published.actions
        return Billboard.read(version, content, form=form, actions=actions, floor=self.floor)

    # -- noise --------------------------------------------------------------------------------------------------------

    def first_sum(self) -> np.ndarray:
        """What a round's sum starts with: zero, or in pan-private mode the first half of its noise."""
        return self._half()

    def closing_half(self) -> np.ndarray:
        """What a round's sum is closed with, in the transaction that seals it: the other half of its noise in pan-private
        mode, and zero elsewhere, where the noise comes with the release."""
        return self._half()

    def _half(self) -> np.ndarray:
        """A fresh half of a round's noise in pan-private mode, and zero elsewhere."""
        return self._draw(()) if self.in_halves else np.zeros(self.noise_scale.shape, np.int64)

    @property
    def in_halves(self) -> bool:
        """Whether a round's noise comes in two halves, the first before its first user and the second when it is sealed."""
        return self.pan_private and self._server_noises

    @property
    def _server_noises(self) -> bool:
        return self.wire == "trajectory"

    def _draw(self, prefix: tuple[int, ...]) -> np.ndarray:
        if self.source is None:
            raise RuntimeError("a worker's configuration has no source of noise: the planner has one")
        scale = np.broadcast_to(self.noise_scale, prefix + self.noise_scale.shape)
        noise = np.zeros(scale.shape, np.int64)
        noise[scale > 0] = self.source.draw(self._share * scale[scale > 0], grid=self.grid).integers
        return noise

    @property
    def _share(self) -> float:
        """Of the planned noise in one draw: a round's comes in two halves if the server adds it pan-privately."""
        return math.sqrt(0.5) if self.in_halves else 1.0

    # -- the account --------------------------------------------------------------------------------------------------

    def spent(self, releases: int) -> tuple[float | None, float]:
        """μ² (None where there is no δ) and ε per user after so many releases."""
        guarantee, account = self.public_guarantee, self.public_guarantee.account
        strength = account.strength(guarantee.shares, float(guarantee.exposure[releases - 1])) if releases else 0.0
        if strength not in self.epsilons:
            self.epsilons[strength] = account.epsilon_of(strength, guarantee.delta) if strength else 0.0
        return (None if account.pure else strength**2), self.epsilons[strength]
