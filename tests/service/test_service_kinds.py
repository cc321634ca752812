# SPDX-License-Identifier: Apache-2.0
"""Kinds deployed: sums and plans of service, embedded agent and simulation; rounds whose users were served another plan."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from durable import MODEL, deployment, episode, open_sum, played
from test_service_score import require_one_result, serve

from reticent.agents import make_agent
from reticent.agents.kinds.learner import KindsLearner
from reticent.learning.control import ControlPlaces
from reticent.learning.plan import ControlGroup, Plan
from reticent.privacy.noise import SecureNoise
from reticent.runtime import double_precision
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import make_mechanism
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.worlds import Episode, blend
from reticent.worlds.kinds import KindsWorld, kinds_world
from reticent_wire.clipping import clip_norm
from reticent_wire.trajectory import well_formed

AGENT = "private-kinds:first=0.4,growth=1,epsilon=15"
"""Rounds of four users."""
PLANNED = f"{AGENT},plan=point-based,points=4"
USERS = 12


@pytest.mark.verify
@pytest.mark.parametrize("spec", [AGENT, PLANNED])
def test_service_embedded_agent_and_simulation_have_the_same_sums_and_plans(
    tmp_path: Path, silent: None, spec: str
) -> None:
    service = deployment(tmp_path, spec, USERS)
    grid = float(service.mechanism.agent.aggregator.grid)
    require_one_result(service, spec, rtol=1e-6, atol=1e-8, sums=4.5 * grid)


@pytest.mark.usefixtures("silent")
def test_numpy_and_jax_form_the_same_vectors_whatever_a_user_sends() -> None:
    mechanism = make_mechanism(AGENT, MODEL, USERS, SecureNoise())
    agent, draw = mechanism.agent, np.random.default_rng(3)
    board = mechanism.billboard(0, agent.init())
    plan, report = mechanism.plan_of(board), jax.jit(agent.report)
    silence = jnp.zeros_like(agent.aggregator.noise_scale)
    for trial in range(60):
        steps, wild = MODEL.horizon, trial % 3
        states = draw.integers(-9 * wild, MODEL.states + 9 * wild, steps + 1)
        rewards = draw.normal(size=steps) * 10.0**wild
        if wild == 2:
            rewards[draw.integers(0, steps)] = draw.choice([np.nan, np.inf, -np.inf, 1e308])
        sent = Episode(states, draw.integers(-3, MODEL.actions + 3, steps), rewards)
        mine = mechanism.contribution(board, sent, 0)
        inside = Episode(*well_formed(mechanism.published, *sent)[:3])
        theirs = np.asarray(report(plan, inside, silence)) / mechanism.grid
        assert np.abs(mine - theirs).max() <= 0.5 + 1e-6  # logarithms of the two differ in the last place
        assert np.linalg.norm(mine * mechanism.grid) <= 1 + mechanism.grid


@pytest.mark.parametrize("spec", [AGENT, pytest.param(PLANNED, marks=pytest.mark.verify)])
def test_an_embedded_agent_s_users_act_on_their_belief(spec: str) -> None:
    embedded = DeployedAgent(spec, MODEL, USERS, SecureNoise())
    agent, plan = embedded.mechanism.agent, embedded.plan
    ticket = embedded.begin("ann")
    known, memory = embedded.belief(ticket), agent.empty_memory(plan)
    assert known is not None
    sent = played(3)
    for step in range(MODEL.horizon):
        here, reward, there = int(sent.states[step]), float(sent.rewards[step]), int(sent.states[step + 1])
        action = known.act(step, here)
        assert action == int(agent.act_from(plan, memory, step, here, 0.0))
        known.observe(here, action, reward, there)
        memory = agent.remember(plan, memory, here, action, jnp.asarray(reward), there)
        np.testing.assert_allclose(known.likelihoods.on_device(np.asarray), memory, rtol=1e-9)


@double_precision
def vectors(agent: KindsLearner, world: KindsWorld, served: Plan, reference: Plan, users: int) -> np.ndarray:
    """The clipped vectors under ``reference`` of users who act by ``served``, ``(users, k)``."""

    def one(user: jax.Array) -> jax.Array:
        uniforms = episode_uniforms(jax.random.key(5), user, world.model.horizon, world.start_draws, world.step_draws)
        return agent.statistic(reference, rollout(agent, world, served, uniforms))

    return np.asarray(clip_norm(jax.jit(jax.vmap(one))(jnp.arange(users)), 1.0, jnp))


@double_precision
@pytest.mark.parametrize("options", ["", pytest.param(",plan=point-based,points=4", marks=pytest.mark.verify)])
def test_means_of_users_who_were_served_another_plan(options: str) -> None:
    """Late users and an A/B share, where action 0 tells nothing of kinds and the served plan always takes it.

    |mean − T̄w| within 5 standard errors in every coordinate (false alarm below 1e-4); the rule made for the round itself
    is off by more than that.
    """
    draw, users, shares = np.random.default_rng(2), 6000, np.array([0.1, 0.1, 0.8])
    rows, means = draw.dirichlet(np.ones(4), (3, 4, 2)), draw.random((3, 4, 2))
    rows[:, :, 0], means[:, :, 0], means[:, :, 1] = rows[0, :, 0], 0.1, means[:, :, 1] / 2 + 0.5
    world = kinds_world(blend(rows, means, shares, shares, 4, initial=np.full(4, 0.25)).model, shares)
    agent = make_agent(f"private-kinds:epsilon=4{options}", world.model, 1000)
    reference = jax.jit(agent.plan)(agent.init())
    silent = reference.extension._replace(
        shares=jnp.array([0.0, 0.0, 0.0, 1.0]), blend_table=jnp.broadcast_to(jnp.array([1.0, 0.0]), (4, 4, 2))
    )
    if silent.course is not None:
        always = silent.course._replace(choices=jnp.zeros_like(silent.course.choices))
        silent = reference.extension._replace(course=always)
    served = reference._replace(extension=silent)
    places = ControlPlaces(jnp.asarray(8), jnp.asarray(4), jnp.asarray(0))
    alone = agent.rebase_plan(served, reference, 8).extension.rule
    mixed = agent.rebase_plan(served, reference, 8, ControlGroup(reference, places)).extension.rule
    late, others = (vectors(agent, world, plan, reference, users) for plan in (served, reference))
    for rule, seen in ((alone, late), (mixed, np.concatenate([late, others])), (reference.extension.rule, others)):
        expected = np.asarray(rule.responses)[:, :-1] @ shares
        error = np.sqrt(seen.var(axis=0) / users + 8 * np.diag(np.asarray(rule.error)))
        assert (np.abs(seen.mean(axis=0) - expected) < 5 * error).all()
        assert (np.abs(late.mean(axis=0) - expected) > 5 * error).any() == (rule is not alone)


@pytest.mark.usefixtures("silent")
def test_a_round_that_was_lost_teaches_nothing(tmp_path: Path) -> None:
    service = deployment(tmp_path, AGENT, USERS)
    mechanism, state = service.mechanism, service.mechanism.agent.init()
    board = mechanism.billboard(0, state)
    silence = np.zeros(mechanism.noise_scale.shape, np.int64)
    closed, _ = mechanism.close(0, state, board, 5 + silence, silence, lost=True)
    for before, after in zip(jax.tree.leaves(state.past), jax.tree.leaves(closed.past), strict=True):
        np.testing.assert_array_equal(before, after)
    assert int(closed.rounds) == 1


def test_a_trajectory_that_comes_twice_or_late_counts_once(tmp_path: Path, silent: None) -> None:
    service = deployment(tmp_path, AGENT, USERS)
    late = service.admit("late")
    for user in range(3):
        serve(service, user)
    nine = service.admit("next")
    assert (nine.round, nine.version) == (1, 1)
    for _ in range(2):
        service.submit_trajectory(late.token, late.episode, **episode(9))
    wanted = service.mechanism.contribution(service.billboard(1), played(9), late.place)
    np.testing.assert_array_equal(open_sum(service), wanted)
