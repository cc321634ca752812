# SPDX-License-Identifier: Apache-2.0
"""The linear-mdp world: its probabilities are linear in the declared features, and features are checked."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import make_model, make_world


@pytest.mark.parametrize("per_step", ["false", "true"])
def test_transitions_and_rewards_are_linear_in_the_features(per_step):
    world = make_world(f"linear-mdp:states=6,actions=3,d=3,horizon=2,seed=4,per_step={per_step}")
    phi = np.moveaxis(np.asarray(world.model.linear_features), 0, -1).reshape(18, 3)
    assert phi.min() >= 0
    np.testing.assert_allclose(phi.sum(axis=1), 1, atol=1e-12)
    for rows, rewards in zip(np.asarray(world.transitions), np.asarray(world.mean_rewards), strict=True):
        for table in (rows.reshape(18, 6), rewards.reshape(18, 1)):
            best = np.linalg.lstsq(phi, table, rcond=None)[0]
            np.testing.assert_allclose(phi @ best, table, atol=1e-10)
    first, last = np.asarray(world.transitions)[[0, -1]]
    assert np.array_equal(first, last) == (per_step == "false")


def test_there_is_something_to_learn():
    for seed in range(4):
        world = make_world("linear-mdp", seed=seed)
        assert world.optimal_value - world.uniform_value > 0.6


@pytest.mark.parametrize("option", ["states=0", "actions=0", "d=0", "horizon=0", "seed=-1"])
def test_sizes_that_make_no_sense_are_refused(option):
    with pytest.raises(InvalidInput, match=f"linear-mdp: {option.split('=')[0]}"):
        make_world(f"linear-mdp:{option}")


def test_declared_features_are_checked():
    psi, phi = np.ones((1, 1, 2, 1)), np.ones((1, 1, 2))
    with pytest.raises(InvalidInput, match=r"linear_features\.shape"):
        make_model(psi, phi, 1, linear_features=np.ones((2, 2)))
    for wrong in (1.1, np.nan):
        with pytest.raises(InvalidInput, match="at most 1"):
            make_model(psi, phi, 1, linear_features=np.full((1, 1, 2), wrong))
