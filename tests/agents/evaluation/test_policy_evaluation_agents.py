# SPDX-License-Identifier: Apache-2.0
"""lsw-improve and lsl-improve: uniform first, one release, then greedy on what was published."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.evaluation.evaluation_plan import EvaluationOptions, plan_evaluation
from reticent.errors import InvalidInput
from reticent.worlds import Episode, make_world

STATES, ACTIONS, HORIZON = 4, 2, 3


@pytest.fixture(scope="module")
def world():
    return make_world(f"linear-mdp:states={STATES},actions={ACTIONS},horizon={HORIZON},d=3")


def some_users(count):
    rng = np.random.default_rng(0)
    return [
        Episode(
            jnp.asarray(rng.integers(0, STATES, HORIZON + 1)),
            jnp.asarray(rng.integers(0, ACTIONS, HORIZON)),
            jnp.asarray(rng.uniform(size=HORIZON)),
        )
        for _ in range(count)
    ]


def first_round(agent, users):
    state = agent.init()
    plan = agent.plan(state)
    for user in users:
        state = agent.absorb(state, agent.report(plan, user))
    return plan, state


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["lsw-improve", "lsl-improve:ridge=3"])
def test_values_are_those_of_the_returns(world, spec):
    """Without noise, the published values are least squares on returns-to-go, written out here."""
    agent = make_agent(f"{spec},explore=0.5".replace("improve,", "improve:"), world.model, 40)
    users = some_users(20)
    plan, state = first_round(agent, users)
    np.testing.assert_allclose(plan.policy, 1 / ACTIONS)
    silent = jnp.zeros_like(agent.aggregator.simulate_round_noise(jax.random.key(0)))
    after = agent.plan(agent.close(state, plan, 20, silent))
    phi = np.moveaxis(np.asarray(world.model.linear_features), 0, -1)
    for h in range(HORIZON):
        middle = (HORIZON - h) / 2
        visits = [(int(user.states[h]), int(user.actions[h]), float(user.rewards[h:].sum()) - middle) for user in users]
        if spec == "lsw-improve":
            means = np.zeros((STATES, ACTIONS))
            for s in range(STATES):
                for a in range(ACTIONS):
                    own = [value for *place, value in visits if place == [s, a]]
                    means[s, a] = np.mean(own) if own else 0.0
            theta = np.linalg.lstsq(phi.reshape(-1, 3), means.ravel(), rcond=None)[0]
        else:
            rows = np.array([phi[s, a] for s, a, _ in visits])
            theta = np.linalg.solve(rows.T @ rows + 1.5 * np.eye(3), rows.T @ np.array([value for *_, value in visits]))
        expected = np.clip(phi @ theta + middle, 0, HORIZON - h)
        np.testing.assert_allclose(after.action_values[h], expected, atol=1e-9)
        chosen = np.asarray(after.policy[h])
        np.testing.assert_array_equal(chosen.sum(axis=-1), 1.0)
        np.testing.assert_array_equal(chosen.argmax(axis=-1), (phi @ theta).argmax(axis=-1))


def test_only_the_first_round_publishes(world):
    agent = make_agent("lsl-improve:explore=0.5", world.model, 40)
    plan, state = first_round(agent, some_users(20))
    close = jax.jit(agent.close)
    noise = agent.aggregator.simulate_round_noise(jax.random.key(0))
    state = close(state, plan, 20, noise)
    later = agent.absorb(state, agent.report(plan, some_users(1)[0]))
    later = close(later, plan, 20, agent.aggregator.simulate_round_noise(jax.random.key(1)))
    np.testing.assert_array_equal(later.aggregate.published, state.aggregate.published)
    with pytest.raises(InvalidInput, match="noise"):
        agent.close(state, plan, 20, None)


def test_the_plan_says_what_is_promised(world):
    agent = make_agent("lsl-improve:epsilon=2,delta=1e-6,explore=0.25", world.model, 1000)
    plan = plan_evaluation(3, HORIZON, 1000, EvaluationOptions(epsilon=2.0, delta=1e-6, explore=0.25))
    assert plan.explorers == 250
    assert plan.schedule.sizes == agent.schedule.sizes == (250, 750)
    ledger = agent.promise.ledger
    assert [(entry.episode, entry.epsilon) for entry in ledger.entries()] == [(250, 2.0)]
    assert ledger.spent(0) == 0.0
    assert agent.promise.sentence() == plan.guarantee.sentence()
    assert "(2, 1e-06)" in agent.promise.sentence()
    assert "of the first 250 users" in agent.promise.sentence()
    assert ledger.to_rows()[0]["what"].startswith("value weights")


def test_what_makes_no_sense_is_refused(world):
    with pytest.raises(InvalidInput, match="explore"):
        make_agent("lsw-improve:explore=0", world.model, 100)
    with pytest.raises(InvalidInput, match="H·d"):
        make_agent("lsl-improve", make_world("linear-mdp:d=60,horizon=9").model, 100)
