# SPDX-License-Identifier: Apache-2.0
r"""LDP-UCRL-VTR (Liao, He and Gu 2021): UCRL-VTR on reports that every user noises themselves, with that paper's constants.

The learner is Private-LinOpt-VI in the local model, planning after every user. What is theirs are three numbers:

* **noise.** Every entry of a user's 2H statistics gets :math:`\sigma=4H^3\sqrt{2\ln(2.5H/\delta)}/\varepsilon`: the
  classical Gaussian mechanism :math:`\Delta\sqrt{2\ln(1.25/\delta_0)}/\varepsilon_0` with Δ = 2H², ε₀ = ε/2H and δ₀ =
  δ/2H, that is basic composition over 2H releases (and ε₀ ≤ 1, where that mechanism is proven).
* **shift.** After k users :math:`2\sqrt{k+1}\,\sigma(\sqrt{4d}+2\ln(6H/\alpha))` on the diagonal, besides the
  identity.
* the paper knows the rewards. Here they are learned like everything else, by the same recipe: 4H releases instead of
  2H, and Δ = 2 for reward features and rewards bounded by 1. ``rewards_known=True`` in :func:`noise_scale` is the
  paper's number.

Their H² assumes :math:`\|\phi_V\|\le H`; a model that declares :math:`\|\phi_V\|\le B\|V\|_\infty` has 2B²H² and
2BH².

**What these constants really promise.** All entries together are one Gaussian mechanism. Its exact ε at the stated δ,
under the stated adjacency, is in the plan (``epsilon_spent``) and in the promise: it is far below the nominal one,
basic composition being what it is, and never above it (checked when the agent is made).
``private-linopt-vi:trust=local`` spends the difference.

The confidence radius is that of Lemma 3.1 under this noise and shift. The authors' experiments use a radius with a
hand-set constant; here that is ``bonus_scale``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from reticent.agents.linear_mixture.calibration import Calibration, Noise, Regression, each_step
from reticent.agents.linear_mixture.certificate import Regularization
from reticent.agents.linear_mixture.frame import PAPER_FRAME
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivacyPlan, PrivateOptions, make_regressions
from reticent.agents.linear_mixture.private_linopt import assemble
from reticent.agents.linear_mixture.radius import radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.spectrum import chi_quantile
from reticent.agents.registry import AGENTS
from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.privacy.counters import RunningSum
from reticent.privacy.sensitivity import Adjacency, gram_sensitivity, moment_sensitivity
from reticent.privacy.trust import LOCAL
from reticent.worlds import Model
from reticent.worlds.models.model import Sizes

NAME = "ldp-ucrl-vtr"


@dataclasses.dataclass(frozen=True)
class LiaoPlan(PrivacyPlan):
    """A privacy plan with the constants of Liao, He and Gu (2021)."""

    remark = "the noise is that of Liao, He and Gu (2021), by basic composition"


@AGENTS.register(NAME)
def ldp_ucrl_vtr(
    model: Model,
    episodes: int,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: Adjacency = "replace",
    bonus_scale: float = 0.1,
    alpha: float = 0.05,
) -> LinOptLearner:
    """LDP-UCRL-VTR (Liao, He and Gu 2021): value iteration under local privacy, with that paper's noise and shift."""
    given = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, "bonus_scale": bonus_scale, "alpha": alpha}
    return assemble(model, episodes, "value-iteration", plan_liao(model, episodes, **given))


def plan_liao(sizes: Sizes, episodes: int, **given: Any) -> LiaoPlan:
    """The plan of an agent with these options."""
    options = PrivateOptions(trust="local", calibration="paper", **given).resolve(sizes, episodes, "value-iteration")
    if options.epsilon > 4 * sizes.horizon:
        raise InvalidInput(
            f"{NAME}: epsilon", options.epsilon, f"at most 4H = {4 * sizes.horizon}",
            "the classical Gaussian mechanism is proven for at most 1 per release",
        )  # fmt: skip
    schedule = Schedule(episodes, None, final_release=False)
    regressions = make_regressions(sizes, PAPER_FRAME)
    transition, reward = (_noise(one, options) for one in regressions)
    calibration = Calibration(
        "paper", LOCAL, options.adjacency, options.epsilon, options.delta, RunningSum(schedule.releases), 1.0,
        transition, reward, packed=False, grid=0.0,
    )  # fmt: skip
    regularization = _regularize(calibration, sizes, schedule, options.alpha)
    confidence = radii(sizes, PAPER_FRAME, regularization.certificate, episodes, options.alpha)
    return LiaoPlan(options, schedule, PAPER_FRAME, calibration, regularization, confidence, sizes.d1, sizes.d2)


def noise_scale(
    sensitivity: np.ndarray | float, *, horizon: int, epsilon: float, delta: float, rewards_known: bool = False
) -> np.ndarray:
    r"""σ for a sum that a user moves by ``sensitivity``: one of 2H releases, or of 4H if rewards are learned too.

    >>> round(float(noise_scale(2 * 6.0**2, horizon=6, epsilon=1.0, delta=0.01, rewards_known=True)) / 6**3, 3)
    15.298
    """
    releases = (2 if rewards_known else 4) * horizon
    return np.asarray(sensitivity) * releases / epsilon * math.sqrt(2 * math.log(1.25 * releases / delta))


def _noise(one: Regression, options: PrivateOptions) -> Noise:
    """The paper's σ, from its sensitivities 2L² and 2LV, beside the exact sensitivities that the ledger counts with."""
    horizon, moves = len(one.feature), (2 * one.feature**2, 2 * one.feature * one.target)
    gram_sigma, moment_sigma = (
        noise_scale(move, horizon=horizon, epsilon=options.epsilon, delta=options.delta) for move in moves
    )
    moment = each_step(moment_sensitivity, one.feature, one.target, adjacency=options.adjacency)
    return Noise(
        gram_sensitivity=each_step(gram_sensitivity, one.feature, adjacency=options.adjacency),
        gram_sigma=gram_sigma,
        moment_sensitivity=moment,
        moment_sensitivity_alone=moment,
        moment_sigma=moment_sigma,
        late_report_ratio=np.ones(horizon),  # replacing costs √2 times zeroing or more, matrices and vectors apart
    )


def _regularize(calibration: Calibration, sizes: Sizes, schedule: Schedule, alpha: float) -> Regularization:
    """The paper's shift, and the constants of Assumption 2 that it has: half of it covers the noise's operator norm."""
    users = np.arange(schedule.releases + 1)[:, None]
    probability = alpha / (4 * schedule.releases * sizes.horizon)

    def one(noise: Noise, dimension: int) -> tuple[np.ndarray, ...]:
        spread = math.sqrt(4 * dimension) + 2 * math.log(6 * sizes.horizon / alpha)
        operator = np.sqrt(users + 1) * noise.gram_sigma * spread
        vector = np.sqrt(users + 1) * noise.moment_sigma * chi_quantile(dimension, probability)
        low = 1 + operator
        return 1 + 2 * operator, low, low, 1 + 3 * operator, vector / np.sqrt(low)

    shift_p, floor_p, *constants_p = one(calibration.transition, sizes.d1)
    shift_r, floor_r, *constants_r = one(calibration.reward, sizes.d2)
    return Regularization(shift_p, shift_r, floor_p, floor_r, Certificate(*constants_p, *constants_r))
