# SPDX-License-Identifier: Apache-2.0
"""Whether the candidates explain what users do: releases that were foretold, and blends that nobody is."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score.diagnostics import fit_of
from reticent.agents.score.evidence import Evidence
from reticent.agents.score.posterior import Fit
from reticent.agents.score.posterior_update import faded_posteriors
from reticent.runtime import double_precision
from reticent.simulation.simulate import simulate
from reticent.worlds import misspecified
from reticent.worlds.registry import make_world

WORLD = make_world("random-blend:states=4,actions=3,horizon=3,d=3")


def off_by(size: float) -> Evidence:
    """A release whose noise is standard and which is off by so much in both its numbers, whatever is believed."""
    one = jnp.eye(2)[None]
    return Evidence(0 * one, one, jnp.full((1, 2), size), jnp.zeros((1, 2)), one)


@double_precision
def test_surprises_add_up_after_the_first_and_begin_anew_after_an_alarm() -> None:
    agent = dataclasses.replace(make_agent("score-vi", WORLD.model, 2000), alarm=100.0)
    posteriors, users = agent.init().past, jnp.asarray(10.0)
    assert fit_of(agent, posteriors.fit) is None
    posteriors = faded_posteriors(agent, posteriors, (off_by(5.0), off_by(1.0)), users)
    np.testing.assert_allclose(posteriors.fit, (52.0, 0.0, 1))
    assert fit_of(agent, posteriors.fit) is None
    for size, expected in ((2.0, (10.0, 10.0, 2)), (3.0, (20.0, 30.0, 3))):
        posteriors = faded_posteriors(agent, posteriors, (off_by(size), off_by(1.0)), users)
        np.testing.assert_allclose(posteriors.fit, expected)
    figures = fit_of(agent, posteriors.fit)
    assert figures is not None
    numbers = agent.coordinates.size + agent.reward_coordinates.size
    assert (figures.statistic, figures.degrees) == (30.0, 2 * numbers)
    # χ² with an even number 2k of degrees of freedom has a closed form: exp(−x/2) Σ_{j<k} (x/2)^j / j!.
    closed = math.exp(-15) * sum(15.0**j / math.factorial(j) for j in range(numbers))
    assert figures.probability == pytest.approx(closed)
    posteriors = faded_posteriors(agent, posteriors, (off_by(20.0), off_by(1.0)), users)
    np.testing.assert_allclose(posteriors.fit, (802.0, 0.0, 1))


@pytest.mark.verify
@pytest.mark.parametrize("agent_name", ["score-vi", "private-score-vi:epsilon=3"])
def test_a_right_blend_is_rarely_doubted_and_a_wrong_one_often(agent_name: str) -> None:
    """64 seeds of each. If doubts of a right blend came in 5 % of them, eleven or more would come in one test of 2 000."""
    doubted = {}
    for amount in (0.0, 0.3):
        world = dataclasses.replace(misspecified(WORLD, amount), name=WORLD.name) if amount else WORLD
        agent = make_agent(agent_name, world.model, 5000)
        fits = simulate(agent, world, list(range(64))).carry.state.past.fit
        each = [fit_of(agent, Fit(*(leaf[seed] for leaf in fits))) for seed in range(64)]
        doubted[amount] = sum(one is not None and one.probability < 0.05 for one in each)
    assert doubted[0.0] <= 10
    assert doubted[0.3] > 2 * max(doubted[0.0], 5)
