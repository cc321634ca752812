# SPDX-License-Identifier: Apache-2.0
"""The shuffle protocol: its messages have the law that simulations draw, and show the sum alone."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from reticent.errors import InvalidInput
from reticent.privacy.counters import EpochCounter
from reticent.privacy.sums import PrivateSums
from reticent.privacy.trust import SHUFFLE
from reticent_wire.grid import round_at
from reticent_wire.shuffling import (
    Messages,
    analyse,
    coin_excess,
    coins_of_user,
    encode,
    mix,
    secure_coins,
)

FALSE_ALARM = 1e-6


def sums_of(scale: jax.Array, grid: float) -> PrivateSums:
    """Shuffled sums with noise of this scale, as a simulation draws it."""
    sums = PrivateSums()
    sums.noise_scale, sums.grid, sums.counter, sums.trust, sums.law = (
        scale, jnp.asarray(grid), EpochCounter((3,)), SHUFFLE, "binomial",
    )  # fmt: skip
    return sums


def fits_binomial(heads: np.ndarray, coins: int) -> bool:
    """Pearson's test against Bin(coins, 1/2) at the false-alarm rate of this file; bins of five or more expected."""
    values = np.arange(coins + 1)
    expected = binom.pmf(values, coins, 0.5) * heads.size
    bins = np.minimum(np.cumsum(expected) // (heads.size / 20), 19).astype(int)
    wanted = np.bincount(bins, expected)
    got = np.bincount(bins[heads.astype(int)], minlength=wanted.size)
    used = wanted > 5
    statistic = ((got - wanted)[used] ** 2 / wanted[used]).sum()
    return bool(statistic < chi2.isf(FALSE_ALARM, used.sum() - 1))


def test_messages_and_simulated_noise_have_the_same_law() -> None:
    """False alarms: 4 tests at 1e-6 each."""
    users, reach, coins, epochs = 3, np.array([2, 4]), np.array([20, 60]), 2000
    values = np.array([[1, -4], [-2, 0], [2, 3]])
    draw = np.random.default_rng(7)
    sums = np.empty((epochs, 2))
    for epoch in range(epochs):
        sent = [
            encode(values[u], reach, [draw.random(n) < 0.5 for n in coins_of_user(coins, users, u)])
            for u in range(users)
        ]
        sums[epoch] = analyse(mix(sent, draw), users, reach, coins)
    grid = 0.25
    keys = jax.random.split(jax.random.key(3), epochs)
    scale = jnp.asarray(grid * np.sqrt(coins) / 2)[None]
    noise = np.asarray(jax.vmap(sums_of(scale, grid).simulate_round_noise)(keys))[:, 0] / grid
    for column in range(2):
        from_messages = sums[:, column] - values[:, column].sum() + coins[column] / 2
        assert fits_binomial(from_messages, coins[column])
        assert fits_binomial(noise[:, column] + coins[column] / 2, coins[column])
        assert not fits_binomial(from_messages * 0.9 + coins[column] * 0.05, coins[column])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_analyst_sees_the_sum_and_nothing_else(data) -> None:
    """With the same number of heads, different users make the same multiset of messages."""
    reach = np.array(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    one = [data.draw(st.integers(-int(m), int(m) - 1)) for m in reach]
    heads = [np.array([True, False, True])] * len(reach)
    fewer = [np.array([False, False, True])] * len(reach)
    first = encode(np.array(one), reach, heads)
    second = encode(np.array(one) + 1, reach, fewer)
    order = np.random.default_rng(0)
    counted = [
        np.bincount(2 * mixed.coordinate + mixed.bit, minlength=2 * len(reach))
        for mixed in (mix([first], order), mix([second], order))
    ]
    np.testing.assert_array_equal(*counted)
    np.testing.assert_array_equal(analyse(first, 1, reach, [3] * len(reach)), np.array(one) + 0.5)


@given(value=st.floats(-3, 3), other=st.floats(-3, 3), seed=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_rounding_is_right_on_average_and_moves_neighbours_by_less_than_a_step(value, other, seed) -> None:
    """False alarms: a mean of 400 draws six standard errors off, below 1e-8 each."""
    grid = 0.25
    uniforms = np.random.default_rng(seed).random(400)
    one, two = round_at(np.full(400, value), grid, uniforms), round_at(np.full(400, other), grid, uniforms)
    assert abs(one.mean() * grid - value) <= 6 * grid / 2 / 20 + 1e-9
    assert (np.abs(one - two) < abs(value - other) / grid + 1 + 1e-9).all()


def test_the_privatizer_rounds_like_the_protocol() -> None:
    grid = 0.125
    sums = sums_of(jnp.ones((3, 7)), grid)
    uniforms = sums.simulate_user_noise(jax.random.key(2))
    exact = np.random.default_rng(0).uniform(-1, 1, uniforms.shape)
    sent = np.asarray(sums.send(jnp.asarray(exact), uniforms)) / grid
    np.testing.assert_array_equal(sent, round_at(exact, grid, uniforms))


def test_values_out_of_reach_and_lost_messages_are_refused() -> None:
    coins = [np.zeros(4, bool)]
    for bad in (np.array([3]), np.array([0.5]), np.array([1, 1])):
        with pytest.raises(InvalidInput, match="values"):
            encode(bad, np.array([2]), coins)
    sent = encode(np.array([1]), np.array([2]), coins)
    with pytest.raises(InvalidInput, match="messages"):
        analyse(Messages(sent.coordinate[1:], sent.bit[1:]), 1, [2], [4])


def test_secure_coins_are_fair_and_fresh() -> None:
    """False alarms: one at 1e-6, and two equal draws of 4000 bits never."""
    first, second = secure_coins(4001), secure_coins(4001)
    assert first.shape == (4001,)
    assert first.dtype == bool
    assert abs(int(first.sum()) - 2000.5) < 5 * math.sqrt(1001)
    assert not np.array_equal(first, second)


@given(coins=st.integers(0, 10**6), users=st.integers(1, 500))
def test_all_coins_are_flipped_by_somebody(coins, users) -> None:
    shares = [int(coins_of_user(coins, users, number)) for number in range(users)]
    assert sum(shares) == coins
    assert max(shares) - min(shares) <= 1


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    needed=st.integers(20, 10**5),
    honest=st.floats(0.05, 0.999),
)
def test_honest_users_alone_flip_enough(sizes, needed, honest) -> None:
    factor = coin_excess(sizes, needed, honest)
    assert factor <= 1 / honest + (max(sizes) + 1) / needed + 1e-9  # and no more than that takes
    for count in (needed, 3 * needed):
        flipped = round(factor * count)
        for size in sizes:
            least = int(coins_of_user(flipped, size, size - 1))
            assert math.ceil(honest * size) * least >= count
    assert coin_excess(sizes, needed, 1.0) == 1.0
