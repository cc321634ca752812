# SPDX-License-Identifier: Apache-2.0
"""What one agent did over many drawn truths: regret, gap and how long it took, as distributions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from reticent.experiments.reach import users_until
from reticent.privacy.trust import TRUSTS
from reticent.simulation.simulate import Curves

BAND = (0.05, 0.95)
"""Quantiles between which nine in ten truths lie."""


class Spread(NamedTuple):
    """A number over truths: its mean, median, 90 % quantile, and the band that holds nine in ten of them."""

    mean: float
    median: float
    high: float
    low_end: float
    high_end: float

    @classmethod
    def of(cls, samples: np.ndarray) -> Spread:
        """Of samples ``(n,)``; infinite ones are above all others, and make the mean infinite."""
        # Of order statistics and not interpolated, since samples may be infinite.
        median, high, low_end, high_end = np.quantile(samples, (0.5, 0.9, *BAND), method="inverted_cdf")
        return cls(float(samples.mean()), float(median), float(high), float(low_end), float(high_end))

    def holds(self, value: float) -> bool:
        """Whether the band holds a value."""
        return self.low_end <= value <= self.high_end

    def to_dict(self) -> dict[str, float | None]:
        """For a JSON document, which knows no infinity: None."""
        return {name: value if math.isfinite(value) else None for name, value in self._asdict().items()}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One agent over all truths.

    Attributes:
      agent: its full name with options. trust, epsilon: of its promise; ``none`` and None without one.
      sentence: the promise in words; None without one.
      episodes: points of the curves, ``(p,)``.
      regret: cumulative, ``(truths, p)``. gap: of the plans in force, as a share of what acting at random loses,
        ``(truths, p)``.
      final_gap: the same over the last 5 % of the users, ``(truths,)``.
      seconds: of simulation; ``compile_seconds`` before.
    """

    agent: str
    trust: str
    epsilon: float | None
    sentence: str | None
    episodes: np.ndarray
    regret: np.ndarray
    gap: np.ndarray
    final_gap: np.ndarray
    seconds: float
    compile_seconds: float

    @classmethod
    def measured(
        cls,
        agent: str,
        trust: str,
        epsilon: float | None,
        sentence: str | None,
        curves: Curves,
        optimal: np.ndarray,
        scale: np.ndarray,
    ) -> Outcome:
        """From curves whose rows are truths of these optimal values; ``scale`` is what acting at random loses there."""
        # Where acting at random is as good as any policy there is nothing to lose.
        share = np.where(scale > 1e-9, 1 / np.maximum(scale, 1e-9), 0.0)
        return cls(
            agent,
            trust,
            epsilon,
            sentence,
            curves.episodes,
            curves.regret,
            (optimal[:, None] - curves.value) * share[:, None],
            curves.tail_regret * share,
            curves.seconds,
            curves.compile_seconds,
        )

    @property
    def needs_shuffler(self) -> bool:
        """Whether users' messages must be mixed by a shuffler, which a service alone does not have."""
        return self.trust in TRUSTS and TRUSTS[self.trust].wire == "messages"

    @property
    def users(self) -> int:
        """K."""
        return int(self.episodes[-1])

    @property
    def total_regret(self) -> Spread:
        """Regret of all users together."""
        return Spread.of(self.regret[:, -1])

    @property
    def end(self) -> Spread:
        """The final gap."""
        return Spread.of(self.final_gap)

    def users_until(self, target: float) -> np.ndarray:
        """After how many users the gap stays at or below ``target``, ``(truths,)``; infinite where it never does."""
        return users_until(self.episodes, self.gap, target)

    def reached(self, target: float) -> Spread:
        """Users until the gap stays below ``target``; its 90 % quantile is the K that nine in ten truths need."""
        return Spread.of(self.users_until(target))

    def row(self, target: float) -> dict[str, Any]:
        """The numbers of a table's row."""
        return {
            "agent": self.agent,
            "trust": self.trust,
            "epsilon": self.epsilon,
            "regret": self.total_regret.to_dict(),
            "final_gap": self.end.to_dict(),
            "users_until_target": self.reached(target).to_dict(),
            "share_of_truths_at_target": float((self.final_gap <= target).mean()),
            "sentence": self.sentence,
        }
