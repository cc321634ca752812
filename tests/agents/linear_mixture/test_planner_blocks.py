# SPDX-License-Identifier: Apache-2.0
"""Planning a few states at a time gives the plan of planning them all at once."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mixture import planner
from reticent.worlds import make_world

AGENTS = ["ucrl-vtr", "private-linopt-po"]
WORLDS = ["random-blend:states=7,actions=3,horizon=3,d=2", "large-blend:states=40,successors=5,horizon=3"]


def disturbed(state: Any) -> Any:
    """The state with a little noise in every number, so that estimates are not all zero."""
    rng = np.random.default_rng(0)

    def one(leaf: jax.Array) -> jax.Array:
        floating = np.issubdtype(leaf.dtype, np.floating)
        return leaf + rng.uniform(0, 0.1, leaf.shape) if floating else leaf

    return jax.tree.map(one, state)


@pytest.mark.parametrize("spec", AGENTS)
@pytest.mark.parametrize(("world", "block"), [(WORLDS[0], 3), (WORLDS[1], 11)])
def test_blocks_of_states_change_nothing(world: str, spec: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_world(world)
    agent = make_agent(spec, place.model, 40)
    state = disturbed(agent.init())
    whole = jax.jit(lambda: agent.plan(state, action_values=True))()
    assert planner.states_at_once(place.model) == place.model.states
    monkeypatch.setattr(planner, "MOST_FEATURES", block * place.model.actions * place.model.d1)
    assert planner.states_at_once(place.model) == block
    parts = jax.jit(lambda: agent.plan(state, action_values=True))()
    assert np.ptp(whole.values[0]) > 0.01
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.verify
def test_blocks_bound_the_memory_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of actions: in blocks, what a compiled plan needs is a fraction of S × A × d."""
    place = make_world("large-blend:states=60,actions=2000,successors=3,horizon=3,d=8")
    model, agent = place.model, make_agent("ucrl-vtr", place.model, 100)

    def temporary() -> int:
        plan = jax.jit(lambda agent, state: agent.plan(state))
        return int(plan.lower(agent, agent.init()).compile().memory_analysis().temp_size_in_bytes)

    all_features = 8 * model.states * model.actions * model.d1
    whole = temporary()
    monkeypatch.setattr(planner, "MOST_FEATURES", 2 * model.actions * model.d1)
    assert temporary() < all_features / 3 < all_features < whole
