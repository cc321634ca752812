# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's tables as worlds, and the environments themselves at a fixed length."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import reticent
from reticent.errors import InvalidInput
from reticent.worlds.from_gymnasium import from_gymnasium, read_table
from reticent.worlds.gymnasium_env import FixedHorizon, WorldEnv, check_matches
from reticent.worlds.transforms.misspecified import distance


def best_return(env, horizon):
    """Value iteration on ``P`` as it is listed, in the environment's own rewards: what is done is worth no more."""
    listed, states = env.unwrapped.P, env.observation_space.n
    values = np.zeros(states)
    for _ in range(horizon):
        values = np.array(
            [
                max(
                    sum(p * (reward + (0.0 if done else values[following])) for p, following, reward, done in outcomes)
                    for outcomes in listed[state].values()
                )
                for state in range(states)
            ]
        )
    return float(env.unwrapped.initial_state_distrib @ values)


@pytest.mark.parametrize(
    ("identifier", "horizon", "span"),
    [("FrozenLake-v1", 30, (0, 1)), ("CliffWalking-v1", 20, (-100, 0)), ("Taxi-v4", 20, (-10, 20))],
)
def test_a_table_has_the_values_of_the_environment(identifier, horizon, span):
    env = gymnasium.make(identifier)
    world = from_gymnasium(env, horizon)
    low, high = span
    assert world.optimal_value * (high - low) + low * horizon == pytest.approx(best_return(env, horizon), abs=1e-8)
    assert (world.model.states, world.model.actions) == (env.observation_space.n, env.action_space.n)
    assert world.model.stationary


class Corridor(gymnasium.Env):
    """Three places in a row. From the last one an episode ends in the first, which it also begins in."""

    def __init__(self):
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)
        self.P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 2, 0.0, False)]}, 2: {0: [(1.0, 0, 5.0, True)]}}
        self.initial_state_distrib = np.array([1.0, 0.0, 0.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        [(_, following, reward, done)] = self.P[self.place][action]
        self.place = following
        return following, reward, done, False, {}


def test_an_end_in_a_state_that_is_passed_gets_a_state_of_its_own():
    env = Corridor()
    world = from_gymnasium(env, 6)
    assert world.model.states == 4
    assert world.optimal_value == pytest.approx(1.0)  # paid once, though the place is the first again
    padded = FixedHorizon(env, 6)
    check_matches(padded, world.model)
    padded.reset()
    steps = [padded.step(0) for _ in range(6)]
    assert [step[0] for step in steps] == [1, 2, 3, 3, 3, 3]
    assert [step[1] for step in steps] == [0, 0, 1, 0, 0, 0]
    assert [step[2] for step in steps] == [False] * 5 + [True]


def test_a_padded_environment_pays_what_the_world_says():
    """A thousand episodes of the best policy: the mean return within 4.5 standard errors of its value (1e-5 of alarms)."""
    env, horizon = gymnasium.make("FrozenLake-v1"), 30
    world, padded = from_gymnasium(env, horizon), FixedHorizon(env, horizon)
    choices, returns = np.asarray(world.optimal_choices), []
    for episode in range(1000):
        state, _ = padded.reset(seed=7 if episode == 0 else None)
        paid = 0.0
        for step in range(horizon):
            state, reward, ended, _, _ = padded.step(int(choices[step, state]))
            paid += reward
        assert ended
        returns.append(paid)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - world.optimal_value) < 4.5 * error


def test_other_days_of_the_same_lake_are_candidates():
    days = [gymnasium.make("FrozenLake-v1", success_rate=rate) for rate in (0.2, 0.8)]
    world = from_gymnasium("FrozenLake-v1", 20, candidates=days)
    np.testing.assert_allclose(world.transition_theta[0], [7 / 9, 2 / 9], atol=1e-9)
    np.testing.assert_allclose(distance(world), 0, atol=1e-9)
    assert world.optimal_value == pytest.approx(from_gymnasium("FrozenLake-v1", 20).optimal_value)
    rain = [gymnasium.make("Taxi-v4", is_rainy=True, rainy_probability=rate) for rate in (0.1, 0.9)]
    assert from_gymnasium(gymnasium.make("Taxi-v4"), 15, candidates=rain).model.known_rewards is not None


@pytest.mark.parametrize(
    "agent",
    ["q-learning", "dp-ucbvi", pytest.param("private-score-vi:residual=on", marks=pytest.mark.verify)],
)
def test_agents_that_are_told_nothing_learn_in_a_table(agent):
    world = from_gymnasium("FrozenLake-v1", 4)
    assert np.isfinite(reticent.run(world, [agent], episodes=20, seeds=1).summary()[0]["regret_mean"])


def test_what_cannot_be_read_is_refused_with_what_can_be_done():
    with pytest.raises(InvalidInput, match="blend_from_simulators"):
        read_table(WorldEnv("riverswim"))
    with pytest.raises(InvalidInput, match="discretise"):
        from_gymnasium("CartPole-v1", 4)
    with pytest.raises(InvalidInput, match="reward_range"):
        from_gymnasium("CliffWalking-v1", 4, reward_range=(-1, 0))
    with pytest.raises(InvalidInput, match="16 states"):
        from_gymnasium("FrozenLake-v1", 4, candidates=[gymnasium.make("CliffWalking-v1")])
    with pytest.raises(InvalidInput, match="own limit"):
        FixedHorizon(gymnasium.make("FrozenLake-v1"), 101)
    with pytest.raises(InvalidInput, match="finite_mdp"):
        reticent.worlds.tabular(np.full((60, 3, 60), 1 / 60), np.zeros((60, 3)), 2)
    world = from_gymnasium("FrozenLake-v1", 4)
    with pytest.raises(InvalidInput, match="residual=auto"):
        reticent.make_agent("private-score-vi:residual=off", world.model, 100)
    with pytest.raises(InvalidInput, match="trust=local"):
        reticent.make_agent("private-score-vi:trust=local", world.model, 100)
    taxi = from_gymnasium("Taxi-v4", 4)
    with pytest.raises(InvalidInput, match="q-learning"):
        reticent.make_agent("ucbvi", taxi.model, 100)
    assert reticent.make_agent("q-learning", taxi.model, 100).model.states == 500
    for residual in ("auto", "on"):
        with pytest.raises(InvalidInput, match="21000 numbers per user"):
            reticent.make_agent(f"private-score-vi:residual={residual}", taxi.model, 100)
