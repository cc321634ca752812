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


def test_items_that_would_run_out_in_the_middle_of_an_episode_are_refused_before() -> None:
    model, board = example_model("factors"), example_billboard(example_model("factors"))
    model.rules.form.require_version(dataclasses.replace(model, horizon=model.actions), board)
    with pytest.raises(InvalidInput, match="one a step"):
        model.rules.form.require_version(dataclasses.replace(model, horizon=model.actions + 1), board)


def test_tastes_of_earlier_visits_are_clipped_and_hide_no_item() -> None:
    """What a device remembers may be damaged, and stops no visit; every item may be shown again."""
    model = example_model("factors")
    board, form = example_billboard(model), model.rules.form
    inside = form.belief(model, board, np.array([1.0, 1.0, 0.0, 0.0, 2.0, 0.0]))
    outside = form.belief(model, board, np.array([1.0, 7.5, -3.0, np.nan, 2.0, -np.inf]))
    np.testing.assert_array_equal(outside.known, inside.known)
    bounds = model.rules.bounds
    for liked in range(model.actions):
        seen = [[item, float(item == liked)] for item in range(model.actions)] * 20
        belief = form.belief(model, board, np.ravel(seen))
        scores = bounds["intercepts"] + bounds["loadings"] @ belief.known
        assert belief.act(0, 0) == int(scores.argmax())


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


@pytest.mark.parametrize("wrong", [2.0, -1.0, 0.5, np.nan])
def test_a_plan_over_beliefs_names_actions_that_there_are_as_many_as_vectors(wrong: float) -> None:
    model = example_model("kinds-planned")
    board, form = example_billboard(model), model.rules.form
    choices = board.report["choices"].copy()
    choices[-1, -1, -1] = wrong
    with pytest.raises(InvalidInput, match="choices"):
        form.require_version(model, changed(board, choices=choices))
    for count in (0, 4):
        fewer = {name: board.report[name][:, :, :count] for name in ("vectors", "choices")}
        with pytest.raises(InvalidInput, match="choices"):
            form.require_version(model, changed(board, vectors=fewer["vectors"]))
        if count:
            form.require_version(model, changed(board, **fewer))
        else:
            with pytest.raises(InvalidInput, match="not empty"):
                form.require_version(model, changed(board, **fewer))


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
