# SPDX-License-Identifier: Apache-2.0
"""Actions that cannot be taken, by state or by moment: the best plan is the best of those that are possible."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.simulation.simulate import simulate
from reticent.worlds import World
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.availability import (
    with_availability,
    with_mask,
    world_with_availability,
    world_with_mask,
)

WORLD = make_world("random-blend:states=4,actions=3,horizon=4,d=2")
SPARSE = make_world("riverswim:states=4,horizon=5,features=blend")


def truth(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities ``(S, A, S)`` and mean rewards ``(S, A)`` of a stationary world, by loops."""
    model = world.model
    theta, weights = (
        np.asarray(v).reshape(-1, np.shape(v)[-1])[0] for v in (world.transition_theta, world.reward_theta)
    )
    blended = np.einsum("d,dsan->san", theta, np.asarray(model.transition_features))
    chances = np.zeros((model.states, model.actions, model.states))
    for state in range(model.states):
        for action in range(model.actions):
            for entry in range(blended.shape[2]):
                following = entry if model.successors is None else int(model.successors[state, action, entry])
                chances[state, action, following] += blended[state, action, entry]
    return chances, np.einsum("d,dsa->sa", weights, np.asarray(model.reward_features))


def best(chances: np.ndarray, rewards: np.ndarray, allowed: np.ndarray, initial: np.ndarray, horizon: int) -> float:
    """The best value with allowed pairs only, by backward induction."""
    values = np.zeros(len(initial))
    for _ in range(horizon):
        values = np.where(allowed, rewards + chances @ values, -np.inf).max(axis=1)
    return float(initial @ values)


@pytest.mark.parametrize("world", [WORLD, SPARSE], ids=["dense", "sparse"])
def test_a_mask_leaves_the_best_of_what_is_allowed(world: World) -> None:
    allowed = np.random.default_rng(0).random((world.model.states, world.model.actions)) < 0.5
    allowed[:, 0] = True
    masked = world_with_mask(world, allowed)
    expected = best(*truth(world), allowed, np.asarray(world.model.initial), world.model.horizon)
    assert float(masked.optimal_policy_value()) == pytest.approx(expected, rel=1e-9)
    everything = np.ones_like(allowed)
    unchanged = world_with_mask(world, everything)
    assert float(unchanged.optimal_policy_value()) == pytest.approx(float(world.optimal_policy_value()), rel=1e-12)


@pytest.mark.verify
@pytest.mark.parametrize("world", [WORLD, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("chance", [0.0, 0.8, 1.0, "by state"])
def test_who_is_not_available_is_left_in_peace(world: World, chance: float | str) -> None:
    states, actions = world.model.states, world.model.actions
    there = np.linspace(0.3, 0.9, states) if chance == "by state" else np.full(states, float(chance))
    busy = world_with_availability(world, there)
    model = busy.model
    assert model.states == 2 * states
    assert model.names.states[states].endswith("(not available)")
    np.testing.assert_allclose(np.asarray(model.initial).sum(), 1.0)
    # The product by hand.
    chances, rewards = truth(world)
    both = np.concatenate([chances * there, chances * (1 - there)], axis=2)
    product = np.concatenate([both, np.repeat(both[:, :1], actions, axis=1)])
    np.testing.assert_allclose(truth(busy)[0], product, atol=1e-12)
    paid = np.concatenate([rewards, np.repeat(rewards[:, :1], actions, axis=1)])
    initial = np.concatenate([world.model.initial * there, world.model.initial * (1 - there)])
    expected = best(product, paid, np.ones_like(paid, bool), initial, world.model.horizon)
    assert float(busy.optimal_policy_value()) == pytest.approx(expected, rel=1e-9)
    if chance == 1.0:
        assert float(busy.optimal_policy_value()) == pytest.approx(float(world.optimal_policy_value()), rel=1e-9)


@double_precision
def test_a_contributions_bound_is_what_it_was() -> None:
    """The sensitivity is proven for any model: making the product of states changes no number of the noise."""
    plain, busy = (
        make_agent("private-score-vi:epsilon=1", world.model, 1000)
        for world in (WORLD, world_with_availability(WORLD, 0.8))
    )
    assert float(plain.noise_scale) == float(busy.noise_scale)


@pytest.mark.verify
def test_it_is_learned_with_privacy() -> None:
    world = world_with_availability(WORLD, 0.8)
    curves = simulate(make_agent("private-score-vi:epsilon=3", world.model, 5000), world, list(range(8)))
    at_random = 5000 * (world.optimal_value - world.uniform_value)
    assert float(curves.regret[:, -1].mean()) < 0.1 * at_random


def test_what_cannot_be_is_refused() -> None:
    states, actions = WORLD.model.states, WORLD.model.actions
    nothing_possible = np.ones((states, actions), bool)
    nothing_possible[2, 0] = False
    for mask, instead in ((np.ones((2, 2), bool), 0), (nothing_possible, 0), (np.ones((states, actions), bool), 3)):
        with pytest.raises(InvalidInput):
            with_mask(WORLD.model, mask, instead=instead)
    for chance in (1.5, -0.1, np.full(3, 0.5), float("nan")):
        with pytest.raises(InvalidInput):
            with_availability(WORLD.model, chance)
