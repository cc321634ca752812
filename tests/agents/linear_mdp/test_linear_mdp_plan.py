# SPDX-License-Identifier: Apache-2.0
"""The theorem behind private-lsvi-ucb: how often a user is used again, and what that costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents.linear_mdp.linear_mdp_plan import LinearMdpOptions, plan_linear_mdp, reuse
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of


def dearest_user(sizes):
    """E of the theorem by its definition, in loops."""
    return max(sum((sizes[i] / sizes[t]) ** 2 for t in range(i, len(sizes))) for i in range(len(sizes)))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12).map(sorted))
def test_reuse_is_its_definition(sizes):
    found = reuse(np.array(sizes))
    assert found[-1] == pytest.approx(dearest_user(sizes))
    assert found[0] == 1.0
    assert (np.diff(found) >= -1e-12).all()


def test_growing_epochs_bound_the_reuse_and_equal_ones_do_not():
    grown = plan_linear_mdp(3, 2, 10**6, LinearMdpOptions(first=100, growth=1.5))
    assert grown.schedule.rounds > 15
    # The last epoch takes what is left of the users and need not have grown.
    assert grown.calibration.reuse[-1] < 1 + 1 / (1 - 1.5**-2)
    equal = plan_linear_mdp(3, 2, 1000, LinearMdpOptions(first=50, growth=1.0))
    assert equal.calibration.reuse[-1] == pytest.approx(equal.schedule.rounds)


def test_epochs_may_not_shrink():
    with pytest.raises(InvalidInput, match="never decreasing"):
        reuse(np.array([3, 2]))


def cost(sigma, tau, sizes, epoch, x, y, v, w):
    """μ² of one pair of neighbours at one step, release by release."""
    total = ((np.outer(x, x) - np.outer(y, y)) ** 2).sum() / sigma**2
    for t in range(epoch, len(sizes)):
        weight = sizes[epoch] / sizes[t]
        total += weight**2 * ((v[t] * x - w[t] * y) ** 2).sum() / tau**2
    return total


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["replace", "zero-out"]), st.floats(0.2, 3.0))
def test_no_pair_of_neighbours_costs_more_than_is_accounted_for(seed, adjacency, share):
    options = LinearMdpOptions(epsilon=1.0, first=4, growth=1.4, adjacency=adjacency, moment_share=share)
    plan = plan_linear_mdp(3, 2, 60, options)
    rng = np.random.default_rng(seed)
    calibration, sizes = plan.calibration, plan.calibration.counter.sizes
    budget = mu_of(1.0, 1e-5) ** 2
    spent = 0.0
    epoch = int(rng.integers(len(sizes)))
    for h in range(2):
        x, y = rng.normal(size=(2, 3))
        x /= np.linalg.norm(x)
        y = 0 * y if adjacency == "zero-out" else y / np.linalg.norm(y)
        v, w = rng.choice([-1.0, 1.0], size=(2, len(sizes)))
        spent += cost(calibration.gram_sigma[h], calibration.moment_sigma[h], sizes, epoch, x, y, v, w)
    assert spent <= budget * (1 + 1e-9)


def test_the_worst_pair_uses_up_the_promise():
    """Unit features at inner product s/2 with opposite targets, in the epoch that is used again most."""
    plan = plan_linear_mdp(2, 3, 200, LinearMdpOptions(epsilon=1.0, first=8, growth=1.5, moment_share=1.0))
    calibration, sizes = plan.calibration, plan.calibration.counter.sizes
    x, y = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    ones = np.ones(len(sizes))
    epochs = [sum((n / m) ** 2 for m in sizes[i:]) for i, n in enumerate(sizes)]
    epoch = int(np.argmax(epochs))
    spent = sum(
        cost(sigma, tau, sizes, epoch, x, y, ones, -ones)
        for sigma, tau in zip(calibration.gram_sigma, calibration.moment_sigma, strict=True)
    )
    assert spent == pytest.approx(mu_of(1.0, 1e-5) ** 2, rel=1e-6)


def test_the_ledger_ends_at_the_promise_and_never_falls():
    plan = plan_linear_mdp(4, 3, 5000, LinearMdpOptions(epsilon=2.0, delta=1e-6))
    entries = plan.guarantee.ledger.entries()
    assert len(entries) == plan.schedule.releases
    assert entries[-1].epsilon == pytest.approx(2.0, rel=1e-4)
    assert entries[-1].epsilon <= 2.0 * (1 + 1e-9)
    assert [entry.epsilon for entry in entries] == sorted(entry.epsilon for entry in entries)
    # After one round a user is in one matrix and one moment per step: what is left is for the rounds to come.
    assert entries[0].epsilon < 1.9
    assert plan.calibration.mu == pytest.approx(mu_of(2.0, 1e-6), rel=1e-9)
    assert plan.calibration.epsilon_spent == pytest.approx(epsilon_of(plan.calibration.mu, 1e-6))
    assert "joint differential privacy" in plan.guarantee.sentence()
    assert f"up to {plan.schedule.releases} rounds" in plan.guarantee.sentence()


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"delta": 1.0}, {"bonus_scale": -1.0}, {"shift_scale": math.inf}, {"alpha": 0.0},
     {"moment_share": 0.0}, {"first": 0}, {"growth": 0.5}],
)  # fmt: skip
def test_options_outside_their_domain_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        plan_linear_mdp(3, 2, 100, LinearMdpOptions(**wrong))
