# SPDX-License-Identifier: Apache-2.0
"""What an agent promises that evaluates one policy privately, once, and improves on it: options, plan, ledger.

One release of one (ε, δ): the ledger has one line. Its noise is in proportion to a number that depends on the data
(:mod:`reticent.agents.evaluation.smooth_sensitivity`), so the plan can say only how many times that number it is, and
there is no μ: the mechanism is (ε, δ)-DP without being Gaussian-DP.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from reticent.agents.evaluation.smooth_sensitivity import SmoothNoise, smooth_noise
from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.accounting.account import Cost
from reticent.privacy.guarantee import Guarantee, NoisySum
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.trust import JOINT

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


@dataclasses.dataclass(frozen=True)
class SmoothAccount:
    """One release of one (ε, δ), in proportion to a smooth bound on its sensitivity: spent at once, or not at all."""

    epsilon: float
    law: str = "smooth"
    pure: bool = True
    excess: float = 1.0

    def strength(self, costs: Sequence[Cost], exposure: float) -> float:
        del costs
        return self.epsilon if exposure > 0 else 0.0

    def epsilon_of(self, strength: float, delta: float) -> float:
        del delta
        return strength

    def strength_of(self, epsilon: float, delta: float) -> float:
        del delta
        return epsilon


@dataclasses.dataclass(frozen=True)
class EvaluationPlan:
    """What the agent will do, fixed before the first user; ``noise`` is in units of the data's smooth sensitivity."""

    options: EvaluationOptions
    schedule: Schedule
    noise: SmoothNoise

    @property
    def explorers(self) -> int:
        """m, the number of users whose returns are used."""
        return int(self.schedule.round_sizes[0])

    @property
    def guarantee(self) -> Guarantee:
        """What the agent promises. The unit of its one row of noise is the smooth sensitivity, which is not public."""
        options, multiplier = self.options, self.noise.multiplier
        share = CounterShare("value weights, in units of their smooth sensitivity", 1, 1.0, multiplier)
        return Guarantee(
            trust=JOINT,
            adjacency="replace",
            epsilon=options.epsilon,
            delta=options.delta,
            ledger=Ledger.of(
                [share], "one release", [1.0], [self.explorers],
                epsilon=options.epsilon, delta=options.delta, account=SmoothAccount(options.epsilon),
            ),
            sums=(NoisySum(share.name, "all", 1.0, multiplier, multiplier),),
            remark=f"of the first {self.explorers} users one set of value weights is published once, of the others nothing",
        )  # fmt: skip


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
    return EvaluationPlan(options, schedule, noise)
