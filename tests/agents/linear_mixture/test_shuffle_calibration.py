# SPDX-License-Identifier: Apache-2.0
"""Private-LinOpt in the shuffle model: what its noise is worth, what reports are, and that the running code keeps it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import audited
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, coordinate_scales, make_regressions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.shuffle_calibration import reach_of
from reticent.agents.linear_mixture.statistics import Observation
from reticent.errors import InvalidInput
from reticent.privacy.accounting.binomial import account_of
from reticent.worlds import make_world
from reticent_wire.shuffling import coins_for, messages_per_user

WORLD = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true")


def private(episodes: int = 64, **options) -> LinOptLearner:
    chosen = PrivateOptions(**{"trust": "shuffle", "first": 8, "contrasts": False, **options})
    return make_private(WORLD.model, episodes, "value-iteration", chosen)


def extremes() -> list[Observation]:
    """Users far outside every bound, whom clipping takes to the corners: along an axis, along a diagonal, against both."""
    corners = [np.array([9.0, 0.0]), np.array([9.0, 9.0]), np.array([-9.0, 9.0])]
    return [
        Observation(jnp.tile(x, (2, 1)), jnp.full(2, sign * 9.0), jnp.tile(x, (2, 1)), jnp.full(2, 9.0))
        for x in corners
        for sign in (-1, 1)
    ]


@pytest.mark.parametrize("options", [{}, {"epsilon": 8.0}, {"adjacency": "zero-out"}, {"honest": 0.5}], ids=str)
def test_the_plan_keeps_its_promise(options) -> None:
    agent = private(**options)
    plan, promise = agent.theory.privacy, agent.promise
    calibration = plan.calibration
    assert 0.99 * plan.options.epsilon < calibration.epsilon_spent <= plan.options.epsilon
    assert promise.ledger.spent(1) == calibration.epsilon_spent == promise.spent
    assert "no party sees a report" in promise.sentence().lower()
    assert "the shuffler is trusted to mix" in promise.sentence()
    drawn = np.asarray(agent.aggregator.noise_scale)
    scales = coordinate_scales(calibration, 2, 2)
    np.testing.assert_array_equal(drawn, scales)
    # What the account was made for, recomputed coordinate by coordinate from the noise that honest users make.
    kept = scales / calibration.account.excess
    coins = coins_for(kept[kept > 0], calibration.grid)
    account = account_of(coins, np.full(coins.shape, 2.3 / calibration.grid), 0.1 * plan.options.delta)
    assert account.epsilon_of(calibration.mu, plan.options.delta) <= plan.options.epsilon * (1 + 2e-3)


def test_half_of_the_users_honest_costs_a_factor_root_two() -> None:
    all_honest, half = private(), private(honest=0.5)
    ratio = np.asarray(half.aggregator.noise_scale / all_honest.aggregator.noise_scale)
    assert np.nanmin(ratio) >= math.sqrt(2)
    assert np.nanmax(ratio) < 1.01 * math.sqrt(2)
    assert all_honest.promise.ledger.account.excess == 1.0
    assert "50% of the users" in half.promise.sentence()


def test_noise_is_a_little_above_the_joint_models() -> None:
    """The binomial account costs 8%, the tail's share of δ 1%, rounding up to 10%."""
    shuffled, joint = private(), private(trust="joint")
    ratio = np.asarray(shuffled.aggregator.noise_scale / joint.aggregator.noise_scale)
    assert np.nanmin(ratio) > 1.08
    assert np.nanmax(ratio) < 1.21


def test_reports_are_on_the_grid_and_within_reach() -> None:
    agent = private()
    plan, grid = agent.theory.privacy, float(agent.aggregator.grid)
    reach = reach_of(make_regressions(WORLD.model, plan.frame, plan.rewards), grid)
    np.testing.assert_array_equal(reach, np.ceil(agent.aggregator.contribution_bound / grid))
    for seen, uniform in itertools.product(extremes(), (0.0, 0.5, np.nextafter(1, 0))):
        steps = np.asarray(agent.aggregator.report(seen, jnp.full(reach.shape, uniform))) / grid
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert (np.abs(steps) <= reach).all()
    coins = coins_for(np.asarray(agent.aggregator.noise_scale), grid)
    assert plan.messages(WORLD.model)[0] == messages_per_user(coins, reach, 8)


@pytest.mark.verify
def test_the_running_code_passes_replay_noise_check_and_audit() -> None:
    """False alarms: those of the checks, about 1e-6 and 1e-3."""
    agent = private(episodes=4, first=1, epsilon=2.0)
    assert audited.realised_strength(agent) <= agent.promise.mu * (1 + 1e-9)
    assert audited.replay_findings(agent, 4, 2) == ()
    assert audited.noise_findings(agent, draws=2000) == []
    heard = audited.attacked(agent, WORLD, trials=5_000)
    assert heard.verdict == "consistent"
    assert heard.lower_bound_epsilon > 0.6 * 2.0


@pytest.mark.verify
def test_half_the_noise_is_found_out() -> None:
    agent = private(episodes=12, first=4)
    quiet = dataclasses.replace(agent.aggregator, noise_scale=agent.aggregator.noise_scale / 2)
    agent = dataclasses.replace(agent, aggregator=quiet)
    assert audited.noise_findings(agent) != []
    assert audited.attacked(agent, WORLD, trials=5_000).verdict == "violated"


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
