# SPDX-License-Identifier: Apache-2.0
"""Bad input is refused with a message that names the field and the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import blend, make_model, tabular, world_from_parameters

HALF = np.full((2, 1, 2), 0.5)
TWO = np.stack([HALF, HALF])
REWARDS = np.zeros((1, 2, 1))


def refused(field: str, bound: str, build) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        build()
    assert field in str(caught.value)
    assert bound in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("field", "bound", "arguments", "options"),
    [
        ("transition_features.shape", "(d1, S, A, S)", (np.zeros((2, 1, 2)), REWARDS, 3), {}),
        ("transition_features.shape", "(d1, S, A, S)", (np.zeros((1, 2, 1, 3)), REWARDS, 3), {}),
        ("reward_features.shape", "(d2, 2, 1)", (TWO, np.zeros((1, 3, 1)), 3), {}),
        ("horizon", "at least 1", (TWO, REWARDS, 0), {}),
        ("horizon", "at least 1", (TWO, REWARDS, 2.5), {}),
        ("transition_features", "finite", (TWO * np.nan, REWARDS, 3), {}),
        ("reward_features", "finite", (TWO, REWARDS + np.inf, 3), {}),
        ("largest ‖ϕ(s,a)‖", "at most 1", (TWO, REWARDS + 1.01, 3), {}),
        ("largest ‖φ_V(s,a)‖", f"at most transition_bound = {math.sqrt(2):.6g}", (TWO * 1.01, REWARDS, 3), {}),
        ("largest ‖φ_V(s,a)‖", "transition_bound = 0.5", (TWO, REWARDS, 3), {"transition_bound": 0.5}),
        ("largest ‖φ_V(s,a)‖", "transition_bound = nan", (TWO, REWARDS, 3), {"transition_bound": math.nan}),
        ("initial", "from 0 to 1", (TWO, REWARDS, 3), {"initial": 2}),
        ("initial.shape", "(2,)", (TWO, REWARDS, 3), {"initial": [1.0, 0, 0]}),
        ("initial", "probability distribution", (TWO, REWARDS, 3), {"initial": [0.6, 0.6]}),
        ("initial", "probability distribution", (TWO, REWARDS, 3), {"initial": [1.5, -0.5]}),
        ("initial", "probability distribution", (TWO, REWARDS, 3), {"initial": [math.nan, 1.0]}),
    ],
)
def test_models_are_checked(field, bound, arguments, options):
    refused(field, bound, lambda: make_model(*arguments, **options))


def test_the_bound_on_value_features_is_judged_by_its_exact_supremum():
    """Per feature the total variation is 1, but no V reaches it in both features at once."""
    psi = np.stack([np.full((2, 1, 2), 0.5), np.tile([[0.5, -0.5]], (2, 1, 1))])
    model = make_model(psi, REWARDS, 1, transition_bound=1.0)
    assert model.transition_bound == 1.0
    error = refused("φ_V", "0.9", lambda: make_model(psi, REWARDS, 1, transition_bound=0.9))
    assert error.value == "1"


@pytest.mark.parametrize(
    ("field", "bound", "theta_p", "theta_r", "kind"),
    [
        ("transition_theta.shape", "(2,) or (3, 2)", [1.0], [0.0], "bernoulli"),
        ("reward_theta.shape", "(1,) or (3, 1)", [0.5, 0.5], [[0.0]] * 4, "bernoulli"),
        ("transition_theta", "finite", [math.nan, 1.0], [0.0], "bernoulli"),
        ("largest ‖transition_theta‖", "at most 1.41421", [3.0, -2.0], [0.0], "bernoulli"),
        ("largest ‖reward_theta‖", "at most 1", [0.5, 0.5], [-1.5], "bernoulli"),
        ("transition row at step 0, state 0, action 0", "probability distribution", [0.5, 0.4], [0.0], "bernoulli"),
        ("mean reward at step 0, state 1, action 0", "in [0, 1]", [0.5, 0.5], [-1.0], "bernoulli"),
        ("reward_kind", "'bernoulli' or 'deterministic'", [0.5, 0.5], [0.0], "gaussian"),
    ],
)
def test_worlds_are_checked(field, bound, theta_p, theta_r, kind):
    rewards = np.zeros((1, 2, 1))
    rewards[0, 1, 0] = 1
    model = make_model(TWO, rewards, 3)
    refused(field, bound, lambda: world_from_parameters(model, theta_p, theta_r, reward_kind=kind))


@pytest.mark.parametrize("bound", [0.1, math.nan])
def test_a_declared_bound_on_theta_is_kept(bound):
    model = make_model(TWO, REWARDS, 3, transition_theta_bound=bound)
    refused("largest ‖transition_theta‖", f"at most {bound}", lambda: world_from_parameters(model, [0.5, 0.5], [0.0]))


def test_a_negative_probability_is_found_although_the_row_sums_to_one():
    psi = np.stack([np.eye(2)[:, None], np.eye(2)[::-1, None]])
    model = make_model(psi, REWARDS, 2)
    refused("transition row", "probability distribution", lambda: world_from_parameters(model, [1.2, -0.2], [0.0]))


@pytest.mark.parametrize(
    ("field", "bound", "changes"),
    [
        ("candidates.shape", "(d1, S, A, S)", {"candidates": HALF}),
        ("reward_candidates.shape", "(d2, 2, 1)", {"reward_candidates": np.zeros((2, 1))}),
        ("candidate row at candidate 1, state 0, action 0", "probability", {"candidates": TWO * [[[[1]]], [[[0.9]]]]}),
        ("candidate row", "probability", {"candidates": TWO * np.nan}),
        ("weights", "on the simplex", {"weights": [0.7, 0.7]}),
        ("weights", "on the simplex", {"weights": [1.3, -0.3]}),
        ("weights", "on the simplex", {"weights": [math.nan, 1.0]}),
        ("weights.shape", "(H, d1)", {"weights": 1.0}),
        ("transition_theta.shape", "(2,) or (3, 2)", {"weights": [1.0]}),
        ("reward_candidates at candidate 0, state 0, action 0", "[0, 1]", {"reward_candidates": REWARDS + 1.5}),
        ("reward_candidates", "[0, 1]", {"reward_candidates": REWARDS - 0.1}),
        ("reward_candidates", "[0, 1]", {"reward_candidates": REWARDS * np.nan}),
        ("mean reward", "in [0, 1]", {"reward_candidates": REWARDS + 0.5, "reward_weights": [-1.0]}),
        ("bounds", "'paper' or 'tight'", {"bounds": "loose"}),
    ],
)
def test_blends_are_checked(field, bound, changes):
    arguments = {
        "candidates": TWO, "reward_candidates": REWARDS, "weights": [0.5, 0.5], "reward_weights": [1.0], "horizon": 3
    }  # fmt: skip
    blend(**arguments)
    refused(field, bound, lambda: blend(**{**arguments, **changes}))


@pytest.mark.parametrize(
    ("field", "bound", "arguments"),
    [
        ("transitions.shape", "(S, A, S)", (np.zeros((2, 2)), np.zeros((2, 1)), 3)),
        ("rewards.shape", "(2, 1)", (HALF, np.zeros((3, 1)), 3)),
        ("transitions row at state 0, action 0", "probability", (HALF * 2, np.zeros((2, 1)), 3)),
        ("transitions row at step 0, state 0", "probability", (np.zeros((3, 2, 1, 2)), np.zeros((2, 1)), 3)),
        ("rewards at state 0, action 0", "[0, 1]", (HALF, np.full((2, 1), 2.0), 3)),
        ("rewards at step 0, state 0, action 0", "[0, 1]", (HALF, np.full((3, 2, 1), -2.0), 3)),
        ("horizon", "step axis", (HALF, np.zeros((2, 1)))),
        ("horizon", "step axis", (HALF, np.zeros((4, 2, 1)), 3)),
        ("horizon", "step axis", (np.full((5, 2, 1, 2), 0.5), np.zeros((4, 2, 1)))),
        ("horizon", "at least 1", (HALF, np.zeros((2, 1)), 0)),
        ("bounds", "'paper' or 'tight'", (HALF, np.zeros((2, 1)), 3, "loose")),
    ],
)
def test_tables_are_checked(field, bound, arguments):
    *positional, bounds = arguments if len(arguments) == 4 else (*arguments, "paper")
    refused(field, bound, lambda: tabular(*positional, bounds=bounds))


def test_a_table_too_large_for_one_hot_features_is_refused_before_it_is_built():
    """716 × 25 is ICU-Sepsis: its features would need 1.3 PB."""
    states, actions = 716, 25
    transitions = np.broadcast_to(np.full(states, 1 / states), (states, actions, states))
    error = refused("S⁴A²", "at most 5e+07", lambda: tabular(transitions, np.zeros((states, actions)), 20))
    assert "blend" in error.remedy
