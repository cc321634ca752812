# SPDX-License-Identifier: Apache-2.0
r"""The constants λ_min, λ_max, ν of Assumption 2 for Gaussian counters, in the joint and the local model.

After t rounds the released Gram is :math:`G+N`, where N has the packed noise of standard deviation
:math:`s_t=\sigma\cdot\texttt{release\_std}(t)`, and the moment carries :math:`z\sim N(0,\tilde s_t^2I)`. With
probability at least 1−α, for all T releases, H steps and both regressions at once (a union bound over 4TH events),

.. math:: \|N\|\le\Sigma_t:=s_t\,q_d,\qquad \|z\|\le\tilde s_t\,c_d,

where q and c are the exact quantiles at level α/(4TH) (:mod:`reticent.agents.linear_mixture.spectrum`). Shifting by
:math:`(1+\kappa)\Sigma_t+\lambda_0` gives

.. math:: \lambda_{\min}=\kappa\Sigma_t+\lambda_0,\quad\lambda_{\max}=(2+\kappa)\Sigma_t+\lambda_0,\quad
          \nu=\tilde s_tc_d/\sqrt{\lambda_{\min}} .

The paper has κ = 1, λ_0 = 0, its own lemma's quantiles at level α/(4KH) and the worst case over t. In the local model
:math:`s_t=\sigma\sqrt{n_t}` for n_t users so far, since every report carries its own noise.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from reticent.agents.linear_mixture.calibration import Calibration, Noise
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.agents.linear_mixture.spectrum import chi_quantile, lemma_chi, lemma_operator_norm, operator_norm_quantile

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Regularization:
    """Shifts, eigenvalue floors and the certificate that they satisfy; each array is ``(rounds + 1, H)``."""

    transition_shift: Floats
    reward_shift: Floats
    transition_floor: Floats
    reward_floor: Floats
    certificate: Certificate


def release_multipliers(calibration: Calibration, round_ends: NDArray[np.int64]) -> Floats:
    """Noise std of the release after t = 0, 1, …, T rounds, per unit of σ; row 0 (no release yet) repeats row 1."""
    std = calibration.trust.release_std(calibration.counter, round_ends)
    # Shuffled users who all flip their coins make more noise than those that are counted on.
    excess = calibration.account.excess
    return np.asarray(excess * np.concatenate([std[:1], std]))


def regularize(
    calibration: Calibration,
    round_ends: NDArray[np.int64],
    *,
    d1: int,
    d2: int,
    alpha: float,
    base: float = 1.0,
    shift_scale: float = 1.0,
    pooled: bool = False,
) -> Regularization:
    """Shift by the noise that is really there after each round (``calibration="exact"``).

    ``shift_scale`` multiplies the theory's shift 2Σ_t; below 1 the certificate no longer holds with probability 1−α and
    eigenvalues are floored instead. ``base`` is λ_0.
    """
    multipliers = release_multipliers(calibration, round_ends)[:, None]
    horizon = len(calibration.reward.gram_sigma)
    probability = alpha / (4 * len(round_ends) * horizon)

    def together(sigma: Floats) -> Floats:
        """Noise of the sum over steps, at every step, where steps are pooled."""
        return np.full_like(sigma, np.sqrt((sigma**2).sum())) if pooled else sigma

    def one(noise: Noise, dimension: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        operator = multipliers * together(noise.gram_sigma) * operator_norm_quantile(dimension, probability)
        vector = multipliers * together(noise.moment_sigma) * chi_quantile(dimension, probability)
        low, high = operator + base, 3 * operator + base
        return shift_scale * 2 * operator + base, shift_scale * operator + base, low, high, vector / np.sqrt(low)

    shift_p, floor_p, *constants_p = one(calibration.transition, d1)
    shift_r, floor_r, *constants_r = one(calibration.reward, d2)
    return Regularization(shift_p, shift_r, floor_p, floor_r, Certificate(*constants_p, *constants_r))


def regularize_paper(calibration: Calibration, *, episodes: int, d1: int, d2: int, alpha: float) -> Regularization:
    """The paper's constants to the letter: the worst case over all releases, by its own two lemmas."""
    horizon = len(calibration.reward.gram_sigma)
    nodes = episodes if calibration.trust.noised_reports else round(calibration.counter_sensitivity**2)
    probability = alpha / (4 * episodes * horizon)

    def one(noise: Noise, dimension: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        operator = math.sqrt(nodes) * lemma_operator_norm(dimension, 1.0, probability) * noise.gram_sigma[None]
        vector = math.sqrt(nodes) * lemma_chi(dimension, probability) * noise.moment_sigma[None]
        return 2 * operator, operator, operator, 3 * operator, vector / np.sqrt(operator)

    shift_p, floor_p, *constants_p = one(calibration.transition, d1)
    shift_r, floor_r, *constants_r = one(calibration.reward, d2)
    return Regularization(shift_p, shift_r, floor_p, floor_r, Certificate(*constants_p, *constants_r))
