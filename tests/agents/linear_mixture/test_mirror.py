# SPDX-License-Identifier: Apache-2.0
"""Policy optimization that steps ahead of its rounds, its η, and choices where values are at the ceiling."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.mirror import FASTER, mirror_of, paper_learning_rate
from reticent.errors import InvalidInput, UnknownName
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=5,actions=3,horizon=3,d=3")
MODEL = WORLD.model


def played(spec: str, rounds: int = 9) -> tuple[LinOptLearner, list[np.ndarray], list[np.ndarray], np.ndarray]:
    """The agent, and per round its Q, its policy and its users, on sums of pure noise: Q changes as wildly as it can."""
    agent = make_agent(spec, MODEL, 600)
    assert isinstance(agent, LinOptLearner)
    plan_of, close = jax.jit(lambda one, state: one.plan(state)), jax.jit(lambda one, *given: one.close(*given))
    state, tables, policies = agent.init(), [], []
    sizes = agent.schedule.round_sizes[:rounds]
    for key, users in zip(jax.random.split(jax.random.key(3), rounds), sizes, strict=False):
        plan = plan_of(agent, state)
        tables.append(np.asarray(plan.action_values))
        policies.append(np.asarray(plan.policy))
        state = close(agent, state, plan, users, agent.aggregator.simulate_round_noise(key))
    return agent, tables, policies, sizes


@pytest.mark.parametrize("rate", [0.01, 0.3, 20.0])
def test_a_step_ahead_loses_at_most_ln_a_over_eta_whatever_eta_is(rate: float) -> None:
    """Σ n⟨Q, π* − π⟩ ≤ ln|A|/η at every state and step, against the best fixed action: the proof's telescope."""
    agent, tables, policies, users = played(f"private-linopt-po:first=20,learning_rate={rate}")
    assert agent.ahead
    assert np.ptp(tables, axis=0).max() > 0.05  # the values did change from round to round
    weighted = np.einsum("k,khsa->hsa", users, np.array(tables))
    earned = np.einsum("k,khsa,khsa->hs", users, np.array(tables), np.array(policies))
    lost = weighted.max(axis=-1) - earned
    assert lost.max() <= math.log(MODEL.actions) / rate * (1 + 1e-9)


def test_the_served_policy_is_a_step_from_the_one_before_along_its_own_values() -> None:
    agent, tables, policies, users = played("private-linopt-po:first=20,learning_rate=0.05")
    before = np.full_like(policies[0], 1 / MODEL.actions)
    for table, policy, count in zip(tables, policies, users, strict=True):
        stepped = before * np.exp(float(agent.learning_rate) * count * (table - table.max(axis=-1, keepdims=True)))
        np.testing.assert_allclose(policy, stepped / stepped.sum(axis=-1, keepdims=True), rtol=0, atol=1e-9)
        before = policy


def test_the_papers_order_serves_a_uniform_policy_first() -> None:
    agent, _, policies, _ = played("private-linopt-po:first=20,learning_rate=paper")
    assert not agent.ahead
    np.testing.assert_allclose(policies[0], 1 / MODEL.actions)


def test_what_a_learning_rate_means() -> None:
    paper = paper_learning_rate(3, 4, 1000)
    assert paper == pytest.approx(math.sqrt(2 * math.log(3) / (4 * 1000 * 4)))
    assert mirror_of(3, 4, 1000, "paper") == (paper, False)
    assert mirror_of(3, 4, 1000, None) == (FASTER * paper, True)
    assert mirror_of(3, 4, 1000, 0.25) == (0.25, True)
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="learning_rate"):
            mirror_of(3, 4, 1000, wrong)
    with pytest.raises(UnknownName, match="learning_rate"):
        make_agent("oppo:learning_rate=fast", MODEL, 10)
    exact = make_agent("private-linopt-po:calibration=paper", MODEL, 50)
    assert isinstance(exact, LinOptLearner)
    assert not exact.ahead
    assert float(exact.learning_rate) == pytest.approx(paper_learning_rate(MODEL.actions, MODEL.horizon, 50))


def test_the_bound_of_steps_ahead_has_no_second_term() -> None:
    ahead, paper = (make_agent(f"oppo:bonus_scale=1{rest}", MODEL, 500) for rest in ("", ",learning_rate=paper"))
    (_, found), (_, before) = (agent.regret_bound(np.array([500])) for agent in (ahead, paper))
    assert found.terms["(i), mirror descent"] == pytest.approx(
        MODEL.horizon * math.log(MODEL.actions) / float(ahead.learning_rate)
    )
    assert found.terms["(i), mirror descent"] < before.terms["(i), mirror descent"]
    assert found.caveats == before.caveats == ()


@pytest.mark.verify
def test_ties_at_the_ceiling_do_not_go_to_the_first_action() -> None:
    """Before any data every value is at the ceiling; the widest ellipsoid is chosen, which is not always action 0."""
    agent = make_agent("ucrl-vtr:bonus_scale=1", MODEL, 100)
    plan = agent.plan(agent.init(), action_values=True)
    ceiling = np.arange(MODEL.horizon, 0, -1)[:, None, None]
    np.testing.assert_array_equal(plan.action_values, np.broadcast_to(ceiling, plan.action_values.shape))
    longest = np.linalg.norm(np.asarray(MODEL.reward_features), axis=0).argmax(axis=-1)
    np.testing.assert_array_equal(plan.policy[-1], longest)  # at the last step only rewards are in doubt
    assert len(set(longest.tolist())) > 1
