# SPDX-License-Identifier: Apache-2.0
"""LSVI-UCB against a plain transcription, private moments against weighted sums, and what plans may read."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mdp.learner import features_of
from reticent.agents.linear_mdp.moments import MomentSums
from reticent.errors import InvalidInput
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world

STATES, ACTIONS, HORIZON, D = 4, 2, 3, 3
WORLD = f"linear-mdp:states={STATES},actions={ACTIONS},horizon={HORIZON},d={D}"


@functools.cache
def the_world():
    return make_world(WORLD)


def an_episode(rng):
    return Episode(
        jnp.asarray(rng.integers(0, STATES, HORIZON + 1)),
        jnp.asarray(rng.integers(0, ACTIONS, HORIZON)),
        jnp.asarray(rng.integers(0, 2, HORIZON).astype(float)),
    )


def transcription(phi, episodes, weights, grams, betas):
    """Least-squares value iteration over a list of episodes, each with a weight, one sum at a time.

    ``phi[s][a]`` are vectors; ``grams[h]`` is added to the weighted Gram of step h.
    """
    values = np.zeros((HORIZON + 1, STATES))
    for h in reversed(range(HORIZON)):
        low, high = values[h + 1].min(), values[h + 1].max() + 1
        centre, scale = (low + high) / 2, (high - low) / 2
        matrix, vector = grams[h].copy(), np.zeros(D)
        for episode, weight in zip(episodes, weights, strict=True):
            x = phi[int(episode.states[h])][int(episode.actions[h])]
            target = float(episode.rewards[h]) + values[h + 1][int(episode.states[h + 1])]
            matrix += weight * np.outer(x, x)
            vector += weight * x * (target - centre) / scale
        inverse = np.linalg.inv(matrix)
        for s in range(STATES):
            hopes = [
                centre + scale * (x @ inverse @ vector + betas[h] * np.sqrt(x @ inverse @ x))
                for x in (phi[s][a] for a in range(ACTIONS))
            ]
            values[h, s] = min(max(max(hopes), 0), HORIZON - h)
    return values


def phi_of(world):
    return np.moveaxis(np.asarray(world.model.linear_features), 0, -1)


def test_lsvi_ucb_is_its_transcription():
    world = the_world()
    agent = make_agent("lsvi-ucb:bonus_scale=0.02,regularization=0.7", world.model, 50)
    rng = np.random.default_rng(0)
    state, seen = agent.init(), []
    update, plan_of = jax.jit(agent.update), jax.jit(agent.plan)
    for count in range(1, 26):
        seen.append(an_episode(rng))
        state = update(state, plan_of(state), seen[-1])
        if count % 6 == 1:
            betas = 0.02 * np.broadcast_to(agent.radius[0], HORIZON)
            expected = transcription(phi_of(world), seen, np.ones(count), [0.7 * np.eye(D)] * HORIZON, betas)
            np.testing.assert_allclose(plan_of(state).values, expected, rtol=0, atol=1e-10)


@pytest.mark.verify
def test_private_moments_without_noise_are_weighted_regressions():
    world = the_world()
    agent = make_agent("private-lsvi-ucb:bonus_scale=0.01,first=3,growth=1.6", world.model, 30)
    rng = np.random.default_rng(1)
    silent = jax.tree.map(jnp.zeros_like, agent.aggregator.simulate_round_noise(jax.random.key(0)))
    state, seen, sizes = agent.init(), [], agent.schedule.sizes
    close, plan_of = jax.jit(agent.close), jax.jit(agent.plan)
    for t, size in enumerate(sizes):
        plan = plan_of(state)
        for _ in range(size):
            seen.append((an_episode(rng), size))
            state = agent.absorb(state, agent.report(plan, seen[-1][0]))
        state = close(state, plan, size, silent)
        weights = [own / size for _, own in seen]
        shifts = [shift * np.eye(D) for shift in np.asarray(agent.aggregator.shift)[t + 1]]
        betas = 0.01 * np.asarray(agent.radius)[t + 1]
        expected = transcription(phi_of(world), [episode for episode, _ in seen], weights, shifts, betas)
        np.testing.assert_allclose(plan_of(state).values, expected, rtol=0, atol=1e-10)
    assert t >= 2


def test_a_plan_reads_nothing_but_what_was_published():
    agent = make_agent("private-lsvi-ucb:first=4", the_world().model, 40)
    rng = np.random.default_rng(2)
    plan_of, report, close = jax.jit(agent.plan), jax.jit(agent.report), jax.jit(agent.close)
    plan = plan_of(agent.init())
    state = agent.absorb(agent.init(), report(plan, an_episode(rng)))
    state = close(state, plan, 4, agent.aggregator.simulate_round_noise(jax.random.key(1)))
    swapped = state._replace(aggregate=jax.tree.map(lambda leaf: leaf + 1, state.aggregate))
    for one, two in zip(jax.tree.leaves(plan_of(state)), jax.tree.leaves(plan_of(swapped)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.verify
def test_nothing_is_released_after_the_last_round():
    agent = make_agent("private-lsvi-ucb:first=4,growth=2", the_world().model, 12)
    noise = agent.aggregator.simulate_round_noise(jax.random.key(1))
    state = agent.init()
    plan = agent.plan(state)
    close = jax.jit(agent.close)
    for size in agent.schedule.sizes:
        state = close(state, plan, size, noise)
    late = agent.absorb(state, agent.report(plan, an_episode(np.random.default_rng(0))))
    for one, two in zip(
        jax.tree.leaves(agent.plan(state)), jax.tree.leaves(agent.plan(close(late, plan, 1, noise))), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_noise_must_be_given():
    agent = make_agent("private-lsvi-ucb:first=4", the_world().model, 40)
    with pytest.raises(InvalidInput, match="noise"):
        agent.close(agent.init(), agent.plan(agent.init()), 4, None)


def test_what_a_user_sends_is_clipped():
    agent = make_agent("private-lsvi-ucb:first=4", the_world().model, 40)
    wild = agent.statistic(None, an_episode(np.random.default_rng(0)))
    wild = wild._replace(features=100 * wild.features, rewards=jnp.full(HORIZON, -7.0), following=wild.following + 99)
    sent: MomentSums = agent.aggregator.report(wild, None)
    assert np.asarray(jnp.linalg.norm(sent.gram, axis=(1, 2))).max() <= 1 + 1e-12
    assert not np.asarray(sent.rewards).any()
    # A next state that is none counts as the last one: the arrivals of every step still sum to the features.
    np.testing.assert_allclose(jnp.linalg.norm(sent.arrivals.sum(axis=-1), axis=-1), 1.0, atol=1e-12)


def test_features_are_declared_or_one_hot():
    world = the_world()
    np.testing.assert_array_equal(features_of(world.model), world.model.linear_features)
    small = make_world("random-blend:states=3,actions=2")
    phi = np.asarray(features_of(small.model)).reshape(6, 6)
    np.testing.assert_array_equal(phi, np.eye(6))
    with pytest.raises(InvalidInput, match="states times actions"):
        features_of(make_world("random-blend:states=20,actions=4").model)


@pytest.mark.verify
def test_regret_is_sublinear_and_privacy_has_its_price():
    world = make_world("linear-mdp")
    episodes = 6000
    free, private = (
        simulate(make_agent(spec, world.model, episodes), world, range(4))
        for spec in ("lsvi-ucb:replan=epoch,bonus_scale=0.03", "private-lsvi-ucb:bonus_scale=0.03")
    )
    middle = np.searchsorted(free.episodes, episodes // 2)
    gap = world.optimal_value - world.uniform_value
    assert free.regret[:, -1].mean() < 1.2 * free.regret[:, middle].mean()
    assert free.tail_regret.mean() < 0.01 * gap
    assert private.regret[:, -1].mean() > 2 * free.regret[:, -1].mean()
    assert private.regret[:, -1].mean() < 0.3 * episodes * gap
