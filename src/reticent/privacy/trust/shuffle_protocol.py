r"""The shuffle model: nobody sees a report, and users hide each other with coin flips.

Between users and server stands a *shuffler* that mixes all messages of an epoch before anyone reads them. A user rounds
each coordinate of her statistics to the grid (:func:`round_at`), :math:`x\in\{-m,\dots,m\}` steps, and sends one-bit
messages that say which coordinate they are for: :math:`x+m` ones and :math:`m-x` zeros, and her share of N fair coin flips
(:func:`encode`). The analyst gets the messages in random order (:func:`mix`) and adds up (:func:`analyse`).

**Theorem.** What the analyst sees is, for each coordinate, a function of
:math:`\sum x+\mathrm{Bin}(N,\tfrac12)` and of public numbers with fresh randomness, and determines it.

Proof. How many messages each coordinate has is public: n·2m + N. Given their number, a uniformly permuted sequence of bits
is a function of the number of ones and of the permutation, which is independent of everything. The number of ones
is :math:`\sum(x+m)+\mathrm{Bin}(N,\tfrac12)`. ∎

So the view of the analyst is that of a trusted server that adds centred binomial noise to the epoch's sum, and this is
what a simulation draws: reports travel without noise there as in the joint model, the round's noise is
:math:`g(\mathrm{Bin}(N,\tfrac12)-N/2)`, and every release has the law that the protocol gives it. What such noise is worth
is proven in :mod:`reticent.privacy.accounting.binomial`.

**Formal guarantee.** Everything the analyst receives is (ε, δ)-DP with respect to one user, if the shuffler mixes and at
least the share ``honest`` of every epoch's users follows the protocol: the coins of these alone are counted on. Users of
other epochs share no message with her, and later plans are functions of what the analyst received.

Any other way to reveal sums and nothing else has the same guarantee: with secure aggregation a user adds up her own coins
and sends one integer of about :math:`\log_2(2nm+N)` bits a coordinate instead of 2m + N/n bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidInput

__all__ = [
    "Messages",
    "analyse",
    "coin_excess",
    "coins_for",
    "coins_of_user",
    "encode",
    "messages_per_user",
    "mix",
    "round_at",
    "secure_coins",
]

Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]


class Messages(NamedTuple):
    """One-bit messages: which coordinate each is for, and the bit."""

    coordinate: Integers
    bit: Bits


def round_at(values: ArrayLike, grid: float, uniforms: ArrayLike) -> Integers:
    r"""Whole steps of ``grid``, :math:`\lfloor x/g+v\rfloor` with v uniform on [0, 1): right on average.

    A coarse grid makes this necessary: rounding to the nearest errs the same way for many users, and a sum over them
    would not forget it. The sensitivity is that of rounding to the nearest, :math:`\Delta+g\sqrt D`: v does not depend on
    the user's data, so neighbours may be compared at the same v (a mixture of mechanisms that are (ε, δ)-DP each is), and
    :math:`|\lfloor a+v\rfloor-\lfloor b+v\rfloor|<|a-b|+1`.
    """
    steps: Integers = np.floor(np.asarray(values, np.float64) / grid + np.asarray(uniforms)).astype(np.int64)
    return steps


def encode(values: ArrayLike, reach: ArrayLike, coins: Sequence[Bits]) -> Messages:
    """A user's messages: for each coordinate 2·``reach`` bits that say ``values``, and the fair ``coins`` she flipped.

    ``coins[i]`` are those of coordinate i. In a deployment they come from :func:`secure_coins`.

    Raises:
      InvalidInput: a value is not a whole number within its reach; nothing has been sent.
    """
    steps, limit = np.asarray(values), np.asarray(reach)
    whole = np.issubdtype(steps.dtype, np.integer) and steps.shape == limit.shape == (len(coins),)
    if not whole or (np.abs(steps) > limit).any():
        raise InvalidInput("values", "out of range", "whole grid steps within reach", "clip and round the statistics")
    places, bits = [], []
    for index, (value, most, flipped) in enumerate(zip(steps.tolist(), limit.tolist(), coins, strict=True)):
        bits += [np.arange(2 * most) < value + most, np.asarray(flipped, bool)]
        places.append(np.full(2 * most + len(flipped), index, np.int64))
    return Messages(np.concatenate(places), np.concatenate(bits))


def mix(sent: Sequence[Messages], order: np.random.Generator) -> Messages:
    """The shuffler: all messages of an epoch in random order, without a sign of who sent which."""
    coordinate = np.concatenate([one.coordinate for one in sent])
    bit = np.concatenate([one.bit for one in sent])
    shuffled = order.permutation(coordinate.size)
    return Messages(coordinate[shuffled], bit[shuffled])


def analyse(mixed: Messages, users: int, reach: ArrayLike, coins: ArrayLike) -> NDArray[np.float64]:
    """The epoch's noisy sum in grid steps: ones, less what they are at zero values and even coins.

    Raises:
      InvalidInput: a coordinate has more or fewer messages than ``users`` users send.
    """
    limit, flipped = np.asarray(reach, np.int64), np.asarray(coins, np.int64)
    got = np.bincount(mixed.coordinate, minlength=limit.size)
    wanted = 2 * users * limit + flipped
    if got.shape != wanted.shape or (got != wanted).any():
        raise InvalidInput("messages", int(got.sum()), f"{int(wanted.sum())} in all", "wait for every user's messages")
    ones = np.bincount(mixed.coordinate, weights=mixed.bit, minlength=limit.size)
    return np.asarray(ones - users * limit - flipped / 2)


def secure_coins(count: int) -> Bits:
    """Fair coin flips from the operating system's entropy."""
    drawn = np.frombuffer(os.urandom(-(-count // 8)), np.uint8)
    return np.unpackbits(drawn, count=count).astype(bool)


def coins_for(scale: ArrayLike, grid: float) -> Integers:
    """N, the even number of coins whose sum spreads by at least ``scale``: the least with g√N/2 ≥ σ. 0 where σ is 0."""
    steps = np.asarray(scale, np.float64) / grid
    # A relative rounding error of the square must not cost a coin.
    return 2 * np.ceil(2 * steps**2 * (1 - 1e-12)).astype(np.int64)


def coins_of_user(coins: ArrayLike, users: int, number: int) -> Integers:
    """How many of an epoch's coins its user ``number`` (0-based, public) flips: equal shares, the first ones one more."""
    share, left = np.divmod(np.asarray(coins, np.int64), users)
    return share + (number < left)


def coin_excess(sizes: Sequence[int], fewest: int, honest: float) -> float:
    r"""κ ≥ 1: by how much the coins must be multiplied so that ``honest`` users of each epoch flip enough by themselves.

    Of n users :math:`h=\lceil\rho n\rceil` are honest and flip at least :math:`\lfloor N\kappa/n\rfloor` each, N being
    at least ``fewest``. With :math:`\kappa=\max_n\,(n/h+(n+1)/N)` these are
    :math:`h\lfloor N\kappa/n\rfloor\ge h(N\kappa/n-1)\ge N`, also if Nκ is rounded.
    """
    if not 0 < honest <= 1:
        raise InvalidInput("honest", honest, "a share in (0, 1]", "1 relies on every user to flip her coins")
    if honest == 1:
        return 1.0
    return max(size / math.ceil(honest * size) + (size + 1) / fewest for size in sizes)


def messages_per_user(coins: ArrayLike, reach: ArrayLike, users: int) -> int:
    """One-bit messages of a user of an epoch of ``users`` users, the most that one of them sends."""
    return int(2 * np.sum(reach) + coins_of_user(coins, users, 0).sum())
