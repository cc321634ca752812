"""The shuffle model: the theorem against exact losses, the protocol against the noise that simulations draw."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2
from typer.testing import CliRunner

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, coordinate_scales, make_regressions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.shuffle_calibration import reach_of
from reticent.audit import Subject, check_noise, replay, seen_as, worst_pair
from reticent.audit import attack as audit
from reticent.cli import app
from reticent.errors import InvalidInput
from reticent.privacy.accounting.binomial import BinomialAccount, account_of
from reticent.privacy.noise import SecureNoise
from reticent.service.embedded import DeployedAgent
from reticent.worlds import make_world_from
from reticent_client.wire.grid import round_at
from reticent_client.wire.shuffling import (
    Messages,
    analyse,
    coin_excess,
    coins_for,
    coins_of_user,
    encode,
    messages_per_user,
    mix,
    secure_coins,
)

FALSE_ALARM = 1e-6
WORLD = make_world_from("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true")


def private(episodes: int = 64, **options):
    chosen = PrivateOptions(**{"trust": "shuffle", "first": 8, **options})
    return make_private(WORLD.model, episodes, "value-iteration", chosen)


# -- the theorem ------------------------------------------------------------------------------------------------------


def exact_delta(coins: list[int], move: list[int], epsilon: float) -> float:
    """δ(ε) between Bin and Bin shifted, by enumerating every outcome of every coordinate: no theorem in it."""
    one, other = np.ones(1), np.ones(1)
    for count, step in zip(coins, move, strict=True):
        support = np.arange(-abs(step), count + abs(step) + 1)
        one = np.outer(one, binom.pmf(support, count, 0.5)).ravel()
        other = np.outer(other, binom.pmf(support - step, count, 0.5)).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


@st.composite
def releases(draw):
    size = draw(st.integers(1, 2))
    coins = draw(st.lists(st.integers(60, 700), min_size=size, max_size=size))
    return coins, [draw(st.integers(-6, 6)) for _ in coins]


@given(release=releases(), log_delta=st.floats(-5, -1.5))
@settings(max_examples=60, deadline=None)
def test_no_pair_of_neighbours_is_told_apart_better_than_the_account_says(release, log_delta) -> None:
    coins, move = release
    delta = 10**log_delta
    try:
        account = account_of(np.array(coins), np.abs(move), 0.1 * delta)
    except InvalidInput:
        return  # too few coins for this tail: refused, nothing is claimed
    mu = math.sqrt(sum(k * k / ((n + 1) / 4) for n, k in zip(coins, move, strict=True)))
    epsilon = account.epsilon_of(mu, delta)
    for sign in (1, -1):
        assert exact_delta(coins, [sign * k for k in move], epsilon) <= delta


def test_the_account_is_not_far_from_the_exact_loss() -> None:
    """Within 15% in ε at a fine grid, so a noise that is 15% too small would break the inequality above."""
    coins, move, delta = [1_000_000], [125], 1e-5
    account = account_of(np.array(coins), np.array(move), 0.1 * delta)
    epsilon = account.epsilon_of(move[0] / math.sqrt((coins[0] + 1) / 4), delta)
    assert exact_delta(coins, move, epsilon) <= delta < exact_delta(coins, move, 0.85 * epsilon)


@given(coins=st.integers(400, 10**9), shift=st.floats(0.5, 4), epsilon=st.floats(0.05, 8), log_delta=st.floats(-9, -2))
@settings(deadline=None)
def test_the_budget_is_used_up_and_never_exceeded(coins, shift, epsilon, log_delta) -> None:
    delta = 10**log_delta
    account = account_of(np.full(5, coins), np.full(5, shift), 0.1 * delta)
    mu = account.mu_of(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= account.epsilon_of(mu, delta) <= epsilon
    assert account_of(np.full(5, 2 * coins), np.full(5, shift), 0.1 * delta).slope < account.slope


def test_too_few_coins_are_refused() -> None:
    with pytest.raises(InvalidInput, match="coins"):
        account_of(np.array([20]), np.array([1.0]), 1e-6)


def test_no_movement_costs_nothing() -> None:
    assert BinomialAccount(1e-6, 0.1).epsilon_of(0.0, 1e-5) == 0.0


# -- the protocol -----------------------------------------------------------------------------------------------------


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
    privatizer = dataclasses.replace(
        private()[0].aggregator, noise_scale=jnp.asarray(grid * np.sqrt(coins) / 2)[None], grid=jnp.asarray(grid)
    )
    keys = jax.random.split(jax.random.key(3), epochs)
    noise = np.asarray(jax.vmap(privatizer.simulate_round_noise)(keys))[:, 0] / grid
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
    agent, plan = private()
    uniforms = agent.aggregator.simulate_user_noise(jax.random.key(2))
    exact = np.random.default_rng(0).uniform(-1, 1, uniforms.shape)
    sent = np.asarray(agent.aggregator.send(jnp.asarray(exact), uniforms)) / plan.calibration.grid
    np.testing.assert_array_equal(sent, round_at(exact, plan.calibration.grid, uniforms))


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
    for count in (needed, 3 * needed):
        flipped = round(factor * count)
        for size in sizes:
            least = int(coins_of_user(flipped, size, size - 1))
            assert math.ceil(honest * size) * least >= count
    assert coin_excess(sizes, needed, 1.0) == 1.0


# -- the agents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"epsilon": 8.0}, {"adjacency": "zero-out"}, {"honest": 0.5}], ids=str)
def test_the_plan_keeps_its_promise(options) -> None:
    agent, plan = private(**options)
    calibration = plan.calibration
    assert 0.99 * plan.options.epsilon < calibration.epsilon_spent <= plan.options.epsilon
    assert plan.ledger.spent(1) == calibration.epsilon_spent == plan.ledger.spent(plan.ledger.rounds)
    assert "nobody sees a report" in plan.promise.lower()
    assert "the shuffler is trusted to mix" in plan.promise
    drawn = np.asarray(agent.aggregator.noise_scale)
    scales = coordinate_scales(calibration, 2, 2)
    np.testing.assert_array_equal(drawn, scales)
    # What the account was made for, recomputed coordinate by coordinate from the noise that honest users make.
    kept = scales / calibration.account.excess
    coins = coins_for(kept[kept > 0], calibration.grid)
    account = account_of(coins, np.full(coins.shape, 2.3 / calibration.grid), 0.1 * plan.options.delta)
    assert account.epsilon_of(calibration.mu, plan.options.delta) <= plan.options.epsilon * (1 + 2e-3)


def test_half_of_the_users_honest_costs_a_factor_root_two() -> None:
    (all_honest, plan), (half, _) = private(), private(honest=0.5)
    ratio = np.asarray(half.aggregator.noise_scale / all_honest.aggregator.noise_scale)
    assert np.nanmin(ratio) >= math.sqrt(2)
    assert np.nanmax(ratio) < 1.01 * math.sqrt(2)
    assert plan.calibration.account.excess == 1.0


def test_noise_is_a_little_above_the_joint_models() -> None:
    """The binomial account costs 8%, the tail's share of δ 1%, rounding up to 10%."""
    shuffled, joint = private()[0], private(trust="joint")[0]
    ratio = np.asarray(shuffled.aggregator.noise_scale / joint.aggregator.noise_scale)
    assert np.nanmin(ratio) > 1.08
    assert np.nanmax(ratio) < 1.21


def test_reports_are_on_the_grid_and_within_reach() -> None:
    agent, plan = private()
    subject = Subject(agent, plan)
    grid = plan.calibration.grid
    reach = reach_of(make_regressions(WORLD.model, plan.frame), grid)
    pair, _ = worst_pair(subject, gradient=False)
    for seen, uniform in itertools.product((pair.one, pair.other), (0.0, 0.5, np.nextafter(1, 0))):
        steps = np.asarray(agent.aggregator.report(seen, jnp.full(reach.shape, uniform))) / grid
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert (np.abs(steps) <= reach).all()
    coins = coins_for(np.asarray(agent.aggregator.noise_scale), grid)
    assert plan.messages(WORLD.model)[0] == messages_per_user(coins, reach, 8)


def test_the_running_code_passes_replay_noise_check_and_audit() -> None:
    """False alarms: those of the checks, about 1e-6 and 1e-3."""
    subject = Subject(*private(episodes=4, first=1, epsilon=2.0))
    pair, realised = worst_pair(subject, gradient=False)
    assert realised <= subject.plan.calibration.mu * (1 + 1e-9)
    users = [seen_as(pair.one)] * 4
    found = replay(subject, users, 2, seen_as(pair.other))
    assert found.findings == ()
    assert check_noise(subject, draws=2000) == []
    heard = audit(subject, WORLD, trials=5_000)
    assert heard.verdict == "consistent"
    assert heard.lower_bound_epsilon > 0.6 * 2.0


@functools.cache
def half_noise() -> Subject:
    agent, plan = private(episodes=12, first=4)
    weak = dataclasses.replace(agent.aggregator, noise_scale=agent.aggregator.noise_scale / 2)
    return Subject(dataclasses.replace(agent, aggregator=weak), plan)


@pytest.mark.verify
def test_half_the_noise_is_found_out() -> None:
    assert check_noise(half_noise()) != []
    assert audit(half_noise(), WORLD, trials=5_000).verdict == "violated"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"counter": "tree"}, "counter"),
        ({"calibration": "paper"}, "calibration"),
        ({"honest": 0.0}, "honest"),
        ({"honest": 1.5}, "honest"),
        ({"trust": "joint", "honest": 0.5}, "honest"),
    ],
)
def test_what_has_no_protocol_is_refused(options, field) -> None:
    with pytest.raises(InvalidInput, match=field):
        private(**options)


def test_a_deployment_says_where_the_protocol_is() -> None:
    with pytest.raises(InvalidInput, match=r"reticent\.privacy\.shuffle"):
        DeployedAgent("private-linopt-vi:trust=shuffle", WORLD.model, 64, SecureNoise())


def test_calibrate_prints_the_messages() -> None:
    given = ["calibrate", "--trust", "shuffle", "--epsilon", "1", "--json"]
    content = json.loads(CliRunner().invoke(app, given).stdout)
    assert content["epsilon_spent"] <= 1.0
    sent = content["messages_per_user"]
    assert len(sent) == content["releases"]
    assert sent == sorted(sent, reverse=True)
    assert "one-bit messages per user" in CliRunner().invoke(app, given[:-1]).stdout
