# SPDX-License-Identifier: Apache-2.0
"""Simulated delays: none is the ordinary simulation, any is a slow loop with a list of letters, and draws are as named."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.simulation.delayed import (
    NEVER,
    FixedDelay,
    GeometricDelay,
    Lost,
    _delay_stream,
    rounds_reached,
    simulate_delayed,
)
from reticent.simulation.rollout import episode_uniforms, rollout, streams
from reticent.simulation.simulate import simulate
from reticent.worlds.registry import make_world

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
EPISODES = 40


def world_and_agent(spec: str):
    world = make_world(WORLD)
    return world, make_agent(spec, world.model, EPISODES)


EPOCHS = "private-linopt-vi:first=5,growth=1.5,epsilon=20"
TREE = "private-linopt-vi:counter=tree,epsilon=20,final_release=false"


@pytest.mark.verify
@pytest.mark.parametrize("spec", [EPOCHS, "private-linopt-po:trust=local,first=5,epsilon=20"])
def test_no_delay_is_the_ordinary_simulation(spec: str) -> None:
    world, agent = world_and_agent(spec)
    ordinary = simulate(agent, world, [3, 4])
    delayed = simulate_delayed(agent, world, [3, 4], FixedDelay(0))
    np.testing.assert_allclose(delayed.regret, ordinary.regret, rtol=1e-9)
    np.testing.assert_allclose(delayed.value, ordinary.value, rtol=1e-9)
    np.testing.assert_array_equal(delayed.episodes, ordinary.episodes)
    assert delayed.in_round.tolist() == [EPISODES] * 2
    assert not delayed.late.any()
    assert not delayed.lost.any()


def by_letters(world, agent, seed: int, delay) -> tuple[list[float], list[int]]:
    """User by user, each report in an envelope with its own day: regret after each user, and the three counts."""
    key, delay_key = streams(seed), _delay_stream(jnp.uint32(seed))
    schedule = agent.schedule
    released = schedule.rounds - (not schedule.final_release)
    served_in = np.repeat(np.arange(schedule.rounds), schedule.round_sizes)
    make_plan = jax.jit(agent.plan)
    play = jax.jit(lambda plan, uniforms: agent.report(plan, rollout(agent, world, plan, uniforms)))
    noise_of = jax.jit(
        lambda number: agent.aggregator.simulate_round_noise(jax.random.fold_in(key.round_noise, number))
    )
    state, optimal = agent.init(), float(world.optimal_value)
    plan, letters = make_plan(state), []
    regrets, regret, counts = [], 0.0, [0, 0, 0]
    for user in range(schedule.episodes):
        regret += optimal - float(world.policy_value(plan.policy))
        regrets.append(regret)
        report = play(plan, episode_uniforms(key.users, user, world.model.horizon))
        days = int(delay.draw(jax.random.fold_in(delay_key, user)))
        letters.append((user + days, report))
        arrival = user + days
        if arrival >= schedule.episodes or served_in[arrival] >= released:
            counts[2] += 1
        else:
            counts[int(served_in[arrival] > served_in[user])] += 1
        for _, report in (letter for letter in letters if letter[0] == user):
            state = agent.absorb(state, report)
        number = served_in[user]
        if user + 1 == schedule.ends[number] and number < released:
            state = agent.close(state, plan, int(schedule.round_sizes[number]), noise_of(number))
            plan = make_plan(state)
    return regrets, counts


@pytest.mark.verify
@pytest.mark.parametrize("spec", [EPOCHS, TREE])
def test_delays_are_those_of_letters_in_envelopes(spec: str) -> None:
    world, agent = world_and_agent(spec)
    delay = Lost(0.2, GeometricDelay(4.0))
    curves = simulate_delayed(agent, world, [7, 8], delay, width=3)
    expected, counts = by_letters(world, agent, 8, delay)
    np.testing.assert_allclose(curves.regret[1], np.array(expected)[curves.episodes - 1], rtol=1e-9)
    assert [int(column[1]) for column in (curves.in_round, curves.late, curves.lost)] == counts
    assert min(counts) > 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), longest=st.integers(0, 50))
def test_the_ring_has_a_place_for_every_round_that_a_delay_reaches(sizes: list[int], longest: int) -> None:
    served_in = np.repeat(np.arange(len(sizes)), sizes)
    pairs = itertools.product(range(len(served_in)), range(longest + 1))
    reached = [served_in[user + days] - served_in[user] + 1 for user, days in pairs if user + days < len(served_in)]
    assert rounds_reached(np.cumsum(sizes), longest) == max(reached)


def test_delays_are_drawn_as_named() -> None:
    """100 000 draws each; every check has a false-alarm rate below 1e-6 (five standard errors)."""
    keys = jax.random.split(jax.random.key(0), 100_000)
    drawn = np.asarray(jax.vmap(GeometricDelay(20.0).draw)(keys))
    five = 5 / math.sqrt(len(drawn))
    assert drawn.min() == 0
    assert abs(drawn.mean() - 20) < five * math.sqrt(20 * 21)
    assert abs((drawn == 0).mean() - 1 / 21) < five * math.sqrt(20) / 21
    assert abs((drawn >= 60).mean() - (20 / 21) ** 60) < five * 0.25
    lost = np.asarray(jax.vmap(Lost(0.3, FixedDelay(7)).draw)(keys))
    assert set(lost.tolist()) == {7, NEVER}
    assert abs((lost == NEVER).mean() - 0.3) < five * math.sqrt(0.21)


@pytest.mark.parametrize(
    "make", [lambda: FixedDelay(-1), lambda: GeometricDelay(0.0), lambda: GeometricDelay(math.inf), lambda: Lost(1.5)]
)
def test_impossible_delays_are_refused(make) -> None:
    with pytest.raises(InvalidInput):
        make()
