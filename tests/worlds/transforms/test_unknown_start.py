# SPDX-License-Identifier: Apache-2.0
"""Models that do not know where users begin: the guess is the model's, the truth the world's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.service.fingerprint import fingerprint
from reticent.worlds import make_model, make_world, with_unknown_start
from reticent.worlds.models.model_file import load_model, save_model
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.transforms.availability import world_with_availability, world_with_mask
from reticent.worlds.transforms.budget import world_with_budget
from reticent.worlds.transforms.non_stationary import phases_of
from reticent.worlds.world import World

SPEC = "mobile-health"


def test_users_begin_where_they_did_and_values_are_theirs() -> None:
    known = make_world(SPEC)
    world = with_unknown_start(known, guess=3)
    assert np.asarray(world.model.initial).argmax() == 3
    np.testing.assert_array_equal(world.initial, known.model.initial)
    assert world.optimal_value == known.optimal_value
    assert world.uniform_value == known.uniform_value
    assert int(world.start(0.5)) == int(known.start(0.5))
    assert known.model.initial_known


def test_it_is_an_option_of_worlds() -> None:
    world = make_world(f"{SPEC}:initial=unknown")
    assert not world.model.initial_known
    np.testing.assert_allclose(world.model.initial, 1 / 16)
    assert world.optimal_value == make_world(SPEC).optimal_value


def test_the_declaration_is_part_of_the_fingerprint_and_of_the_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    known, model = make_world(SPEC).model, make_world(f"{SPEC}:initial=unknown").model
    same_guess = with_unknown_start(make_world(SPEC), guess=np.asarray(known.initial)).model
    assert len({fingerprint(one) for one in (known, model, same_guess)}) == 3
    path = save_model(tmp_path / "model.npz", model, names=model.names, provenance=Provenance("simulated", "the zoo"))
    loaded = load_model(path).model
    assert not loaded.initial_known
    np.testing.assert_array_equal(loaded.initial, model.initial)
    assert fingerprint(loaded) == fingerprint(model)


def test_without_a_guess_all_states_are_as_likely_and_a_guess_is_checked() -> None:
    psi, phi = np.eye(2)[None, :, None], np.ones((1, 2, 1))
    model = make_model(psi, phi, 2, initial_known=False)
    np.testing.assert_array_equal(model.initial, [0.5, 0.5])
    np.testing.assert_array_equal(make_model(psi, phi, 2).initial, [1, 0])
    for wrong in (-1, 16, np.ones(16), np.full(3, 1 / 3)):
        with pytest.raises(InvalidInput, match="initial"):
            with_unknown_start(make_world(SPEC), wrong)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world_with_mask(world, np.ones((16, 3), bool)),
        lambda world: world_with_availability(world, 0.8),
        lambda world: world_with_budget(world, 2, 1),
        lambda world: phases_of(world, [10]),
    ],
    ids=["mask", "availability", "budget", "phases"],
)
def test_nothing_makes_the_guess_the_truth(change: Callable[[World], object]) -> None:
    with pytest.raises(InvalidInput, match="knows where users begin"):
        change(make_world(f"{SPEC}:initial=unknown"))
    change(make_world(SPEC))
