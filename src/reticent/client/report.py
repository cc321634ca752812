r"""What a device sends in the local model: clipped statistics of one episode on an integer grid, plus its own noise.

The numbers are those of :func:`reticent.agents.linear_mixture.statistics.observe` and :class:`reticent.agents.linear_mixture.privatizer.Privatizer`,
in NumPy alone: a device needs no JAX. (Their sums may differ in the last bit, which rounding to the grid then hides.)

Formal guarantee. Whatever the model, the billboard and the trajectory, features are clipped to their norm, targets and
rewards to their interval before any product is formed, and every coordinate that can be other than zero gets noise.
Whether the noise is *enough* is checked in :mod:`reticent.client.promise`, on the device too.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray

from reticent.client import discrete_gaussian
from reticent.client.published import Billboard, Model

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode: ``states`` (H + 1), ``actions`` (H), ``rewards`` (H)."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Floats


def noised_report(model: Model, billboard: Billboard, seen: Trajectory) -> NDArray[np.int64]:
    """The report ``(H, D)`` that may leave the device. Fresh noise each time: call it once per episode, keep the result."""
    return statistics(model, billboard, seen) + discrete_gaussian.draw(model.rules.noise_scale, model.rules.grid)


def statistics(model: Model, billboard: Billboard, seen: Trajectory) -> NDArray[np.int64]:
    """The clipped statistics ``(H, D)`` in units of the grid, without noise. These are raw data: they stay here."""
    return np.rint(clipped_products(model, billboard, seen) / model.rules.grid).astype(np.int64)


def clipped_products(model: Model, billboard: Billboard, seen: Trajectory) -> Floats:
    """The clipped statistics ``(H, D)`` before any rounding. These are raw data: they stay here."""
    rules, values = model.rules, billboard.framed_values
    here, there = seen.states[:-1], seen.states[1:]
    features = np.stack(
        [model.value_features(values[h], s, a) for h, (s, a) in enumerate(zip(here, seen.actions, strict=True))]
    )
    rewards_seen = model.reward_features[:, here, seen.actions].T
    if rules.nonnegative_rewards:
        rewards_seen = np.maximum(rewards_seen, 0.0)
    phi = clip_norm(features, rules.feature_bound)
    target = clip_interval(values[np.arange(len(values)), there], rules.target_low, rules.target_high)
    varphi = clip_norm(rewards_seen, np.ones(len(values)))
    reward = clip_interval(seen.rewards, np.zeros(len(values)), np.ones(len(values)))
    rows = [packed_square(phi), phi * target[:, None], packed_square(varphi), varphi * reward[:, None]]
    return np.concatenate(rows, axis=1)


def clip_norm(x: Floats, bound: Floats) -> Floats:
    """Rows ``(n, d)`` scaled to norm at most ``bound`` ``(n,)`` in exact arithmetic; entries that are not finite are 0.

    The factor is shaved by the rounding error of the norm, as in :func:`reticent.privacy.clipping.clip_norm`.
    """
    # Squares of smaller numbers would be lost, and such a number would pass a bound of 0.
    x = np.where(np.isfinite(x) & (np.abs(x) > 1e-150), x, 0.0)
    with np.errstate(over="ignore"):  # an infinite norm makes the vector 0, which is within every bound
        square = (x * x).sum(axis=-1, keepdims=True)
    shave = 1.0 - (x.shape[-1] + 4) * float(np.finfo(np.float64).eps)
    limit = bound[:, None] * shave
    inside = square <= limit**2
    return np.asarray(x * np.where(inside, 1.0, limit / np.sqrt(np.where(inside, 1.0, square))))


def clip_interval(x: Floats, low: Floats, high: Floats) -> Floats:
    """Numbers within [``low``, ``high``]; one that is not a number counts as ``low``."""
    return np.clip(np.where(np.isnan(x), low, x), low, high)


def packed_square(x: Floats) -> Floats:
    """xxᵀ of every row, as its upper triangle with off-diagonals times √2: the same norm, half the numbers."""
    rows, columns, scale = _triangle(x.shape[-1])
    return np.asarray(x[:, rows] * x[:, columns] * scale)


@functools.cache
def _triangle(dimension: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    rows, columns = np.triu_indices(dimension)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))
