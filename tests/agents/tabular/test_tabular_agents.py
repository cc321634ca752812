# SPDX-License-Identifier: Apache-2.0
"""The tabular agents against their papers, transcribed by hand, and against what they promise."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_rules as reference
from scipy.stats import kstest

from reticent.agents import AGENTS, make_agent
from reticent.agents.tabular.counts import Counts
from reticent.agents.tabular.noisy_q_rule import kernel, learn_epoch, release_power
from reticent.agents.tabular.planning import Widths
from reticent.agents.tabular.posterior import draw_world
from reticent.agents.tabular.rules import LocallyPrivatized, PlainRatios, PrivateBernstein, Privatized
from reticent.privacy.accounting.gaussian import epsilon_of
from reticent.privacy.guarantee import guarantee_of
from reticent.simulation.simulate import simulate
from reticent.worlds import Episode, make_world

H, S, A = 3, 3, 2
IOTA, WIDTHS = 4.5, (3.0, 2.0, 5.0)
FOLLOWING = np.array([0.2, 1.9, 0.7])


def some_counts() -> Counts:
    draw = np.random.default_rng(2)
    onward = draw.integers(0, 9, (1, S, A, S)).astype(float)
    onward[0, 0, 0] = 0.0
    visits = onward.sum(axis=-1)
    return Counts(visits, onward, visits * draw.random(visits.shape))


@pytest.mark.parametrize(
    ("rule", "by_hand"),
    [
        (Privatized(), lambda *given: reference.private_ucb(*given, False)),
        (Privatized(whole_rows=True), lambda *given: reference.private_ucb(*given, True)),
        (PlainRatios(), reference.pucb),
        (PrivateBernstein(), lambda *given: reference.dp_ucbvi(*given, FOLLOWING)),
        (LocallyPrivatized(), reference.ldp_obi),
    ],
    ids=["private-ucb-vi", "private-ucb-po", "pucb", "dp-ucbvi", "ldp-obi"],
)
def test_rules_are_the_papers(rule, by_hand) -> None:
    counts = some_counts()
    estimate = rule.estimate(Counts(*map(jnp.asarray, counts)), Widths(*map(jnp.asarray, WIDTHS)), jnp.asarray(IOTA), H)
    step = jax.tree.map(lambda leaf: leaf[0], estimate)
    bonus = np.asarray(step.doubt + rule.bonus(step, jnp.asarray(FOLLOWING), jnp.asarray(IOTA), H))
    for s in range(S):
        for a in range(A):
            cell = counts.visits[0, s, a], counts.transitions[0, s, a].tolist(), counts.rewards[0, s, a]
            reward, row, wanted = by_hand(*cell, *WIDTHS, IOTA, H)
            assert bool(step.known[s, a]) == (wanted is not None)
            if wanted is not None:
                np.testing.assert_allclose(step.rewards[s, a], reward, rtol=1e-12)
                np.testing.assert_allclose(step.transitions[s, a], row, rtol=1e-12)
                np.testing.assert_allclose(bonus[s, a], wanted, rtol=1e-12)
            assert np.asarray(step.transitions[s, a]).sum() <= 1 + 1e-12


def test_q_learning_is_the_papers_loop() -> None:
    """Step by step while the episode goes on, as the paper has it."""
    world = make_world(f"random-blend:states={S},actions={A},horizon={H},d1=2,d2=2")
    agent = make_agent("q-learning", world.model, 50, bonus_scale=0.1)
    iota = math.log(S * A * 50 * H / 0.05)
    q, n = np.repeat(np.arange(H, 0, -1.0)[:, None, None], S, 1).repeat(A, 2), np.zeros((H, S, A))
    v = np.vstack([q.max(axis=-1), np.zeros((1, S))])
    draw, state = np.random.default_rng(0), agent.init()
    for _ in range(30):
        episode = Episode(draw.integers(0, S, H + 1), draw.integers(0, A, H), draw.random(H))
        state = agent.update(state, agent.plan(state), episode)
        for h in range(H):
            s, a, after = episode.states[h], episode.actions[h], episode.states[h + 1]
            n[h, s, a] += 1
            t = n[h, s, a]
            rate, bonus = (H + 1) / (H + t), 0.1 * math.sqrt(H**3 * iota / t)
            q[h, s, a] = (1 - rate) * q[h, s, a] + rate * (episode.rewards[h] + v[h + 1, after] + bonus)
            v[h, s] = min(H - h, q[h, s].max())
    plan = agent.plan(state, action_values=True)
    np.testing.assert_allclose(state.aggregate.action_values, q, rtol=1e-12)
    np.testing.assert_allclose(plan.values, v, rtol=1e-12)


def test_posterior_draws_have_the_posteriors_law() -> None:
    """One coordinate of a Dirichlet is a Beta; 2000 draws, a false alarm in 1e-6 of the runs for each of the two."""
    counts = Counts(jnp.full((1, 1, 1), 6.0), jnp.array([[[[4.0, 2.0, 0.0]]]]), jnp.full((1, 1, 1), 2.5))
    keys = jax.random.split(jax.random.key(8), 2000)
    means, rows = jax.jit(jax.vmap(lambda key: draw_world(key, counts, jnp.asarray(1.5))))(keys)
    np.testing.assert_allclose(rows.sum(axis=-1), 1, rtol=1e-12)
    assert kstest(np.asarray(rows[:, 0, 0, 0, 0]), "beta", args=(4.5, 3.0)).pvalue > 1e-6
    assert kstest(np.asarray(means[:, 0, 0, 0]), "beta", args=(3.5, 4.5)).pvalue > 1e-6
    # And not that of a posterior that forgot half of what was seen.
    assert kstest(np.asarray(rows[:, 0, 0, 0, 0]), "beta", args=(2.5, 2.0)).pvalue < 1e-6


def test_noisy_q_learning_hides_rewards_as_far_as_it_says() -> None:
    """No entry moves by more than the rewards do, given what was published; the noise covers all releases of it."""
    world = make_world(f"random-blend:states={S},actions={A},horizon={H},d1=2,d2=2")
    agent = make_agent("noisy-q-learning", world.model, 64, epsilon=0.7, reward_change=0.4, first=8)
    draw, plans = np.random.default_rng(3), []
    for _ in range(5):
        values = np.vstack([draw.random((H, S)), np.zeros((1, S))])
        visits = draw.integers(0, 6, (H, S, A, S)).astype(float)
        plans.append((visits.sum(axis=-1), visits, values))
    tables = [agent.init().aggregate, agent.init().aggregate]
    for visits, onward, values in plans:
        mean = 0.4 * draw.random(visits.shape)
        for side, change in enumerate((0.0, 0.4 * draw.random(visits.shape))):
            counts = Counts(*map(jnp.asarray, (visits, onward, visits * (mean + change))))
            tables[side] = learn_epoch(tables[side], counts, jnp.asarray(values))
        assert np.abs(tables[0].action_values - tables[1].action_values).max() <= 0.4
    root = np.asarray(agent.aggregator.root)
    covariance = root @ root.T
    inverse = np.linalg.inv(covariance)
    corners = (np.array(corner) for corner in itertools.product((-0.4, 0.4), repeat=S))
    worst = max(float(corner @ inverse @ corner) for corner in corners)
    releases = agent.schedule.releases
    assert epsilon_of(math.sqrt(releases * H * A * worst), 1e-5) <= 0.7 * (1 + 1e-6)
    sigma = math.sqrt(covariance[0, 0])
    promised = 0.4 * math.sqrt(releases * release_power(H, S, A, 1.0)) / sigma
    assert epsilon_of(promised, 1e-5) == pytest.approx(0.7)
    np.testing.assert_allclose(covariance, sigma**2 * kernel(S, 1.0), rtol=1e-12)
    assert guarantee_of(agent) is None
    assert "nothing about users" in agent.promise.sentence()
    assert "(0.7, 1e-05)" in agent.promise.sentence()


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["private-ucb-vi:epsilon=300", "private-ucb-po:epsilon=300", "dp-ucbvi:epsilon=300"])
def test_with_next_to_no_noise_they_learn_a_short_river(spec: str) -> None:
    """The last policy is within a fifth of the optimum (V* = 5.72, uniform play 0.45)."""
    world = make_world("riverswim:states=3")
    curves = simulate(make_agent(spec, world.model, 2000), world, [0, 1])
    assert np.asarray(curves.value)[:, -1].min() > 0.8 * world.optimal_value


@pytest.mark.verify
def test_less_privacy_costs_less() -> None:
    world = make_world("riverswim:states=3,features=blend")
    ends = [
        simulate(make_agent(f"private-ucb-vi:epsilon={epsilon}", world.model, 1000), world, [0, 1, 2, 3]).regret[:, -1]
        for epsilon in (0.3, 3.0, 30.0)
    ]
    means = [float(np.mean(end)) for end in ends]
    assert means[0] > means[1] > means[2]


@pytest.mark.parametrize("name", ["private-ucb-vi", "private-ucb-po", "pucb", "dp-ucbvi", "ldp-obi"])
def test_the_noise_that_is_drawn_is_the_noise_that_is_promised(name: str) -> None:
    model = make_world("riverswim:states=3,horizon=2").model
    agent = make_agent(name, model, 64, epsilon=2.0, delta=1e-4)
    assert agent.promise.epsilon == 2.0
    assert agent.promise.delta == (0.0 if agent.aggregator.law == "laplace" else 1e-4)
    assert {row.scale for row in agent.promise.sums} == {float(np.asarray(agent.aggregator.noise_scale).max())}
    assert np.ptp(np.asarray(agent.aggregator.noise_scale)) == 0
    for group in agent.promise.groups:
        row = next(row for row in agent.promise.sums if (row.name, row.step) == (group.name, group.step))
        assert row.sensitivity == group.sensitivity


def test_trees_and_pure_noise_are_options_of_the_papers_that_have_them() -> None:
    offered = {entry.name: set(entry.options) for entry in AGENTS.entries()}
    assert "trust" in offered["private-ucb-vi"]
    assert "trust" not in offered["pucb"]
    assert not {"trust", "counter"} & offered["ldp-obi"]
    assert "learning_rate" in offered["private-ucb-po"]
    assert "learning_rate" not in offered["private-ucb-vi"]
