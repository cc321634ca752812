# SPDX-License-Identifier: Apache-2.0
"""Messages to a shuffler: as many as a user's place says, the right ones, and nothing that gives the user away."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from device_laws import squares_fit
from make_vectors import example_billboard, example_model, example_trajectory

from reticent_client import InvalidInput, messages
from reticent_client.messages import form_messages, require_shuffle
from reticent_wire import shuffle_rules, shuffling
from reticent_wire.boundary import Clipped
from reticent_wire.shuffling import (
    Messages,
    Tally,
    analyse,
    coin_excess,
    coins_for,
    coins_of_user,
    count,
    doubled_sum,
    encode,
    mix,
    secure_coins,
    secure_heads,
    spell,
    tally_of,
)

MODEL = example_model("regressions", shuffle=True)
BOARD = example_billboard(MODEL)
RULES = require_shuffle(MODEL)


@pytest.mark.parametrize("within", range(4))
def test_a_user_sends_as_many_messages_as_their_place_says(within: int) -> None:
    for seen in (Clipped(example_trajectory(MODEL, within)), None):
        sent = form_messages(MODEL, BOARD, seen, 0, within)
        np.testing.assert_array_equal(sent.messages, 2 * RULES.reach + coins_of_user(RULES.coins, 4, within))
        assert ((sent.ones >= 0) & (sent.ones <= sent.messages)).all()
        RULES.require_tally(0, within, sent)


def test_places_that_do_not_exist_are_refused() -> None:
    for place in ((2, 0), (-1, 0), (0, 4), (0, -1)):
        with pytest.raises(InvalidInput, match="place"):
            form_messages(MODEL, BOARD, None, *place)


def test_a_rounds_sum_has_the_coins_noise_and_nothing_else() -> None:
    """Decoded sums of 60 rounds against the true sum: variance N/4 of the coins and rounding, chi-square."""
    users = [example_trajectory(MODEL, seed) for seed in range(4)]
    truth = sum(MODEL.contribution(BOARD, seen) for seen in users) / MODEL.rules.grid
    hidden = RULES.coins > 0
    errors = []
    for _ in range(60):
        sent = [form_messages(MODEL, BOARD, Clipped(seen), 0, within) for within, seen in enumerate(users)]
        batch = Tally(sum(tally.ones for tally in sent), sum(tally.messages for tally in sent))
        noisy = RULES.doubled_sum(0, 4, batch) / 2
        np.testing.assert_array_equal(noisy[~hidden], truth[~hidden])
        errors.append((noisy - truth)[hidden] / np.sqrt(RULES.coins[hidden] / 4))
    units = np.concatenate(errors)
    # Rounding at random adds between 0 and 4·¼ to a variance of 45/4: at most 9%.
    assert squares_fit(float((units**2).sum()), units.size) or squares_fit(float((units**2).sum()) / 1.05, units.size)
    assert not squares_fit(float(((0.8 * units) ** 2).sum()), units.size)


def test_a_user_who_shows_nothing_sends_the_value_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "secure_coins", lambda flips: np.zeros(flips, bool))
    sent = form_messages(MODEL, BOARD, None, 0, 1)
    np.testing.assert_array_equal(sent.ones, RULES.reach)


def test_numbers_that_no_coin_hides_are_not_sent() -> None:
    bare = RULES.coins.copy()
    bare[0, 0] = 0
    for wrong in (dataclasses.replace(RULES, coins=bare), dataclasses.replace(RULES, reach=-RULES.reach)):
        rules = dataclasses.replace(MODEL.rules, shuffle=wrong)
        with pytest.raises(InvalidInput, match="do not send"):
            require_shuffle(dataclasses.replace(MODEL, rules=rules))
    with pytest.raises(InvalidInput, match="shuffle model"):
        require_shuffle(example_model("regressions"))


# -- the protocol -----------------------------------------------------------------------------------------------------


def test_messages_one_by_one_are_the_tally_spelt_out() -> None:
    draw = np.random.default_rng(0)
    reach, coins = np.array([2, 5, 0]), [draw.random(n) < 0.5 for n in (7, 0, 3)]
    values = np.array([-2, 3, 0])
    one_by_one = encode(values, reach, coins)
    heads, flipped = np.array([c.sum() for c in coins]), np.array([len(c) for c in coins])
    direct = tally_of(values, reach, heads, flipped)
    np.testing.assert_array_equal(count(one_by_one, 3), direct)
    np.testing.assert_array_equal(count(spell(direct), 3), direct)
    np.testing.assert_array_equal(count(mix([one_by_one], draw), 3), direct)


def test_mixing_forgets_who_sent_what() -> None:
    """Two rounds with the same tallies in all: the mixed sequences are the same under the same permutation law."""
    reach, nothing = np.array([3]), [np.zeros(0, bool)]
    one = [encode(np.array([v]), reach, nothing) for v in (3, -3)]
    other = [encode(np.array([v]), reach, nothing) for v in (0, 0)]
    order = np.random.default_rng(1)
    seen = [[tuple(mix(sent, order).bit.tolist()) for _ in range(2000)] for sent in (one, other)]
    firsts = [np.mean([bits[0] for bits in run]) for run in seen]
    assert abs(firsts[0] - firsts[1]) < 6 * np.sqrt(0.5 / 2000)  # false alarm 2e-9
    assert {sum(bits) for run in seen for bits in run} == {6}


def test_what_cannot_have_been_sent_is_refused() -> None:
    for values, heads in (([3], [0]), ([0.5], [0]), ([1, 1], [0]), ([0], [5]), ([0], [-1]), ([-3], [0])):
        with pytest.raises(InvalidInput):
            tally_of(np.array(values), np.array([2]), np.array(heads), np.array([4]))
    sent = encode(np.array([1]), np.array([2]), [np.zeros(4, bool)])
    assert analyse(sent, 1, [2], [4]) == [-1.0]
    with pytest.raises(InvalidInput, match="messages"):
        analyse(Messages(sent.coordinate[1:], sent.bit[1:]), 1, [2], [4])
    with pytest.raises(InvalidInput, match="ones"):
        doubled_sum(Tally(np.array([9]), np.array([8])), [8])
    with pytest.raises(InvalidInput, match="ones"):
        doubled_sum(Tally(np.array([-1]), np.array([8])), [8])
    with pytest.raises(InvalidInput, match="messages"):
        doubled_sum(Tally(np.array([1, 1]), np.array([8, 7])), [8, 8])
    assert doubled_sum(Tally(np.array([0, 8]), np.array([0, 8])), [0, 8]).tolist() == [0, 8]


def test_coins_are_fair_and_fresh() -> None:
    first, second = secure_coins(4001), secure_coins(4001)
    assert first.shape == (4001,)
    assert abs(int(first.sum()) - 2000.5) < 5 * np.sqrt(1001)  # false alarm 6e-7
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_heads_are_counted_among_the_coins_that_were_asked_for(monkeypatch: pytest.MonkeyPatch, byte: int) -> None:
    """Also where they are drawn in several pieces, and where their number fills no whole byte."""
    monkeypatch.setattr(shuffling, "COINS_AT_ONCE", 16)
    monkeypatch.setattr(shuffling.os, "urandom", lambda size: bytes([byte]) * size)
    for number in (0, 1, 7, 8, 15, 16, 17, 31, 32, 45):
        assert secure_heads(number) == (number if byte else 0)


def test_heads_are_fair_and_fresh() -> None:
    heads = [secure_heads(10_001) for _ in range(20)]
    assert abs(sum(heads) - 100_010) < 5 * np.sqrt(50_005)  # false alarm 6e-7
    assert len(set(heads)) > 3  # twenty draws with a standard deviation of 50 among three numbers: below 1e-20


@pytest.mark.parametrize("grid", [0.25, 1.0])
def test_coins_are_the_fewest_that_spread_enough(grid: float) -> None:
    scales = np.array([0.0, 0.1, 0.5, 1.0, 1.4, 2.5, 33.3])
    for coins, scale in zip(coins_for(scales, grid).tolist(), scales.tolist(), strict=True):
        assert coins % 2 == 0
        assert grid * np.sqrt(coins) / 2 >= scale * (1 - 1e-12)
        assert coins == 0 or grid * np.sqrt(coins - 2) / 2 < scale


@pytest.mark.parametrize("honest", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_of_honest_users_is_a_share(honest: float) -> None:
    with pytest.raises(InvalidInput, match="honest"):
        coin_excess([10], 100, honest)


# -- rounds -----------------------------------------------------------------------------------------------------------

THREE_ROUNDS = dataclasses.replace(RULES, round_sizes=(4, 3, 5))


def test_deadlines_are_numbers_of_admissions() -> None:
    """A shuffler waits until half of the next round's users have come, the service until all have."""
    assert [THREE_ROUNDS.size(number) for number in range(3)] == [4, 3, 5]
    assert [THREE_ROUNDS.end(number) for number in range(3)] == [4, 7, 12]
    assert [THREE_ROUNDS.last_call(number) for number in range(3)] == [4 + 2, 7 + 3, None]
    assert [THREE_ROUNDS.until(number) for number in range(3)] == [7, 12, None]
    places = [THREE_ROUNDS.place(admission) for admission in range(12)]
    assert places == [(number, within) for number, size in enumerate((4, 3, 5)) for within in range(size)]


@pytest.mark.parametrize("number", [-1, 3])
def test_rounds_that_do_not_exist_are_refused(number: int) -> None:
    for asked in (THREE_ROUNDS.size, THREE_ROUNDS.end, lambda one: THREE_ROUNDS.silent(one, [0])):
        with pytest.raises(InvalidInput, match="round"):
            asked(number)


@pytest.mark.parametrize("number", range(3))
def test_users_of_a_round_flip_all_its_coins_and_nobody_else_does(number: int) -> None:
    size = THREE_ROUNDS.size(number)
    shares = [THREE_ROUNDS.coins_at(number, within) for within in range(size)]
    np.testing.assert_array_equal(np.sum(shares, axis=0), THREE_ROUNDS.coins)
    for within in (-1, size):
        with pytest.raises(InvalidInput, match="place"):
            THREE_ROUNDS.coins_at(number, within)


@pytest.mark.parametrize("places", [[], [0], [2, 0], [3, 1, 2], [0, 1, 2, 3]])
def test_silent_places_send_the_value_zero_and_their_own_coins(places: list[int], monkeypatch: Any) -> None:
    """As many messages as their users would have sent; without a head, the ones say nothing but 0."""
    flipped = sum((RULES.coins_at(0, within) for within in places), np.zeros_like(RULES.coins))
    sent = RULES.silent(0, places)
    np.testing.assert_array_equal(sent.messages, 2 * len(places) * RULES.reach + flipped)
    heads = sent.ones - len(places) * RULES.reach
    assert ((heads >= 0) & (heads <= flipped)).all()
    monkeypatch.setattr(shuffle_rules, "secure_heads", lambda _: 0)
    np.testing.assert_array_equal(RULES.silent(0, places).ones, len(places) * RULES.reach)


def test_a_tally_of_another_number_of_messages_is_refused() -> None:
    sent = form_messages(MODEL, BOARD, None, 0, 1)
    RULES.require_tally(0, 1, sent)
    for more in (-1, 1):
        with pytest.raises(InvalidInput, match="messages"):
            RULES.require_tally(0, 1, Tally(sent.ones, sent.messages + more))


def test_rules_that_hide_too_little_are_refused_entry_by_entry() -> None:
    hidden = RULES.reach > 0
    assert hidden.any()
    assert not hidden.all()  # nothing to hide and no coin for it is in order
    RULES.require_hiding()
    bare, backwards, owed = RULES.coins.copy(), RULES.reach.copy(), RULES.coins.copy()
    bare[tuple(np.argwhere(hidden)[0])] = 0
    backwards[tuple(np.argwhere(hidden)[0])] = -1
    owed[tuple(np.argwhere(~hidden)[0])] = -1
    for wrong in (
        dataclasses.replace(RULES, coins=bare), dataclasses.replace(RULES, reach=backwards),
        dataclasses.replace(RULES, coins=owed),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="do not send"):
            wrong.require_hiding()
