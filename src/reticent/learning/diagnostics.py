# SPDX-License-Identifier: Apache-2.0
"""What released numbers say about themselves, in the words of a dashboard. Every family fills in what it can.

Formal guarantee. These figures are computed from releases, published plans and numbers fixed before the first user, and
nothing else: they are post-processing, which spends nothing.
"""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Signal:
    """Released sums relative to their noise, per step (one entry if steps are added up) and together.

    About 1 is noise alone. NaN where nothing is released.
    """

    transition: np.ndarray
    reward: np.ndarray
    transition_together: float
    reward_together: float


@dataclasses.dataclass(frozen=True)
class StartValue:
    """What a new user may expect of the published policy.

    Attributes:
      estimate: by the agent's estimate. cautious, optimistic: the ends of its own doubt.
      proven_low, proven_high: the ends of an interval that a theorem gives; None without one.
      deviation: posterior standard deviation of the estimate; None where there is no posterior.
      explorers: the estimate for users who explore; None where no user does.
    """

    cautious: float
    estimate: float
    optimistic: float
    proven_low: float | None = None
    proven_high: float | None = None
    deviation: float | None = None
    explorers: float | None = None


@dataclasses.dataclass(frozen=True)
class ModelFit:
    """Whether the candidates explain what users do, by how well releases were foretold.

    Attributes:
      statistic, degrees: the misfit of all foretold releases: χ² with so many degrees of freedom if the candidates and the
        learner's Gaussian picture of its releases are right.
      probability: of a misfit as large, if they are.
    """

    statistic: float
    degrees: int
    probability: float


@dataclasses.dataclass(frozen=True)
class LearnedResidual:
    """How wrong the candidates are by what users do, and what is learned beside them.

    Attributes:
      scale, reward_scale: τ̂ of transitions and of rewards: the typical distance of the truth from the blend.
      share: of the squared length of a user's vector that is spent on what the candidates leave unexplained.
      sentence: the same in words.
    """

    scale: float
    reward_scale: float
    share: float
    sentence: str


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """What a release says about itself; ``signal`` is None before the first one.

    Attributes:
      pooled: whether steps are added up. bonus_scale: of the doubt, in units of the family's own.
      confidence: with which the proven interval holds; None without one.
      fit: whether the candidates explain what users do; None where it is not known (yet).
      residual: how wrong the candidates are, where that is learned; else None.
    """

    signal: Signal | None
    value: StartValue
    pooled: bool
    bonus_scale: float
    confidence: float | None = None
    fit: ModelFit | None = None
    residual: LearnedResidual | None = None
