# SPDX-License-Identifier: Apache-2.0
"""WorldBatch side by side: each seed lives in its own world, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.simulation import seed_batches
from reticent.simulation.simulate import simulate
from reticent.simulation.world_batch import stack_worlds
from reticent.worlds import make_world, world_from_parameters

MODEL = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
WEIGHTS = [(0.1, 0.9), (0.5, 0.5), (1.0, 0.0)]
WORLDS = [world_from_parameters(MODEL, np.array(w), MODEL.reward_total * np.array(w[::-1])) for w in WEIGHTS]


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["private-score-vi"])
def test_each_seed_lives_in_its_own_world(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Truths are cut into groups as seeds are.
    monkeypatch.setattr(seed_batches, "group_size", lambda count, most: min(count, 2))
    agent, seeds = make_agent(spec, MODEL, 60), [5, 3, 11]
    together = simulate(agent, stack_worlds(WORLDS), seeds, segments=3)
    for number, (world, seed) in enumerate(zip(WORLDS, seeds, strict=True)):
        alone = simulate(agent, world, [seed], segments=3)
        np.testing.assert_allclose(together.regret[number], alone.regret[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(together.value[number], alone.value[0], rtol=0, atol=1e-9)


def test_values_of_every_truth() -> None:
    truths = stack_worlds(WORLDS)
    np.testing.assert_allclose(truths.optimal_policy_value(), [world.optimal_value for world in WORLDS], atol=1e-12)
    np.testing.assert_allclose(truths.uniform_value(), [world.uniform_value for world in WORLDS], atol=1e-12)


def test_one_plan_for_all_truths_is_the_best_of_their_mean() -> None:
    truths = stack_worlds(WORLDS)
    mean = np.mean(WEIGHTS, axis=0)
    middle = world_from_parameters(MODEL, mean, MODEL.reward_total * mean[::-1])
    plan = truths.one_plan()
    assert (np.asarray(plan) == np.asarray(middle.optimal_choices)).all()
    np.testing.assert_allclose(truths.policy_value(plan), [world.policy_value(plan) for world in WORLDS], atol=1e-12)
    assert (np.asarray(truths.policy_value(plan)) <= np.asarray(truths.optimal_policy_value()) + 1e-12).all()


def test_truths_are_of_one_model_and_one_per_seed() -> None:
    other = make_world("random-blend:states=4,actions=2,horizon=2,d=2,seed=1")
    with pytest.raises(InvalidInput, match="of several models"):
        stack_worlds([*WORLDS, other])
    with pytest.raises(InvalidInput, match="truths is 3, but must be 2, one for each seed"):
        simulate(make_agent("score-vi", MODEL, 60), stack_worlds(WORLDS), [0, 1])
