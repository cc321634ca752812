# SPDX-License-Identifier: Apache-2.0
"""Those whom the library is measured beside: the NumPy loop is the library's learner, peers that cannot run say why."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measuring import Work
from measuring.work import PAPER
from reticent.agents import make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.radius import Radii
from reticent.worlds import Episode, World, make_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import numpy_loop as loop
from opponents import measure_loop, measure_peers, plain_arrays

TINY = "random-blend:states=2,actions=2,horizon=1,d=1"
EPISODES = 48


# -- the loop and the library compute the same ------------------------------------------------------------------------


def quieter(agent: LinOptLearner, noise: float, shift: float, radius: float) -> LinOptLearner:
    """The paper's learner with all noise, shifts and radii scaled down, so that it learns within a few episodes."""
    privatizer = agent.aggregator
    small = dataclasses.replace(
        privatizer,
        noise_scale=noise * privatizer.noise_scale,
        transition_shift=shift * privatizer.transition_shift,
        reward_shift=shift * privatizer.reward_shift,
        transition_floor=0 * privatizer.transition_floor,
        reward_floor=0 * privatizer.reward_floor,
    )
    return dataclasses.replace(agent, aggregator=small, radii=Radii(*(radius * row for row in agent.radii)))


def constants_of(agent: LinOptLearner) -> Any:
    """What the loop needs to know of a learner whose constants are the same at every step and round."""
    privatizer = agent.aggregator
    sums = privatizer.unpack(privatizer.noise_scale)  # packing is linear: scales come out as the entries' own
    radius_p, radius_r = (float(agent.bonus_scale * row[0, 0]) for row in agent.radii)
    return loop.Constants(
        *(float(leaf.reshape(-1)[0]) for leaf in sums),
        float(privatizer.transition_shift[0, 0]),
        float(privatizer.reward_shift[0, 0]),
        radius_p,
        radius_r,
    )


def play_library(
    agent: LinOptLearner, world: World, uniforms: np.ndarray, noises: jax.Array
) -> list[tuple[np.ndarray, ...]]:
    """Values, policy, exact value and states of each episode, by the library's pure functions."""
    horizon = world.model.horizon

    @jax.jit
    def one(state: Any, draws: jax.Array, noise: jax.Array) -> Any:
        plan = agent.plan(state)
        states, actions, rewards = [world.start(draws[0])], [], []
        for step in range(horizon):
            action = agent.act(plan, step, states[-1], 0.0)
            following, reward = world.step(jnp.asarray(step), states[-1], action, draws[1 + 2 * step : 3 + 2 * step])
            states, actions, rewards = [*states, following], [*actions, action], [*rewards, reward]
        episode = Episode(*(jnp.stack(part) for part in (states, actions, rewards)))
        seen = plan.values, plan.policy, world.policy_value(plan.policy), episode.states
        return agent.update(state, plan, episode, None, noise), seen

    state, found = agent.init(), []
    for draws, noise in zip(uniforms, noises, strict=True):
        state, seen = one(state, jnp.asarray(draws), noise)
        found.append(tuple(np.asarray(part) for part in seen))
    return found


@pytest.mark.verify
@pytest.mark.parametrize(
    ("scales", "world"),
    [
        ((1.0, 1.0, 1.0), "random-blend"),
        ((3e-6, 1e-6, 1e-4), "random-blend"),
        ((3e-6, 1e-6, 1e-4), "random-blend:states=6,actions=3,horizon=4,d1=3,d2=2,per_step=true"),
    ],
    ids=["the paper's constants", "little noise", "other sizes, another blend at every step"],
)
def test_the_loop_plays_the_same_episodes_as_the_library(scales: tuple[float, ...], world: str) -> None:
    """Same uniforms, same noise for every node: the same plans, policies, values and states in every episode."""
    built = make_world(world)
    agent = quieter(make_agent(PAPER, built.model, EPISODES + 1), *scales)
    rng = np.random.default_rng(5)
    uniforms = rng.random((EPISODES, 1 + 2 * built.model.horizon))
    keys = jax.random.split(jax.random.key(3), EPISODES)
    noises = jnp.stack([agent.aggregator.simulate_round_noise(key) for key in keys])
    apart = [map(np.asarray, agent.aggregator.unpack(noise)) for noise in noises]
    randomness = [loop.Draws(draws, *noise) for draws, noise in zip(uniforms, apart, strict=True)]
    mixture = loop.Mixture(**plain_arrays(built))

    theirs = play_library(agent, built, uniforms, noises)
    ours = list(loop.private_linopt_vi(mixture, constants_of(agent), EPISODES + 1, randomness))
    assert len(ours) == EPISODES
    for played, expected in zip(ours, theirs, strict=True):
        for left, right in zip((played.V, played.policy, played.value, played.states), expected, strict=True):
            np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)
    assert loop.optimal_value(mixture) == pytest.approx(built.optimal_value, abs=1e-12)
    # The comparison would say little if plans never changed, or if all values were at their ceiling.
    assert len({played.policy.tobytes() for played in ours}) > 10
    ceiling = built.model.horizon - np.arange(built.model.horizon + 1)[:, None]
    assert (ours[-1].V[:-1] < ceiling[:-1] - 0.01).any()


@pytest.mark.parametrize(("episodes", "epsilon"), [(64, 1.0), (20_000, 0.3)])
def test_the_loop_has_the_papers_constants(episodes: int, epsilon: float) -> None:
    model = make_world("random-blend:horizon=4,d1=3,d2=2").model
    agent = make_agent(PAPER, model, episodes, epsilon=epsilon, bonus_scale=0.1)
    ours = loop.paper_constants(episodes, 4, 3, 2, epsilon, 1e-5, 0.05, 0.1)
    expected = constants_of(agent)
    for field in dataclasses.fields(expected):
        assert getattr(ours, field.name) == pytest.approx(getattr(expected, field.name), rel=1e-12), field.name


def test_the_loop_draws_the_noise_it_says() -> None:
    """Standard deviations of every entry within 6 standard errors (false alarms: below 1e-6), matrices symmetric."""
    constants = loop.Constants(1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0)
    drawn = list(loop.draws(np.random.default_rng(0), 4000, 2, 3, 2, constants))
    for field, sigma in (("gram_p", 1), ("moment_p", 2), ("gram_r", 3), ("moment_r", 4)):
        entries = np.stack([getattr(draw, field) for draw in drawn])
        if entries.ndim == 4:
            np.testing.assert_array_equal(entries, entries.swapaxes(-1, -2))
        assert np.abs(entries.std(axis=0) / sigma - 1).max() < 6 / np.sqrt(2 * len(drawn))
    assert not np.array_equal(drawn[0].gram_p, drawn[1].gram_p)


def test_the_loops_regret_is_that_of_its_policies() -> None:
    world = make_world("random-blend:states=3,actions=2,horizon=2,d=2")
    mixture = loop.Mixture(**plain_arrays(world))
    constants = loop.paper_constants(100, 2, 2, 2, 1.0, 1e-5, 0.05, 0.1)
    regret = loop.regret(mixture, constants, 100, 30, seed=1)
    steps = np.diff(regret, prepend=0)
    assert regret.shape == (30,)
    assert (steps >= -1e-12).all()
    assert (steps <= world.optimal_value).all()


# -- what is said of them ------------------------------------------------------------------------------------------------


def test_the_loop_is_timed() -> None:
    work = Work(TINY, episodes=60, repeats=2, seconds=0.0)
    row = measure_loop(work, work.make())
    assert row.episodes == 60
    assert len(row.rates) == 2
    assert min(row.rates) > 0


@pytest.mark.parametrize("python", ["/nonexistent/python", sys.executable])
def test_a_peer_that_cannot_run_says_why(python: str) -> None:
    if python == sys.executable and _has_rlberry():
        pytest.skip("rlberry is installed here")
    work = Work(TINY, episodes=60)
    rows = measure_peers(work, work.make(), python)
    assert [row.rate for row in rows] == [None, None]
    reason = "No such file" if python != sys.executable else "No module named"
    assert all(row.remark.startswith("did not run:") and reason in row.remark for row in rows)


@pytest.mark.skipif("_has_rlberry()")
def test_a_peer_that_is_absent_is_not_installed() -> None:
    work = Work(TINY, episodes=60)
    assert all("not installed" in row.remark for row in measure_peers(work, work.make(), None))


def _has_rlberry() -> bool:
    return importlib.util.find_spec("rlberry_scool") is not None
