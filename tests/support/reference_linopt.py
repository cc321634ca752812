# SPDX-License-Identifier: Apache-2.0
"""Algorithms 1 and 2 of the paper, written down line by line: slow, plain, and independent of the library.

Nothing here imports ``reticent``; arrays in, arrays out, NumPy only, one loop per "for all" of the pseudo-code, and
``np.linalg.solve`` where the paper writes an inverse. Episodes k, steps h are counted from 0 here, from 1 in the paper.

Two readings of the paper are fixed here:

* Section 3 prints the sums with :math:`\\phi_h^k(s_h^j,a_h^j)`, section 6.1 builds them from P-sums of
  :math:`\\phi_h^j(s_h^j,a_h^j)`. The latter is meant: the target :math:`V_{h+1}^j` belongs to the feature of its own
  episode, and only then is there a sum over users at all.
* The pseudo-code starts from Λ = 0, which has no inverse; the first episode uses the regularizer alone: Λ¹ = Z¹ and
  u¹ = z¹.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from numpy_loop import Mixture as PlainWorld


@dataclasses.dataclass
class Regularization:
    """The four regularizers of one episode, for every step: Z_p, z_p, Z_r, z_r."""

    Z_p: np.ndarray
    z_p: np.ndarray
    Z_r: np.ndarray
    z_r: np.ndarray


Regularizer = Callable[[int], Regularization]
Frame = Callable[[PlainWorld, np.ndarray, int], tuple[float, float]]


def fixed(lam_p: float, lam_r: float, H: int, d1: int, d2: int) -> Regularizer:
    """Z = λI and z = 0 in every episode."""
    same = Regularization(
        np.stack([lam_p * np.eye(d1)] * H), np.zeros((H, d1)), np.stack([lam_r * np.eye(d2)] * H), np.zeros((H, d2))
    )
    return lambda k: same


# -- Lemma CI ---------------------------------------------------------------------------------------------------------


def beta_p(H: int, K: int, d1: int, alpha: float, lambda_min: float, lambda_max: float, nu: float) -> float:
    inside = 2 * np.log(H / alpha) + d1 * np.log(1 + K * H**2 / lambda_min)
    return H / 2 * np.sqrt(inside) + np.sqrt(d1 * lambda_max) + nu


def beta_r(H: int, K: int, d2: int, alpha: float, lambda_min: float, lambda_max: float, nu: float) -> float:
    inside = 2 * np.log(H / alpha) + d2 * np.log(1 + K / (d2 * lambda_min))
    return 1 / 2 * np.sqrt(inside) + np.sqrt(d2 * lambda_max) + nu


def beta_general(
    R: float, L: float, Theta: float, H: int, K: int, d: int, alpha: float, lam_min: float, lam_max: float, nu: float
) -> float:
    """The lemma's proof with targets in an interval of length R, ‖features‖ ≤ L and ‖θ‖ ≤ Θ left open."""
    return R / 2 * np.sqrt(2 * np.log(H / alpha) + d * np.log(1 + K * L**2 / (d * lam_min))) + Theta * lam_max**0.5 + nu


# -- frames: V enters the regression as (V - c) / rho -----------------------------------------------------------------


def paper_frame(world: PlainWorld, following: np.ndarray, h: int) -> tuple[float, float]:
    return 0.0, 1.0


def centred_step_frame(world: PlainWorld, following: np.ndarray, h: int) -> tuple[float, float]:
    """c is the middle of [0, H - h] (h from 1): what V_{h+1} can be."""
    return (world.horizon - (h + 1)) / 2, 1.0


def seen_frame(centred: bool) -> Frame:
    """c is the middle (or the lowest) of the values, ρ the longest feature or target after centring."""

    def frame(world: PlainWorld, following: np.ndarray, h: int) -> tuple[float, float]:
        low, high = min(following), max(following)
        c = (low + high) / 2 if centred else low
        rho = max(abs(v - c) for v in following)
        _, S, A, _ = world.psi.shape
        for s in range(S):
            for a in range(A):
                rho = max(rho, np.linalg.norm(value_feature(world.psi, s, a, following - c)))
        return c, (rho if rho > 1e-6 else 1.0)

    return frame


# -- the algorithms ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Trace:
    """What the learner had in each episode: π ``(H, S, A)``, V ``(H+1, S)``, Q ``(H, S, A)``, θ̂; what it saw."""

    policy: list[np.ndarray] = dataclasses.field(default_factory=list)
    V: list[np.ndarray] = dataclasses.field(default_factory=list)
    Q: list[np.ndarray] = dataclasses.field(default_factory=list)
    theta_p: list[np.ndarray] = dataclasses.field(default_factory=list)
    theta_r: list[np.ndarray] = dataclasses.field(default_factory=list)
    states: list[list[int]] = dataclasses.field(default_factory=list)
    rewards: list[list[float]] = dataclasses.field(default_factory=list)


def value_feature(psi: np.ndarray, s: int, a: int, V: np.ndarray) -> np.ndarray:
    """φ_V(s, a) = Σ_{s'} ψ(s'|s, a) V(s')."""
    return sum(psi[:, s, a, following] * V[following] for following in range(psi.shape[3]))


def draw(probabilities: np.ndarray, uniform: float) -> int:
    """The index in which a uniform draw falls."""
    total = 0.0
    for index, probability in enumerate(probabilities):
        total += probability
        if uniform < total:
            return index
    return len(probabilities) - 1


def roll_out(world: PlainWorld, policy: np.ndarray, uniforms: np.ndarray) -> tuple[list[int], list[int], list[float]]:
    """One trajectory; uniforms are the start's, then action, transition, reward of each step. Rewards are 0 or 1."""
    states, actions, rewards = [draw(world.initial, uniforms[0])], [], []
    for h in range(world.horizon):
        u_action, u_transition, u_reward = uniforms[1 + 3 * h : 4 + 3 * h]
        s = states[-1]
        a = draw(policy[h, s], u_action)
        actions.append(a)
        rewards.append(1.0 if u_reward < world.mean_rewards[h, s, a] else 0.0)
        states.append(draw(world.transitions[h, s, a], u_transition))
    return states, actions, rewards


def lin_opt(
    world: PlainWorld,
    regularizer: Regularizer,
    radius_p: np.ndarray,
    radius_r: np.ndarray,
    uniforms: np.ndarray,
    eta: float | None = None,
    frame: Frame = paper_frame,
    ties: np.ndarray | None = None,
    ahead: bool = False,
    announced: Callable[[int, np.ndarray], np.ndarray] | None = None,
) -> Trace:
    """LinOpt-VI-Reg (``eta`` None) or LinOpt-PO-Reg.

    Radii are ``(H,)``, or ``(K, H)`` if they change with the episode, already multiplied by any bonus scale.
    The argmax is over Q before it is clipped and takes the first of equal actions; ``ties`` ``(K, H, S)`` names another
    action to take, but only where it is as good as the best up to rounding. ``ahead`` steps along Q_h before V_h is
    formed, and not after the episode. ``announced(k, policy)`` is the reward table ``(S, A)`` that is announced after
    episode k, whose policy it may look at; it then stands where the paper estimates one.
    """
    H = world.horizon
    d1, S, A, _ = world.psi.shape
    d2 = world.varphi.shape[0]
    G_p, g_p = np.zeros((H, d1, d1)), np.zeros((H, d1))
    G_r, g_r = np.zeros((H, d2, d2)), np.zeros((H, d2))
    policy = np.full((H, S, A), 1 / A)
    radius_p, radius_r = (np.broadcast_to(radius, (len(uniforms), H)) for radius in (radius_p, radius_r))
    trace = Trace()

    for k in range(len(uniforms)):
        Z = regularizer(k)
        V, Q, unclipped = np.zeros((H + 1, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
        policy = policy.copy()
        table = None if announced is None else announced(k, policy)
        theta_p, theta_r = np.zeros((H, d1)), np.zeros((H, d2))
        centre, scale = np.zeros(H), np.ones(H)
        for h in range(H - 1, -1, -1):
            Lambda_p, u_p = G_p[h] + Z.Z_p[h], g_p[h] + Z.z_p[h]
            Lambda_r, u_r = G_r[h] + Z.Z_r[h], g_r[h] + Z.z_r[h]
            theta_p[h] = np.linalg.solve(Lambda_p, u_p)
            theta_r[h] = np.linalg.solve(Lambda_r, u_r)
            c, rho = frame(world, V[h + 1], h)
            centre[h], scale[h] = c, rho
            for s in range(S):
                for a in range(A):
                    phi = value_feature(world.psi, s, a, (V[h + 1] - c) / rho)
                    varphi = world.varphi[:, s, a]
                    Gamma_p = radius_p[k, h] * np.sqrt(phi @ np.linalg.solve(Lambda_p, phi))
                    Gamma_r = radius_r[k, h] * np.sqrt(varphi @ np.linalg.solve(Lambda_r, varphi))
                    future = c + rho * (phi @ theta_p[h] + Gamma_p)
                    paid = varphi @ theta_r[h] + Gamma_r if table is None else table[s, a]
                    unclipped[h, s, a] = paid + future
                    Q[h, s, a] = max(0, min(H - h, unclipped[h, s, a]))
                if eta is not None and ahead:
                    policy[h, s] = policy[h, s] * np.exp(eta * Q[h, s])
                    policy[h, s] /= sum(policy[h, s])
                V[h, s] = max(Q[h, s]) if eta is None else Q[h, s] @ policy[h, s]
        if eta is None:
            policy = np.zeros((H, S, A))
            for h in range(H):
                for s in range(S):
                    best = np.argmax(unclipped[h, s])
                    if ties is not None and unclipped[h, s, ties[k, h, s]] >= unclipped[h, s, best] - 1e-10:
                        best = ties[k, h, s]
                    policy[h, s, best] = 1

        states, actions, rewards = roll_out(world, policy, uniforms[k])
        for h in range(H):
            phi = value_feature(world.psi, states[h], actions[h], (V[h + 1] - centre[h]) / scale[h])
            target = (V[h + 1, states[h + 1]] - centre[h]) / scale[h]
            varphi = world.varphi[:, states[h], actions[h]]
            G_p[h] += np.outer(phi, phi)
            g_p[h] += phi * target
            G_r[h] += np.outer(varphi, varphi)
            g_r[h] += varphi * rewards[h]

        for record, value in zip(
            (trace.policy, trace.V, trace.Q, trace.theta_p, trace.theta_r, trace.states, trace.rewards),
            (policy, V, Q, theta_p, theta_r, states, rewards),
            strict=True,
        ):
            record.append(value)
        if eta is not None and not ahead:
            policy = policy.copy()
            for h in range(H):
                for s in range(S):
                    policy[h, s] = policy[h, s] * np.exp(eta * Q[h, s])
                    policy[h, s] /= sum(policy[h, s])
    return trace
