# SPDX-License-Identifier: Apache-2.0
"""Users who change: posteriors that fade, an alarm with a rate of false alarms, and what each is worth."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score.coordinates import simplex_coordinates
from reticent.agents.score.evidence import Evidence, learn, surprise
from reticent.agents.score.posterior import Posterior
from reticent.agents.score.posterior_update import faded_posteriors
from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.simulation.non_stationary import simulate_non_stationary
from reticent.worlds.registry import make_world
from reticent.worlds.transforms.non_stationary import phases_of

WORLD = make_world("random-blend:states=4,actions=3,horizon=3,d=3")


@pytest.mark.verify
@double_precision
def test_the_alarm_has_its_rate_of_false_alarms() -> None:
    """Of releases as the posteriors expect them, 1 in 20 alarms at that rate; 40 000 of them, within 4 s.e."""
    coordinates = simplex_coordinates(4, 1.0)
    draw = np.random.default_rng(5)
    roots = draw.normal(size=(2, 3, 3))
    posterior = Posterior(
        jnp.asarray(30 * roots[:1] @ roots[:1].transpose(0, 2, 1)), jnp.asarray(draw.normal(size=(1, 3)))
    )
    response, noise = jnp.asarray(5 * roots[1:]), jnp.asarray(np.eye(3)[None] * 2.0)
    covariance = np.linalg.inv(posterior.information[0] + np.eye(3) / coordinates.variance)
    eta = draw.multivariate_normal(covariance @ np.asarray(posterior.moment[0]), covariance, 40_000)
    released = eta @ roots[1].T * 5 + draw.normal(size=eta.shape) * math.sqrt(2.0)

    def squared(one: jax.Array) -> jax.Array:
        return surprise(coordinates, posterior, Evidence(response, noise, one[None], jnp.zeros((1, 3)), response))

    lengths = np.asarray(jax.vmap(squared)(jnp.asarray(released)))
    threshold = 7.814728  # of χ² with three degrees of freedom, at 0.05
    assert abs((lengths > threshold).mean() - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 40_000)
    learned = learn(posterior, Evidence(response, noise, jnp.asarray(released[:1]), jnp.zeros((1, 3)), response))
    assert (np.linalg.eigvalsh(learned.information - posterior.information) > 0).all()


@double_precision
def test_what_is_remembered_fades_by_half_lives_and_goes_with_an_alarm() -> None:
    agent = make_agent("score-vi:half_life=100", WORLD.model, 2000)
    posteriors = jax.tree.map(jnp.ones_like, agent.init().past)
    blank = Evidence(*(jnp.zeros(shape) for shape in ((1, 2, 2), (1, 2, 2), (1, 2), (1, 2), (1, 2, 2))))
    kept = faded_posteriors(agent, posteriors, (blank, blank), jnp.asarray(200.0))
    np.testing.assert_allclose(kept.transitions.information, 0.25)
    wild = blank._replace(noise=jnp.eye(2)[None], released=jnp.full((1, 2), 100.0))
    watchful = dataclasses.replace(agent, alarm=20.0)
    after = faded_posteriors(watchful, posteriors, (wild, wild), jnp.asarray(200.0))
    assert not np.asarray(after.transitions.information).any()
    assert int(after.alarms) == int(posteriors.alarms) + 1


def test_phases_keep_the_model_and_move_the_truth() -> None:
    phases = phases_of(WORLD, [100, 300], seed=1)
    assert [phase.first for phase in phases] == [0, 100, 300]
    assert all(phase.world.model is WORLD.model for phase in phases)
    assert float(np.abs(phases[1].world.transition_theta - WORLD.transition_theta).max()) > 0.05
    with pytest.raises(InvalidInput, match="increasing"):
        phases_of(WORLD, [100, 100])


@pytest.mark.verify
def test_when_phases_turn_whoever_forgets_regrets_less() -> None:
    phases = phases_of(WORLD, [4000], seed=10)  # a change that matters: the old plan loses 0.83 a user
    regrets = {}
    for options in ("", ",alarm=0.001"):
        agent = make_agent(f"private-score-vi:epsilon=4,endless=true,largest=400{options}", WORLD.model, 8000)
        curves = simulate_non_stationary(agent, phases, [0, 1, 2, 3])
        assert curves.finished
        assert curves.position == 8000
        regrets[options] = float(
            curves.regret[:, -1].mean() - np.mean([np.interp(4000, curves.episodes, r) for r in curves.regret])
        )
    assert regrets[",alarm=0.001"] < regrets[""]


def test_what_cannot_be_is_refused() -> None:
    for wrong in ("half_life=-1", "alarm=1", "largest=-1"):
        with pytest.raises(InvalidInput):
            make_agent(f"score-vi:{wrong}", WORLD.model, 100)
