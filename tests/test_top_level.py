# SPDX-License-Identifier: Apache-2.0
"""What one meets first in an interpreter: a clean list of names, and objects that print in a few lines."""

from __future__ import annotations

import pytest

import reticent


def test_the_top_level_has_what_it_says_and_nothing_else() -> None:
    assert dir(reticent) == sorted(reticent.__all__)
    assert {"DeployedAgent", "agents", "audit", "blend", "make_world", "run"} <= set(reticent.__all__)
    for name in reticent.__all__:
        assert getattr(reticent, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'importlib_'"):
        reticent.importlib_  # noqa: B018


def test_a_repr_is_a_few_lines_without_numbers() -> None:
    world = reticent.make_world("random-blend:states=20,actions=4,horizon=5,d=4")
    agent = reticent.make_agent("private-linopt-vi", world.model, 100)
    result = reticent.run("riverswim:states=3", ["ucbvi"], episodes=20, seeds=2)
    plan = agent.plan(agent.init())
    for thing in (world, world.model, agent, plan, result, result.runs[0], result.runs[0].curves):
        assert len(repr(thing)) < 600, type(thing)
    assert repr(world).startswith("World('random-blend:states=20,actions=4,horizon=5,d=4', states=20, actions=4")
    assert repr(agent) == "LinOptLearner('private-linopt-vi', 100 users, states=20, actions=4, horizon=5)"
    assert repr(result).splitlines()[0] == "RunResult: riverswim:states=3, 20 users, 2 seeds"
