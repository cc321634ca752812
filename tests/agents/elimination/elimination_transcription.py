# SPDX-License-Identifier: Apache-2.0
"""Elimination as docs/theory/elimination.md writes it, in plain NumPy: slow, readable, and written without the library.

For a blend with one θ for all steps and the lattice as oracle. It works with θ itself, not with coordinates: features and
parameters are d₁ + d₂ numbers, projected to sum-zero directions where a norm is taken. Weights of rewards are on the
simplex; their features are the tables times the declared sum.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np


@dataclasses.dataclass
class World:
    """Candidates (d1, S, A, S), reward tables (d2, S, A), first states (S,), horizon, sum of the reward weights."""

    candidates: np.ndarray
    tables: np.ndarray
    initial: np.ndarray
    horizon: int
    reward_total: float


@dataclasses.dataclass
class Model:
    """A point of the lattice with its solution: choices (H, S), values (H + 1, S)."""

    theta: np.ndarray
    reward_theta: np.ndarray
    choices: np.ndarray
    values: np.ndarray


def solve(world: World, theta: np.ndarray, reward_theta: np.ndarray) -> Model:
    P, r = np.tensordot(theta, world.candidates, 1), world.reward_total * np.tensordot(reward_theta, world.tables, 1)
    H, S = world.horizon, r.shape[0]
    values, choices = np.zeros((H + 1, S)), np.zeros((H, S), int)
    for h in reversed(range(H)):
        Q = r + P @ values[h + 1]
        choices[h], values[h] = Q.argmax(axis=1), Q.max(axis=1)
    return Model(theta, reward_theta, choices, values)


def lattice(dimension: int, spacing: int) -> list[np.ndarray]:
    """All points of the simplex whose coordinates are multiples of 1/spacing."""
    if dimension == 1:
        return [np.array([1.0])]
    points = []
    for first in range(spacing + 1):
        rest = spacing - first
        tails = lattice(dimension - 1, rest) if rest else [np.zeros(dimension - 1)]
        points += [np.concatenate([[first / spacing], tail * rest / spacing]) for tail in tails]
    return points


def features(world: World, model: Model, h: int, s: int, a: int) -> np.ndarray:
    """x_h(s, a): P_iV_{h+1} of every candidate, then every table's reward; each block with its mean taken off."""
    moving = world.candidates[:, s, a] @ model.values[h + 1]
    paying = world.reward_total * world.tables[:, s, a]
    return np.concatenate([moving - moving.mean(), paying - paying.mean()])


def in_coordinates(bases: tuple[np.ndarray, np.ndarray], x: np.ndarray) -> np.ndarray:
    d1 = len(bases[0])
    return np.concatenate([bases[0].T @ x[:d1], bases[1].T @ x[d1:]])


class Elimination:
    """The state between rounds and what happens at their ends. ``bases`` only fix in which coordinates noise is drawn."""

    def __init__(self, world, bases, spacing, *, sigma, level, kappa, reach, certain, pool):
        self.world, self.bases, self.sigma = world, bases, sigma
        self.level, self.kappa, self.reach, self.certain, self.pool = level, kappa, reach, certain, pool
        d1, d2 = len(world.candidates), len(world.tables)
        self.spacing = spacing
        self.models = [
            solve(world, theta, weights) for theta in lattice(d1, spacing) for weights in lattice(d2, spacing)
        ]
        self.misfit = np.zeros(len(self.models))
        self.candidate = self.fallback = self.argmax()
        self.caught, self.summed, self.users, self.rounds = False, 0.0, 0, 0
        self.catches, self.known = 0, {}
        self.W = math.sqrt(2.0 * (d1 > 1 and world.horizon > 1) + 2.0 * (d2 > 1))

    def argmax(self) -> Model:
        worth = [float(self.world.initial @ model.values[0]) for model in self.models]
        allowed = max(1.0, self.misfit.min() * (1 + 1e-12))  # the least violating where none is left
        return self.models[int(np.where(self.misfit <= allowed, worth, -np.inf).argmax())]

    @property
    def alive(self) -> int:
        return int((self.misfit <= 1).sum())

    @property
    def served(self) -> Model:
        return self.fallback if self.caught else self.candidate

    def scales(self, model: Model):
        """X₀, R, e₀, R_e, τ."""
        if id(model) not in self.known:
            self.known[id(model)] = self.find_scales(model)
        return self.known[id(model)]

    def find_scales(self, model: Model):
        H, S = model.choices.shape
        centre, R = 0.0, 0.0
        for h in range(H):
            x = np.array(
                [in_coordinates(self.bases, features(self.world, model, h, s, model.choices[h, s])) for s in range(S)]
            )
            middle = (x.max(axis=0) + x.min(axis=0)) / 2
            centred, plain = np.linalg.norm(x - middle, axis=1).max(), np.linalg.norm(x, axis=1).max()
            centre, R = centre + (middle if centred < plain else 0 * middle), R + min(centred, plain)
        first = model.values[0][self.world.initial > 0]
        low, high = -first.max(), H - first.min()
        Re = (high - low) / 2
        return centre, R, (high + low) / 2, Re, Re / (Re + R * self.W)

    def vector(self, model: Model, states, actions, rewards) -> np.ndarray:
        """u of one user, clipped to the unit ball."""
        X0, R, e0, Re, tau = self.scales(model)
        X = sum(
            in_coordinates(self.bases, features(self.world, model, h, states[h], actions[h]))
            for h in range(self.world.horizon)
        )
        e = sum(rewards) - model.values[0, states[0]]
        u = np.append(math.sqrt(1 - tau) * (X - X0) / R, math.sqrt(tau) * (e - e0) / Re)
        return u / max(1.0, np.linalg.norm(u))

    def variance(self, model: Model, Re: float) -> float:
        """s²: Lemma 1's, or the model's own."""
        world = self.world
        if self.certain:
            spans = np.ptp(model.values[1:], axis=1)
            return max(float(((1 + spans) ** 2).sum() / 4), Re**2)
        P = np.tensordot(model.theta, world.candidates, 1)
        r = world.reward_total * np.tensordot(model.reward_theta, world.tables, 1)
        where, total = world.initial.copy(), 0.0
        for h, choices in enumerate(model.choices):
            after = np.zeros_like(where)
            for s, a in enumerate(choices):
                V = model.values[h + 1]
                total += where[s] * (P[s, a] @ V**2 - (P[s, a] @ V) ** 2 + r[s, a] * (1 - r[s, a]))
                after += where[s] * P[s, a]
            where = after
        return total

    def bias(self, model: Model) -> float:
        def covering(d: int) -> float:
            return (d // 2) * ((d + 1) // 2) / d

        d1, d2 = len(self.world.candidates), len(self.world.tables)
        moving = covering(d1) / self.spacing * np.ptp(model.values[1:], axis=1).sum()
        apart = np.ptp(self.world.tables, axis=0).max() * self.world.reward_total
        return float(moving + covering(d2) / self.spacing * apart * self.world.horizon)

    def close(self, released: np.ndarray, users: int, sweep_ends: bool) -> None:
        """End a round with the released sum of ``users`` vectors."""
        model, testing = self.served, not self.caught
        X0, R, e0, Re, tau = self.scales(model)
        n, rounds, total = users, 1, released
        if self.pool and testing:
            n, rounds, total = n + self.users, rounds + self.rounds, total + self.summed
        X = X0 + R / math.sqrt(1 - tau) * total[:-1] / n
        e = e0 + Re / math.sqrt(tau) * total[-1] / n
        noise = self.sigma**2 * rounds / n**2
        fixed = self.variance(model, Re) / n + noise * Re**2 / tau
        slope = noise * R**2 / (1 - tau)

        def b(distance: float) -> float:
            return self.bias(model) + math.sqrt(2 * self.level * (fixed + slope * distance**2))

        for i, other in enumerate(self.models):
            away = np.concatenate([other.theta - model.theta, other.reward_theta - model.reward_theta])
            away = in_coordinates(self.bases, away)
            self.misfit[i] = max(self.misfit[i], abs(e - X @ away) / b(float(np.linalg.norm(away))))
        if testing and abs(e) > self.kappa * b(self.reach):
            self.caught, self.catches = True, self.catches + 1
        if self.caught:
            self.summed, self.users, self.rounds = 0.0, 0, 0
        else:
            self.summed, self.users, self.rounds = total, n, rounds
        if sweep_ends:
            if self.caught:
                self.candidate = self.argmax()
            else:
                self.fallback = self.candidate
            self.caught = False
