# SPDX-License-Identifier: Apache-2.0
r"""How many coins shuffled users must flip: from a promise (ε, δ) to the grid and the noise of every sum.

The noise is shared out over steps and regressions as in the joint model
(:mod:`reticent.agents.linear_mixture.calibration`), with two differences. Statistics are rounded to a grid g that is
*coarse*, since the number of coins grows with
:math:`N=4\sigma^2/g^2`: rounding may raise the sensitivity by the share :data:`ROUNDING`, which is calibrated for. And the
noise is binomial, so that the budget μ is the one that its own account allows
(:mod:`reticent.privacy.accounting.binomial`).

Order of the computation: a first pass at the μ without remainder gives σ and with it the remainder's slope; the second
pass spends what is left of ε. A smaller μ means more coins, and slope and r only fall with these, so that the first
pass's slope is on the safe side of the second.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from reticent.agents.linear_mixture.calibration import Calibration, Noise, Regression, Split, share_out
from reticent.errors import InvalidInput
from reticent.privacy.accounting.binomial import TAIL_SHARE, BinomialAccount, account_of
from reticent.privacy.counters import EpochCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.guarantee import check_promise
from reticent.privacy.packing import packed_size
from reticent.privacy.sensitivity import Adjacency, joint_sensitivity
from reticent.privacy.trust import SHUFFLE
from reticent_wire.shuffling import coin_excess, coins_for

__all__ = ["ROUNDING", "calibrate_shuffle", "reach_of"]

ROUNDING = 0.1
"""The most by which rounding may raise any group's sensitivity; halving it quadruples the messages."""

REMAINDER = 0.02
"""The most that the remainder r may take of ε; a finer grid is taken otherwise."""


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
    check_promise(epsilon, delta)
    if not isinstance(counter, EpochCounter):
        raise InvalidInput(
            "counter", counter.name, "'epochs' in the shuffle model", "each user's messages are sent once"
        )
    tail = TAIL_SHARE * delta
    free = BinomialAccount(tail, 0.0)
    grid = _coarsest_grid(regressions, moment_share, adjacency)
    while True:
        noises = _on_the_grid(regressions, free.strength_of(epsilon, delta), split, moment_share, adjacency, grid)
        account = _account(regressions, noises, grid, tail)
        if account is not None and account.slope * free.strength_of(epsilon, delta) <= REMAINDER * epsilon:
            break
        grid /= 2
    noises = _on_the_grid(regressions, account.strength_of(epsilon, delta), split, moment_share, adjacency, grid)
    coins = coins_for(np.concatenate([sigma for one in noises for sigma in (one.gram_sigma, one.moment_sigma)]), grid)
    fewest = int(coins[coins > 0].min())
    account = dataclasses.replace(account, excess=math.sqrt(coin_excess(counter.sizes, fewest, honest)))
    transition, reward = noises
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


def _coarsest_grid(regressions: tuple[Regression, Regression], moment_share: float, adjacency: Adjacency) -> float:
    """The largest power of two by which rounding moves no group by more than :data:`ROUNDING` of its sensitivity."""
    steps = []
    for one in regressions:
        for bound, target in zip(one.feature.tolist(), one.target.tolist(), strict=True):
            if bound > 0:
                weight = math.sqrt(moment_share) * bound / target
                joint = joint_sensitivity(bound, target, weight, adjacency, nonnegative=one.nonnegative)
                steps.append(ROUNDING * joint / math.sqrt(packed_size(one.dimension) + weight**2 * one.dimension))
    return 2.0 ** math.floor(math.log2(min(steps)))


def _on_the_grid(
    regressions: tuple[Regression, Regression],
    mu: float,
    split: Split,
    moment_share: float,
    adjacency: Adjacency,
    grid: float,
) -> tuple[Noise, Noise]:
    """The noise of both regressions, each σ raised to the next one that whole coins can have."""

    def whole(sigma: np.ndarray) -> np.ndarray:
        return np.asarray(grid * np.sqrt(coins_for(sigma, grid)) / 2)

    transition, reward = (
        dataclasses.replace(noise, gram_sigma=whole(noise.gram_sigma), moment_sigma=whole(noise.moment_sigma))
        for noise in share_out(regressions, mu, split=split, moment_share=moment_share, adjacency=adjacency, grid=grid)
    )
    return transition, reward


def _account(
    regressions: tuple[Regression, Regression], noises: tuple[Noise, Noise], grid: float, tail: float
) -> BinomialAccount | None:
    """The account of these coins; None if they are too few for the theorem."""
    coins, shifts = [], []
    for one, noise in zip(regressions, noises, strict=True):
        for sigma, moves, width in (
            (noise.gram_sigma, noise.gram_sensitivity, packed_size(one.dimension)),
            (noise.moment_sigma, noise.moment_sensitivity_alone, one.dimension),
        ):
            active = sigma > 0
            coins.append(np.repeat(coins_for(sigma[active], grid), width))
            shifts.append(np.repeat(moves[active] / grid, width))
    try:
        return account_of(np.concatenate(coins), np.concatenate(shifts), tail)
    except InvalidInput:
        return None
