# SPDX-License-Identifier: Apache-2.0
"""What a version publishes is checked before a user acts by it, and a belief is the sum of what was seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from make_vectors import example_billboard, example_model, example_trajectory

from reticent_client import InvalidInput
from reticent_wire import FORMS, Billboard
from reticent_wire.forms.kinds import Belief, log_likelihoods

KINDS = example_model("kinds")


def changed(board: Billboard, **report: Any) -> Billboard:
    return dataclasses.replace(board, report={**board.report, **report})


@pytest.mark.parametrize("form", FORMS)
def test_a_version_that_is_as_it_should_be_passes_and_one_without_its_arrays_does_not(form: str) -> None:
    model = example_model(form)
    board = example_billboard(model)
    model.rules.form.require_version(model, board)
    for name, array in board.report.items():
        if array.ndim:
            with pytest.raises(InvalidInput, match=name):
                model.rules.form.require_version(model, changed(board, **{name: array[..., None]}))


@pytest.mark.parametrize("name", ["shares", "blend"])
@pytest.mark.parametrize("wrong", [0.0, np.nan, np.inf, -1.0])
def test_shares_are_numbers_of_which_one_is_above_zero_and_none_below(name: str, wrong: float) -> None:
    board = example_billboard(KINDS)
    given = board.report[name]
    numbers = np.full_like(given, wrong) if wrong in (0.0, -1.0) else np.append(given[:-1], wrong)
    with pytest.raises(InvalidInput, match=name):
        KINDS.rules.form.require_version(KINDS, changed(board, **{name: numbers}))
    if wrong == -1.0:
        with pytest.raises(InvalidInput, match=name):
            KINDS.rules.form.require_version(KINDS, changed(board, **{name: np.append(given[:-1], -1e-9)}))


def test_a_belief_adds_up_what_was_seen_and_goes_on_from_what_was_kept() -> None:
    board, seen = example_billboard(KINDS), example_trajectory(KINDS, 3)
    belief, wanted = Belief(KINDS, board), np.zeros(len(board.report["shares"]))
    for step, action in enumerate(seen.actions):
        here, there, reward = int(seen.states[step]), int(seen.states[step + 1]), float(seen.rewards[step])
        belief.observe(here, int(action), reward, there)
        chance = KINDS.transition_features[:, here, action, there]
        means = KINDS.reward_features[:, here, action] * float(KINDS.rules.bounds["reward_total"])
        wanted = wanted + log_likelihoods(chance, means, board.report["blend"], np.asarray(reward))
    kept = belief.likelihoods.on_device(np.array)
    np.testing.assert_allclose(kept, wanted)
    again = Belief(KINDS, board, kept)
    np.testing.assert_array_equal(again.probabilities, belief.probabilities)
    np.testing.assert_array_equal(Belief(KINDS, board, kept[:-1]).probabilities, Belief(KINDS, board).probabilities)
