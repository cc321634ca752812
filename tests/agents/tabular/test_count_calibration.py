# SPDX-License-Identifier: Apache-2.0
"""Noise on counts: sensitivities by brute force, budgets by recount, widths by simulation."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.agents.tabular.count_calibration import calibrate_counts, noise_width, table_sensitivity
from reticent.agents.tabular.count_plan import CountOptions, plan_counts
from reticent.agents.tabular.count_privatizer import CountPrivatizer, nothing_seen, table_slices
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.counters import BltCounter, EpochCounter, RunningSum, TreeCounter
from reticent.privacy.trust import JOINT, LOCAL
from reticent.worlds import Episode, make_world

S, A = 2, 2


def privatizer(horizon: int) -> CountPrivatizer:
    scale = jnp.ones((horizon, S * A * (S + 2)))
    return CountPrivatizer(scale, jnp.asarray(0.0), TreeCounter(4), JOINT, "laplace", S, A)


def test_sensitivities_by_trying_all_pairs_of_one_step_users() -> None:
    one = privatizer(1)
    users = [
        np.asarray(one.report(Episode(jnp.array([s, t]), jnp.array([a]), jnp.array([r])), None))[0]
        for s, a, t, r in itertools.product(range(S), range(A), range(S), (0.0, 1.0, 7.0, math.nan))
    ]
    nobody = np.asarray(one.report(nothing_seen(1), None))[0]
    assert not nobody.any()
    for columns in table_slices(S, A).values():
        apart = [x[columns] - y[columns] for x, y in itertools.combinations(users, 2)]
        assert max(np.abs(d).sum() for d in apart) == table_sensitivity("laplace", "replace") == 2
        assert max(np.linalg.norm(d) for d in apart) == pytest.approx(table_sensitivity("gaussian", "replace"))
        alone = [x[columns] for x in users]
        assert max(np.abs(d).sum() for d in alone) == table_sensitivity("laplace", "zero-out") == 1
        assert max(np.linalg.norm(d) for d in alone) == table_sensitivity("gaussian", "zero-out")


steps = st.integers(-3, 5)
REPORT = jax.jit(lambda episode: privatizer(3).report(episode, None))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(steps, min_size=4, max_size=4), st.lists(steps, min_size=3, max_size=3),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
)  # fmt: skip
def test_no_episode_whatever_moves_a_table_by_more_than_one(states: list, actions: list, rewards: list) -> None:
    found = np.asarray(REPORT(Episode(np.array(states), np.array(actions), np.array(rewards))))
    assert np.isfinite(found).all()
    for columns in table_slices(S, A).values():
        table = found[:, columns]
        assert table.min() >= 0
        assert (table.sum(axis=1) <= 1).all()
        assert ((table > 0).sum(axis=1) <= 1).all()


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize(
    ("counter", "trust", "blocks"),
    [(TreeCounter(1000), JOINT, 10), (EpochCounter((3, 9)), JOINT, 1), (RunningSum(5), LOCAL, 1)],
)
def test_the_budget_is_spent_to_the_last(counter, trust, blocks, adjacency) -> None:
    horizon, epsilon, delta = 7, 0.8, 1e-6
    delta_1, delta_2 = (2, math.sqrt(2)) if adjacency == "replace" else (1, 1)
    pure = calibrate_counts(
        horizon, counter, trust=trust, adjacency=adjacency, law="laplace", epsilon=epsilon, delta=delta
    )
    # Every user is in 3H sums, each in so many noisy blocks.
    assert blocks * 3 * horizon * delta_1 / pure.scale == pytest.approx(epsilon)
    assert pure.delta == 0.0
    normal = calibrate_counts(
        horizon, counter, trust=trust, adjacency=adjacency, law="gaussian", epsilon=epsilon, delta=delta
    )
    assert blocks * 3 * horizon * (delta_2 / normal.scale) ** 2 == pytest.approx(mu_of(epsilon, delta) ** 2)
    ends = np.arange(1, counter.rounds + 1)
    for calibration in (pure, normal):
        ledger = calibration.ledger(ends)
        last = ledger.entries([counter.rounds])[0]
        assert last.epsilon == pytest.approx(epsilon)
        assert last.epsilon == ledger.spent()
        assert (last.mu_squared is None) == (calibration is pure)
        assert [entry.epsilon for entry in ledger.entries()] == sorted(entry.epsilon for entry in ledger.entries())
        assert len(calibration.shares()) == 3 * horizon


def test_laplace_noise_refuses_strategies_without_a_small_1_norm() -> None:
    promise = {"trust": JOINT, "adjacency": "replace", "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InvalidInput, match="Laplace"):
        calibrate_counts(3, BltCounter(8), law="laplace", **promise)
    with pytest.raises(InvalidInput, match="protects its items"):
        calibrate_counts(3, RunningSum(8), law="gaussian", **promise)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [0.1, 0.4, 1.0]])
def test_widths_hold_and_are_not_idle(law: str, weights: list[float]) -> None:
    """At probability 0.01 in 200 000 draws: five deviations of the count allow 0.0112. Chernoff's bound is not tight."""
    draw = np.random.default_rng(4)
    noise = draw.laplace(scale=2.0, size=(200_000, len(weights)))
    noise = noise if law == "laplace" else draw.normal(scale=2.0, size=noise.shape)
    width = noise_width(law, 2.0, np.array([np.sum(np.square(weights))]), 0.01)[0]
    share = (np.abs(noise @ np.array(weights)) > width).mean()
    assert 0.0003 <= share <= 0.0112
    if law == "gaussian":
        assert share == pytest.approx(0.01, rel=0.12)


@pytest.mark.parametrize("name", ["dp-ucbvi", "ldp-obi", "private-ucb-po", "private-ucb-vi", "pucb"])
def test_every_agent_says_what_it_promises(name: str) -> None:
    model = make_world("riverswim:states=3").model
    agent = make_agent(name, model, 200)
    promise, schedule = agent.promise, agent.schedule
    pure = agent.aggregator.law == "laplace"
    assert promise.delta == (0.0 if pure else 1e-5)
    assert promise.pure == pure
    assert f"(1, {promise.delta:g})-indistinguishable" in promise.sentence()
    assert f"{agent.aggregator.trust.name} differential privacy" in promise.sentence()
    assert promise.ledger.entries([schedule.releases])[0].epsilon == pytest.approx(1.0, rel=1e-6)
    assert agent.widths.shape == (schedule.releases + 1, 3)
    assert {group.step for group in promise.groups} == set(range(1, model.horizon + 1))


def test_options_outside_their_domain_are_refused() -> None:
    model = make_world("riverswim:states=3").model
    for options in ({"epsilon": 0.0}, {"delta": 1.0}, {"alpha": 0.0}, {"bonus_scale": -1.0}, {"pool": True}):
        with pytest.raises(InvalidInput):
            plan_counts(model, 100, "value-iteration", CountOptions(**options))


def test_rewards_out_of_bounds_are_clipped_and_never_refused() -> None:
    """A refusal that depends on a user's rewards would tell of them."""
    agent = make_agent("private-ucb-vi", make_world("riverswim:states=3").model, 100)
    for reward, counted in ((1.5, 1.0), (-2.0, 0.0), (math.inf, 1.0), (math.nan, 0.0)):
        strange, expected = (
            np.asarray(agent.aggregator.report(Episode(np.zeros(13, int), np.zeros(12, int), np.full(12, value)), None))
            for value in (reward, counted)
        )
        np.testing.assert_array_equal(strange, expected)
