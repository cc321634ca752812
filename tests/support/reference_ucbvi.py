# SPDX-License-Identifier: Apache-2.0
"""UCB-VI planning from counts, transcribed with loops: slow, plain, and knowing nothing of the library."""

from __future__ import annotations

import numpy as np


def count(episodes: list, horizon: int, states: int, actions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visits, transitions and reward sums of a list of (states, actions, rewards)."""
    visits = np.zeros((horizon, states, actions))
    onward = np.zeros((horizon, states, actions, states))
    rewards = np.zeros((horizon, states, actions))
    for s, a, r in episodes:
        for h in range(horizon):
            visits[h, s[h], a[h]] += 1
            onward[h, s[h], a[h], s[h + 1]] += 1
            rewards[h, s[h], a[h]] += r[h]
    return visits, onward, rewards


def hoeffding(n: float, iota: float, horizon: int, mean: float, second: float) -> float:
    """Seven H ι over the root of n, and a mean reward's own."""
    return 7 * horizon * iota / n**0.5 + (iota / (2 * n)) ** 0.5


def bernstein(n: float, iota: float, horizon: int, mean: float, second: float) -> float:
    variance = max(second - mean**2, 0.0)
    return max(2 * 2**0.5 * (variance * iota / n) ** 0.5, 8 * horizon * iota / n) + (iota / (2 * n)) ** 0.5


def plan(visits, onward, rewards, bonus, scale: float, iota: float) -> tuple[np.ndarray, np.ndarray]:
    """Optimistic Q ``(H, S, A)`` and V ``(H + 1, S)``; a pair never seen is worth all that is left."""
    horizon, states, actions = visits.shape
    q = np.zeros((horizon, states, actions))
    v = np.zeros((horizon + 1, states))
    for h in reversed(range(horizon)):
        left = horizon - h
        for s in range(states):
            for a in range(actions):
                n = visits[h, s, a]
                if n == 0:
                    q[h, s, a] = left
                    continue
                chances = onward[h, s, a] / n
                mean = sum(chances[k] * v[h + 1, k] for k in range(states))
                second = sum(chances[k] * v[h + 1, k] ** 2 for k in range(states))
                hoped = rewards[h, s, a] / n + mean + scale * bonus(n, iota, horizon, mean, second)
                q[h, s, a] = min(max(hoped, 0.0), left)
            v[h, s] = q[h, s].max()
    return q, v
