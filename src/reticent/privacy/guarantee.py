# SPDX-License-Identifier: Apache-2.0
"""The one object that says what an agent promises each user: what is hidden from which party, by how much, and what is not.

Every private agent carries a :class:`Guarantee`; ``reticent calibrate`` prints it, a report quotes it, the service
publishes it, and the audit holds the code to it. It is made before the first user comes, from public numbers alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reticent.errors import InvalidInput
from reticent.learning.promise import Promise
from reticent.privacy.accounting.account import GaussianAccount
from reticent.privacy.ledger import Ledger
from reticent.privacy.participation import ONCE, Participation
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import Trust
from reticent.worlds.models.provenance import Provenance

CHANGES: dict[Adjacency, str] = {
    "replace": "all of the user's data were replaced by any other",
    "zero-out": "the user's contribution were zero and their place kept",
}
"""By adjacency, what may change about one user. Zero-out is *not* the absence of a user: the place is used up all the
same."""

NOT_COVERED = (
    "the user's own actions, which depend on their own data: that is personalisation",
    "side channels: timing, memory, network",
    "what candidate models, bounds and schedules reveal, if they were made from protected users' data",
)


class NoisySum(NamedTuple):
    """One noised sum of one step (1-based; "all" if steps share one): how far a user moves it, and the noise on it.

    ``scale`` is the noise's standard deviation, or b of a Laplace law; ``largest`` that of the noisiest release.
    """

    name: str
    step: int | str
    sensitivity: float
    scale: float
    largest: float


class DeclaredGroup(NamedTuple):
    """Columns of the sums of one step (1-based) that one user moves by at most ``sensitivity``.

    In the norm that the noise is charged in: the 2-norm under Gaussian noise, the 1-norm under Laplace. ``name`` and
    ``step`` are those of its row in the table of noise. ``spread`` is the noise of each column in units of that row's
    scale, where columns differ; () is 1 for all.
    """

    name: str
    step: int
    columns: slice
    sensitivity: float
    spread: tuple[float, ...] = ()


MEANINGFUL_EPSILON = 20.0
"""An attacker who must guess which of two data sets a user has is right with probability at most e^ε/(1 + e^ε) + δ: above
20 that is wrong once in half a billion times, and the promise is said to protect no one."""

LARGEST_EPSILON = 1000.0
"""Above this a promise is refused: noise is below the rounding of what it covers, and the figures would be those of a
learner without privacy under the name of a private one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Guarantee(Promise):
    """What a private agent promises; see the module docstring.

    Attributes:
      trust: the parties that a user must trust, and with what.
      adjacency: what may change about one user.
      epsilon, delta: the promise; δ = 0 is a pure one.
      calibration: ``exact``, or ``paper`` for an author's constants.
      ledger: what will be released when, and what it will have cost.
      sums: the noise on every sum.
      groups: what one user is declared to move; the audit holds the code to it.
      late_report_ratio: by how much the noise falls short if reports may come late or never; 1 is not at all.
      participation: how often and when a user may contribute; the promise is about all of it together.
      also_seen: what the adversary sees besides, as a clause of the sentence; nothing if nothing.
      remark: what else must be said in the sentence, such as how often data are used.
      reliance: the parties that the promise relies on besides mathematics; a sentence, or nothing.
      personal: where a user's actions depend on the user's own past, what they tell to which party; a sentence, or nothing.
      not_covered: what is not promised.
      settings: the agent's options as they were resolved.
      origin: where candidate models come from, as far as it is stated: what is published before the first user comes.
    """

    trust: Trust
    adjacency: Adjacency
    epsilon: float
    delta: float
    ledger: Ledger
    sums: tuple[NoisySum, ...]
    groups: tuple[DeclaredGroup, ...] = ()
    calibration: str = "exact"
    late_report_ratio: float = 1.0
    participation: Participation = ONCE
    also_seen: str = ""
    remark: str = ""
    reliance: str = ""
    personal: str = ""
    not_covered: tuple[str, ...] = NOT_COVERED
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    origin: Provenance | None = None

    @property
    def spent(self) -> float:
        """The ε that the noise really gives at the promised δ, after the last release."""
        return self.ledger.spent()

    @property
    def pure(self) -> bool:
        """Whether there is no δ."""
        return self.ledger.account.pure

    @property
    def mu(self) -> float | None:
        """The joint μ of everything released; None where there is no δ."""
        return None if self.pure else self.ledger.strength(self.ledger.rounds)

    @property
    def promised_strength(self) -> float:
        """The largest strength that (ε, δ) allows a mechanism of the kind that neighbours are measured by: μ, or ε."""
        return self.ledger.account.strength_of(self.epsilon, self.delta)

    @property
    def contributions(self) -> int:
        """How often a user may contribute."""
        return self.participation.contributions

    @property
    def releases(self) -> int:
        return self.ledger.rounds

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        law = "" if self.ledger.account.law == "Gaussian" else f", {self.ledger.account.law} noise"
        remark = f"; {self.remark}" if self.remark else ""
        return (
            f"For every user{self.participation.clause}, {self.trust.exposed}{self.also_seen} is "
            f"({self.epsilon:g}, {self.delta:g})-indistinguishable from what it would be if {CHANGES[self.adjacency]} "
            f"({self.trust.name} differential privacy, {self.adjacency} adjacency{law}; really spent: "
            f"epsilon = {self.spent:.4g} at the same delta{remark}).{self.reliance}{self.trust.silence}{self.personal}"
            f"{self._origin()}{self._strength()}"
        )

    def _strength(self) -> str:
        """What a promise is worth that protects no one; a sentence with a leading space."""
        if self.epsilon <= MEANINGFUL_EPSILON:
            return ""
        return (
            f" An ε of {self.epsilon:g} protects no one: an attacker's best guess between two possible users is right."
        )

    def _origin(self) -> str:
        """Where candidates come from, and what those have spent who are in both; a sentence with a leading space."""
        if self.origin is None:
            return ""
        said = self.origin.sentence()
        said = f" {said[0].upper()}{said[1:]}"
        if self.origin.epsilon is None or self.origin.delta is None:
            return f"{said}."
        both = f"({self.epsilon + self.origin.epsilon:g}, {self.delta + self.origin.delta:g})"
        return f"{said}: to those who are in both, {both} is promised."

    def for_contributions(self, epsilon: float, factor: float, *, contributions: int, also_seen: str = "") -> Guarantee:
        """The promise of (``epsilon``, δ) to users who are charged ``factor`` times what this one charges.

        ``contributions`` of theirs may be in one round; 1 leaves the participation as it is.

        Raises:
          InvalidInput: the noise does not keep that promise.
        """
        shares = tuple(
            dataclasses.replace(share, sensitivity=factor * share.sensitivity) for share in self.ledger.shares
        )
        account = self.ledger.account
        if isinstance(account, GaussianAccount):  # as many contributions, in two halves each where there are halves
            account = account.charged(math.ceil(factor**2 - 1e-9))
        ledger = dataclasses.replace(self.ledger, epsilon=epsilon, shares=shares, account=account)
        settings = {**self.settings, "epsilon": epsilon}
        often = self.participation if contributions == 1 else Participation(contributions, contributions)
        return dataclasses.replace(
            self, epsilon=epsilon, ledger=ledger, participation=often, also_seen=also_seen, settings=settings
        )

    def to_dict(self) -> dict[str, Any]:
        """The promise as plain values, for ``--json``."""
        return {
            "trust": self.trust.name,
            "adjacency": self.adjacency,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_spent": self.spent,
            "mu": self.mu,
            "counter": self.ledger.counter,
            "calibration": self.calibration,
            "releases": self.releases,
            "sentence": self.sentence(),
            "not_covered": list(self.not_covered),
            "origin": None if self.origin is None else self.origin.to_dict(),
        }


def noisy_sums(shares: Iterable[Any], multiplier: float) -> tuple[NoisySum, ...]:
    """The table of noise from a ledger's shares; ``multiplier`` is the largest release's noise per unit of scale."""
    return tuple(
        NoisySum(share.name, share.step, share.sensitivity, share.sigma, share.sigma * multiplier) for share in shares
    )


def guarantee_of(agent: Any) -> Guarantee | None:
    """What an agent promises its users; None for one that promises nothing."""
    promise = agent.promise
    return promise if isinstance(promise, Guarantee) else None


def check_promise(epsilon: float, delta: float) -> None:
    """Refuse a promise that is none."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput(
            "epsilon", epsilon, "a finite number above 0", "1 is a common choice; smaller is more private"
        )
    if epsilon > LARGEST_EPSILON:
        raise InvalidInput(
            "epsilon",
            f"{epsilon:g}",
            f"at most {LARGEST_EPSILON:g}",
            "it would promise nothing: run the learner without privacy",
        )
    if not 0 < delta < 1:
        raise InvalidInput("delta", delta, "in (0, 1)", "use less than one over the number of users, such as 1e-5")
