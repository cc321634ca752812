# SPDX-License-Identifier: Apache-2.0
"""What a release says about itself: right by independent formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from reticent.agents import make_agent
from reticent.agents.linear_mixture import diagnostics
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.worlds.registry import make_world

WORLD = make_world("random-blend:states=6,actions=3,horizon=8,d=3")
MODEL = WORLD.model

# -- signal to noise -------------------------------------------------------------------------------------------------------


def unpacked(row: np.ndarray, d: int) -> np.ndarray:
    """A symmetric matrix from its upper triangle, whose off-diagonal entries were multiplied by √2."""
    matrix, entries = np.zeros((d, d)), iter(row)
    for i in range(d):
        for j in range(i, d):
            matrix[i, j] = matrix[j, i] = next(entries) / (1 if i == j else math.sqrt(2))
    return matrix


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.floats(0.1, 50), st.integers(0, 2**20))
@settings(max_examples=40, deadline=None)
def test_signal_is_the_frobenius_norm_over_that_of_the_noise(horizon, d1, d2, sigma, seed):
    draw = np.random.default_rng(seed)
    grams = d1 * (d1 + 1) // 2, d2 * (d2 + 1) // 2
    released = draw.normal(size=(horizon, grams[0] + d1 + grams[1] + d2))
    noise = np.full_like(released, sigma)
    noise[-1, : grams[0] + d1] = 0.0  # as at a last step, after which nothing follows
    found = diagnostics.signal_to_noise(released, noise, d1, d2)
    reward_start = grams[0] + d1
    for h in range(horizon):
        reward = np.linalg.norm(unpacked(released[h, reward_start : reward_start + grams[1]], d2))
        assert found.reward[h] == pytest.approx(reward / (sigma * math.sqrt(grams[1])))
        if h < horizon - 1:
            transition = np.linalg.norm(unpacked(released[h, : grams[0]], d1))
            assert found.transition[h] == pytest.approx(transition / (sigma * math.sqrt(grams[0])))
    assert math.isnan(found.transition[-1])
    together = np.linalg.norm(unpacked(released[:, reward_start : reward_start + grams[1]].sum(axis=0), d2))
    assert found.reward_together == pytest.approx(together / (sigma * math.sqrt(horizon * grams[1])))


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_noise_alone_has_the_ratio_one(trust):
    """Squared ratios of pure noise, summed, are χ². Two-sided at a false-alarm rate of 1e-6; 0.9 of the noise is caught."""
    agent = make_private(MODEL, 400, "value-iteration", PrivateOptions(trust=trust, first=50, growth=1))
    plan = agent.theory.privacy
    scale, version = np.asarray(agent.aggregator.noise_scale), plan.schedule.releases
    assert version == 8
    # Every user's report carries its own noise in the local model; eight equal epochs have their own in the joint one.
    parts = 400 if trust == "local" else 8
    stated = diagnostics.noise_in_release(plan, scale, version)
    draw, total, freedom = np.random.default_rng(7), 0.0, 0
    for _ in range(50):
        noise = scale * draw.normal(size=(parts, *scale.shape)).sum(axis=0)
        found = diagnostics.signal_to_noise(noise, stated, plan.d1, plan.d2)
        for ratios, d in ((found.transition, plan.d1), (found.reward, plan.d2)):
            shown = ratios[~np.isnan(ratios)]
            total += float((shown**2).sum()) * d * (d + 1) / 2
            freedom += len(shown) * d * (d + 1) // 2
    low, high = chi2.ppf([5e-7, 1 - 5e-7], freedom)
    assert low < total < high
    assert not low < 0.9**2 * total < high


# -- value -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["value-iteration", "policy-optimization"])
def test_with_much_data_the_proven_interval_closes_around_the_truth(method):
    """Sums of 10⁸ users in every direction, noiseless for clarity: what is left is the interval's own width."""
    agent = make_private(MODEL, 10**8, method, PrivateOptions(epsilon=50.0))
    plan = agent.theory.privacy
    users, horizon, d1, d2 = 10**8, MODEL.horizon, plan.d1, plan.d2
    theta_p = np.broadcast_to(WORLD.transition_theta, (horizon, d1))
    contrasts = agent.rewards  # θ_r = c + Bη is learned as η
    away = np.broadcast_to(WORLD.reward_theta, (horizon, MODEL.d2)) - np.asarray(contrasts.centre)
    theta_r = away @ np.linalg.pinv(np.asarray(contrasts.basis)).T

    def packed(d: int) -> np.ndarray:
        return np.concatenate([[users / d if i == j else 0.0 for j in range(i, d)] for i in range(d)])

    released = np.stack(
        [
            np.concatenate([packed(d1), users / d1 * theta_p[h], packed(d2), users / d2 * theta_r[h]])
            for h in range(horizon)
        ]
    )  # fmt: skip
    policy = np.random.default_rng(3).dirichlet(np.ones(MODEL.actions), size=(horizon, MODEL.states))
    if method == "value-iteration":
        policy = policy.argmax(axis=-1)
    probabilities = np.eye(MODEL.actions)[policy] if policy.ndim == 2 else policy
    truth = float(WORLD.policy_value(probabilities))
    found = diagnostics.start_value(agent, plan, released, plan.schedule.releases, policy)
    assert found.proven_low < truth < found.proven_high
    assert found.proven_high - found.proven_low < 0.5
    assert found.cautious < found.estimate < found.optimistic
    assert found.estimate == pytest.approx(truth, abs=0.02)
    assert found.optimistic - found.cautious < found.proven_high - found.proven_low


@pytest.mark.verify
def test_without_a_privacy_plan_there_is_nothing_to_say():
    agent = make_agent("ucrl-vtr", MODEL, 20)
    assert agent.diagnostics(np.zeros((8, 3)), 0, agent.plan(agent.init()), None) is None
