# SPDX-License-Identifier: Apache-2.0
"""The agent against the NumPy transcription of the page: same users, same noise, same models served, caught and kept."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from elimination_transcription import Elimination, World

from reticent.agents import make_agent
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=4,actions=3,horizon=3,d=2,seed=2")
USERS, SPACING, LARGEST = 500, 24, 160


def written_down(agent, options) -> Elimination:
    model = agent.model
    world = World(
        np.asarray(model.transition_features), np.asarray(model.reward_features), np.asarray(model.initial),
        model.horizon, float(model.reward_total),
    )  # fmt: skip
    bases = tuple(np.asarray(part.basis) for part in (agent.parameters.transitions, agent.parameters.rewards))
    return Elimination(world, bases, SPACING, **options)


@pytest.mark.parametrize("private", [False, True])
@double_precision
def test_the_agent_does_what_the_page_says(private: bool) -> None:
    # A narrow radius, so that there is something to catch among few users.
    name = "private-elimination:epsilon=50," if private else "elimination:"
    spec = f"{name}oracle=lattice,candidates={(SPACING + 1) ** 2},first=1,sweeps=2,radius=0.5,threshold=1.5"
    agent = make_agent(spec, WORLD.model, USERS)
    sigma = float(agent.noise_scale)
    slow = written_down(
        agent, {"sigma": sigma, "level": 0.125, "kappa": 1.5, "reach": 0.0, "certain": False, "pool": True}
    )

    @jax.jit
    def play(plan, key):
        """Padded to one size for all rounds: one compilation."""

        def user(number):
            episode = rollout(agent, WORLD, plan, episode_uniforms(key, number, WORLD.model.horizon))
            return episode, agent.report(plan, episode)

        return jax.vmap(user)(jnp.arange(LARGEST))

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
        noise = sigma * draw.normal(size=agent.dimension)
        state = agent.absorb(state, jnp.asarray(total[None] if private else total))
        state = close(state, plan, size, jnp.asarray(noise[None]) if private else None)
        slow.close(total + noise if private else total, size, bool(ends))
        assert bool(state.past.caught) == slow.caught
        assert int(state.past.catches) == slow.catches
        assert int((np.asarray(state.past.search.violation) <= 1).sum()) == slow.alive
    assert slow.catches >= 2
    assert len(served) >= 3
