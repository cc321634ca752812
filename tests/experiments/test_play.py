# SPDX-License-Identifier: Apache-2.0
"""Agents against Gymnasium environments."""

from __future__ import annotations

import gymnasium
import jax
import numpy as np
import pytest

import reticent
from reticent.errors import InvalidInput
from reticent.experiments.play import play
from reticent.simulation.rollout import episode_uniforms, streams
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_world
from reticent.worlds.gymnasium_env import WorldEnv

TINY = "random-blend:states=3,actions=2,horizon=2,d=2"


START, STEP = jax.jit(World.start), jax.jit(World.step)


class Replay(gymnasium.Env):
    """The world with the very draws of a simulation of ``seed``."""

    def __init__(self, world, seed):
        self.world, self.key, self.episode = world, streams(seed).users, -1
        self.observation_space = gymnasium.spaces.Discrete(world.model.states)
        self.action_space = gymnasium.spaces.Discrete(world.model.actions)

    def reset(self, *, seed=None, options=None):
        self.episode, self.taken = self.episode + 1, 0
        self.draws = np.asarray(episode_uniforms(self.key, self.episode, self.world.model.horizon))
        self.state = int(START(self.world, self.draws[0]))
        return self.state, {}

    def step(self, action):
        uniforms = self.draws[1:].reshape(-1, 3)[self.taken, 1:]
        following, reward = STEP(self.world, self.taken, self.state, action, uniforms)
        self.state, self.taken = int(following), self.taken + 1
        return self.state, float(reward), self.taken == self.world.model.horizon, False, {}


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["oppo", "ucrl-vtr:replan=epoch"])
def test_playing_is_simulating(spec):
    """With the same draws the loop ends in the simulation's state: same rounds, same statistics, same policy."""
    world = make_world(TINY)
    agent = reticent.make_agent(spec, world.model, 20)
    simulated = simulate(agent, world, [4]).carry.state
    played = play(Replay(world, 4), world.model, agent, 20, seed=4)
    for one, other in zip(jax.tree.leaves(played.state), jax.tree.leaves(simulated), strict=True):
        np.testing.assert_allclose(one, other[0], rtol=1e-9, atol=1e-12)


def test_playing_in_parts_is_playing():
    world = make_world(TINY)
    agent = reticent.make_agent("ucrl-vtr:replan=epoch", world.model, 30)
    whole = play(WorldEnv(world), world.model, agent, 30, seed=1)
    env = WorldEnv(world)
    first = play(env, world.model, agent, 12, seed=1)
    second = play(env, world.model, agent, 18, seed=1, state=first.state, from_episode=first.position)
    np.testing.assert_array_equal(whole.returns, np.concatenate([first.returns, second.returns]))
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(second.state), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.verify
def test_an_agent_learns_from_an_environment():
    world = make_world("random-blend:states=4,actions=3,horizon=3,d=2,seed=1")
    played = play(WorldEnv(world), world.model, "ucrl-vtr:bonus_scale=0.05", 300, seed=0)
    assert played.returns.shape == (300,)
    assert played.episodes.states.shape == (300, 4)
    np.testing.assert_allclose(played.returns, played.episodes.rewards.sum(axis=1))
    reached = played.returns[150:].mean()
    assert reached > (world.uniform_value + world.optimal_value) / 2
    assert world.policy_value(played.agent.plan(played.state).policy) > 0.9 * world.optimal_value


class Scripted(gymnasium.Env):
    """Ends after ``length`` steps and pays ``reward``."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length, reward=0.5):
        self.length, self.reward = length, reward

    def reset(self, *, seed=None, options=None):
        self.taken = 0
        return 0, {}

    def step(self, action):
        self.taken += 1
        return 0, self.reward, False, self.taken >= self.length, {}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Scripted(1), "length of episode 0 is 1, but must be the model's horizon 2; the environment ends earlier"),
        (Scripted(3), "length of episode 0 is more than 2, .* the environment goes on"),
        (Scripted(2, 1.5), r"reward of episode 0 at step 0 is 1.5, but must be in \[0, 1\]"),
        (Scripted(2, float("nan")), "is nan"),
        (WorldEnv("mobile-health"), "observation_space"),
    ],
)
def test_environments_that_break_the_model_are_refused(env, message):
    model = make_world(TINY).model
    with pytest.raises(InvalidInput, match=message):
        play(env, model, "ucrl-vtr", 5)


def test_an_agent_plays_no_more_than_it_was_planned_for():
    model = make_world(TINY).model
    agent = reticent.make_agent("ucrl-vtr", model, 5)
    with pytest.raises(InvalidInput, match="episodes is 6"):
        play(Scripted(2), model, agent, 6)
    with pytest.raises(InvalidInput, match="from_episode is 2"):
        play(Scripted(2), model, agent, 2, from_episode=2)
    with pytest.raises(InvalidInput, match="agent's model"):
        play(WorldEnv("mobile-health"), make_world("mobile-health").model, agent, 5)
