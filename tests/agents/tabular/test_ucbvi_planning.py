# SPDX-License-Identifier: Apache-2.0
"""UCB-VI against a transcription of it with loops, and what counting means."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_ucbvi as reference

from reticent.agents import make_agent
from reticent.agents.tabular.counts import count_episode, pack, unpack
from reticent.agents.tabular.planning import Estimate, plan_with
from reticent.errors import InvalidInput
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world

H, S, A = 3, 4, 2


def some_episodes(number: int, seed: int) -> list[Episode]:
    draw = np.random.default_rng(seed)
    return [Episode(draw.integers(0, S, H + 1), draw.integers(0, A, H), draw.random(H).round(3)) for _ in range(number)]


@pytest.mark.verify
@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize(("number", "scale"), [(0, 1.0), (1, 0.01), (60, 0.02)])
def test_plans_are_those_of_the_transcription(bonus: str, number: int, scale: float) -> None:
    world = make_world(f"random-blend:states={S},actions={A},horizon={H},d1=2,d2=2")
    agent = make_agent("ucbvi", world.model, 100, bonus=bonus, bonus_scale=scale)
    state, episodes = agent.init(), some_episodes(number, seed=3)
    for episode in episodes:
        state = agent.update(state, agent.plan(agent.init()), episode)
    found = agent.plan(state, action_values=True)
    iota = math.log(5 * S * A * 100 * H / 0.05)
    counts = reference.count(episodes, H, S, A)
    q, v = reference.plan(*counts, getattr(reference, bonus), scale, iota)
    np.testing.assert_allclose(found.action_values, q, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.values, v, rtol=1e-12, atol=1e-12)
    # Greedy in the transcription's Q; where two actions are as good, either is.
    chosen = np.take_along_axis(q, np.asarray(found.policy)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, v[:-1], rtol=1e-12)


@pytest.mark.verify
def test_pooling_adds_up_the_steps() -> None:
    world = make_world(f"random-blend:states={S},actions={A},horizon={H},d1=2,d2=2")
    agent = make_agent("ucbvi", world.model, 50, pool=True, bonus_scale=0.01)
    state, episodes = agent.init(), some_episodes(20, seed=5)
    for episode in episodes:
        state = agent.update(state, agent.plan(agent.init()), episode)
    pooled = [np.repeat(table.sum(axis=0, keepdims=True), H, axis=0) for table in reference.count(episodes, H, S, A)]
    q, _ = reference.plan(*pooled, reference.hoeffding, 0.01, math.log(5 * S * A * 50 * H / 0.05))
    np.testing.assert_allclose(agent.plan(state, action_values=True).action_values, q, rtol=1e-12)


def test_an_episode_is_one_cell_per_table_and_step() -> None:
    episode = some_episodes(1, seed=0)[0]
    counts = count_episode(episode, S, A, jnp.float64)
    for found, wanted in zip(counts, reference.count([episode], H, S, A), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert jax.tree.all(jax.tree.map(np.array_equal, unpack(pack(counts), S, A), counts))


@pytest.mark.parametrize("states", [[-1, 0, 1, 2], [S, 0, 1, 2], [0, 2**30, 1, 2]])
def test_steps_that_cannot_be_add_nothing(states: list[int]) -> None:
    episode = Episode(jnp.array(states), jnp.zeros(H, jnp.int32), jnp.ones(H))
    counts = count_episode(episode, S, A, jnp.float64)
    possible = sum(0 <= s < S and 0 <= t < S for s, t in itertools.pairwise(states))
    assert [float(table.sum()) for table in counts] == [possible] * 3


def test_policy_evaluation_follows_the_policy() -> None:
    draw = np.random.default_rng(1)
    transitions = draw.dirichlet(np.ones(S), (H, S, A))
    rewards, policy = draw.random((H, S, A)), draw.dirichlet(np.ones(A), (H, S))
    ones = jnp.ones((H, S, A))
    exact = Estimate(jnp.asarray(rewards), jnp.asarray(transitions), ones, 0 * ones, ones > 0)
    found = plan_with(exact, lambda step, _: 0 * step.visits, jnp.asarray(0.0), H, jnp.asarray(policy))
    values = np.zeros(S)
    for h in reversed(range(H)):
        values = (policy[h] * (rewards[h] + transitions[h] @ values)).sum(axis=-1)
    np.testing.assert_allclose(found.values[0], values, rtol=1e-12)


def test_tables_that_do_not_fit_are_refused() -> None:
    world = make_world("large-blend")
    with pytest.raises(InvalidInput, match="H·S²·A"):
        make_agent("ucbvi", world.model, 10)


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["ucbvi", "ucbvi:bonus=bernstein,bonus_scale=0.05", "psrl:replan=epoch", "q-learning"])
def test_it_learns_a_short_river(spec: str) -> None:
    """The last policy is within a tenth of the optimum (V* = 5.72, uniform play 0.45), on each of two seeds."""
    world = make_world("riverswim:states=3")
    curves = simulate(make_agent(spec, world.model, 3000), world, [0, 1])
    assert np.asarray(curves.value)[:, -1].min() > 0.9 * world.optimal_value
