# SPDX-License-Identifier: Apache-2.0
"""A budget of prompts as part of the state: never exceeded, and no loss where it is ample."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.budget import with_budget, world_with_budget

WORLD = make_world("random-blend:states=4,actions=3,horizon=4,d=2")


@pytest.mark.parametrize("m", [0, 1, 4])
def test_rows_are_distributions_and_prompts_are_counted(m: int) -> None:
    model = with_budget(WORLD.model, 1, m)
    states = WORLD.model.states
    assert model.states == (m + 1) * states
    assert model.names.states[0].endswith(f"({m} left)")
    successors = np.asarray(model.successors)
    for state in range(model.states):
        spent, here = divmod(state, states)
        for action in range(3):
            after = successors[state, action] // states
            assert (after == min(spent + (action == 1), m)).all()
        shown = 0 if spent == m else 1  # which action's features the prompt has
        np.testing.assert_array_equal(
            model.transition_features[:, state, 1], WORLD.model.transition_features[:, here, shown]
        )
        np.testing.assert_array_equal(model.reward_features[:, state, 1], WORLD.model.reward_features[:, here, shown])


def test_a_larger_budget_is_worth_no_less_and_an_ample_one_is_none() -> None:
    worth = [float(world_with_budget(WORLD, 1, m).optimal_policy_value()) for m in range(5)]
    assert worth == sorted(worth)
    assert worth[0] < worth[-1]
    assert worth[4] == pytest.approx(float(WORLD.optimal_policy_value()), rel=1e-12)  # as many as there are steps


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"action": 3, "m": 1}, {"action": 0, "m": 1}, {"action": 1, "m": -1}):
        with pytest.raises(InvalidInput):
            with_budget(WORLD.model, **wrong)
