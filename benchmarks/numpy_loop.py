# SPDX-License-Identifier: Apache-2.0
"""Private-LinOpt-VI as a plain NumPy loop: what one would write with the paper open on the desk.

Algorithm 1 with the Privatizer of section 6.1, line by line: four binary counting mechanisms with a noise draw per node,
a new plan for every episode, and the exact value of every policy for the regret. Nothing here imports ``reticent``; plain
arrays come in. It is meant to be readable and no slower than it has to be: a Python loop over episodes and steps,
and NumPy over states, actions and features inside a step.

``benchmarks/opponents.py`` times it beside the library, and
``tests/benchmarks/test_measuring.py`` shows that both compute the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A linear mixture MDP with its truth.

    Attributes:
      psi: transition features ψ(s'|s,a), ``(d1, S, A, S)``.
      varphi: reward features ϕ(s,a), ``(d2, S, A)``.
      transitions: the true P ``(H, S, A, S)``.
      mean_rewards: the true mean rewards ``(H, S, A)``; rewards are 0 or 1.
      initial: the distribution of the first state, ``(S,)``.
    """

    psi: np.ndarray
    varphi: np.ndarray
    transitions: np.ndarray
    mean_rewards: np.ndarray
    initial: np.ndarray

    @property
    def horizon(self) -> int:
        return self.transitions.shape[0]


@dataclasses.dataclass(frozen=True)
class Constants:
    """Noise per node, shifts of the Grams, and radii: those of Theorem 6.2's proof by :func:`paper_constants`."""

    sigma_p1: float
    sigma_p2: float
    sigma_r1: float
    sigma_r2: float
    shift_p: float
    shift_r: float
    beta_p: float
    beta_r: float


def paper_constants(
    K: int, H: int, d1: int, d2: int, epsilon: float, delta: float, alpha: float, bonus_scale: float = 1.0
) -> Constants:
    """σ, 2Σ and β for (ε, δ) and failure probability α; ``bonus_scale`` multiplies both β."""
    m = math.ceil(math.log2(K))
    per_sensitivity = H / epsilon * math.sqrt(32 * m * math.log(4 * H / delta))
    sigma_p1, sigma_p2 = per_sensitivity * d1 * H**2, per_sensitivity * math.sqrt(d1) * H**2
    sigma_r1 = sigma_r2 = per_sensitivity

    def spread(sigma: float, d: int) -> float:
        return sigma * math.sqrt(m) * (4 * math.sqrt(d) + math.sqrt(8 * math.log(8 * K * H / alpha)))

    def nu(sigma: float, spread: float, d: int) -> float:
        return sigma * math.sqrt(m / spread) * (math.sqrt(d) + math.sqrt(2 * math.log(4 * K * H / alpha)))

    spread_p, spread_r = spread(sigma_p1, d1), spread(sigma_r1, d2)
    inside_p = 2 * math.log(H / alpha) + d1 * math.log(1 + K * H**2 / spread_p)
    inside_r = 2 * math.log(H / alpha) + d2 * math.log(1 + K / (d2 * spread_r))
    beta_p = H / 2 * math.sqrt(inside_p) + math.sqrt(d1 * 3 * spread_p) + nu(sigma_p2, spread_p, d1)
    beta_r = 1 / 2 * math.sqrt(inside_r) + math.sqrt(d2 * 3 * spread_r) + nu(sigma_r2, spread_r, d2)
    return Constants(
        sigma_p1, sigma_p2, sigma_r1, sigma_r2, 2 * spread_p, 2 * spread_r, bonus_scale * beta_p, bonus_scale * beta_r
    )


# -- randomness: as an argument, so that two programs can be given the same --------------------------------------------


@dataclasses.dataclass(frozen=True)
class Draws:
    """All randomness of one episode: ``1 + 2H`` uniforms (first state, then transition and reward of each step), and the
    noise of the node that this episode completes in each of the four kinds of counters."""

    uniforms: np.ndarray
    gram_p: np.ndarray
    moment_p: np.ndarray
    gram_r: np.ndarray
    moment_r: np.ndarray


def draws(rng: np.random.Generator, K: int, H: int, d1: int, d2: int, constants: Constants) -> Iterator[Draws]:
    """K episodes' worth."""
    for _ in range(K):
        yield Draws(
            rng.random(1 + 2 * H),
            symmetric(constants.sigma_p1 * rng.standard_normal((H, d1, d1))),
            constants.sigma_p2 * rng.standard_normal((H, d1)),
            symmetric(constants.sigma_r1 * rng.standard_normal((H, d2, d2))),
            constants.sigma_r2 * rng.standard_normal((H, d2)),
        )


def symmetric(matrices: np.ndarray) -> np.ndarray:
    """The upper triangles, mirrored."""
    upper = np.triu(matrices)
    return upper + np.triu(matrices, 1).swapaxes(-1, -2)


# -- the Privatizer -----------------------------------------------------------------------------------------------------


class TreeCounter:
    """The binary counting mechanism (Chan, Shi and Song, Algorithm 2) over a stream of arrays, H counters in one.

    A node is noised once, when its last episode is in, and dropped when a larger one covers it.
    """

    def __init__(self, K: int, shape: tuple[int, ...]) -> None:
        self.t = 0
        self.exact = np.zeros((K.bit_length(), *shape))
        self.noisy = np.zeros((K.bit_length(), *shape))

    def add(self, item: np.ndarray, noise: np.ndarray) -> None:
        self.t += 1
        level = (self.t & -self.t).bit_length() - 1
        self.exact[level] = item + self.exact[:level].sum(axis=0)
        self.noisy[level] = self.exact[level] + noise
        self.exact[:level] = 0
        self.noisy[:level] = 0

    def release(self) -> np.ndarray:
        """The noisy sum of everything so far."""
        return self.noisy.sum(axis=0)


# -- Algorithm 1 --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Played:
    """One episode: optimistic values ``(H + 1, S)``, policy ``(H, S)``, its exact value, and the states ``(H + 1,)``."""

    V: np.ndarray
    policy: np.ndarray
    value: float
    states: np.ndarray


def private_linopt_vi(world: Mixture, constants: Constants, K: int, randomness: Iterable[Draws]) -> Iterator[Played]:
    """Play episode after episode, as many as there are ``randomness``."""
    H = world.horizon
    d1, S, A, _ = world.psi.shape
    d2 = world.varphi.shape[0]
    varphi = world.varphi.reshape(d2, S * A)
    cumulative, first = np.cumsum(world.transitions, axis=-1), np.cumsum(world.initial)
    counter_p1, counter_p2 = TreeCounter(K, (H, d1, d1)), TreeCounter(K, (H, d1))
    counter_r1, counter_r2 = TreeCounter(K, (H, d2, d2)), TreeCounter(K, (H, d2))
    shift_p, shift_r = constants.shift_p * np.eye(d1), constants.shift_r * np.eye(d2)

    for draw in randomness:
        # Plan.
        Lambda_p, u_p = counter_p1.release() + shift_p, counter_p2.release()
        Lambda_r, u_r = counter_r1.release() + shift_r, counter_r2.release()
        V, policy, phi = np.zeros((H + 1, S)), np.zeros((H, S), int), np.zeros((H, d1, S, A))
        for h in reversed(range(H)):
            inverse_p, inverse_r = np.linalg.inv(Lambda_p[h]), np.linalg.inv(Lambda_r[h])
            theta_p, theta_r = inverse_p @ u_p[h], inverse_r @ u_r[h]
            phi[h] = world.psi @ V[h + 1]
            features = phi[h].reshape(d1, S * A)
            bonus_p = constants.beta_p * np.sqrt((features * (inverse_p @ features)).sum(axis=0))
            bonus_r = constants.beta_r * np.sqrt((varphi * (inverse_r @ varphi)).sum(axis=0))
            Q = np.clip(theta_r @ varphi + theta_p @ features + bonus_p + bonus_r, 0, H - h).reshape(S, A)
            policy[h] = Q.argmax(axis=1)
            V[h] = Q.max(axis=1)

        # Roll out.
        states, actions, rewards = np.zeros(H + 1, int), np.zeros(H, int), np.zeros(H)
        states[0] = pick(first, draw.uniforms[0])
        for h in range(H):
            s, (u_transition, u_reward) = states[h], draw.uniforms[1 + 2 * h : 3 + 2 * h]
            a = actions[h] = policy[h, s]
            rewards[h] = u_reward < world.mean_rewards[h, s, a]
            states[h + 1] = pick(cumulative[h, s, a], u_transition)

        # Hand the statistics to the Privatizer.
        steps = np.arange(H)
        visited, seen = phi[steps, :, states[:-1], actions], world.varphi[:, states[:-1], actions].T
        counter_p1.add(visited[:, :, None] * visited[:, None, :], draw.gram_p)
        counter_p2.add(visited * V[steps + 1, states[1:]][:, None], draw.moment_p)
        counter_r1.add(seen[:, :, None] * seen[:, None, :], draw.gram_r)
        counter_r2.add(seen * rewards[:, None], draw.moment_r)

        yield Played(V, policy, policy_value(world, policy), states)


def pick(cumulative: np.ndarray, uniform: float) -> int:
    """The index in which a uniform draw falls; never past the last, however the sums were rounded."""
    return min(int(cumulative.searchsorted(uniform, side="right")), len(cumulative) - 1)


def policy_value(world: Mixture, policy: np.ndarray) -> float:
    """The exact value of a policy from the first state."""
    everywhere = np.arange(policy.shape[1])
    values = np.zeros(policy.shape[1])
    for h in reversed(range(world.horizon)):
        actions = policy[h]
        values = world.mean_rewards[h, everywhere, actions] + world.transitions[h, everywhere, actions] @ values
    return float(world.initial @ values)


def optimal_value(world: Mixture) -> float:
    """V* from the first state."""
    values = np.zeros(len(world.initial))
    for h in reversed(range(world.horizon)):
        values = (world.mean_rewards[h] + world.transitions[h] @ values).max(axis=1)
    return float(world.initial @ values)


def regret(world: Mixture, constants: Constants, K: int, episodes: int, seed: int) -> np.ndarray:
    """Cumulative regret over the first ``episodes`` of a run of K, ``(episodes,)``."""
    (d1, *_), d2 = world.psi.shape, len(world.varphi)
    randomness = draws(np.random.default_rng(seed), episodes, world.horizon, d1, d2, constants)
    best = optimal_value(world)
    return np.cumsum([best - played.value for played in private_linopt_vi(world, constants, K, randomness)])
