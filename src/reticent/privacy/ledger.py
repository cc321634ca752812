r"""What was released when, and what it has cost so far.

After round t the most exposed user has lost what one Gaussian mechanism of

.. math:: \mu^2(t)=\texttt{exposure}(t)\cdot\sum_i(\Delta_i/\sigma_i)^2

costs, where the sum runs over the counters of all steps and ``exposure`` is the counter's
:math:`\max_i\|C_{1..t}\,e_i\|^2`. The ledger turns that into ε at the declared δ with the exact accountant.

Formal guarantee. Every number here is a function of the plan alone: adjacency, budget, sensitivities, noise scales, the
counter's strategy matrix and the public schedule of rounds. None depends on what users did, since neither the noise nor
the times of release do. A ledger can therefore be printed before the first user comes, and showing it costs nothing.
Cost is not additive in ε: what is ``remaining`` is the distance to the target, not a budget for something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidInput, UnknownName
from reticent.privacy.accountant import Account, epsilon_of, mu_of
from reticent.privacy.counters.counter import Counter
from reticent.privacy.sensitivity import Adjacency

__all__ = ["CounterShare", "Entry", "Ledger", "Trust"]

Trust = Literal["joint", "local", "shuffle"]


@dataclasses.dataclass(frozen=True)
class CounterShare:
    """One counter of one step: what it sums, how far a user moves one item, and the noise on it."""

    name: str
    step: int
    sensitivity: float
    sigma: float

    def __post_init__(self) -> None:
        remedy = "take it from the calibration"
        if not (np.isfinite(self.sensitivity) and self.sensitivity >= 0.0):
            raise InvalidInput(f"sensitivity of {self.name!r}", self.sensitivity, "finite and at least 0", remedy)
        if not (np.isfinite(self.sigma) and self.sigma > 0.0):
            raise InvalidInput(f"sigma of {self.name!r}", self.sigma, "finite and greater than 0", remedy)

    @property
    def mu_squared(self) -> float:
        return (self.sensitivity / self.sigma) ** 2


@dataclasses.dataclass(frozen=True)
class Entry:
    """The state of the budget after one round's release; ``what`` names the sums released with it."""

    round: int
    episode: int
    what: tuple[str, ...]
    mu_squared: float
    epsilon: float
    remaining: float


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Ledger:
    """The privacy account of one run; build it with :meth:`of`.

    Attributes:
      adjacency: what neighbouring users means.
      trust: who sees raw data.
      epsilon: the promised ε.
      delta: the promised δ, at which every ε of the ledger is stated.
      shares: one row per counter and step.
      counter: the registered name of the counter, for display.
      exposure: μ² after each round per unit of Σ(Δ/σ)², nondecreasing, shape ``(rounds,)``.
      round_ends: number of episodes finished at each round's release, increasing, shape ``(rounds,)``.
      account: how noise that is not Gaussian is accounted for (the shuffle model); None is the Gaussian accountant.
    """

    adjacency: Adjacency
    trust: Trust
    epsilon: float
    delta: float
    shares: tuple[CounterShare, ...]
    counter: str
    exposure: NDArray[np.float64]
    round_ends: NDArray[np.int64]
    account: Account | None = None

    @classmethod
    def of(
        cls,
        counter: Counter,
        shares: Sequence[CounterShare],
        round_ends: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        trust: Trust,
        account: Account | None = None,
    ) -> Ledger:
        """The ledger of a run that releases ``shares`` through one ``counter`` each, after the given episodes.

        Raises:
          InvalidInput: the schedule does not fit the counter, or the plan would cost more than it promises.
        """
        exposure = np.asarray(counter.exposure(), dtype=np.float64)
        ends = np.asarray(round_ends, dtype=np.int64)
        return cls(adjacency, trust, epsilon, delta, tuple(shares), counter.name, exposure, ends, account)

    def __post_init__(self) -> None:
        for kind, value, known in (("adjacency", self.adjacency, Adjacency), ("trust model", self.trust, Trust)):
            if value not in get_args(known):
                raise UnknownName(kind, value, list(get_args(known)))
        if not self.shares:
            raise InvalidInput("shares", "empty", "at least one counter", "a run that releases nothing has no ledger")
        rounds = self.round_ends.shape
        if self.exposure.shape != rounds or len(rounds) != 1:
            bound = f"one number per round of the counter, {self.exposure.shape}"
            raise InvalidInput("round_ends.shape", rounds, bound, "give the episode after which each round is released")
        if (np.diff(self.round_ends, prepend=0) <= 0).any():
            raise InvalidInput("round_ends", self.round_ends, "increasing from 1 on", "each user is in one round only")
        allowed = mu_of if self.account is None else self.account.mu_of
        promised = allowed(self.epsilon, self.delta) ** 2
        # One part in a million absorbs the rounding of a calibration; ε moves by as little.
        if self.mu_squared(self.rounds) > promised * (1.0 + 1e-6):
            bound = f"at most {promised:.6g}, which is epsilon={self.epsilon:g} at delta={self.delta:g}"
            raise InvalidInput("mu² of the plan", self.mu_squared(self.rounds), bound, "calibrate sigma to the target")

    @property
    def rounds(self) -> int:
        return int(self.round_ends.size)

    def mu_squared(self, after_round: int) -> float:
        """μ² after the release of round ``after_round`` (1-based; 0 is before the first)."""
        if not 0 <= after_round <= self.rounds:
            raise InvalidInput("after_round", after_round, f"between 0 and {self.rounds}", "ask for a planned round")
        if after_round == 0:
            return 0.0
        return float(self.exposure[after_round - 1]) * sum(share.mu_squared for share in self.shares)

    def spent(self, after_round: int) -> float:
        """ε at the declared δ after the release of round ``after_round``."""
        cost = epsilon_of if self.account is None else self.account.epsilon_of
        return cost(float(np.sqrt(self.mu_squared(after_round))), self.delta)

    def entries(self, rounds: Iterable[int] | None = None) -> list[Entry]:
        """The state after each of ``rounds``, by default all; equal exposures are accounted for once."""
        what = tuple(dict.fromkeys(share.name for share in self.shares))
        known: dict[float, float] = {}
        rows = []
        for index in range(1, self.rounds + 1) if rounds is None else rounds:
            mu_squared = self.mu_squared(index)
            if mu_squared not in known:
                known[mu_squared] = self.spent(index)
            episode = int(self.round_ends[index - 1]) if index else 0
            spent = known[mu_squared]
            rows.append(Entry(index, episode, what, mu_squared, spent, max(0.0, self.epsilon - spent)))
        return rows

    def to_rows(self, rounds: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """:meth:`entries` as plain values, for tables and JSON."""
        return [{**dataclasses.asdict(entry), "what": ", ".join(entry.what)} for entry in self.entries(rounds)]
