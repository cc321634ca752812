# SPDX-License-Identifier: Apache-2.0
"""Linear contextual bandits: LinUCB is the H = 1 case of the learners here, and Wishart noise keeps its theorem."""

from __future__ import annotations

import functools
import math

import audited
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, wishart

from reticent.agents import make_agent
from reticent.agents.bandits.wishart import (
    WishartAccount,
    bartlett,
    degrees_of_freedom,
    sheffet_degrees,
    wishart_epsilon,
)
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.errors import InvalidInput
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, World, make_world

FALSE_ALARM = 1e-6


@functools.cache
def the_world() -> World:
    return make_world("contextual-bandit:contexts=6,actions=4,d=3")


def private(episodes: int = 8, **options) -> LinOptLearner:
    return make_agent("private-linucb", the_world().model, episodes, **options)


# -- the world and the learners ---------------------------------------------------------------------------------------


def test_the_world_is_a_bandit() -> None:
    model = the_world().model
    assert (model.horizon, model.states, model.actions, model.d1, model.d2) == (1, 6, 4, 1, 3)
    means = np.einsum("dsa,d->sa", np.asarray(model.reward_features), np.asarray(the_world().reward_theta)[0])
    assert the_world().optimal_value == pytest.approx(float(np.asarray(model.initial) @ means.max(axis=1)))
    lengths = np.linalg.norm(model.reward_features, axis=0)
    assert lengths.min() >= 0.5
    assert lengths.max() <= 1 + 1e-12
    for bad in ("contexts=0", "actions=0", "d=0", "seed=-1"):
        with pytest.raises(InvalidInput, match="contextual-bandit"):
            make_world(f"contextual-bandit:{bad}")


@pytest.mark.verify
def test_linucb_is_what_its_authors_wrote() -> None:
    """The optimistic values after each of forty made-up users, against a transcription with NumPy."""
    agent = make_agent("linucb", the_world().model, 40)
    features = np.moveaxis(np.asarray(the_world().model.reward_features), 0, -1)
    gram, moment, state = np.eye(3), np.zeros(3), agent.init()
    draw = np.random.default_rng(5)
    for _ in range(40):
        context, action, reward = int(draw.integers(6)), int(draw.integers(4)), float(draw.random() < 0.5)
        episode = Episode(jnp.array([context, context]), jnp.array([action]), jnp.array([reward]))
        state = agent.update(state, agent.plan(state), episode)
        x = features[context, action]
        gram, moment = gram + np.outer(x, x), moment + reward * x
        beta = 0.1 * (0.5 * math.sqrt(2 * math.log(1 / 0.05) + 3 * math.log1p(40 / 3)) + 1.0)
        width = np.sqrt(np.einsum("sad,de,sae->sa", features, np.linalg.inv(gram), features))
        wanted = np.clip(features @ np.linalg.solve(gram, moment) + beta * width, 0, 1)
        np.testing.assert_allclose(agent.plan(state, action_values=True).action_values[0], wanted, atol=1e-10)


@pytest.mark.verify
def test_linucb_is_ucrl_vtr_and_learns() -> None:
    runs = [
        simulate(make_agent(f"{name}:bonus_scale=0.1", the_world().model, 600), the_world(), range(4))
        for name in ("linucb", "ucrl-vtr")
    ]
    np.testing.assert_array_equal(runs[0].regret, runs[1].regret)
    gap = the_world().optimal_value - the_world().uniform_value
    assert runs[0].tail_regret.mean() < 0.1 * gap


def test_the_private_one_is_private_linopt_vi_with_a_tree() -> None:
    ours, theirs = (
        make_agent(spec, the_world().model, 64) for spec in ("private-linucb", "private-linopt-vi:counter=tree")
    )
    np.testing.assert_array_equal(ours.aggregator.noise_scale, theirs.aggregator.noise_scale)
    scale = np.asarray(ours.aggregator.noise_scale)
    assert not scale[0, :2].any()  # nothing is spent on transitions that nobody learns
    assert (scale[0, 2:] > 0).all()


@pytest.mark.parametrize("name", ["linucb", "private-linucb"])
def test_longer_episodes_are_refused(name) -> None:
    model = make_world("random-blend:states=3,actions=2,horizon=2").model
    with pytest.raises(InvalidInput, match=f"{name}: horizon"):
        make_agent(name, model, 10)


TRUSTS = [{}, {"trust": "shuffle", "first": 2}, {"trust": "local", "first": 2}, {"noise": "wishart"}]


@pytest.mark.parametrize("options", TRUSTS, ids=str)
def test_the_ledger_ends_at_the_promise(options) -> None:
    agent = private(4, **options, epsilon=2.0)
    calibration = agent.theory.privacy.calibration
    assert 1.9 < calibration.epsilon_spent <= 2.0 * (1 + 1e-9)
    assert agent.promise.spent == pytest.approx(calibration.epsilon_spent)
    assert agent.promise.trust.name == options.get("trust", "joint")


@pytest.mark.guard
@pytest.mark.verify
@pytest.mark.parametrize("options", TRUSTS, ids=str)
def test_the_running_code_keeps_the_promise(options) -> None:
    """False alarms: the audit's, one in a thousand."""
    agent = private(4, **options, epsilon=2.0)
    assert audited.replay_findings(agent, 4, 1) == ()
    assert audited.attacked(agent, the_world(), trials=2000).verdict == "consistent"


# -- Wishart noise ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_loss_is_that_of_the_density(seed) -> None:
    """The formulas of the module against SciPy's Wishart density; an exchange is bounded by its two halves."""
    draw = np.random.default_rng(seed)
    p, length = int(draw.integers(2, 5)), 2.0
    k = int(p + draw.integers(8, 60))
    n = k - p + 1
    law = wishart(df=k, scale=length * np.eye(p))
    noise = law.rvs(random_state=draw)
    z, v = (draw.normal(size=p) for _ in range(2))
    z, v = (x / np.linalg.norm(x) * math.sqrt(length * draw.random()) for x in (z, v))
    az, av = (x @ x / length for x in (z, v))
    xz, xv = (a / (x @ np.linalg.solve(noise, x)) for a, x in ((az, z), (av, v)))
    put_in = -(n - 2) / 2 * math.log1p(az / xz) + az / 2
    assert law.logpdf(noise) - law.logpdf(noise + np.outer(z, z)) == pytest.approx(put_in, abs=1e-8)
    if xv > av * 1.001:
        taken_out = -(n - 2) / 2 * math.log1p(-av / xv) - av / 2
        assert law.logpdf(noise) - law.logpdf(noise - np.outer(v, v)) == pytest.approx(taken_out, abs=1e-7)
        exchange = law.logpdf(noise) - law.logpdf(noise + np.outer(z, z) - np.outer(v, v))
        assert exchange <= put_in + taken_out + 1e-9


def exact_delta(n: int, levels: int, epsilon: float, sign: int) -> float:
    """δ(ε) of ``levels`` blocks that a user leaves (sign 1) or joins (−1), by convolving one block's loss, rounded up."""
    x = np.linspace(*chi2.ppf([1e-13, 1 - 1e-13], n), 400_001)
    middle = (x[1:] + x[:-1]) / 2
    mass = np.diff(chi2.cdf(x, n))
    loss = -(n - 2) / 2 * np.log1p(-sign / middle) - sign / 2
    step = 1e-4
    places = np.ceil(loss / step).astype(int)
    base = places.min()
    one = np.bincount(places - base, mass)
    total = np.ones(1)
    for _ in range(levels):
        size = total.size + one.size - 1
        total = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(one, size), size)
    losses = step * (base * levels + np.arange(total.size))
    return float((total * np.maximum(1 - np.exp(epsilon - losses), 0.0)).sum())


@pytest.mark.parametrize("levels", [1, 3])
def test_the_account_covers_exact_convolution(levels) -> None:
    p, delta = 3, 1e-4
    for degrees in (40, 120):
        epsilon = wishart_epsilon(degrees, p, levels, delta, "zero-out")
        exact = max(exact_delta(degrees - p + 1, levels, epsilon, sign) for sign in (1, -1))
        assert exact <= delta
        assert max(exact_delta(degrees - p + 1, levels, 0.8 * epsilon, sign) for sign in (1, -1)) > delta


def test_degrees_are_the_fewest_and_far_fewer_than_the_papers() -> None:
    for adjacency in ("zero-out", "replace"):
        fewest = degrees_of_freedom(1.0, 1e-5, 8, 4, adjacency)
        assert (
            wishart_epsilon(fewest, 4, 8, 1e-5, adjacency) <= 1.0 < wishart_epsilon(fewest - 1, 4, 8, 1e-5, adjacency)
        )
        assert sheffet_degrees(1.0, 1e-5, 8, 3) > 100 * fewest


def test_the_draw_is_wishart() -> None:
    """False alarms: 3 tests at 1e-6. For W of the law, W₁₁ is χ²_k and 1/(W⁻¹)₁₁ is χ²_(k−p+1)."""
    k, p = 20, 4
    drawn = np.asarray(jax.vmap(lambda key: bartlett(key, k, p))(jax.random.split(jax.random.key(0), 4000)))
    assert kstest(drawn[:, 0, 0], chi2(k).cdf).pvalue > FALSE_ALARM
    assert kstest(drawn[:, -1, -1], chi2(k).cdf).pvalue > FALSE_ALARM
    assert kstest(1 / np.linalg.inv(drawn)[:, 0, 0], chi2(k - p + 1).cdf).pvalue > FALSE_ALARM
    assert kstest(drawn[:, 0, 0] * 0.9, chi2(k).cdf).pvalue < FALSE_ALARM


def test_simulated_noise_has_the_calibrated_scale() -> None:
    """False alarms: below 1e-6 (five standard errors of a standard deviation, 9 coordinates)."""
    sums = private(noise="wishart").aggregator
    draws = np.asarray(jax.vmap(sums.simulate_round_noise)(jax.random.split(jax.random.key(1), 4000)))[:, 0]
    scale = np.asarray(sums.noise_scale)[0]
    assert not draws[:, :2].any()
    np.testing.assert_allclose(draws[:, 2:].std(axis=0) / scale[2:], 1.0, atol=0.08)
    np.testing.assert_allclose(draws[:, 2:].mean(axis=0) / scale[2:], 0.0, atol=0.1)


def test_wishart_noise_is_for_trees_of_a_trusted_server() -> None:
    for options in ({"trust": "local"}, {"trust": "shuffle"}, {"counter": "epochs"}, {"counter": "tree-reduced"}):
        with pytest.raises(InvalidInput, match="wishart"):
            make_agent("private-linucb:noise=wishart", the_world().model, 16, **options)


def test_a_ledger_cannot_book_more_blocks_than_promised() -> None:
    account = WishartAccount(500, 4, "replace", 0.05)
    most = account.strength_of(1.0, 1e-5)
    assert account.epsilon_of(most, 1e-5) <= 1.0 < account.epsilon_of(math.sqrt(most**2 + 0.05**2), 1e-5)
    assert account.epsilon_of(0.0, 1e-5) == 0.0
