# SPDX-License-Identifier: Apache-2.0
"""The ellipsoids that Score-VI acts on contain the truth about as often as they say, private or not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

from reticent.agents import make_agent
from reticent.agents.score.coordinates import Coordinates
from reticent.agents.score.posterior import Posterior
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world

LEVEL = 0.95
SMALL = "random-blend:states=4,actions=2,horizon=2,d=3"


def contained(coordinates: Coordinates, posterior: Posterior, truth: np.ndarray) -> np.ndarray:
    """Whether the posterior's ellipsoid of this level contains the truth, by seed and group of steps."""
    theta = np.atleast_2d(truth)[: posterior.moment.shape[-2]]
    eta = (theta - np.asarray(coordinates.centre)) @ np.asarray(coordinates.basis)
    precision = np.asarray(posterior.information) + np.eye(coordinates.size) / float(coordinates.variance)
    mean = np.linalg.solve(precision, np.asarray(posterior.moment)[..., None])[..., 0]
    off = mean - eta
    squared = np.einsum("ngi,ngij,ngj->ng", off, precision, off)
    return squared <= chi2.ppf(LEVEL, coordinates.size)


def coverage(world_spec: str, agent_spec: str, users: int, seeds: int) -> tuple[int, int]:
    """How many runs' transition ellipsoids and how many runs' reward ellipsoids contain the truth, in every group."""
    world = make_world(world_spec)
    agent = make_agent(agent_spec, world.model, users)
    posteriors = simulate(agent, world, range(seeds)).carry.state.past
    parts = (
        (agent.coordinates, posteriors.transitions, world.transition_theta),
        (agent.reward_coordinates, posteriors.rewards, world.reward_theta),
    )
    moving, paying = (int(contained(*part).all(axis=1).sum()) for part in parts)
    return moving, paying


def least(seeds: int, share: float) -> int:
    """What so many runs of this coverage exceed but once in 10⁴."""
    return int(binom.ppf(1e-4, seeds, share))


@pytest.mark.verify
@pytest.mark.parametrize("agent", ["private-score-vi:epsilon=3", "score-vi"])
def test_the_truth_is_in_the_ellipsoid(agent: str) -> None:
    """Of 95% ellipsoids at least 88% hold: linearisation costs some. False alarm 2e-4 an agent."""
    for held in coverage(SMALL, agent, 1000, 64):
        assert held >= least(64, 0.88)


@pytest.mark.verify
@pytest.mark.parametrize("score", ["values", "likelihood"])
@pytest.mark.parametrize("users", [500, 20_000])
@pytest.mark.parametrize("world", ["random-blend", "mobile-health", "tutor"])
def test_the_truth_is_in_the_ellipsoid_of_larger_worlds(world: str, users: int, score: str) -> None:
    for held in coverage(world, f"private-score-vi:score={score}", users, 64):
        assert held >= least(64, 0.85)


@pytest.mark.verify
def test_a_wrong_ellipsoid_would_be_noticed() -> None:
    """A posterior that believes its noise to be three times smaller than it is: the test above must fail."""
    world = make_world(SMALL)
    agent = make_agent("private-score-vi:epsilon=1", world.model, 1000)
    posteriors = simulate(agent, world, range(64)).carry.state.past.rewards
    sure = Posterior(9 * np.asarray(posteriors.information), 9 * np.asarray(posteriors.moment))
    held = contained(agent.reward_coordinates, sure, world.reward_theta).all(axis=1).sum()
    assert held < least(64, 0.85)
