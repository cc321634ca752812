# SPDX-License-Identifier: Apache-2.0
r"""The hard instance: the world from which the lower bound for linear mixture MDPs is proved.

Zhou, Gu & Szepesvári (*Nearly Minimax Optimal Reinforcement Learning for Linear Mixture Markov Decision Processes*,
2021) show that no learner has less than order :math:`d\sqrt{H^3K}` regret, by way of this chain. The states are
:math:`x_1,\dots,x_H`, one for each step, then a dead end :math:`x_{H+1}` and a goal :math:`x_{H+2}`, which are never
left; only the goal pays, 1 at every step. An action is a vector of signs, :math:`a\in\{-1,1\}^{d-1}`, and at step h

.. math:: P_h(x_{H+2}\mid x_h,a)=\delta+\langle\mu_h,a\rangle,\qquad
          P_h(x_{h+1}\mid x_h,a)=1-\delta-\langle\mu_h,a\rangle,\qquad \mu_h\in\{-\Delta,\Delta\}^{d-1},\quad\delta=1/H.

So the right signs reach the goal a little sooner, with probability :math:`p=\delta+(d-1)\Delta` a step instead of δ,
each step has signs of its own, each sign counts for only Δ, and there are :math:`2^{(d-1)H}` ways to have them. As a
mixture, with :math:`\alpha=(1+(d-1)\Delta)^{-1/2}` and :math:`\beta=\sqrt\Delta\,\alpha`,

.. math:: \psi(x_{h+1}\mid x_h,a)=(\alpha(1-\delta),-\beta a),\quad \psi(x_{H+2}\mid x_h,a)=(\alpha\delta,\beta a),
          \quad \psi(x\mid x,a)=(\alpha,0)\ \text{at both ends},\quad \theta_h=(1/\alpha,\mu_h/\beta).

The features are not distributions and may be negative; only their mixture is one. :math:`\|\theta_h\|_2=1+(d-1)\Delta`.
The norm of :math:`\phi_V` is convex in V, hence largest where V is ±1 everywhere: :math:`\|\phi_V\|_2/\|V\|_\infty` is
at most the larger of α (V constant) and :math:`\sqrt{\alpha^2(1-2\delta)^2+4(d-1)\beta^2}` (both signs), and attains it.

A policy that leaves with probability p at every step gets to the goal after T actions, T geometric, and is paid for
the remaining steps: its value is :math:`\mathbb E(H-T)_+=H-(1-(1-p)^H)/p` (:func:`value_of`). The best policy has
:math:`p=\delta+(d-1)\Delta`, the uniform one :math:`p=\delta`. The last action earns nothing any more.

The bound is about :math:`\Delta=\sqrt{\delta/K}/(4\sqrt2)` (``hard_for=K``): signs that K users just do not reveal. As a
test of learners the default is a gap that 50 000 users do reveal, even in private: 0.05. Values at H = 6, d = 4:

==============================  =====
all signs right                 3.164
one sign of each step wrong     2.451
uniform                         2.009
all signs wrong                 0.245
best, hard for 50 000 users     2.019
==============================  =====
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, check_bounds
from reticent.worlds.models.model import make_model
from reticent.worlds.registry import register_world
from reticent.worlds.world import World, world_from_parameters

MOST_DIMENSIONS = 9
"""256 actions; every further dimension doubles them."""


@register_world("hard-instance", episodes=50_000, sizes=(8, 8, 6, 4, 1))
def hard_instance(
    *,
    horizon: int = 6,
    d: int = 4,
    gap: float = 0.05,
    hard_for: int | None = None,
    seed: int = 0,
    bounds: Bounds = "paper",
) -> World:
    """The lower bound's chain: signs to guess at every step, each of which counts for little.

    H + 2 states, 2^(d−1) actions, d1 = d, d2 = 1 (the goal pays). ``gap`` is Δ, at most δ/(d−1) = 1/(H(d−1));
    ``hard_for=K`` takes the lower bound's Δ for K users instead. ``seed`` draws the hidden signs. ``bounds=tight``
    declares the norms that hold. At the defaults V* = 3.164 and the uniform policy has 2.009.
    """
    check_bounds(bounds)
    if horizon < 2:
        raise InvalidInput("hard-instance: horizon", horizon, "at least 2", "the last action earns nothing")
    if not 2 <= d <= MOST_DIMENSIONS:
        raise InvalidInput("hard-instance: d", d, f"from 2 to {MOST_DIMENSIONS}", "there are 2^(d-1) actions")
    if seed < 0:
        raise InvalidInput("hard-instance: seed", seed, "not negative", "give a seed of at least 0")
    chance = 1 / horizon
    if hard_for is not None:
        if hard_for < 1:
            raise InvalidInput("hard-instance: hard_for", hard_for, "at least 1", "give a number of users")
        gap = math.sqrt(chance / hard_for) / (4 * math.sqrt(2))
    if not 0 < gap * (d - 1) <= chance * (1 + 1e-12):
        most = f"above 0 and at most 1/(H(d-1)) = {chance / (d - 1):.6g}"
        raise InvalidInput("hard-instance: gap", gap, most, "probabilities would be negative")

    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(horizon, d - 1))
    alpha, beta = scales(d, gap)
    opposite = math.sqrt((alpha * (1 - 2 * chance)) ** 2 + 4 * (d - 1) * beta**2)
    tight = bounds == "tight"
    psi = transition_features(horizon, d, gap)
    goal = np.zeros((1, horizon + 2, 2 ** (d - 1)))
    goal[0, -1] = 1
    model = make_model(
        psi,
        goal,
        horizon,
        transition_bound=max(alpha, opposite) if tight else None,
        transition_theta_bound=1 + (d - 1) * gap if tight else None,
        known_rewards=goal[0],
    )
    theta = np.concatenate([np.full((horizon, 1), 1 / alpha), gap * signs / beta], axis=1)
    return world_from_parameters(model, theta, [1.0], name="hard-instance")


def scales(d: int, gap: float) -> tuple[float, float]:
    """α and β, the lengths of the two parts of the features."""
    alpha = 1 / math.sqrt(1 + (d - 1) * gap)
    return alpha, math.sqrt(gap) * alpha


def sign_vectors(d: int) -> np.ndarray:
    """The actions as vectors, ``(2^(d−1), d−1)``.

    >>> sign_vectors(3).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d - 1)))


def transition_features(horizon: int, d: int, gap: float) -> np.ndarray:
    """ψ, ``(d, H + 2, 2^(d−1), H + 2)``; the actions are in the order of :func:`sign_vectors`."""
    actions, chance = sign_vectors(d), 1 / horizon
    alpha, beta = scales(d, gap)
    psi = np.zeros((d, horizon + 2, len(actions), horizon + 2))
    here = np.arange(horizon)
    psi[0, here, :, here + 1] = alpha * (1 - chance)
    psi[0, here, :, -1] = alpha * chance
    psi[1:, here, :, here + 1] = -beta * actions.T
    psi[1:, here, :, -1] = beta * actions.T
    psi[0, [-2, -1], :, [-2, -1]] = alpha
    return psi


def value_of(chance: float, horizon: int) -> float:
    """The value of reaching the goal with the same ``chance`` at every step, H − (1 − (1 − p)^H)/p.

    >>> round(value_of(1 / 6, 6), 5)
    2.00939
    """
    return horizon - (1 - (1 - chance) ** horizon) / chance if chance > 0 else 0.0
