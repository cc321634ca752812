# SPDX-License-Identifier: Apache-2.0
"""What :meth:`World.step` draws has the world's probabilities."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.worlds import make_world, tabular
from reticent.worlds.world import invert

FALSE_ALARM = 1e-6


def frequencies(world, step, state, action, uniforms):
    following, rewards = jax.vmap(lambda pair: world.step(step, state, action, pair))(uniforms)
    counts = jnp.bincount(following, length=world.model.states) / len(uniforms)
    return np.asarray(counts), float(rewards.mean())


@pytest.mark.parametrize("spec", ["riverswim:features=blend", "random-blend:states=6,per_step=true", "mobile-health"])
def test_an_even_grid_of_uniforms_gives_the_probabilities_to_one_over_n(spec):
    """Inversion turns n evenly spaced draws into counts that are exact up to rounding: no chance is involved."""
    world, n = make_world(spec), 4000
    grid = (np.arange(n) + 0.5) / n
    uniforms = jnp.asarray(np.stack([grid, grid], axis=1))
    for step, state, action in [(0, 0, 0), (1, 2, 1), (world.model.horizon - 1, world.model.states - 1, 1)]:
        counts, mean = frequencies(world, step, state, action, uniforms)
        np.testing.assert_allclose(counts, world.transitions[step, state, action], atol=1.5 / n)
        assert mean == pytest.approx(float(world.mean_rewards[step, state, action]), abs=1.5 / n)


def test_random_frequencies_are_within_hoeffding_and_would_expose_another_world():
    """False alarm at most 1e-6: Hoeffding and a union bound over all cells of all checked rows."""
    world, n = make_world("random-blend:states=6,actions=2,per_step=true"), 40_000
    places = [(h, s, a) for h in range(2) for s in range(6) for a in range(2)]
    tolerance = math.sqrt(math.log(2 * len(places) * (6 + 1) / FALSE_ALARM) / (2 * n))
    rng = np.random.default_rng(7)
    sample = jax.jit(lambda h, s, a, u: jax.vmap(lambda pair: world.step(h, s, a, pair))(u))
    distances = []
    for place in places:
        following, rewards = sample(*place, jnp.asarray(rng.random((n, 2))))
        counts = np.bincount(np.asarray(following), minlength=6) / n
        assert np.abs(counts - np.asarray(world.transitions[place])).max() <= tolerance
        assert abs(float(rewards.mean()) - float(world.mean_rewards[place])) <= tolerance
        assert set(np.unique(rewards)) <= {0.0, 1.0}
        wrong = np.asarray(world.transitions[(1 - place[0], *place[1:])])
        distances.append(np.abs(counts - wrong).max())
    assert np.mean(np.array(distances) > tolerance) > 0.5, "the test could not tell one step's blend from another's"


def test_first_states_follow_the_initial_distribution():
    start = np.array([0.25, 0.0, 0.75])
    world = tabular(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), 1, initial=start)
    drawn = jax.vmap(world.start)((jnp.arange(1000) + 0.5) / 1000)
    np.testing.assert_allclose(np.bincount(np.asarray(drawn), minlength=3) / 1000, start, atol=2e-3)


def test_inversion_at_its_edges():
    cumulative = jnp.array([0.0, 0.3, 0.3, 1.0 - 1e-12])
    draws = jnp.array([0.0, 0.3 - 1e-9, 0.3, 1.0 - 1e-13])
    assert jax.vmap(lambda u: invert(cumulative, u))(draws).tolist() == [1, 1, 3, 3]


def test_deterministic_rewards_are_the_means():
    world = tabular(np.ones((1, 1, 1)), [[0.3]], 2, reward_kind="deterministic")
    assert float(world.step(0, 0, 0, jnp.array([0.9, 0.9]))[1]) == 0.3
