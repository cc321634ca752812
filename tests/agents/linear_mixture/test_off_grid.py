# SPDX-License-Identifier: Apache-2.0
"""Plans between the nodes: the same numbers as the tables at the nodes, the paper's formula elsewhere, and it learns."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from line_world import DEVIATION, line_world, means
from scipy import stats

from reticent.agents import make_agent
from reticent.agents.linear_mixture import off_grid
from reticent.agents.linear_mixture.frame import framed_values
from reticent.agents.linear_mixture.statistics import observe
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.learning.schedule import Schedule
from reticent.simulation.rollout import rollout
from reticent.worlds import Episode

ROUNDS, USERS = 8, 100

# The paper's frame with an estimate per step, and the centred and scaled frame with steps pooled.
PLAIN = "ucrl-vtr:replan=epoch,bonus_scale=0.05,normalize=true"
PRIVATE = "private-linopt-vi:epsilon=1,bonus_scale=0.05,first=100,growth=1"
MIRROR = "oppo:replan=epoch,bonus_scale=0.03,learning_rate=0.05,centred=true,span=seen,pool=true"
AFTERWARDS = "oppo:replan=epoch,bonus_scale=0.03,learning_rate=paper,centred=true,span=seen,pool=true"
VALUE_ITERATION = [PLAIN, PRIVATE]


class Round(NamedTuple):
    """What there was in one round: the learner's state, its plan, and the users' walks."""

    state: AgentState
    plan: Plan
    episodes: Episode


def the_model():
    return line_world().model


@jax.jit
def one_round(agent, state, key):
    """Plan, serve the round's users on real states, learn."""
    plan = agent.plan(state, action_values=True)

    def one_user(uniforms):
        episode = rollout(agent, line_world(), plan, uniforms)
        return episode, agent.report(plan, episode)

    draws = line_world().start_draws + the_model().horizon * (1 + line_world().step_draws)
    episodes, reports = jax.vmap(one_user)(jax.random.uniform(key, (USERS, draws)))
    noise = agent.aggregator.simulate_round_noise(jax.random.fold_in(key, 1))
    absorbed = agent.absorb(state, jax.tree.map(lambda leaf: leaf.sum(axis=0), reports))
    return Round(state, plan, episodes), agent.close(absorbed, plan, USERS, noise)


@functools.cache
def play(spec):
    """The agent and the rounds of a run on real states."""
    agent = make_agent(spec, the_model(), ROUNDS * USERS)
    # Rounds of equal size, whatever the agent's own schedule; its past must have room for them.
    agent = dataclasses.replace(agent, schedule=Schedule(ROUNDS * USERS, (USERS,) * ROUNDS))
    state, rounds = agent.init(), []
    for key in jax.random.split(jax.random.key(0), ROUNDS):
        found, state = one_round(agent, state, key)
        rounds.append(found)
    return agent, rounds


@jax.jit
def everywhere(published):
    """Q at all steps and nodes, from what is published."""
    rows = jax.vmap(the_model().rows_at)(the_model().nodes)
    at_node = jax.vmap(off_grid.action_values, in_axes=(None, None, 0))
    return jax.vmap(at_node, in_axes=(None, 0, None))(published, jnp.arange(the_model().horizon), rows)


@jax.jit
def values_at(extension, states):
    """V at all steps, the one after the last included, and real states."""
    at_state = jax.vmap(functools.partial(off_grid.value, the_model()), in_axes=(None, None, 0))
    return jax.vmap(at_state, in_axes=(None, 0, None))(extension, jnp.arange(the_model().horizon + 1), states)


policy_on = jax.jit(lambda *published: off_grid.policy_on(the_model(), *published))
act = jax.jit(lambda *published: off_grid.act(the_model(), *published))
action_values = jax.jit(
    lambda published, step, state: off_grid.action_values(published, step, the_model().rows_at(state))
)


@pytest.mark.verify
@pytest.mark.parametrize("spec", VALUE_ITERATION)
def test_at_a_node_value_iteration_is_the_planners_table(spec):
    for _, plan, _ in play(spec)[1]:
        extension = plan.extension.between
        np.testing.assert_allclose(everywhere(extension.published), plan.action_values, atol=1e-10)
        np.testing.assert_allclose(values_at(extension, the_model().nodes), plan.values, atol=1e-10)
        # Ties apart: where the best two actions differ, the choice is the planner's.
        best_two = np.sort(plan.action_values, axis=-1)[..., -2:]
        clear = np.diff(best_two)[..., 0] > 1e-9
        assert clear.any()
        choices = np.asarray(policy_on(extension, the_model().nodes))
        np.testing.assert_array_equal(choices[clear], np.asarray(plan.policy)[clear])


@pytest.mark.verify
@pytest.mark.parametrize("spec", [MIRROR, AFTERWARDS])
def test_at_a_node_policy_optimization_is_the_softmax_table(spec):
    agent, rounds = play(spec)
    for state, plan, _ in rounds:
        extension = plan.extension.between
        own = float(agent.learning_rate) * USERS * plan.action_values if agent.ahead else 0.0
        table = jax.nn.softmax(state.log_policy + own, axis=-1)
        np.testing.assert_allclose(plan.policy, table, atol=1e-12)
        np.testing.assert_allclose(policy_on(extension, the_model().nodes), table, atol=1e-10)
        np.testing.assert_allclose(values_at(extension, the_model().nodes), plan.values, atol=1e-10)
    assert np.ptp(table, axis=-1).max() > 0.25  # it has moved far away from uniform


def plain_action_value(published, step, state, action):
    """Q_h(s, a) as the formula reads: SciPy's truncated normals, sums over nodes, a solve where Λ⁻¹ is written."""
    p = jax.tree.map(np.asarray, published)
    nodes, weights = np.asarray(the_model().nodes)[:, 0], np.asarray(the_model().weights)
    phi = []
    for mean in np.asarray(means(np.array([state]), action))[:, 0]:
        candidate = stats.truncnorm((0 - mean) / DEVIATION, (1 - mean) / DEVIATION, mean, DEVIATION)
        row = [weight * candidate.pdf(node) for weight, node in zip(weights, nodes, strict=True)]
        framed = (p.values[step + 1] - p.centres[step]) / p.scales[step]
        phi.append(sum(r * v for r, v in zip(row, framed, strict=True)) / sum(row))
    varphi = np.array([np.exp(-(((state - 0.8) / 0.2) ** 2)), 1.0 if action == 1 else 0.5]) / float(
        the_model().reward_scale
    )
    total = 0.0
    for x, theta, factor, radius, centre, scale in (
        (np.array(phi), p.theta_p[step], p.factor_p[step], p.radius_p[step], p.centres[step], p.scales[step]),
        (varphi, p.theta_r[step], p.factor_r[step], p.radius_r[step], 0.0, 1.0),
    ):
        gram = factor @ factor.T
        total += centre + scale * (x @ theta + radius * np.sqrt(x @ np.linalg.solve(gram, x)))
    return max(0.0, min(the_model().horizon - step, total))


@pytest.mark.verify
@pytest.mark.parametrize("spec", VALUE_ITERATION)
def test_between_the_nodes_q_is_the_formula(spec):
    _, plan, episodes = play(spec)[1][3]
    extension, inside = plan.extension.between, 0
    for place in [0.0, 1.0, *np.random.default_rng(0).uniform(size=3), *np.asarray(episodes.states)[:3, 1, 0]]:
        for step in range(the_model().horizon):
            found = np.asarray(action_values(extension.published, step, jnp.array([place])))
            wanted = [plain_action_value(extension.published, step, place, action) for action in range(3)]
            np.testing.assert_allclose(found, wanted, atol=1e-9)
            # Ties at the ceiling are broken by what was clipped.
            rows = the_model().rows_at(jnp.array([place]))
            unclipped = np.asarray(off_grid.unclipped_values(extension.published, step, rows))
            np.testing.assert_allclose(found, np.clip(unclipped, 0, the_model().horizon - step), atol=1e-12)
            assert act(extension, step, jnp.array([place]), 0.5) == unclipped.argmax()
            inside += np.sum((found > 0) & (found < the_model().horizon - step))
    assert inside > 20  # not everything is at a clip, where the test would see nothing


@pytest.mark.verify
@pytest.mark.parametrize(("spec", "stepped"), [(MIRROR, 4), (AFTERWARDS, 3)])
def test_policy_optimization_between_the_nodes_sums_the_versions_it_stepped_along(spec, stepped):
    agent, rounds = play(spec)
    extension = rounds[3].plan.extension.between
    for place in (0.05, 0.41, 0.93):
        policy = policy_on(extension, jnp.array([[place]]))[:, 0]
        values = values_at(extension, jnp.array([[place]]))[:, 0]
        for step in range(the_model().horizon):
            past = [
                [
                    plain_action_value(earlier.plan.extension.between.published, step, place, action)
                    for action in range(3)
                ]
                for earlier in rounds[:stepped]
            ]
            wanted = np.exp(float(agent.learning_rate) * USERS * np.sum(past, axis=0))
            wanted /= wanted.sum()
            np.testing.assert_allclose(policy[step], wanted, atol=1e-9)
            table = np.asarray(action_values(extension.published, step, jnp.array([place])))
            np.testing.assert_allclose(values[step], wanted @ table, atol=1e-9)
            uniforms = np.linspace(0, 0.999, 21)
            actions = [int(act(extension, step, jnp.array([place]), u)) for u in uniforms]
            assert actions == np.searchsorted(np.cumsum(wanted), uniforms, side="right").tolist()


@pytest.mark.verify
@pytest.mark.parametrize("spec", [PRIVATE, MIRROR])
def test_a_walk_over_nodes_is_observed_as_in_the_finite_model(spec):
    _, plan, _ = play(spec)[1][3]
    rng = np.random.default_rng(1)
    walk = rng.integers(the_model().states, size=the_model().horizon + 1)
    actions, rewards = jnp.asarray(rng.integers(3, size=the_model().horizon)), rng.uniform(size=the_model().horizon)
    framed = framed_values(plan)
    finite = jax.jit(observe)(the_model().on_nodes(), framed, Episode(jnp.asarray(walk), actions, rewards))
    real = jax.jit(off_grid.observe)(
        the_model(), plan.extension.between, framed, Episode(the_model().nodes[walk], actions, rewards)
    )
    for found, wanted in zip(real, finite, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.verify
@pytest.mark.parametrize("spec", [PLAIN, MIRROR])
def test_it_learns_on_real_states(spec):
    """800 users close more than nine tenths of the gap between the uniform policy and the optimum."""
    extensions = [found.plan.extension.between for found in play(spec)[1]]
    values = [
        float(line_world().policy_value(policy_on(extension, line_world().judged_states))) for extension in extensions
    ]
    gap = line_world().optimal_value - line_world().uniform_value
    assert (line_world().optimal_value - values[-1]) / gap < 0.1
    assert (line_world().optimal_value - values[0]) / gap > 0.3
    assert max(values) <= line_world().optimal_value + 1e-9


def test_too_many_versions_are_refused():
    with pytest.raises(InvalidInput, match=r"rounds is 257.*at most 256.*epochs"):
        off_grid.empty_past(the_model(), 257)
