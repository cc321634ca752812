"""What an agent promises that evaluates one policy privately, once, and improves on it: options, plan, ledger.

One release of one (ε, δ): the ledger has one line. Its noise is in proportion to a number that depends on the data
(:mod:`reticent.privacy.smooth_sensitivity`), so the plan can say only how many times that number it is, and there is no
μ: the mechanism is (ε, δ)-DP without being Gaussian-DP.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.ledger import Entry
from reticent.privacy.smooth_sensitivity import SmoothNoise, smooth_noise

MOST_WEIGHTS = 512
"""Largest H·d: all steps' weights are published as one vector, and LSL solves one system of that size."""

Regression = Literal["lsw", "lsl"]


@dataclasses.dataclass(frozen=True)
class EvaluationOptions:
    """Every option of ``lsw-improve`` and ``lsl-improve``.

    Attributes:
      trust: ``joint`` only: the server computes with raw returns.
      epsilon, delta: the promise.
      explore: share of the users who are served the uniform policy; the others the improved one.
      ridge: λ of LSL; by default the number of exploring users. Larger ridges shrink estimate and noise alike.
    """

    trust: Literal["joint"] = "joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    explore: float = 0.3
    ridge: float | None = None

    adjacency: Literal["replace"] = dataclasses.field(default="replace", init=False)
    calibration: Literal["exact"] = dataclasses.field(default="exact", init=False)


@dataclasses.dataclass(frozen=True)
class OneRelease:
    """A counter that counts to one."""

    name: str = "one release"

    def release_std(self) -> np.ndarray:
        return np.ones(1)

    def weights(self) -> None:
        """No weights."""


@dataclasses.dataclass(frozen=True)
class EvaluationCalibration:
    """The noise of a run in units of the data's smooth sensitivity."""

    epsilon_spent: float
    noise: SmoothNoise
    counter: OneRelease = OneRelease()
    trust: Literal["joint"] = "joint"
    account: None = None
    mu: None = None

    def to_rows(self, release_std_max: float) -> list[dict[str, Any]]:
        """One row; its unit is the smooth sensitivity of the data, which is not public."""
        del release_std_max
        return [
            {
                "name": "value weights, in units of their smooth sensitivity",
                "step": "all",
                "sensitivity": 1.0,
                "sigma": self.noise.multiplier,
                "release_std_max": self.noise.multiplier,
            }
        ]


@dataclasses.dataclass(frozen=True)
class EvaluationLedger:
    """The account of a run that publishes once."""

    epsilon: float
    delta: float
    episode: int
    counter: str = "one release"
    rounds: int = 1

    def spent(self, after_round: int) -> float:
        """ε at the declared δ after that many rounds."""
        return self.epsilon if after_round >= 1 else 0.0

    def entries(self, rounds: Iterable[int] | None = None) -> list[Entry]:
        """The one line."""
        del rounds
        return [Entry(1, self.episode, ("value weights",), None, self.epsilon, 0.0)]  # type: ignore[arg-type]

    def to_rows(self, rounds: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """:meth:`entries` as plain values."""
        return [{**dataclasses.asdict(entry), "what": ", ".join(entry.what)} for entry in self.entries(rounds)]


@dataclasses.dataclass(frozen=True)
class EvaluationPlan:
    """What the agent will do, fixed before the first user."""

    options: EvaluationOptions
    schedule: Schedule
    calibration: EvaluationCalibration

    @property
    def explorers(self) -> int:
        """m, the number of users whose returns are used."""
        return int(self.schedule.round_sizes[0])

    @property
    def ledger(self) -> EvaluationLedger:
        return EvaluationLedger(self.options.epsilon, self.options.delta, self.explorers)

    @property
    def promise(self) -> str:
        """The guarantee in one plain sentence."""
        chosen = self.options
        return (
            f"For every user, everything shown to all other users together is ({chosen.epsilon:g}, {chosen.delta:g})-"
            "indistinguishable from what it would be if her whole data were replaced by any other (joint differential "
            f"privacy, replace adjacency; of the first {self.explorers} users one set of value weights is published once, "
            "of the others nothing)."
        )


def plan_evaluation(dimension: int, horizon: int, episodes: int, options: EvaluationOptions) -> EvaluationPlan:
    """The plan for ``episodes`` users and ``dimension`` features per step.

    Raises:
      InvalidInput: an option is outside its domain, or there are too many weights.
    """
    weights = dimension * horizon
    if weights > MOST_WEIGHTS:
        raise InvalidInput("H·d", weights, f"at most {MOST_WEIGHTS}", "declare features of fewer dimensions")
    if not 0 < options.explore <= 1:
        raise InvalidInput("explore", options.explore, "in (0, 1]", "0.3 lets a third of the users explore")
    explorers = min(episodes, max(1, round(options.explore * episodes)))
    sizes = (explorers,) if explorers == episodes else (explorers, episodes - explorers)
    noise = smooth_noise(options.epsilon, options.delta, weights)
    schedule = Schedule(episodes, sizes, final_release=False)
    return EvaluationPlan(options, schedule, EvaluationCalibration(options.epsilon, noise))
