# SPDX-License-Identifier: Apache-2.0
"""Seeds in groups: nobody is lost, filled up or mixed up, whatever their number."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.simulation import seed_batches
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=4,actions=2,horizon=2,d=2")


@given(seeds=st.integers(1, 10_000), most=st.sampled_from([seed_batches.LEAST, seed_batches.MOST]))
def test_groups_are_even_and_bounded(seeds: int, most: int) -> None:
    size = seed_batches.group_size(seeds, most)
    groups = -(-seeds // size)
    assert 1 <= size <= most
    assert groups * size - seeds < groups  # at most one lane of each group is wasted on filling up
    assert groups >= 2 or seeds <= seed_batches.LEAST


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["private-linopt-vi:counter=tree", "ucrl-vtr:replan=epoch"])
def test_groups_play_the_same_seeds_as_one_program(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, seeds = make_agent(spec, WORLD.model, 60), [5, 3, 11, 2, 8, 13, 1]
    together = simulate(agent, WORLD, seeds, segments=3)
    monkeypatch.setattr(seed_batches, "group_size", lambda count, most: 3)
    apart = simulate(agent, WORLD, seeds, segments=3)
    assert apart.regret.shape == together.regret.shape == (7, len(together.episodes))
    np.testing.assert_allclose(apart.regret, together.regret, rtol=0, atol=1e-9)
    for one, other in zip(jax.tree.leaves(apart.carry), jax.tree.leaves(together.carry), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    first = simulate(agent, WORLD, seeds, segments=3, until_episode=20)
    rest = simulate(agent, WORLD, seeds, segments=3, resume=first.carry, from_episode=first.position)
    np.testing.assert_array_equal(first.then(rest).regret, apart.regret)
