# SPDX-License-Identifier: Apache-2.0
"""Announced rewards: who may face them, what they leave of a promise, and what ends where tables look at users."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent.agents import make_agent
from reticent.agents.linear_mixture.changing_rewards import for_changing_rewards, play, with_rewards
from reticent.agents.linear_mixture.learner import LinOptLearner
from reticent.agents.linear_mixture.mirror import paper_learning_rate
from reticent.audit import Subject, replay, user_of
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.privacy.neighbouring_datasets import Pair, realised_strength
from reticent.runtime import double_precision
from reticent.worlds import Episode, make_world
from reticent.worlds.transforms.changing_rewards import reward_stream

S, A, H = 3, 2, 2
WORLD = make_world(f"random-blend:states={S},actions={A},horizon={H},d=2")
STREAM = reward_stream(WORLD, "adversarial")
MODEL = STREAM.world.model


class Said(NamedTuple):
    table: jax.Array


class Shown(NamedTuple):
    """A table, and the policy that nature was shown."""

    table: jax.Array
    policy: jax.Array


def the_agent(spec: str, episodes: int = 40) -> LinOptLearner:
    agent = make_agent(spec, MODEL, episodes)
    assert isinstance(agent, LinOptLearner)
    return agent


# -- who may face them ---------------------------------------------------------------------------------------------------


def test_the_papers_rate_and_order_are_the_default() -> None:
    made = the_agent("private-linopt-po:first=5")
    assert made.ahead
    agent = for_changing_rewards(made)
    assert not agent.ahead
    assert float(agent.learning_rate) == pytest.approx(paper_learning_rate(A, H, 40))
    assert agent.theory.ahead is False
    assert agent.theory.learning_rate is None
    chosen = for_changing_rewards(made, 0.25)
    assert float(chosen.learning_rate) == chosen.theory.learning_rate == 0.25
    assert not chosen.ahead
    # The bound is the paper's for its η, term by term.
    told = the_agent("private-linopt-po:first=5,growth=1.5,learning_rate=paper")
    (curve, _), (same, _) = (one.regret_bound(np.array([10, 40])) for one in (agent, told))
    np.testing.assert_allclose(curve, same)
    greedy = the_agent("ucrl-vtr:contrasts=true")
    assert for_changing_rewards(greedy) is greedy


def test_who_regresses_rewards_is_refused() -> None:
    with pytest.raises(InvalidInput, match="contrasts=true"):
        for_changing_rewards(the_agent("oppo"))
    stays = make_agent("private-linopt-po", WORLD.model, 40)
    with pytest.raises(InvalidInput, match="learns nothing about rewards"):
        for_changing_rewards(stays)
    for wrong in (-0.1, float("inf"), float("nan")):
        with pytest.raises(InvalidInput, match="learning_rate"):
            for_changing_rewards(the_agent("oppo:contrasts=true"), wrong)


@pytest.mark.verify
def test_real_states_are_refused() -> None:
    real = make_world("glucose:states=real,judge_nodes=14,horizon=2")
    with pytest.raises(InvalidInput, match="finite"):
        for_changing_rewards(make_agent("oppo", real.model, 10))


@pytest.mark.verify
@double_precision
def test_nature_sees_the_policy_and_the_policy_not_the_table() -> None:
    """Policy optimization is judged by the announced table, value iteration planned for the expected one."""
    tables = jnp.asarray(np.random.default_rng(0).uniform(size=(2, S, A)))
    for spec, same_values in (("oppo:contrasts=true", False), ("ucrl-vtr:contrasts=true", True)):
        agent = for_changing_rewards(the_agent(spec))
        state, asked, plans = agent.init(), [], []
        if state.log_policy is not None:
            state = state._replace(log_policy=jnp.asarray(np.random.default_rng(1).normal(size=(H, S, A))))
        for table in tables:
            plan, said = play(agent, state, tables[0], functools.partial(Shown, table))
            np.testing.assert_array_equal(plan.policy, said.policy)
            asked.append(said.policy)
            plans.append(plan)
        np.testing.assert_array_equal(asked[0], asked[1])
        assert np.array_equal(plans[0].values, plans[1].values) is same_values


# -- privacy -------------------------------------------------------------------------------------------------------------


def test_the_promise_does_not_look_at_the_tables() -> None:
    other = reward_stream(make_world(f"random-blend:states={S},actions={A},horizon={H},d=2"), "drifting", seed=9)
    for trust in ("joint", "local"):
        spec = f"private-linopt-po:first=5,trust={trust}"
        here, there = the_agent(spec), make_agent(spec, other.world.model, 40)
        assert isinstance(there, LinOptLearner)
        facing = for_changing_rewards(here)
        assert facing.aggregator is here.aggregator
        assert facing.promise is here.promise
        assert facing.schedule is here.schedule
        np.testing.assert_array_equal(here.aggregator.noise_scale, there.aggregator.noise_scale)
        assert here.promise.ledger.shares == there.promise.ledger.shares
        assert with_rewards(facing, STREAM.tables[0]).aggregator is here.aggregator


@functools.cache
def private() -> tuple[Subject, Any]:
    agent = for_changing_rewards(the_agent("private-linopt-po:counter=tree,epsilon=3"))

    @jax.jit
    def seen(log_policy: jax.Array, table: jax.Array, one: Episode) -> Any:
        state = agent.init()._replace(log_policy=log_policy)
        return agent.statistic(play(agent, state, table, lambda _: Said(table))[0], one)

    return Subject(agent), double_precision(seen)


anybody = st.tuples(
    hnp.arrays(int, H + 1, elements=st.integers(0, S - 1)), hnp.arrays(int, H, elements=st.integers(0, A - 1)),
    hnp.arrays(float, H, elements=st.sampled_from([0.0, 1.0])),
)  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=15)
@given(
    hnp.arrays(float, (S, A), elements=st.floats(0, 1)), hnp.arrays(float, (H, S, A), elements=st.floats(-9, 0)),
    anybody, anybody,
)  # fmt: skip
def test_whatever_is_announced_one_user_moves_no_more_than_is_promised(table, log_policy, one, other) -> None:
    subject, seen = private()
    pair = Pair(*(seen(log_policy, table, Episode(*episode)) for episode in (one, other)), "drawn")
    moved = realised_strength(subject.agent.aggregator, pair) * subject.exposure
    assert moved <= subject.promised * (1 + 1e-9)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Facing(LinOptLearner):
    """The learner with its nature: the table that pays the published policy least is announced for every round."""

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        del action_values

        def nature(policy: jax.Array) -> Said:
            values = STREAM.values(policy)
            return Said(STREAM.table(STREAM.weights(state.rounds, values)))

        learner = LinOptLearner(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
        return play(learner, state, STREAM.tables[0], nature)[0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Peeping(Facing):
    """One whose nature looks at what users did: the table follows the raw sum of the round before."""

    def init(self) -> AgentState:
        return super().init()._replace(past=jnp.ones(()))

    def close(self, state: AgentState, plan: Plan, users: Any, noise: Any = None) -> AgentState:
        raw = jnp.abs(state.aggregate.open).sum()
        return super().close(state, plan, users, noise)._replace(past=raw)

    def plan(self, state: AgentState, *, action_values: bool = False) -> Plan:
        table = STREAM.tables[0] * (state.past / (1 + state.past))
        learner = LinOptLearner(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
        return play(learner, state, table, lambda _: Said(table))[0]


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["counter=tree", "trust=local,first=2"])
def test_replay_finds_nothing_where_tables_are_public_and_the_leak_where_they_are_not(spec: str) -> None:
    agent = for_changing_rewards(the_agent(f"private-linopt-po:{spec}", 4), 0.4)
    fields = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    draw = np.random.default_rng(7)
    episodes = [
        Episode(draw.integers(0, S, H + 1), draw.integers(0, A, H), draw.integers(0, 2, H).astype(float))
        for _ in range(5)
    ]
    one = Subject(Facing(**fields))
    users = [user_of(one, episode) for episode in episodes]
    for changed in (0, 2):
        found = replay(one, users[:4], changed, users[4], seed=changed + 10**9)
        assert found.findings == ()
        assert 0 < found.realised < found.promised
    if "local" not in spec:  # there even the server is shown noise alone, so that a table cannot look at users
        peeping = Subject(Peeping(**fields))
        users = [user_of(peeping, episode) for episode in episodes]
        assert replay(peeping, users[:4], 0, users[4], seed=10**9).findings != ()
