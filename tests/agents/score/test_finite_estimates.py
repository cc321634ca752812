# SPDX-License-Identifier: Apache-2.0
"""No estimate of the flagship is ever not a number: releases that claim certainty are bounded, and a plan stays finite."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.score import model_moments, posterior_update
from reticent.agents.score.coordinates import simplex_coordinates, transition_coordinates
from reticent.agents.score.evidence import MOST_INFORMATION, Evidence, learn
from reticent.agents.score.posterior import Posterior, empty_posterior, summarize
from reticent.runtime import double_precision
from reticent.worlds import Episode, make_world

WORLD = make_world("riverswim:states=3,horizon=4")


def certain(size: int, scale: float, seed: int) -> Evidence:
    """A release without noise along most directions: deterministic pairs, told by many users, without privacy."""
    draw = np.random.default_rng(seed)
    few = draw.normal(size=(size, 2))
    response = scale * (draw.normal(size=(size, 2)) @ few.T)[None]
    noise = 1e-9 * np.eye(size)[None] + 1e4 * (few[:, :1] @ few[:, :1].T)[None]
    truth = draw.normal(size=size) / size
    return Evidence(
        jnp.asarray(response),
        jnp.asarray(noise),
        jnp.asarray(response[0] @ truth)[None],
        jnp.zeros((1, size)),
        jnp.asarray(response),
    )


@double_precision
@pytest.mark.parametrize("size", [5, 40])
def test_releases_that_claim_certainty_leave_a_posterior_that_can_be_inverted(size: int) -> None:
    coordinates = transition_coordinates(WORLD.model)
    basis = jnp.eye(size)
    coordinates = type(coordinates)(jnp.zeros(size), basis, jnp.asarray(1 / 30), None)
    posterior = empty_posterior(coordinates, 1)
    for seed in range(12):
        posterior = learn(posterior, certain(size, 1e5, seed))
    found = summarize(coordinates, posterior)
    for leaf in (*found, model_moments.root_of(found.covariance)):
        assert np.isfinite(leaf).all()
    assert np.linalg.eigvalsh(np.asarray(posterior.information[0])).max() <= 12 * MOST_INFORMATION * (1 + 1e-6)


@double_precision
def test_releases_that_claim_less_are_taken_as_they_are() -> None:
    coordinates, draw = simplex_coordinates(4, 1.0), np.random.default_rng(0)
    square = draw.normal(size=(1, 3, 3))
    noise = square @ np.swapaxes(square, 1, 2) + np.eye(3)
    response, released, start = draw.normal(size=(1, 3, 3)), draw.normal(size=(1, 3)), draw.normal(size=(1, 3))
    after = learn(
        empty_posterior(coordinates, 1), Evidence(*map(jnp.asarray, (response, noise, released, start, response)))
    )
    weighted = response[0].T @ np.linalg.inv(noise[0])
    np.testing.assert_allclose(after.information[0], weighted @ response[0], rtol=1e-10)
    np.testing.assert_allclose(after.moment[0], weighted @ (released[0] + response[0] @ start[0]), rtol=1e-10)


@double_precision
@pytest.mark.parametrize(
    ("world", "residual"),
    [("riverswim:states=3,horizon=4", "off"), ("random-blend:states=3,actions=2,horizon=4,d=2", "on")],
)
def test_a_posterior_that_is_not_finite_is_not_learned(
    world: str, residual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(f"private-score-vi:residual={residual}", make_world(world).model, 100)
    state, plan_of = agent.init(), jax.jit(agent.plan)
    plan = plan_of(state)
    episode = Episode(np.array([0, 1, 1, 2, 2]), np.array([1, 1, 0, 1]), np.array([0.0, 0.0, 0.0, 1.0]))
    state = agent.absorb(state, jax.jit(lambda plan: agent.report(agent.served(plan, 0), episode))(plan))
    real = posterior_update.learn

    def spoiled(before: Posterior, evidence: Evidence) -> Posterior:
        after = real(before, evidence)
        return after._replace(information=after.information.at[..., 0, 0].set(-1e9))  # its factor is not a number

    monkeypatch.setattr(posterior_update, "learn", spoiled)
    closed = agent.close(state, plan, 20, jnp.zeros_like(agent.aggregator.noise_scale))
    assert int(closed.rounds) == 1
    jax.tree.map(np.testing.assert_array_equal, closed.past, state.past)
    for leaf in jax.tree.leaves(plan_of(closed)):
        assert np.isfinite(np.asarray(leaf, float)).all()
