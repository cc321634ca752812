# SPDX-License-Identifier: Apache-2.0
"""How far a blend is from held-out people: zero where it is exact, the planted distance where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_logs import kinds_of_people, recorded

from reticent.worlds.records import Columns, read_log
from reticent.worlds.records.kernel import Kernel
from reticent.worlds.records.misfit import misfit_of


def exact_kernel(truth, rewards, coding):
    """The planted kinds as candidates, in the order of the log's coding."""
    kinds, states, actions, _ = truth.shape
    order = [int(name[1:]) for name in coding.state_names]
    moved = truth[:, order][..., order]
    pair, following = (axis.ravel() for axis in np.mgrid[: states * actions, :states])
    paid = rewards[:, order].reshape(kinds, -1).T
    return Kernel(states, actions, pair, following, moved.reshape(kinds, -1).T, paid)


def measured(table, kernel_truth, horizon=6):
    log = read_log(table, columns=Columns(group="clinic"))
    truth, rewards = kernel_truth
    kernel = exact_kernel(truth, rewards, log.coding)
    return misfit_of(log, np.ones(log.users, bool), kernel, np.full(3, 1 / 3), horizon, seed=0)


def test_a_true_blend_is_no_distance_away():
    people = kinds_of_people()
    shares = np.array([[0.5, 0.3, 0.2]])
    misfit = measured(recorded(4000, [1, 0, 0], groups=shares), people)
    np.testing.assert_allclose(misfit.weights, shares[0], atol=0.03)
    np.testing.assert_allclose(misfit.reward_weights, shares[0], atol=0.1)
    assert misfit.transition.lower < 0.01
    assert misfit.transition.estimate < 0.01
    assert misfit.transition.estimate <= misfit.transition.upper < 0.03
    assert misfit.reward.estimate < 0.02
    assert misfit.values.blend == pytest.approx(misfit.values.own, abs=0.1)
    assert misfit.values.random < misfit.values.blend
    assert misfit.unseen == 0


@pytest.mark.parametrize("moved", [0.1, 0.3])
def test_a_planted_distance_is_measured(moved):
    """People do something else with probability ``moved``: an outcome that candidates call impossible."""
    transitions, rewards = kinds_of_people()
    away = np.zeros_like(transitions)
    away[..., 0] = 1
    thinned = transitions.copy()
    thinned[..., 0] = 0
    thinned /= thinned.sum(axis=-1, keepdims=True)
    people = (1 - moved) * thinned + moved * away
    shares = np.array([[0.4, 0.4, 0.2]])
    table = recorded(3000, [1, 0, 0], groups=shares, people=(people, rewards))
    misfit = measured(table, (thinned, rewards))
    assert misfit.transition.lower <= moved + 0.01
    assert misfit.transition.upper >= moved - 0.01
    assert misfit.transition.estimate == pytest.approx(moved, abs=0.02)
    assert misfit.transition.interval[0] <= moved <= misfit.transition.interval[1]
    assert misfit.unseen == pytest.approx(moved, abs=0.02)
    assert misfit.bound == pytest.approx(6 * misfit.reward.estimate + 15 * misfit.transition.estimate)


def test_few_users_give_a_wide_bracket_around_the_same_distance():
    people = kinds_of_people()
    shares = np.array([[0.5, 0.3, 0.2]])
    few, many = (measured(recorded(users, [1, 0, 0], groups=shares), people).transition for users in (60, 4000))
    assert few.upper - few.lower > many.upper - many.lower
    assert few.upper > 0.05
    assert few.interval[0] < 0.02
