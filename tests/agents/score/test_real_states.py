# SPDX-License-Identifier: Apache-2.0
"""Score-VI on real states: at the nodes it is the finite learner, between them its statistic is centred at the truth."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from line_world import line_world

from reticent.agents import make_agent
from reticent.audit import Subject, check_noise, replay, user_of, worst_pair
from reticent.errors import InvalidInput
from reticent.learning.plan import Plan
from reticent.privacy.neighbouring_datasets import report_of
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode

SCORES = ["values", "likelihood"]


def the_model() -> Any:
    return line_world().model


@functools.cache
def learned(score: str) -> tuple[Any, Plan]:
    """An agent and its plan after a round whose released sum was long."""
    agent = make_agent(f"private-score-vi:epsilon=8,floor=0.05,score={score}", the_model(), 400)
    state, total = agent.init(), 5.0 * jnp.ones((1, agent.dimension))
    noise = agent.aggregator.simulate_round_noise(jax.random.key(1))
    close = jax.jit(lambda state: agent.close(agent.absorb(state, total), agent.plan(state), agent.sizes[0], noise))
    return agent, jax.jit(agent.plan)(close(state))


# -- at the nodes -------------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("score", SCORES)
def test_at_the_nodes_it_acts_and_sees_as_the_finite_learner(score: str) -> None:
    agent, plan = learned(score)
    finite, draw = agent.on_nodes(), np.random.default_rng(1)
    for place in (0, 2**30):  # an explorer, and one who is served the greedy plan
        served = agent.served(plan, place)
        assert bool(served.extension.exploring) == (place == 0)
        for step in range(the_model().horizon):
            chosen = jax.vmap(lambda node, at=step, own=served: agent.act(own, at, node, 0.99))(the_model().nodes)
            np.testing.assert_array_equal(chosen, served.policy[step])
        nodes = draw.integers(0, the_model().states, the_model().horizon + 1)
        actions, rewards = draw.integers(0, 3, the_model().horizon), draw.random(the_model().horizon)
        real = agent.statistic(served, Episode(the_model().nodes[nodes], jnp.asarray(actions), jnp.asarray(rewards)))
        wanted = finite.statistic(served, Episode(jnp.asarray(nodes), jnp.asarray(actions), jnp.asarray(rewards)))
        np.testing.assert_allclose(real, wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(agent.choices_at(served, the_model().nodes), served.policy)


# -- between them -------------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("score", SCORES)
def test_with_the_truth_as_reference_a_vector_is_zero_on_average(score: str) -> None:
    """Of 4 000 users anywhere in the box: within five standard errors in every coordinate, false alarm 1e-5; and a
    reference that is wrong shows."""
    agent, plan = learned(score)
    served = agent.served(plan, 2**30)
    reference = served.extension.reference
    groups = reference.theta.shape[0]

    def units(theta: Any) -> np.ndarray:
        right = reference._replace(theta=theta, reward_theta=line_world().reward_theta[:groups])
        shown = served._replace(extension=served.extension._replace(reference=right))

        def one(number: Any) -> Any:
            sizes = the_model().horizon, line_world().start_draws, line_world().step_draws
            return agent.statistic(
                shown, rollout(agent, line_world(), shown, episode_uniforms(jax.random.key(5), number, *sizes))
            )

        vectors = np.asarray(jax.jit(jax.vmap(one))(jnp.arange(4000)))
        return np.asarray(vectors.mean(axis=0) / (vectors.std(axis=0) / np.sqrt(len(vectors)) + 1e-12))

    assert np.abs(units(line_world().transition_theta[:groups])).max() < 5
    assert np.abs(units(jnp.full((groups, 3), 1 / 3))).max() > 8


@pytest.mark.verify
@pytest.mark.parametrize("score", SCORES)
def test_it_learns_what_to_do_anywhere(score: str) -> None:
    """At ε = 1 the last of 20 000 users lose less than a tenth of what acting at random loses; seeds are fixed."""
    agent = make_agent(f"private-score-vi:score={score}", the_model(), 20_000)
    curves = simulate(agent, line_world(), range(4))
    lost = (curves.regret[:, -1] - curves.regret[:, -2]) / (curves.episodes[-1] - curves.episodes[-2])
    assert np.median(lost) < 0.1 * (line_world().optimal_value - line_world().uniform_value)


# -- the promise --------------------------------------------------------------------------------------------------------


@pytest.mark.guard
@pytest.mark.verify
@pytest.mark.parametrize("kind", ["joint", "local", "joint,score=likelihood"])
def test_the_promise_is_that_of_the_clip_whatever_the_nodes_are(kind: str) -> None:
    one = Subject(make_agent(f"private-score-vi:first=0.1,growth=1,epsilon=8,trust={kind}", the_model(), 2))
    _, strength = worst_pair(one, random=2, gradient=False)
    assert strength == pytest.approx(one.promised, rel=1e-4)
    assert strength <= one.promised * (1 + 1e-9)
    assert check_noise(one) == []
    possible = one.neighbours.possible_pair(line_world(), 0)
    apart = np.linalg.norm(report_of(one.sums, possible.canary) - report_of(one.sums, possible.replacement))
    assert 1 < apart <= 2


@pytest.mark.guard
@pytest.mark.verify
@pytest.mark.parametrize("score", SCORES)
def test_states_outside_the_box_stay_within_the_ball(score: str) -> None:
    agent, plan = learned(score)
    served = agent.served(plan, 0)
    for far in (-3.0, 1e6, np.inf, np.nan):
        states = jnp.full((the_model().horizon + 1, 1), far)
        episode = Episode(states, jnp.zeros(the_model().horizon, jnp.int32), jnp.full(the_model().horizon, 1e9))
        sent = np.asarray(agent.aggregator.clip(agent.statistic(served, episode)))
        assert np.isfinite(sent).all()
        assert np.linalg.norm(sent) <= 1


@pytest.mark.guard
@pytest.mark.verify
def test_users_with_real_states_replayed() -> None:
    one = Subject(make_agent("private-score-vi:first=0.1,growth=1,epsilon=8", the_model(), 2))
    draw = np.random.default_rng(7)
    users = [
        user_of(one, Episode(draw.random((the_model().horizon + 1, 1)), draw.integers(0, 3, 4), draw.random(4)))
        for _ in range(3)
    ]
    assert replay(one, users[:2], 0, users[2]).findings == ()


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_what_it_has_no_occupancies_for_is_refused() -> None:
    for change, message in (
        ({"normalised": False}, "blend of densities"),
        ({"sums_to_one": False}, "blend of densities"),
        ({"weights": the_model().weights.at[0].set(-0.1)}, "least weight"),
        ({"initial_known": False}, "initial_known"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make_agent("private-score-vi", dataclasses.replace(the_model(), **change), 100)


def test_a_deployment_on_real_states_is_refused_with_a_reason() -> None:
    with pytest.raises(InvalidInput, match=r"model .*one with real states.*on_nodes"):
        make_mechanism("private-score-vi", the_model(), 100, SecureNoise())
