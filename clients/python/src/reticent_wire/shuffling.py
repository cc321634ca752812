# SPDX-License-Identifier: Apache-2.0
r"""The shuffle model: no party sees a report, and users hide each other with coin flips.

Between users and server stands a *shuffler* that mixes all messages of an epoch before anyone reads them. A user rounds
each coordinate of their statistics to the grid (:func:`~reticent_wire.grid.round_at`), :math:`x\in\{-m,\dots,m\}`
steps, and sends one-bit messages that say which coordinate they are for: :math:`x+m` ones and :math:`m-x` zeros, and their
share of N fair coin flips. The analyst gets the messages in random order (:func:`mix`) and adds up.

**Theorem.** What the analyst sees is, for each coordinate, a function of
:math:`\sum x+\mathrm{Bin}(N,\tfrac12)` and of public numbers with fresh randomness, and determines it.

Proof. How many messages each coordinate has is public: n·2m + N. Given their number, a uniformly permuted sequence of bits
is a function of the number of ones and of the permutation, which is independent of everything. The number of ones
is :math:`\sum(x+m)+\mathrm{Bin}(N,\tfrac12)`. ∎

So of messages only two numbers per coordinate matter, how many there are and how many are ones: a :class:`Tally`. A device
forms its tally (:func:`tally_of`), a shuffler adds tallies up, the service reads the sum out of them (:func:`doubled_sum`).
Messages one by one are the same thing spelt out: :func:`encode` spells a tally, :func:`count` counts it again.

The view of the analyst is that of a trusted server that adds centred binomial noise to the epoch's sum, and this is
what a simulation draws: reports travel without noise there as in the joint model, the round's noise is
:math:`g(\mathrm{Bin}(N,\tfrac12)-N/2)`, and every release has the law that the protocol gives it. What such noise is worth
is proven in ``reticent.privacy.accounting.binomial``.

**Formal guarantee.** Everything the analyst receives is (ε, δ)-DP with respect to one user, if the shuffler mixes and at
least the share ``honest`` of every epoch's users follows the protocol: the coins of these alone are counted on. Users of
other epochs share no message with theirs, and later plans are functions of what the analyst received.

Any other way to reveal sums and nothing else has the same guarantee: with secure aggregation a user adds up their own coins
and sends one integer of about :math:`\log_2(2nm+N)` bits a coordinate instead of 2m + N/n bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent_wire.errors import InvalidInput

Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]

COINS_AT_ONCE = 1 << 20
"""Coins that are drawn from the operating system in one piece where only their sum matters."""


class Tally(NamedTuple):
    """Messages, counted: for each coordinate how many there are, and how many of them are ones."""

    ones: Integers
    messages: Integers


class Messages(NamedTuple):
    """One-bit messages: which coordinate each is for, and the bit."""

    coordinate: Integers
    bit: Bits


# -- the user ---------------------------------------------------------------------------------------------------------


def tally_of(values: ArrayLike, reach: ArrayLike, heads: ArrayLike, coins: ArrayLike) -> Tally:
    """A user's messages, counted: 2·``reach`` bits that say ``values``, and their ``coins``, of which ``heads`` were ones.

    Raises:
      InvalidInput: a value is not a whole number within its reach, or more coins were ones than flipped; nothing has
        been sent.
    """
    steps, limit, ones, flipped = (np.asarray(part) for part in (values, reach, heads, coins))
    whole = np.issubdtype(steps.dtype, np.integer) and steps.shape == limit.shape == ones.shape == flipped.shape
    if not whole or (np.abs(steps) > limit).any():
        raise InvalidInput("values", "out of range", "whole grid steps within reach", "clip and round the statistics")
    if not ((ones >= 0) & (ones <= flipped)).all():
        raise InvalidInput("coins", "out of range", "at most as many ones as coins", "count what was flipped")
    return Tally(
        np.asarray(steps + limit + ones, np.int64),
        np.asarray(2 * limit + flipped, np.int64),
    )


def encode(values: ArrayLike, reach: ArrayLike, coins: Sequence[Bits]) -> Messages:
    """A user's messages one by one; ``coins[i]`` are the fair coins they flipped for coordinate i.

    Raises:
      InvalidInput: a value is not a whole number within its reach; nothing has been sent.
    """
    heads = np.array([int(np.sum(flipped)) for flipped in coins], np.int64)
    return spell(tally_of(values, reach, heads, np.array([len(flipped) for flipped in coins], np.int64)))


def spell(tally: Tally) -> Messages:
    """Messages one by one that a tally ``(D,)`` counts; their order says nothing, and :func:`mix` forgets it."""
    places = np.repeat(np.arange(tally.messages.size), tally.messages)
    bits = [np.arange(count) < ones for ones, count in zip(tally.ones.tolist(), tally.messages.tolist(), strict=True)]
    return Messages(places, np.concatenate(bits) if bits else np.zeros(0, bool))


def secure_coins(count: int) -> Bits:
    """Fair coin flips from the operating system's entropy."""
    drawn = np.frombuffer(os.urandom(-(-count // 8)), np.uint8)
    return np.unpackbits(drawn, count=count).astype(bool)


def secure_heads(count: int) -> int:
    """How many of ``count`` fair coins show a one; without keeping them, since a round's may be hundreds of millions."""
    heads = 0
    for first in range(0, count, COINS_AT_ONCE):
        flips = min(COINS_AT_ONCE, count - first)
        drawn = int.from_bytes(os.urandom(-(-flips // 8)), "little")
        heads += (drawn & ((1 << flips) - 1)).bit_count()
    return heads


# -- the shuffler -----------------------------------------------------------------------------------------------------


def mix(sent: Sequence[Messages], order: np.random.Generator) -> Messages:
    """The shuffler: all messages of an epoch in random order, without a sign of who sent which."""
    coordinate = np.concatenate([messages.coordinate for messages in sent])
    bit = np.concatenate([messages.bit for messages in sent])
    shuffled = order.permutation(coordinate.size)
    return Messages(coordinate[shuffled], bit[shuffled])


def count(mixed: Messages, size: int) -> Tally:
    """Messages for ``size`` coordinates, counted: all that their order, once mixed, leaves to be known."""
    messages = np.bincount(mixed.coordinate, minlength=size)
    ones = np.bincount(mixed.coordinate[mixed.bit], minlength=size)
    return Tally(ones.astype(np.int64), messages.astype(np.int64))


# -- the analyst ------------------------------------------------------------------------------------------------------


def doubled_sum(tally: Tally, wanted: ArrayLike) -> Integers:
    r"""Twice the noisy sum in grid steps, from an epoch's tally that has as many messages as are ``wanted``.

    With n users and c coins, messages = 2nm + c, hence

    .. math:: 2\cdot\text{ones}-\text{messages}=2\sum x+(2\,\mathrm{Bin}(c,\tfrac12)-c),

    which is whole also where c is odd.

    Raises:
      InvalidInput: there are more or fewer messages, or more ones than messages.
    """
    ones, messages = np.asarray(tally.ones, np.int64), np.asarray(tally.messages, np.int64)
    number = np.asarray(wanted, np.int64)
    # Bounded before anything is multiplied or subtracted, so that no request can overflow.
    if not (
        ones.shape == messages.shape == number.shape and ((messages >= 0) & (ones >= 0) & (ones <= messages)).all()
    ):
        raise InvalidInput("ones", "out of range", "from 0 to the number of messages", "count ones and messages")
    if not (messages == number).all():
        raise InvalidInput(
            "messages", "inconsistent", "as many as the epoch's users send", "send every user's values and coins, once"
        )
    return 2 * ones - messages


def analyse(mixed: Messages, users: int, reach: ArrayLike, coins: ArrayLike) -> NDArray[np.float64]:
    """The epoch's noisy sum in grid steps: ones, less what they are at zero values and even coins.

    Raises:
      InvalidInput: a coordinate has more or fewer messages than ``users`` users send.
    """
    limit, flipped = np.asarray(reach, np.int64), np.asarray(coins, np.int64)
    wanted = 2 * users * limit + flipped
    return doubled_sum(count(mixed, limit.size), wanted) / 2


# -- how many coins ---------------------------------------------------------------------------------------------------


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
        raise InvalidInput("honest", honest, "a share in (0, 1]", "1 relies on every user to flip their coins")
    if honest == 1:
        return 1.0
    return max(size / math.ceil(honest * size) + (size + 1) / fewest for size in sizes)


def messages_per_user(coins: ArrayLike, reach: ArrayLike, users: int) -> int:
    """One-bit messages of a user of an epoch of ``users`` users, the most that one of them sends."""
    return int(2 * np.sum(reach) + coins_of_user(coins, users, 0).sum())
