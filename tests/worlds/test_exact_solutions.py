# SPDX-License-Identifier: Apache-2.0
"""Exact values, against enumeration that shares no code with the library, and laws that hold in every world."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.worlds import World, blend, tabular

# Few shapes, so that JAX compiles few programs; the numbers are what varies.
SHAPES = [(2, 2, 3, 2, 1), (3, 2, 4, 3, 2), (5, 3, 2, 4, 4)]


def random_world(seed: int, shape: tuple[int, ...], kind: str) -> World:
    states, actions, horizon, d1, d2 = shape
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(states, 0.5), size=(d1, states, actions))
    tables = rng.uniform(size=(d2, states, actions))
    start = rng.dirichlet(np.ones(states))
    if kind == "blend":
        theta, weights = (rng.dirichlet(np.ones(d), size=horizon) for d in (d1, d2))
        return blend(rows, tables, theta, weights, horizon, initial=start)
    return tabular(rows[0], tables[0], horizon, initial=start, bounds="tight" if seed % 2 else "paper")


worlds = st.builds(
    random_world, st.integers(0, 10**6), st.sampled_from(SHAPES), st.sampled_from(["blend", "tabular"])
)  # fmt: skip
every_world = settings(max_examples=25, deadline=None, derandomize=True)


def expected_return(world: World, policy: np.ndarray) -> float:
    """Sum over all trajectories of probability times return, from the definition alone."""
    transitions, rewards = np.asarray(world.transitions).tolist(), np.asarray(world.mean_rewards).tolist()
    states, actions, horizon = world.model.states, world.model.actions, world.model.horizon
    total = 0.0
    for path in itertools.product(range(states), repeat=horizon):
        for choice in itertools.product(range(actions), repeat=horizon):
            probability, gained = float(world.model.initial[path[0]]), 0.0
            for h in range(horizon):
                probability *= policy[h][path[h]][choice[h]]
                gained += rewards[h][path[h]][choice[h]]
                if h + 1 < horizon:
                    probability *= transitions[h][path[h]][choice[h]][path[h + 1]]
            total += probability * gained
    return total


@pytest.mark.parametrize("kind", ["blend", "tabular"])
def test_values_agree_with_enumeration_of_policies_and_trajectories(kind):
    world = random_world(3, (2, 2, 3, 2, 1), kind)
    uniform = np.full((3, 2, 2), 0.5)
    assert world.uniform_value == pytest.approx(expected_return(world, uniform), abs=1e-12)
    returns = [
        expected_return(world, np.eye(2)[np.reshape(choice, (3, 2))].tolist())
        for choice in itertools.product(range(2), repeat=6)
    ]
    assert world.optimal_value == pytest.approx(max(returns), abs=1e-12)


@pytest.mark.verify
@every_world
@given(worlds)
def test_expanded_worlds_are_probabilities_and_rewards_in_range(world):
    transitions = np.asarray(world.transitions)
    assert transitions.min() >= 0
    np.testing.assert_allclose(transitions.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(world.cumulative[..., -1], 1, atol=1e-12)
    assert 0 <= float(world.mean_rewards.min()) <= float(world.mean_rewards.max()) <= 1
    np.testing.assert_allclose(
        jnp.einsum("hd,dsat->hsat", world.transition_theta, world.model.transition_features), transitions, atol=1e-12
    )
    np.testing.assert_allclose(
        jnp.einsum("hd,dsa->hsa", world.reward_theta, world.model.reward_features), world.mean_rewards, atol=1e-12
    )


@pytest.mark.verify
@every_world
@given(worlds, st.integers(0, 10**6))
def test_norms_stay_within_the_declared_bounds(world, seed):
    model, rng = world.model, np.random.default_rng(seed)
    slack = 1 + 1e-9
    values = np.stack([rng.choice([0.0, 1.0], model.states), rng.uniform(size=model.states), np.ones(model.states)])
    for value in values:
        norms = jnp.linalg.norm(model.value_features(jnp.asarray(value)), axis=0)
        assert float(norms.max()) <= model.transition_bound * value.max() * slack
    assert model.transition_bound <= math.sqrt(model.d1) * slack
    assert float(jnp.linalg.norm(model.reward_features, axis=0).max()) <= slack
    assert float(jnp.linalg.norm(world.transition_theta, axis=1).max()) <= model.transition_theta_bound * slack
    assert float(jnp.linalg.norm(world.reward_theta, axis=1).max()) <= model.reward_theta_bound * slack
    assert model.transition_theta_bound <= math.sqrt(model.d1) * slack
    assert model.reward_theta_bound <= math.sqrt(model.d2) * slack


@pytest.mark.verify
@every_world
@given(worlds, st.integers(0, 10**6), st.floats(-3, 3), st.floats(-3, 3))
def test_value_features_are_linear_and_predict_the_next_value(world, seed, a, b):
    model, rng = world.model, np.random.default_rng(seed)
    one, two = jnp.asarray(rng.uniform(size=(2, model.states)))
    together = model.value_features(a * one + b * two)
    np.testing.assert_allclose(together, a * model.value_features(one) + b * model.value_features(two), atol=1e-12)
    state, action = int(rng.integers(model.states)), int(rng.integers(model.actions))
    np.testing.assert_allclose(
        model.value_features_at(one, state, action), model.value_features(one)[:, state, action], atol=1e-14
    )
    np.testing.assert_array_equal(model.reward_features_at(state, action), model.reward_features[:, state, action])
    expected = world.transitions[0] @ one
    np.testing.assert_allclose(
        jnp.tensordot(world.transition_theta[0], model.value_features(one), axes=1), expected, atol=1e-12
    )


@pytest.mark.verify
@every_world
@given(worlds, st.integers(0, 10**6))
def test_optimality_and_bellman(world, seed):
    model = world.model
    best = world.optimal_action_values
    optimal = world.evaluate(world.optimal_policy)
    assert float(world.policy_value(world.optimal_policy)) == pytest.approx(world.optimal_value, abs=1e-12)
    np.testing.assert_allclose(optimal[:-1], best.max(axis=-1), atol=1e-12)
    np.testing.assert_allclose(optimal[-1], 0)
    backup = world.mean_rewards + jnp.einsum("hsat,ht->hsa", world.transitions, optimal[1:])
    np.testing.assert_allclose(best, backup, atol=1e-12)
    rng = np.random.default_rng(seed)
    other = rng.dirichlet(np.ones(model.actions), size=(model.horizon, model.states))
    assert (np.asarray(world.evaluate(jnp.asarray(other))) <= np.asarray(optimal) + 1e-12).all()
    assert 0 <= world.uniform_value <= world.optimal_value + 1e-12 <= model.horizon + 1e-9


def test_evaluation_under_jit_and_vmap():
    world = random_world(0, SHAPES[1], "blend")
    policies = jnp.stack([world.uniform_policy, world.optimal_policy])
    batched = jax.jit(jax.vmap(world.policy_value))(policies)
    np.testing.assert_allclose(batched, [world.uniform_value, world.optimal_value], atol=1e-12)


def test_a_model_in_single_precision_keeps_its_structure():
    model = random_world(0, SHAPES[1], "blend").model
    single = model.astype(jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(single)} == {jnp.dtype("float32")}
    assert (single.horizon, single.d1, single.states) == (model.horizon, model.d1, model.states)


def test_off_the_simplex_a_blend_may_subtract():
    """Like the second candidate, but less like the first: weights (-0.3, 1.3) still make distributions."""
    lazy, lively = np.array([[[0.6, 0.4]], [[0.4, 0.6]]]), np.array([[[0.4, 0.6]], [[0.5, 0.5]]])
    arguments = ([lazy, lively], [[[0.0], [1.0]]], [-0.3, 1.3], [1.0], 2)
    world = blend(*arguments, simplex=False)
    np.testing.assert_allclose(world.transitions[0, :, 0], [[0.34, 0.66], [0.53, 0.47]], atol=1e-12)
    assert world.optimal_value == pytest.approx(0.66)


def test_reward_features_are_scaled_by_their_largest_norm():
    tables = np.ones((4, 2, 1))
    world = blend(np.full((1, 2, 1, 2), 0.5), tables, [1.0], np.full(4, 0.25), 2)
    np.testing.assert_allclose(jnp.linalg.norm(world.model.reward_features, axis=0), 1)
    np.testing.assert_allclose(world.reward_theta, 0.5)
    np.testing.assert_allclose(world.mean_rewards, 1)


def test_tight_bounds():
    world = random_world(1, SHAPES[1], "tabular")
    assert world.model.transition_bound == pytest.approx(math.sqrt(3))
    assert world.model.transition_theta_bound == pytest.approx(math.sqrt(6))
    assert float(jnp.linalg.norm(world.model.value_features(jnp.ones(3)), axis=0).max()) == pytest.approx(math.sqrt(3))
    mixed = blend(np.full((2, 2, 1, 2), 0.5), np.zeros((1, 2, 1)), [0.5, 0.5], [1.0], 2, bounds="tight")
    assert mixed.model.transition_theta_bound == 1


def test_tables_that_change_with_the_step_give_the_horizon():
    transitions = np.stack([np.tile(np.eye(2)[0], (2, 1, 1)), np.tile(np.eye(2)[1], (2, 1, 1))])
    rewards = np.zeros((2, 2, 1))
    rewards[1, 1] = 1
    assert tabular(transitions, rewards, initial=1).optimal_value == 0
    assert tabular(transitions[::-1], rewards, initial=1).optimal_value == 1
    assert tabular(transitions[1], rewards).model.horizon == 2
