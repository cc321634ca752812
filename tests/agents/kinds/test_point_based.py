# SPDX-License-Identifier: Apache-2.0
"""Plans over beliefs: what their vectors are, what acting by them earns at least, and where they ask and QMDP does not."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.agents.kinds.belief import Laws, with_blend
from reticent.agents.kinds.learner import KindsLearner, optimal_tables
from reticent.agents.kinds.point_based import (
    BeliefPlan,
    Published,
    as_belief_plan,
    better_plan,
    plan_over_beliefs,
    reached,
)
from reticent.errors import InvalidInput
from reticent.learning.learner import AgentState
from reticent.learning.plan import Plan
from reticent.runtime import double_precision
from reticent.worlds.asking import ASK, asking_kinds
from reticent.worlds.kinds import KindsWorld, kind_means, random_kinds

WORLD = random_kinds(states=3, actions=2, horizon=3, kinds=2, apart=1.0, successors=2, seed=5)
ASKING = asking_kinds(kinds=3, horizon=4)
EVEN = np.array([0.4, 0.4, 0.2])


@double_precision
def published(world: KindsWorld, shares: np.ndarray) -> Published:
    """What a plan is made of, the blend in equal parts."""
    kinds = Laws(world.model.transition_features, kind_means(world.model))
    blend = jnp.full(world.kinds, 1 / world.kinds)
    return Published(kinds, blend, optimal_tables(with_blend(kinds, blend), world.model), jnp.asarray(shares))


@functools.cache
@double_precision
def planned(which: str, points: int) -> tuple[Published, BeliefPlan]:
    world, shares = {"random": (WORLD, EVEN), "asking": (ASKING, np.array([0.33, 0.33, 0.33, 0.01]))}[which]
    known = published(world, shares)

    def make(known: Published) -> BeliefPlan:
        return plan_over_beliefs(known, world.model, reached(known, world.model, points, jax.random.key(3)))

    return known, jax.jit(make)(known)


class Enumerated:
    """Values by plain recursion over all histories, in a world whose kinds, the blend among them, have the laws given."""

    def __init__(self, known: Published, plan: BeliefPlan) -> None:
        self.rows, self.means = (np.asarray(table) for table in known.laws)
        self.tables, self.plan = np.asarray(known.tables), BeliefPlan(*map(np.asarray, plan))
        self.horizon = self.tables.shape[0]

    def value(self, policy: str, step: int, state: int, weights: np.ndarray) -> float:
        """Of weights ``(Z,)``, not normalised; ``policy`` is ``best``, ``qmdp`` or ``plan``."""
        if step == self.horizon:
            return 0.0
        if policy == "best":
            return max(self.after(policy, step, state, weights, a) for a in range(self.means.shape[2]))
        if policy == "qmdp":
            return self.after(policy, step, state, weights, int((weights @ self.tables[step, :, state]).argmax()))
        first = (self.plan.vectors[step, state] @ weights).argmax()
        return self.after(policy, step, state, weights, int(self.plan.choices[step, state, first]))

    def after(self, policy: str, step: int, state: int, weights: np.ndarray, action: int) -> float:
        paid, total = self.means[:, state, action], float(weights @ self.means[:, state, action])
        for chance in (paid, 1 - paid):
            for following in np.flatnonzero(self.rows[:, state, action].sum(axis=0)):
                left = weights * chance * self.rows[:, state, action, following]
                total += self.value(policy, step + 1, int(following), left)
        return total


@pytest.mark.parametrize("which", ["random", "asking"])
@pytest.mark.parametrize("points", [1, 6])
def test_the_plan_earns_at_least_what_its_vectors_promise_from_every_belief(which: str, points: int) -> None:
    """At any belief, not only at points; and so at least what the optimal plan of any kind earns."""
    known, plan = planned(which, points)
    exact, draw = Enumerated(known, plan), np.random.default_rng(0)
    kinds = known.shares.size
    for state in range(exact.means.shape[1]):
        for step, count in ((1, 3), (0, int(which == "random"))):
            for weights in draw.dirichlet(np.full(kinds, 0.5), count):
                promised = (exact.plan.vectors[step, state] @ weights).max()
                earned = exact.value("plan", step, state, weights)
                best = exact.value("best", step, state, weights)
                assert promised <= earned + 1e-9
                assert earned <= best + 1e-9


def test_the_first_vectors_are_the_values_of_the_kinds_own_plans_in_every_kind() -> None:
    known, plan = planned("random", 1)
    rows, means = (np.asarray(table) for table in known.laws)
    greedy = np.asarray(known.tables).argmax(axis=-1)
    for kind in range(known.shares.size):
        values = np.zeros((known.shares.size, WORLD.model.states))
        for step in reversed(range(WORLD.model.horizon)):
            own, here = greedy[step, kind], np.arange(WORLD.model.states)
            values = np.stack([(means[z] + rows[z] @ values[z])[here, own] for z in range(len(values))])
            np.testing.assert_allclose(plan.vectors[step, :, kind], values.T, rtol=1e-9)
            np.testing.assert_array_equal(plan.choices[step, :, kind], own)


def test_with_all_beliefs_that_can_be_reached_the_plan_is_the_best_of_all() -> None:
    """Three steps of a small world: 128 points are more beliefs than a state has."""
    known, plan = planned("random", 128)
    exact, shares = Enumerated(known, plan), np.asarray(known.shares)
    for state in range(WORLD.model.states):
        best = exact.value("best", 0, state, shares)
        assert (exact.plan.vectors[0, state] @ shares).max() == pytest.approx(best, rel=1e-9)
        assert exact.value("plan", 0, state, shares) == pytest.approx(best, rel=1e-9)


def test_the_plan_asks_where_qmdp_never_does() -> None:
    """Against the exact optimum: QMDP leaves a twentieth of the value, and the plan less than a thousandth."""
    known, plan = planned("asking", 16)
    exact, shares = Enumerated(known, plan), np.asarray(known.shares)
    best, qmdp, found = (exact.value(policy, 0, 0, shares) for policy in ("best", "qmdp", "plan"))
    assert found > 0.999 * best
    assert qmdp < 0.96 * best
    first = (exact.plan.vectors[0, 0] @ shares).argmax()
    assert exact.plan.choices[0, 0, first] == ASK
    for weights in np.random.default_rng(1).dirichlet(np.ones(4), 50):
        for step in range(ASKING.model.horizon):
            assert (weights @ exact.tables[step, :, 0]).argmax() != ASK


EVEN_OF_FOUR = np.full(4, 0.25)


def choices_at(plan: BeliefPlan, weights: np.ndarray) -> list[int]:
    """The action of every step in the first state, at one belief."""
    best = (np.asarray(plan.vectors)[:, 0] @ weights).argmax(axis=-1)
    return [int(row[place]) for row, place in zip(np.asarray(plan.choices)[:, 0], best, strict=True)]


@double_precision
def test_qmdp_is_taken_where_simulated_users_earn_more_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is made of nothing loses the comparison, and QMDP comes out in its place, in its form."""
    known, model = published(ASKING, np.array([0.3, 0.3, 0.3, 0.1])), ASKING.model
    made = better_plan(known, model, 16, jax.random.key(0))
    qmdp = as_belief_plan(known.tables, 20)
    assert ASK in choices_at(made, EVEN_OF_FOUR)
    assert ASK not in choices_at(qmdp, EVEN_OF_FOUR)[:-1]
    nothing = BeliefPlan(jnp.zeros_like(made.vectors), jnp.zeros_like(made.choices))
    monkeypatch.setattr("reticent.agents.kinds.point_based.plan_over_beliefs", lambda *_: nothing)
    taken = better_plan(known, model, 16, jax.random.key(0))
    np.testing.assert_array_equal(taken.vectors, qmdp.vectors)
    np.testing.assert_array_equal(taken.choices, qmdp.choices)


# -- the learner --------------------------------------------------------------------------------------------------------


@functools.cache
@double_precision
def first_plan(spec: str) -> tuple[KindsLearner, AgentState, Plan]:
    agent = make_agent(spec, ASKING.model, 500)
    assert isinstance(agent, KindsLearner)
    state = agent.init()
    return agent, state, jax.jit(functools.partial(agent.plan, action_values=True))(state)


def test_a_user_acts_by_the_best_vector_at_their_belief() -> None:
    agent, _, plan = first_plan("private-kinds:plan=point-based,points=8")
    course, shares = plan.extension.course, np.asarray(plan.extension.shares)
    for memory in np.random.default_rng(2).normal(size=(20, 4)):
        weights = shares * np.exp(memory)
        for here in range(ASKING.model.states):
            best = (np.asarray(course.vectors)[1, here] @ weights).argmax()
            assert int(agent.act_from(plan, jnp.asarray(memory), 1, here, 0.0)) == int(course.choices[1, here, best])
    new = jnp.zeros(4)
    for here in range(ASKING.model.states):
        assert int(plan.policy[0, here]) == int(agent.act_from(plan, new, 0, here, 0.0))


def test_a_plan_without_points_publishes_what_it_did() -> None:
    """Plans of QMDP have the leaves that were stored before there were others."""
    _, _, plan = first_plan("private-kinds")
    assert plan.extension.course is None
    assert len(jax.tree.leaves(plan.extension)) == 9


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("plan=point-based,visits=2", "qmdp with visits above 1"),
        ("plan=point-based,points=0", "at least 1"),
        ("plan=point-based,points=100000", "at most 131,072"),
        ("plan=point-based,points=2000", "products"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_remedy(options: str, says: str) -> None:
    for name in ("kinds", "private-kinds"):
        with pytest.raises(InvalidInput, match=says):
            make_agent(f"{name}:{options}", ASKING.model, 100)
