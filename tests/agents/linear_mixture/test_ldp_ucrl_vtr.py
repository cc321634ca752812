# SPDX-License-Identifier: Apache-2.0
"""LDP-UCRL-VTR: the published constants, what they are really worth, and that the running code keeps the promise."""

from __future__ import annotations

import math

import audited
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.agents.linear_mixture.ldp_ucrl_vtr import noise_scale, plan_liao
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true")


@given(horizon=st.integers(1, 30), epsilon=st.floats(0.1, 4), log_delta=st.floats(-9, -1))
def test_the_noise_is_the_published_one(horizon, epsilon, log_delta) -> None:
    delta = 10**log_delta
    published = 4 * horizon**3 * math.sqrt(2 * math.log(2.5 * horizon / delta)) / epsilon
    ours = noise_scale(2 * float(horizon) ** 2, horizon=horizon, epsilon=epsilon, delta=delta, rewards_known=True)
    assert float(ours) == pytest.approx(published)


def test_the_shift_is_the_published_one() -> None:
    plan = plan_liao(WORLD.model, 20, alpha=0.01)
    sigma = plan.calibration.transition.gram_sigma
    for users in (0, 7, 18):
        published = 2 * math.sqrt(users + 1) * sigma * (2 * math.log(600 * 2) + math.sqrt(4 * 2))
        np.testing.assert_allclose(plan.regularization.transition_shift[users], 1 + published)


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_what_is_really_spent_is_below_the_claim_and_said(epsilon, adjacency) -> None:
    plan = plan_liao(WORLD.model, 20, epsilon=epsilon, adjacency=adjacency)
    bound, horizon = WORLD.model.transition_bound * 2, 2
    # From the definition: every user's 4H noisy releases, each with its own sensitivity, are one Gaussian mechanism.
    factor = 4 * horizon * math.sqrt(2 * math.log(1.25 * 4 * horizon / 1e-5)) / epsilon
    far = (math.sqrt(2), 2.0) if adjacency == "replace" else (1.0, 1.0)
    ratios = [
        far[0] * bound**2 / (2 * bound**2),
        far[1] * bound * horizon / (2 * bound * horizon),
        far[0] / 2,
        far[1] / 2,
    ]
    mu = math.sqrt(horizon * sum((ratio / factor) ** 2 for ratio in ratios))
    assert plan.calibration.epsilon_spent == pytest.approx(epsilon_of(mu, 1e-5))
    assert plan.calibration.epsilon_spent < 0.3 * epsilon
    assert f"really spent: epsilon = {plan.calibration.epsilon_spent:.4g}" in plan.guarantee.sentence()
    assert "Liao, He and Gu" in plan.guarantee.sentence()
    assert plan.ledger.spent(1) == plan.calibration.epsilon_spent


def test_epsilon_beyond_its_theorem_is_refused() -> None:
    with pytest.raises(InvalidInput, match="4H = 8"):
        make_agent("ldp-ucrl-vtr:epsilon=9", WORLD.model, 20)


@pytest.mark.verify
def test_the_running_code_keeps_the_promise() -> None:
    """False alarms: those of the checks, about 1e-6 and 1e-3."""
    agent = make_agent("ldp-ucrl-vtr", WORLD.model, 3)
    assert audited.realised_strength(agent) <= agent.promise.mu * (1 + 1e-9)
    assert audited.replay_findings(agent, 3, 1) == ()
    assert audited.noise_findings(agent, draws=2000) == []
    assert audited.attacked(agent, WORLD, trials=2000).verdict == "consistent"


@pytest.mark.verify
def test_it_runs_and_private_linopt_vi_has_less_noise() -> None:
    ours = make_agent("private-linopt-vi:trust=local,centred=false,span=horizon,contrasts=false", WORLD.model, 100)
    theirs = make_agent("ldp-ucrl-vtr", WORLD.model, 100)
    assert (np.asarray(theirs.aggregator.noise_scale) > 4 * np.asarray(ours.aggregator.noise_scale)).all()
    curves = simulate(theirs, WORLD, range(2))
    assert np.isfinite(curves.regret).all()
