# SPDX-License-Identifier: Apache-2.0
"""The deployed service learns what the library learns: the same regret, up to the seeds' error."""

from __future__ import annotations

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from durable import deployment

from reticent.service.rounds.deployment import Deployment
from reticent.simulation.simulate import simulate
from reticent.worlds import World
from reticent.worlds.registry import make_world

WORLD = "random-blend:states=6,actions=3,horizon=4,d=2"
AGENTS = (
    "private-linopt-vi:first=40,growth=1.5,epsilon=20,bonus_scale=0.05",
    "private-score-vi:epsilon=4",
)
USERS = 400


def served_regret(service: Deployment, world: World, seed: int) -> float:
    """Play every user with actions of the service; the regret of the policies they were served."""
    draw = np.random.default_rng(seed)
    start, step = jax.jit(world.start), jax.jit(world.step)
    gaps: dict[int, float] = {}
    regret = 0.0
    for user in range(USERS):
        opened = service.admit(f"user {user}")
        states = [int(start(jnp.asarray(draw.random())))]
        actions, rewards = [], []
        for h in range(world.model.horizon):
            action = service.act(service.submissions.token(opened.token, opened.episode), h, states[-1])
            uniforms = jnp.asarray(draw.random(world.step_draws))
            following, reward = step(jnp.asarray(h), jnp.asarray(states[-1]), jnp.asarray(action), uniforms)
            actions.append(action)
            rewards.append(float(reward))
            states.append(int(following))
        service.submit_trajectory(opened.token, opened.episode, states, actions, rewards)
        if opened.version not in gaps:  # on average over the places of its round, as the library reckons
            plan = service.mechanism.plan_of(service.billboard(opened.version))
            gaps[opened.version] = world.optimal_value - float(service.mechanism.agent.plan_value(plan, world))
        regret += gaps[opened.version]
    return regret


@pytest.mark.verify
@pytest.mark.parametrize("agent", AGENTS)
def test_regret_is_the_librarys_within_the_seeds_error(tmp_path: Path, agent: str) -> None:
    world = make_world(WORLD)
    served = []
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        service = deployment(tmp_path / str(seed), agent, USERS, world.model)
        served.append(served_regret(service, world, seed))
    library = simulate(service.mechanism.agent, world, list(range(64))).regret[:, -1]
    error = math.sqrt(np.var(served, ddof=1) / len(served) + library.var(ddof=1) / library.size)
    # Four standard errors: an honest pair is told apart in about one of 2000 tests (Student's t with 8 seeds).
    assert abs(np.mean(served) - library.mean()) < 4 * error
    # It can fail: the service must have learned something, and not play as at the start.
    untaught = USERS * (world.optimal_value - world.uniform_value)
    assert np.mean(served) < 0.9 * untaught
