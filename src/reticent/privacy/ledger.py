# SPDX-License-Identifier: Apache-2.0
r"""What was released when, and what it has cost so far.

After round t the most exposed user has lost what one mechanism of the *strength* that the account gives costs; under
Gaussian noise that is

.. math:: \mu^2(t)=\texttt{exposure}(t)\cdot\sum_i(\Delta_i/\sigma_i)^2

where the sum runs over the counters of all steps and ``exposure`` is the counter's
:math:`\max_i\|C_{1..t}\,e_i\|^2`. The ledger turns that into ε at the declared δ with the account of the noise's law.

Formal guarantee. Every number here is a function of the plan alone: adjacency, budget, sensitivities, noise scales, the
counter's strategy matrix and the public schedule of rounds. None depends on what users did, since neither the noise nor
the times of release do. A ledger can therefore be printed before the first user comes, and showing it costs nothing.
Cost is not additive in ε: what is ``remaining`` is the distance to the target, not a budget for something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, Account

__all__ = ["CounterShare", "Entry", "Ledger"]


@dataclasses.dataclass(frozen=True)
class CounterShare:
    """One counter of one step: what it sums, how far a user moves one item, and the scale of the noise on it.

    ``sigma`` is the noise's standard deviation, or b of a Laplace law, whose sensitivities are 1-norms.
    """

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


@dataclasses.dataclass(frozen=True)
class Entry:
    """The state of the budget after one round's release; ``what`` names the sums released with it.

    ``mu_squared`` is None where there is no δ, and hence no Gaussian mechanism to have one.
    """

    round: int
    episode: int
    what: tuple[str, ...]
    mu_squared: float | None
    epsilon: float
    remaining: float


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Ledger:
    """The privacy account of one run.

    Attributes:
      epsilon: the promised ε.
      delta: the promised δ, at which every ε of the ledger is stated.
      shares: one row per counter and step.
      counter: how sums are released, for display.
      exposure: how often the most exposed item is charged after each round, nondecreasing, shape ``(rounds,)``.
      round_ends: number of episodes finished at each round's release, increasing, shape ``(rounds,)``.
      account: how the noise's law is accounted for.

    Raises:
      InvalidInput: the schedule does not fit the counter, or the plan would cost more than it promises.
    """

    epsilon: float
    delta: float
    shares: tuple[CounterShare, ...]
    counter: str
    exposure: NDArray[np.float64]
    round_ends: NDArray[np.int64]
    account: Account = GAUSSIAN

    @classmethod
    def of(
        cls,
        shares: Iterable[CounterShare],
        counter: str,
        exposure: ArrayLike,
        round_ends: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        account: Account = GAUSSIAN,
    ) -> Ledger:
        """The ledger of a run that releases ``shares`` after the given numbers of episodes."""
        charged, ends = np.asarray(exposure, np.float64), np.asarray(round_ends, np.int64)
        return cls(epsilon, delta, tuple(shares), counter, charged, ends, account)

    def __post_init__(self) -> None:
        if not self.shares:
            raise InvalidInput("shares", "empty", "at least one counter", "a run that releases nothing has no ledger")
        rounds = self.round_ends.shape
        if self.exposure.shape != rounds or len(rounds) != 1:
            bound = f"one number per round of the counter, {self.exposure.shape}"
            raise InvalidInput("round_ends.shape", rounds, bound, "give the episode after which each round is released")
        if (np.diff(self.round_ends, prepend=0) <= 0).any():
            raise InvalidInput("round_ends", self.round_ends, "increasing from 1 on", "each user is in one round only")
        promised, needed = self.account.strength_of(self.epsilon, self.delta), self.strength(self.rounds)
        # Half of one part in a million absorbs the rounding of a calibration; ε moves by as little.
        if needed > promised * (1.0 + 5e-7):
            bound = f"at most {promised:.6g}, which is epsilon={self.epsilon:g} at delta={self.delta:g}"
            raise InvalidInput("strength of the plan", needed, bound, "calibrate sigma to the target")

    @property
    def rounds(self) -> int:
        return int(self.round_ends.size)

    def strength(self, after_round: int) -> float:
        """The account's strength (μ; ε where there is no δ) after round ``after_round`` (1-based; 0 is before the
        first)."""
        if not 0 <= after_round <= self.rounds:
            raise InvalidInput("after_round", after_round, f"between 0 and {self.rounds}", "ask for a planned round")
        if after_round == 0:
            return 0.0
        return self.account.strength(self.shares, float(self.exposure[after_round - 1]))

    def spent(self, after_round: int | None = None) -> float:
        """ε at the declared δ after the release of round ``after_round``, by default the last."""
        return self.account.epsilon_of(self.strength(self.rounds if after_round is None else after_round), self.delta)

    def entries(self, rounds: Iterable[int] | None = None) -> list[Entry]:
        """The state after each of ``rounds``, by default all; equal strengths are accounted for once."""
        what = tuple(dict.fromkeys(share.name for share in self.shares))
        known: dict[float, float] = {}
        rows = []
        for index in range(1, self.rounds + 1) if rounds is None else rounds:
            strength = self.strength(index)
            if strength not in known:
                known[strength] = self.spent(index)
            episode, spent = int(self.round_ends[index - 1]) if index else 0, known[strength]
            mu_squared = None if self.account.pure else strength**2
            rows.append(Entry(index, episode, what, mu_squared, spent, max(0.0, self.epsilon - spent)))
        return rows

    def to_rows(self, rounds: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """:meth:`entries` as plain values, for tables and JSON."""
        return [{**dataclasses.asdict(entry), "what": ", ".join(entry.what)} for entry in self.entries(rounds)]
