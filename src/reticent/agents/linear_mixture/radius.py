# SPDX-License-Identifier: Apache-2.0
r"""Confidence radii β_p(α), β_r(α) under changing regularizers (the concentration lemma, Lemma 3.1).

.. math::

   \beta=\tfrac{R}{2}\sqrt{2\ln\tfrac{H}{\alpha}+d\ln\Big(1+\tfrac{K L^2}{d\,\lambda_{\min}}\Big)}
         +\Theta\sqrt{\lambda_{\max}}+\nu

for targets in an interval of length R, features of norm at most L, and parameters of norm at most Θ. The paper's β_p is
R = H, L = √d₁·H, Θ = √d₁ and its β_r is R = 1, L = 1, Θ = √d₂.

**A wrong model.** If the truth is within ζ of the model in total variation, the mean of a target differs from
:math:`\langle\phi,\theta\rangle` by some :math:`|b_i|\le\zeta R`. That moves the estimate by
:math:`\|\sum_i\phi_ib_i\|_{\Lambda^{-1}}\le(\sum_ib_i^2)^{1/2}\le\zeta R\sqrt n` after n targets: with
:math:`\Phi` the matrix of features, :math:`\Phi^\top\Phi\preceq\Lambda` makes :math:`\Phi\Lambda^{-1}\Phi^\top\preceq I`
(weights of at most 1 on the sums only help). :func:`inflation` is this term; with it the ellipsoids hold again, and values
are optimistic up to ζR per step, which no estimate of θ can remove.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from reticent.agents.linear_mixture.frame import Frame
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.errors import InvalidInput
from reticent.runtime import on_device
from reticent.worlds.models.model import Sizes


class Radii(NamedTuple):
    """β_p and β_r, each ``(rounds + 1, H)`` or ``(1, H)``: row t is used after t closed rounds."""

    transition: Array
    reward: Array

    def after(self, rounds: Array) -> tuple[Array, Array]:
        """The two rows ``(H,)`` in force after ``rounds`` closed rounds."""
        row_p = jnp.minimum(rounds, self.transition.shape[0] - 1)
        row_r = jnp.minimum(rounds, self.reward.shape[0] - 1)
        return self.transition[row_p], self.reward[row_r]


def radius(
    *,
    spread: np.ndarray | float,
    feature_bound: np.ndarray | float,
    theta_bound: float,
    dimension: int,
    episodes: int,
    horizon: int,
    alpha: float,
    lambda_min: np.ndarray | float,
    lambda_max: np.ndarray | float,
    nu: np.ndarray | float,
) -> np.ndarray:
    """β of the module's equation, broadcasting over its array arguments."""
    if not 0 < alpha <= 1:
        raise InvalidInput("alpha", alpha, "in (0, 1]", "use 0.05 if in doubt")
    growth = dimension * np.log1p(episodes * np.square(feature_bound) / (dimension * np.asarray(lambda_min)))
    martingale = np.asarray(spread) / 2 * np.sqrt(2 * np.log(horizon / alpha) + growth)
    return np.asarray(martingale + theta_bound * np.sqrt(lambda_max) + nu)


def inflation(model: Sizes, frame: Frame, zeta: float, users: np.ndarray, pooled: bool = False) -> np.ndarray:
    """What a model that is ``zeta`` off (total variation) adds to β_p after each number of ``users``, ``(rows, H)``.

    Where steps are pooled, the one regression has the targets of all of them: :math:`\\zeta(n\\sum_hR_h^2)^{1/2}`.
    """
    if not 0 <= zeta <= 1:
        raise InvalidInput("misspecification", zeta, "a total variation in [0, 1]", "0 trusts the model")
    bounds = frame.bounds(model)
    spread = bounds.high - bounds.low
    if pooled:
        spread = np.full_like(spread, np.linalg.norm(spread))
    return np.asarray(zeta * np.sqrt(np.asarray(users, dtype=np.float64))[:, None] * spread)


def radii(
    model: Sizes,
    frame: Frame,
    certificate: Certificate,
    episodes: int,
    alpha: float,
    inflated: np.ndarray | float = 0.0,
    pooled: bool = False,
) -> Radii:
    """β_p and β_r for every round and step; ``inflated`` is added to β_p (:func:`inflation`).

    A ``pooled`` regression has the targets and features of all steps, so the largest bounds count at every step.
    """
    bounds = frame.bounds(model)
    spread, feature = bounds.high - bounds.low, bounds.feature
    if pooled:
        spread, feature = np.full_like(spread, spread.max()), np.full_like(feature, feature.max())
    transition = inflated + radius(
        spread=spread,
        feature_bound=feature,
        theta_bound=model.transition_theta_bound,
        dimension=model.d1,
        episodes=episodes,
        horizon=model.horizon,
        alpha=alpha,
        lambda_min=certificate.transition_lambda_min,
        lambda_max=certificate.transition_lambda_max,
        nu=certificate.transition_nu,
    )
    reward = radius(
        spread=1.0,
        feature_bound=1.0,
        theta_bound=model.reward_theta_bound,
        dimension=model.d2,
        episodes=episodes,
        horizon=model.horizon,
        alpha=alpha,
        lambda_min=certificate.reward_lambda_min,
        lambda_max=certificate.reward_lambda_max,
        nu=certificate.reward_nu,
    )
    return Radii(on_device(transition), on_device(reward))
