# SPDX-License-Identifier: Apache-2.0
"""The linear learners' neighbours: trajectories that a world can produce, and worlds whose episodes can only be drawn."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mixture.farthest_episodes import StepTable, long_run_plan
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.errors import InvalidInput
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.neighbouring_datasets import realised_strength
from reticent.worlds import make_world

pytestmark = pytest.mark.guard


@pytest.mark.verify
def test_the_worst_trajectories_are_possible_and_beat_random_ones() -> None:
    world = make_world("mobile-health")
    agent = make_private(world.model, 64, "value-iteration", PrivateOptions())
    promised = guarantee_of(agent).promised_strength
    pair = agent.audit_hooks().possible_pair(world, 0)
    worst = realised_strength(agent.aggregator, pair)
    assert 0.2 * promised < worst < promised
    table = StepTable.of(agent.aggregator, world, long_run_plan(agent, world), agent.rewards)
    draw = np.random.default_rng(0)
    for _ in range(10):
        sides = [table.observation(table.random(draw)) for _ in range(2)]
        assert realised_strength(agent.aggregator, pair._replace(canary=sides[0], replacement=sides[1])) <= worst
    # The table's own arithmetic agrees with the agent's reports.
    path = table.random(draw)
    farthest, squared = table.farthest_from(path)
    again = pair._replace(canary=table.observation(farthest), replacement=table.observation(path))
    assert realised_strength(agent.aggregator, again) == pytest.approx(np.sqrt(squared))


@pytest.mark.verify
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
def test_a_world_of_real_states_has_a_pair_too(adjacency: str) -> None:
    world = make_world("glucose:states=real,judge_nodes=14,horizon=2")
    agent = make_agent(f"private-linopt-vi:adjacency={adjacency}", world.model, 16)
    pair = agent.audit_hooks().possible_pair(world, 0)
    assert 0 < realised_strength(agent.aggregator, pair) <= guarantee_of(agent).promised_strength * (1 + 1e-9)


def test_an_agent_without_noise_has_no_neighbours() -> None:
    agent = make_agent("ucrl-vtr", make_world("random-blend:states=3,actions=2,horizon=2").model, 4)
    with pytest.raises(InvalidInput, match="privatizer"):
        agent.audit_hooks().nothing()
