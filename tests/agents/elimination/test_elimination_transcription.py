# SPDX-License-Identifier: Apache-2.0
"""The agent against the NumPy transcription of the page: same users, same noise, same models served, caught and kept."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from elimination_transcription import Elimination
from elimination_transcription import World as WrittenWorld

from reticent.agents import make_agent
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import World, blend, make_world

WORLD = make_world("random-blend:states=4,actions=3,horizon=3,d=2,seed=2")
SPACING = 24
POINTS = f"oracle=lattice,candidates={(SPACING + 1) ** 2}"
NAMES = pytest.mark.parametrize("name", ["elimination:", "private-elimination:epsilon=50,"])


def world_of_broken_promises() -> World:
    """One table promises 0.95 a step and hardly counts: a test with κ of Lemma 3 catches it among a thousand users."""
    stay, swap = (np.repeat(rows[:, None], 2, axis=1) for rows in (np.eye(2), np.eye(2)[::-1]))
    tables = [[[0.95, 0.2], [0.85, 0.2]], [[0.05, 0.2], [0.05, 0.15]]]
    rows = np.stack([0.9 * stay + 0.1 * swap, 0.9 * swap + 0.1 * stay])
    return blend(rows, tables, [0.7, 0.3], [0.02, 0.98], 2)


def written_down(agent) -> Elimination:
    model = agent.model
    world = WrittenWorld(
        np.asarray(model.transition_features), np.asarray(model.reward_features), np.asarray(model.initial),
        model.horizon, float(model.reward_total),
    )  # fmt: skip
    bases = tuple(np.asarray(part.basis) for part in (agent.parameters.transitions, agent.parameters.rewards))
    return Elimination(
        world, bases, SPACING, sigma=float(agent.noise_scale), level=float(agent.level), kappa=float(agent.threshold),
        reach=float(agent.reach), certain=agent.certain, pool=agent.pool,
    )  # fmt: skip


def follow(agent, world: World) -> tuple[Elimination, int]:
    """Both side by side for a whole run; the transcription at the end, and how many models were served."""
    slow, private = written_down(agent), float(agent.noise_scale) > 0
    largest = max(agent.schedule.sizes)

    @jax.jit
    def play(plan, key):
        """Padded to one size for all rounds: one compilation."""

        def user(number):
            episode = rollout(agent, world, plan, episode_uniforms(key, number, world.model.horizon))
            return episode, agent.report(plan, episode)

        return jax.vmap(user)(jnp.arange(largest))

    make_plan, close = jax.jit(agent.plan), jax.jit(agent.close)
    draw = np.random.default_rng(5)
    state, served = agent.init(), set()
    for number, (size, ends) in enumerate(zip(agent.schedule.sizes, np.asarray(agent.sweep_ends), strict=True)):
        plan = make_plan(state)
        np.testing.assert_array_equal(np.asarray(plan.policy), slow.served.choices)
        np.testing.assert_allclose(np.asarray(plan.values), slow.served.values, atol=1e-12)
        served.add(slow.served.values.tobytes())
        episodes, reports = play(plan, jax.random.fold_in(jax.random.key(1), number))
        columns = [np.asarray(leaf) for leaf in (episodes.states, episodes.actions, episodes.rewards)]
        total = sum(slow.vector(slow.served, *(leaf[user] for leaf in columns)) for user in range(size))
        np.testing.assert_allclose(np.asarray(reports[:size]).reshape(size, -1).sum(axis=0), total, atol=1e-9)
        noise = slow.sigma * draw.normal(size=agent.dimension)
        state = agent.absorb(state, jnp.asarray(total[None] if private else total))
        state = close(state, plan, size, jnp.asarray(noise[None]) if private else None)
        slow.close(total + noise if private else total, size, bool(ends))
        assert bool(state.past.caught) == slow.caught
        assert int(state.past.catches) == slow.catches
        assert int((np.asarray(state.past.search.violation) <= 1).sum()) == slow.alive
    return slow, len(served)


@NAMES
@double_precision
def test_the_agent_does_what_the_page_says(name: str) -> None:
    # A narrow radius, so that there is something to catch among few users.
    agent = make_agent(f"{name}{POINTS},sweeps=2,radius=0.5,threshold=1.5", WORLD.model, 500)
    assert agent.pool
    assert not agent.certain
    slow, served = follow(agent, WORLD)
    assert slow.catches >= 2
    assert served >= 3


@NAMES
@double_precision
def test_the_proven_radius_and_reach_through_catches_and_fallbacks(name: str) -> None:
    """s² of Lemma 1, the width at distance W, no pooling: what the theorem has, with small ℓ and κ to catch often."""
    agent = make_agent(f"{name}{POINTS},sweeps=2,radius=0.2,threshold=1.2,pool=false", WORLD.model, 500)
    agent = dataclasses.replace(agent, certain=True, reach=jnp.asarray(agent.parameters.diameter))
    slow, served = follow(agent, WORLD)
    assert slow.catches >= 2
    assert served >= 3


@NAMES
@double_precision
def test_the_theorem_s_own_constants_catch_a_broken_promise(name: str) -> None:
    """``calibration=theorem`` unchanged: n₀, m, κ, ℓ and W of the page, through a catch."""
    world = world_of_broken_promises()
    agent = make_agent(f"{name}{POINTS},calibration=theorem,failure=0.5", world.model, 4000)
    assert agent.schedule.rounds >= 3
    slow, served = follow(agent, world)
    assert slow.catches >= 1
    assert served >= 2
