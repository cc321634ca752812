# SPDX-License-Identifier: Apache-2.0
r"""How many coins shuffled users must flip: from a promise (ε, δ) to the grid and the noise of every sum.

The noise is shared out over steps and regressions as in the joint model
(:mod:`reticent.agents.linear_mixture.calibration`), with two differences. Statistics are rounded to a grid g that is
*coarse*, since the number of coins grows with
:math:`N=4\sigma^2/g^2`; what rounding adds to the sensitivity is calibrated for. And the noise is binomial, so that the
budget μ is the one that its own account allows (:func:`reticent.privacy.calibration.fewest_coins`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from reticent.agents.linear_mixture.calibration import Calibration, Noise, Regression, Split, share_out
from reticent.errors import InvalidInput
from reticent.privacy.calibration import coarsest_grid, fewest_coins, of_whole_coins
from reticent.privacy.counters import EpochCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.packing import packed_size
from reticent.privacy.sensitivity import Adjacency, joint_sensitivity
from reticent.privacy.trust import SHUFFLE

__all__ = ["calibrate_shuffle", "reach_of"]


def calibrate_shuffle(
    regressions: tuple[Regression, Regression],
    counter: Counter,
    *,
    adjacency: Adjacency,
    epsilon: float,
    delta: float,
    split: Split = "optimised",
    moment_share: float = 1.0,
    honest: float = 1.0,
) -> Calibration:
    """The fewest coins that (ε, δ) allows, on the coarsest grid that costs little.

    Args:
      honest: the share of an epoch's users who can be relied upon to flip their coins. Noise grows by 1/√honest.

    Raises:
      InvalidInput: a counter other than epochs (the sums of a tree would count a user's messages several times).
    """
    if not isinstance(counter, EpochCounter):
        raise InvalidInput(
            "counter", counter.name, "'epochs' in the shuffle model", "each user's messages are sent once"
        )

    def noise(strength: float, grid: float) -> tuple[Noise, Noise]:
        return share_out(regressions, strength, split=split, moment_share=moment_share, adjacency=adjacency, grid=grid)

    def coordinates(strength: float, grid: float) -> tuple[np.ndarray, np.ndarray]:
        scales, moves = [], []
        for one, found in zip(regressions, noise(strength, grid), strict=True):
            for sigma, moved, width in (
                (found.gram_sigma, found.gram_sensitivity, packed_size(one.dimension)),
                (found.moment_sigma, found.moment_sensitivity_alone, one.dimension),
            ):
                scales.append(np.repeat(sigma[sigma > 0], width))
                moves.append(np.repeat(moved[sigma > 0], width))
        return np.concatenate(scales), np.concatenate(moves)

    strength, grid, account = fewest_coins(
        coordinates, coarsest_grid(_roundings(regressions, moment_share, adjacency)),
        epsilon=epsilon, delta=delta, sizes=counter.sizes, honest=honest,
    )  # fmt: skip
    transition, reward = (
        dataclasses.replace(
            one, gram_sigma=of_whole_coins(one.gram_sigma, grid), moment_sigma=of_whole_coins(one.moment_sigma, grid)
        )
        for one in noise(strength, grid)
    )
    return Calibration(
        "exact", SHUFFLE, adjacency, epsilon, delta, counter, 1.0, transition, reward,
        packed=True, grid=grid, account=account,
    )  # fmt: skip


def reach_of(regressions: tuple[Regression, Regression], grid: float) -> np.ndarray:
    """m per coordinate, ``(H, D)``: the most grid steps that a user's clipped and rounded statistics can be from 0."""
    blocks = []
    for one in regressions:
        for most, width in ((one.feature**2, packed_size(one.dimension)), (one.feature * one.target, one.dimension)):
            blocks.append(np.ceil(most / grid)[:, None] * np.ones(width))
    return np.concatenate(blocks, axis=1).astype(np.int64)


def _roundings(
    regressions: tuple[Regression, Regression], moment_share: float, adjacency: Adjacency
) -> Iterator[tuple[float, float]]:
    """Of every group its sensitivity, and by how much rounding raises it per unit of the grid."""
    for one in regressions:
        for bound, target in zip(one.feature.tolist(), one.target.tolist(), strict=True):
            if bound > 0:
                weight = math.sqrt(moment_share) * bound / target
                joint = joint_sensitivity(bound, target, weight, adjacency, nonnegative=one.nonnegative)
                yield joint, math.sqrt(packed_size(one.dimension) + weight**2 * one.dimension)
