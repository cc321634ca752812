# SPDX-License-Identifier: Apache-2.0
"""Settings side by side are the agents one by one; single precision is single throughout and tells the same story."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reticent
from reticent.agents import make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.errors import InvalidInput, UnknownName
from reticent.simulation.simulate import simulate, simulate_settings
from reticent.worlds import make_world
from reticent.worlds.models.model import cast

WORLD = make_world("random-blend:states=6,actions=3,horizon=3,d=2")
EPISODES = 3000


def agents_of(*specs: str) -> list[LinOptLearner]:
    return [make_agent(spec, WORLD.model, EPISODES) for spec in specs]


@pytest.mark.verify
def test_settings_side_by_side_are_the_agents_one_by_one() -> None:
    agents = agents_of(
        *(f"private-linopt-vi:epsilon={e},bonus_scale={b}" for e, b in ((0.5, 0.1), (2, 0.1), (2, 0.01)))
    )
    together = simulate_settings(agents, WORLD, range(4))
    for agent, curves in zip(agents, together, strict=True):
        alone = simulate(agent, WORLD, range(4))
        # Another program may round otherwise, and then a tie may be broken otherwise; most runs are the same throughout.
        same = np.isclose(curves.regret[:, -1], alone.regret[:, -1], rtol=0, atol=1e-6)
        assert same.mean() >= 0.5
        np.testing.assert_allclose(curves.regret.mean(), alone.regret.mean(), rtol=0.2)
        np.testing.assert_array_equal(curves.episodes, alone.episodes)
    finals = [curves.regret[:, -1].mean() for curves in together]
    assert len(set(np.round(finals, 6))) == len(finals)


def test_agents_of_different_structure_are_refused_together() -> None:
    with pytest.raises(InvalidInput, match="alike but for numbers"):
        simulate_settings(agents_of("private-linopt-vi", "private-linopt-vi:counter=tree"), WORLD, range(2))


@pytest.mark.verify
@pytest.mark.parametrize(
    "spec", ["ucrl-vtr:replan=epoch", "private-linopt-vi", "private-linopt-po:trust=local,epsilon=20"]
)
def test_single_precision_is_single_throughout(spec: str) -> None:
    agent = cast(make_agent(spec, WORLD.model, 64), jnp.float32)
    curves = simulate(agent, cast(WORLD, jnp.float32), range(2), segments=1)
    for path, leaf in jax.tree_util.tree_leaves_with_path(curves.carry):
        assert leaf.dtype != jnp.float64, jax.tree_util.keystr(path)
    assert np.isfinite(curves.regret).all()


@pytest.mark.verify
def test_single_precision_tells_the_same_story() -> None:
    """Same users, same noise but for its last digits: mean regret within 2% or three paired standard errors."""
    agent = make_agent("private-linopt-vi", WORLD.model, EPISODES)
    double = simulate(agent, WORLD, range(48)).regret[:, -1]
    single = simulate(cast(agent, jnp.float32), cast(WORLD, jnp.float32), range(48)).regret[:, -1]
    apart = single - double
    assert abs(apart.mean()) <= max(0.02 * double.mean(), 3 * apart.std(ddof=1) / np.sqrt(48))


def test_a_run_says_which_precisions_there_are() -> None:
    with pytest.raises(UnknownName, match="float32"):
        reticent.run("random-blend", ["ucrl-vtr"], episodes=10, seeds=1, precision="half")
