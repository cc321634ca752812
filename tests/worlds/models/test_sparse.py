# SPDX-License-Identifier: Apache-2.0
"""Sparse worlds: the same world with its table written out behaves the same, and nothing of size S² is ever made."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.experiments.saved import load, save
from reticent.simulation.rollout import rollout
from reticent.worlds import World, blend, make_model, make_world, sparse_blend
from reticent.worlds.world import SHORT_ROW, invert

# (S, A, n, d1, d2, H): few shapes, so that JAX compiles few programs; more successors than states means duplicates.
SHAPES = [(3, 2, 2, 2, 1, 2), (6, 3, 4, 3, 2, 4), (4, 2, 7, 2, 2, 3)]


def write_out(successors: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The dense ``(d, S, A, S)`` form of sparse candidates, entry by entry."""
    d, states, actions, entries = candidates.shape
    dense = np.zeros((d, states, actions, states))
    for s, a, k in itertools.product(range(states), range(actions), range(entries)):
        dense[:, s, a, successors[s, a, k]] += candidates[:, s, a, k]
    return dense


def twins(seed: int, shape: tuple[int, ...], per_step: bool = False) -> tuple[World, World]:
    """A random sparse world with padded rows and repeated successors, and the same world written out."""
    states, actions, entries, d1, d2, horizon = shape
    rng = np.random.default_rng(seed)
    successors = np.sort(rng.integers(0, states, size=(states, actions, entries)), axis=-1)
    rows = rng.dirichlet(np.full(entries, 0.5), size=(d1, states, actions))
    padding = rng.integers(0, entries, size=(states, actions))  # so many entries at the end mean nothing
    rows[:, np.arange(entries) >= entries - padding[..., None]] = 0
    rows[:, :, :, 0] += 1 - rows.sum(axis=-1)
    steps = (horizon,) if per_step else ()
    rest = (
        rng.uniform(size=(d2, states, actions)),
        rng.dirichlet(np.ones(d1), size=steps),
        rng.dirichlet(np.ones(d2), size=steps),
        horizon,
    )
    start = rng.dirichlet(np.ones(states))
    return (
        blend(rows, *rest, initial=start, successors=successors),
        blend(write_out(successors, rows), *rest, initial=start),
    )


pairs = st.builds(twins, st.integers(0, 10**6), st.sampled_from(SHAPES), st.booleans())
every_pair = settings(max_examples=20, deadline=None, derandomize=True)


def backward_induction(world: World, transitions: np.ndarray) -> tuple[list[list[float]], list[list[int]]]:
    """V* and its choices, in plain Python."""
    horizon, states, actions, _ = transitions.shape
    table, rewards = transitions.tolist(), np.asarray(world.mean_rewards).tolist()
    values, choices = [[0.0] * states], []
    for h in reversed(range(horizon)):
        backups = [
            [
                rewards[h][s][a] + sum(p * v for p, v in zip(table[h][s][a], values[0], strict=True))
                for a in range(actions)
            ]
            for s in range(states)
        ]
        values.insert(0, [max(row) for row in backups])
        choices.insert(0, [row.index(max(row)) for row in backups])
    return values, choices


# -- one world, two representations ---------------------------------------------------------------------------------------


@pytest.mark.verify
@every_pair
@given(pairs)
def test_rows_are_probabilities_and_write_out_to_the_dense_table(pair):
    sparse, dense = pair
    rows = np.asarray(sparse.rows)
    assert rows.min() >= 0
    np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(sparse.transitions, dense.transitions, atol=1e-14)
    np.testing.assert_allclose(sparse.mean_rewards, dense.mean_rewards, atol=1e-14)
    theta = np.asarray(sparse.transition_theta)
    expected = [write_out(np.asarray(sparse.model.successors), row[None])[0] for row in rows]
    blended = np.einsum("hd,dsat->hsat", theta, np.asarray(dense.model.transition_features))
    np.testing.assert_allclose(np.broadcast_to(expected, blended.shape), blended, atol=1e-12)


@pytest.mark.verify
@every_pair
@given(pairs, st.integers(0, 10**6))
def test_value_features_are_the_same_and_within_their_bound(pair, seed):
    sparse, dense = (world.model for world in pair)
    rng = np.random.default_rng(seed)
    for values in (rng.uniform(-1, 1, sparse.states), rng.choice([-1.0, 1.0], sparse.states)):
        one, other = sparse.value_features(jnp.asarray(values)), dense.value_features(jnp.asarray(values))
        np.testing.assert_allclose(one, other, atol=1e-14)
        assert float(jnp.linalg.norm(one, axis=0).max()) <= sparse.transition_bound * (1 + 1e-9)
        state, action = int(rng.integers(sparse.states)), int(rng.integers(sparse.actions))
        at = sparse.value_features_at(jnp.asarray(values), state, action)
        np.testing.assert_allclose(at, np.asarray(other)[:, state, action], atol=1e-14)


@pytest.mark.verify
@every_pair
@given(pairs, st.integers(0, 10**6))
def test_exact_values_agree_with_each_other_and_with_plain_python(pair, seed):
    sparse, dense = pair
    values, choices = backward_induction(dense, np.asarray(dense.transitions))
    start = np.asarray(sparse.model.initial)
    rng = np.random.default_rng(seed)
    shape = (sparse.model.horizon, sparse.model.states, sparse.model.actions)
    random = jnp.asarray(rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]))
    for world in pair:
        assert world.optimal_value == pytest.approx(start @ values[0], abs=1e-12)
        np.testing.assert_array_equal(world.optimal_choices, choices)
        np.testing.assert_allclose(world.evaluate(world.optimal_choices), values, atol=1e-12)
        np.testing.assert_allclose(world.evaluate(world.optimal_policy), values, atol=1e-12)
    np.testing.assert_allclose(sparse.evaluate(random), dense.evaluate(random), atol=1e-12)
    assert sparse.uniform_value == pytest.approx(dense.uniform_value, abs=1e-12)


@pytest.mark.verify
@every_pair
@given(pairs, st.integers(0, 10**6))
def test_choices_are_worth_what_their_probabilities_are(pair, seed):
    shape = (pair[0].model.horizon, pair[0].model.states)
    choices = jnp.asarray(np.random.default_rng(seed).integers(0, pair[0].model.actions, size=shape))
    for world in pair:
        certain = jax.nn.one_hot(choices, world.model.actions)
        np.testing.assert_allclose(world.evaluate(choices), world.evaluate(certain), atol=1e-12)


@pytest.mark.parametrize("per_step", [False, True])
def test_the_optimum_is_the_best_of_all_policies(per_step):
    sparse, dense = twins(5, SHAPES[0], per_step)
    policies = jnp.asarray(list(itertools.product(range(2), repeat=6))).reshape(-1, 2, 3)
    for world in (sparse, dense):
        returns = jax.jit(jax.vmap(world.policy_value))(policies)
        assert len(returns) == 64
        assert float(returns.max()) == pytest.approx(sparse.optimal_value, abs=1e-12)
        assert float(returns.min()) < sparse.optimal_value - 0.01


@pytest.mark.verify
@every_pair
@given(pairs, st.integers(0, 10**6))
def test_draws_are_the_same(pair, seed):
    """Inversion goes through the states in the same order, so equal uniforms lead to equal states and rewards."""
    sparse, dense = pair
    model, rng = sparse.model, np.random.default_rng(seed)
    draw = jnp.asarray(rng.random((200, 2)))
    at = [jnp.asarray(rng.integers(0, size, 200)) for size in (model.horizon, model.states, model.actions)]
    np.testing.assert_array_equal(jax.vmap(sparse.start)(draw[:, 0]), jax.vmap(dense.start)(draw[:, 0]))
    for one, other in zip(jax.vmap(sparse.step)(*at, draw), jax.vmap(dense.step)(*at, draw), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_an_even_grid_of_uniforms_gives_the_probabilities_and_never_the_padding():
    sparse, dense = twins(11, SHAPES[1])
    n = 4000
    grid = jnp.asarray(np.append((np.arange(n) + 0.5) / n, 1 - 2.0**-53))
    for state, action in itertools.product(range(6), range(3)):
        drawn = jax.vmap(lambda u: sparse.step(0, state, action, jnp.stack([u, u]))[0])(grid)  # noqa: B023
        expected = np.asarray(dense.transitions[0, state, action])
        counts = np.bincount(np.asarray(drawn), minlength=6) / n
        np.testing.assert_allclose(counts, expected, atol=3 / n)
        assert (expected[np.asarray(drawn)] > 0).all()


def test_long_rows_are_searched_to_the_same_index():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(SHORT_ROW + 1, 0.05))
    cumulative = np.cumsum(chances)
    draws = np.concatenate([rng.random(500), cumulative[:-1], [0.0, 1 - 2.0**-53]])
    found = jax.vmap(lambda u: invert(jnp.asarray(cumulative), u))(jnp.asarray(draws))
    counted = [min(sum(u >= c for c in cumulative.tolist()), SHORT_ROW) for u in draws.tolist()]
    np.testing.assert_array_equal(found, counted)


@pytest.mark.verify
@pytest.mark.parametrize("spec", ["oppo", "private-linopt-vi:epsilon=5"])
def test_agents_plan_act_and_learn_the_same(spec):
    @jax.jit
    def learn(agent, world, draws):
        """Plan, serve one user for each row of draws, end the round, plan again."""
        state = agent.init()
        plan = agent.plan(state)
        for draw in draws:
            state = agent.absorb(state, agent.report(plan, rollout(agent, world, plan, draw)))
        state = agent.close(state, plan, len(draws), agent.aggregator.simulate_round_noise(jax.random.key(0)))
        return plan, state, agent.plan(state)

    draws = jnp.asarray(np.random.default_rng(1).random((2, 1 + 3 * 4)))
    one, other = (learn(make_agent(spec, world.model, 40), world, draws) for world in twins(2, SHAPES[1]))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for leaf, twin in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(leaf, twin, atol=1e-9)
    assert np.abs(one[0].values - one[2].values).max() > 1e-3, "nothing was learned, so nothing was compared"


# -- size -----------------------------------------------------------------------------------------------------------------


def test_rows_that_do_not_change_with_the_step_are_stored_once():
    for world in twins(4, SHAPES[1]):
        assert len(world.rows) == len(world.cumulative) == len(world.reward_means) == 1
        assert world.transitions.shape[0] == world.mean_rewards.shape[0] == 4
    for world in twins(4, SHAPES[1], per_step=True):
        assert len(world.rows) == len(world.cumulative) == len(world.reward_means) == 4


@pytest.fixture(scope="module")
def large():
    return make_world("large-blend:states=20000")


@pytest.mark.verify
def test_nothing_is_larger_than_the_entries(large):
    """Beside the features (32 MB here), planning may use a few arrays of one number per entry (12.8 MB each)."""
    model = large.model
    entries = 8 * math.prod(model.successors.shape)
    values, choices = jnp.zeros(model.states), jnp.zeros((model.horizon, model.states), int)

    def scratch(function, *arguments):
        return jax.jit(function).lower(*arguments).compile().memory_analysis().temp_size_in_bytes

    assert scratch(lambda model, v: model.value_features(v), model, values) <= 1.5 * entries
    assert scratch(lambda world, c: world.policy_value(c), large, choices) <= 1.5 * entries
    agent = make_agent("private-linopt-vi", model, 2000)
    assert scratch(lambda agent, state: agent.plan(state), agent, agent.init()) <= 4 * entries


def test_a_table_with_two_state_axes_is_refused_where_it_would_be_huge(large):
    with pytest.raises(
        InvalidInput, match=r"entries of transitions is 8e\+09, but must be at most 1e\+08.*world\.rows"
    ):
        _ = large.transitions


def test_precision_can_be_halved_and_successors_stay_integers(large):
    single = large.astype(jnp.float32)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(single)} == {"float32", "int32"}
    assert single.optimal_value == pytest.approx(large.optimal_value, abs=1e-5)
    assert single.model.successors.dtype == large.model.astype(jnp.float32).successors.dtype == jnp.int32


# -- construction ---------------------------------------------------------------------------------------------------------


@every_pair
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_scipy_matrices_blend_as_their_dense_forms_do(seed, d):
    """Random supports that differ between candidates, with stored zeros, in any of SciPy's formats."""
    rng, states, actions = np.random.default_rng(seed), 5, 2
    tables = rng.dirichlet(np.ones(states), size=(d, states * actions)) * (rng.random((d, 10, 5)) < 0.5)
    tables[..., 3] += 1 - tables.sum(axis=-1)
    everything = np.indices((10, 5)).reshape(2, -1)
    formats = [
        lambda table: scipy.sparse.coo_array((table.ravel(), everything), shape=(10, 5)),
        scipy.sparse.csr_array,
        scipy.sparse.lil_matrix,
    ]
    matrices = [form(table) for form, table in zip(formats, tables, strict=False)]
    rest = (rng.uniform(size=(1, states, actions)), rng.dirichlet(np.ones(d)), [1.0], 3)
    sparse = sparse_blend(matrices, *rest)
    dense = blend(tables.reshape(d, states, actions, states), *rest)
    np.testing.assert_allclose(sparse.transitions, dense.transitions, atol=1e-14)
    assert sparse.model.successors.shape[-1] == (tables != 0).any(axis=0).sum(axis=-1).max()
    values = jnp.asarray(rng.random(states))
    np.testing.assert_allclose(sparse.model.value_features(values), dense.model.value_features(values), atol=1e-14)


def test_matrices_must_fit():
    rewards = np.zeros((1, 2, 1))
    with pytest.raises(InvalidInput, match=r"candidates\[1\]\.shape is \(3, 2\).*\(2, 2\)"):
        sparse_blend([np.eye(2), np.ones((3, 2)) / 2], rewards, [0.5, 0.5], [1.0], 2)
    with pytest.raises(InvalidInput, match="at least one matrix"):
        sparse_blend([], rewards, [1.0], [1.0], 2)
    with pytest.raises(InvalidInput, match=r"reward_candidates\.shape"):
        sparse_blend([np.eye(2)], np.zeros(2), [1.0], [1.0], 2)
    with pytest.raises(InvalidInput, match="candidate row at candidate 0, state 1, action 0"):
        sparse_blend([scipy.sparse.csr_array(np.diag([1.0, 0.5]))], rewards, [1.0], [1.0], 2)


@pytest.mark.parametrize(
    ("field", "successors"),
    [
        ("successors.shape", np.zeros((2, 1, 3), int)),
        ("successors.dtype", np.zeros((2, 1, 2))),
        ("successors is 0 to 2, but must be states from 0 to 1", np.array([[[0, 1]], [[1, 2]]])),
        ("successors is -1 to 1", np.array([[[0, 1]], [[1, -1]]])),
    ],
)
def test_successors_are_checked(field, successors):
    with pytest.raises(InvalidInput) as caught:
        make_model(np.full((1, 2, 1, 2), 0.5), np.zeros((1, 2, 1)), 2, successors=successors)
    assert field in str(caught.value)


def test_the_bound_of_a_sparse_row_is_judged_by_its_exact_supremum():
    """Features (½, ½) and (½, −½) on two of many states: no V has both at once at their total variation."""
    psi = np.stack([np.full((30, 1, 2), 0.5), np.tile([[0.5, -0.5]], (30, 1, 1))])
    successors = np.stack([np.arange(30), (np.arange(30) + 7) % 30], axis=-1)[:, None]
    assert make_model(psi, np.zeros((1, 30, 1)), 1, transition_bound=1.0, successors=successors).transition_bound == 1
    with pytest.raises(InvalidInput, match=r"transition_bound = 0\.9"):
        make_model(psi, np.zeros((1, 30, 1)), 1, transition_bound=0.9, successors=successors)


@pytest.mark.parametrize("policy", [np.zeros((4, 6, 2), int), np.zeros((4, 6)), np.zeros((3, 6), int)])
def test_policies_of_another_shape_are_refused(policy):
    for world in twins(0, SHAPES[1]):
        with pytest.raises(InvalidInput, match=r"policy\.shape"):
            world.evaluate(policy)


def test_a_saved_agent_keeps_its_successors(tmp_path):
    sparse, _ = twins(0, SHAPES[1])
    agent = make_agent("ucrl-vtr", sparse.model, 20)
    path = save(tmp_path / "sparse.reticent", agent, agent.init(), position=0)
    np.testing.assert_array_equal(load(path).agent.model.successors, sparse.model.successors)


# -- large-blend ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "successors"), [(20, 20), (100, 20), (2000, 20), (100, 50)])
def test_embedding_leaves_the_values_of_the_core(states, successors):
    core = make_world("random-blend:seed=3")
    world = make_world(f"large-blend:seed=3,states={states},successors={successors}")
    assert world.model.states == states
    assert world.model.successors.shape == (states, 4, successors)
    assert world.optimal_value == pytest.approx(core.optimal_value, abs=1e-12)
    assert world.uniform_value == pytest.approx(core.uniform_value, abs=1e-12)
    np.testing.assert_allclose(world.transition_theta, core.transition_theta, atol=1e-15)


def test_with_fewer_successors_the_core_is_the_smallest_of_the_family():
    small, big = (make_world(f"large-blend:states={states},successors=3") for states in (20, 400))
    assert big.optimal_value == pytest.approx(small.optimal_value, abs=1e-12)
    assert big.uniform_value == pytest.approx(small.uniform_value, abs=1e-12)
    assert (np.diff(np.sort(np.asarray(small.model.successors), axis=-1), axis=-1) > 0).all()


def test_copies_have_candidates_and_successors_of_their_own(large):
    """The blend is the same in all copies of a state, and neither a candidate nor a list of successors is."""
    psi = np.asarray(large.model.transition_features).reshape(4, 20, 1000, 4, 20)
    rows = np.asarray(large.rows).reshape(20, 1000, 4, 20)
    np.testing.assert_allclose(rows, np.broadcast_to(rows[:, :1], rows.shape), atol=1e-14)
    away = np.abs(psi - psi[:, :, :1]).sum(axis=-1)[:, :, 1:] / 2
    assert away.mean() > 0.02
    assert (away.max(axis=0) > 1e-4).all()
    following = np.asarray(large.model.successors).reshape(20, 1000, 4, 20)
    assert (following // 1000 == np.arange(20)).all()
    assert (following[:, 1:] != following[:, :1]).mean() > 0.99
    assert np.abs(psi[0] - psi[1]).sum(axis=-1).mean() / 2 > 0.5


@pytest.mark.parametrize(
    "option", ["states=0", "states=30", "d=0", "horizon=0", "actions=0", "successors=0", "core=0", "seed=-1"]
)
def test_large_blend_refuses_sizes_that_make_no_sense(option):
    with pytest.raises(InvalidInput, match=f"large-blend: {option.split('=')[0]}"):
        make_world(f"large-blend:{option}")
