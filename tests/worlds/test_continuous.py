# SPDX-License-Identifier: Apache-2.0
"""Continuous worlds: rows that are distributions, features that converge, samplers that agree with their densities."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.simulation.simulate import simulate
from reticent.worlds import Model, make_world
from reticent.worlds.continuous import (
    Candidates,
    ContinuousWorld,
    blend_on_nodes,
    continuous_blend,
    legendre,
    make_continuous_model,
    mass_defect,
    sparse,
    tensor,
    trapezoid,
    truncated,
)
from reticent.worlds.continuous.model import largest_value_feature
from reticent.worlds.continuous.world import first_values
from reticent.worlds.zoo import glucose

DEVIATION = 0.15


def means(state, action):
    """Two movers on the unit interval: one goes where it is told, one half-way to the middle."""
    return jnp.stack([0.2 + 0.5 * action + 0.3 * (state - 0.5), 0.25 + 0.5 * state])


def densities(state, action, following):
    return truncated.density(following, means(state, action), DEVIATION, 0.0, 1.0)[:, 0]


def sampler(state, action, uniforms):
    return truncated.sample(uniforms, means(state, action), DEVIATION, 0.0, 1.0)


def rewards(state, action):
    return jnp.stack([state[0] ** 2, jnp.where(action == 0, 1.0, 0.6)])


def initial(state):
    return jnp.ones(())


def start(uniforms):
    return uniforms


MOVERS = Candidates(densities, sampler, rewards, initial, start, actions=2, horizon=3)
WEIGHTS, REWARD_WEIGHTS = (0.7, 0.3), (0.6, 0.4)


def movers(nodes=14, judge=40, grid=None):
    return continuous_blend(
        MOVERS, WEIGHTS, REWARD_WEIGHTS, grid or legendre(nodes, 0.0, 1.0), legendre(judge, 0.0, 1.0)
    )


@functools.cache
def the_world():
    return movers()


def the_model():
    return the_world().model


# -- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_on_the_nodes_it_is_a_finite_model():
    finite = the_model().on_nodes()
    assert type(finite) is Model
    assert isinstance(the_model(), Model)
    assert (the_model().states, the_model().actions, the_model().d1, the_model().d2, the_model().dimension) == (
        14,
        2,
        2,
        2,
        1,
    )
    values = jnp.sin(jnp.arange(14.0))
    np.testing.assert_array_equal(the_model().value_features(values), finite.value_features(values))
    for node in (0, 5, 13):
        for action in (0, 1):
            place = the_model().nodes[node]
            np.testing.assert_allclose(
                the_model().value_features_at(values, place, action),
                finite.value_features_at(values, node, action),
                atol=1e-14,
            )
            np.testing.assert_allclose(
                the_model().reward_features_at(place, action), finite.reward_features_at(node, action), atol=1e-14
            )


@pytest.mark.verify
def test_rows_are_distributions_at_every_real_state():
    states = jnp.linspace(0, 1, 37)[:, None]
    rows = jax.vmap(the_model().rows_at)(states)
    assert rows.transition.shape == (37, 2, 2, 14)
    assert rows.reward.shape == (37, 2, 2)
    np.testing.assert_allclose(rows.transition.sum(axis=-1), 1, atol=1e-14)
    assert (rows.transition >= 0).all()
    assert the_model().transition_bound == pytest.approx(np.sqrt(2))
    assert np.linalg.norm(rows.reward, axis=1).max() <= 1 + 1e-12


def exact_features(value, state, action):
    """φ_V by SciPy's adaptive integration of SciPy's truncated normals."""
    found = []
    for mean in (0.2 + 0.5 * action + 0.3 * (state - 0.5), 0.25 + 0.5 * state):
        law = stats.truncnorm((0 - mean) / DEVIATION, (1 - mean) / DEVIATION, mean, DEVIATION)
        found.append(quad(lambda x, law=law: law.pdf(x) * value(x), 0, 1, epsabs=1e-12)[0])
    return found


def value(x):
    return np.exp(-x) + np.sin(4 * x)


features_at = jax.jit(lambda model, *place: model.value_features_at(*place))


@pytest.mark.parametrize("state", [0.0, 0.137, 0.5, 0.81, 1.0])
def test_value_features_are_the_integrals(state):
    for action in (0, 1):
        nodes_values = value(np.asarray(the_model().nodes)[:, 0])
        found = features_at(the_model(), jnp.asarray(nodes_values), jnp.array([state]), action)
        np.testing.assert_allclose(found, exact_features(value, state, action), atol=3e-6)


def errors(rule, sizes):
    """The largest error of φ_V at a real state, by number of nodes."""
    found = []
    for size in sizes:
        model = MOVERS.model(rule(size, 0.0, 1.0), largest_defect=np.inf)
        features = features_at(model, jnp.asarray(value(np.asarray(model.nodes)[:, 0])), jnp.array([0.2]), 0)
        found.append(float(np.abs(features - np.array(exact_features(value, 0.2, 0))).max()))
    return found


@pytest.mark.verify
def test_more_nodes_less_error_and_gauss_is_faster():
    gauss = errors(legendre, (6, 10, 18))
    assert all(later < earlier / 5 for earlier, later in itertools.pairwise(gauss))
    assert gauss[-1] < 1e-8
    assert errors(trapezoid, (18,))[0] > 1e4 * gauss[-1]


def test_normalising_leaves_the_error_at_its_order():
    """The identity of the module's docstring: ē(V) = (e(V−c) − ε P(V−c)) / (1 + ε), for any c."""
    grid = legendre(7, 0.0, 1.0)
    model, state, action = MOVERS.model(grid), jnp.array([0.2]), 0
    values = value(grid.nodes[:, 0])
    raw = (
        np.asarray(jax.vmap(densities, in_axes=(None, None, 0))(state, action, jnp.asarray(grid.nodes))).T
        * grid.weights
    )
    exact = np.array(exact_features(value, 0.2, action))
    epsilon = raw.sum(axis=1) - 1
    np.testing.assert_allclose(mass_defect(model, [[0.2]])[0, 0], epsilon, atol=1e-12)
    assert np.abs(epsilon).max() > 1e-4
    normalised = np.asarray(model.value_features_at(jnp.asarray(values), state, action)) - exact
    for centre in (0.0, 0.7):
        unnormalised = raw @ (values - centre) - (exact - centre)
        np.testing.assert_allclose(normalised, (unnormalised - epsilon * (exact - centre)) / (1 + epsilon), atol=1e-9)


def test_too_few_nodes_are_refused():
    with pytest.raises(InvalidInput, match=r"quadrature mass of candidate \d at state .* off by .*use more nodes"):
        MOVERS.model(legendre(3, 0.0, 1.0))


def test_a_candidate_that_is_no_density_is_refused():
    broken = dataclasses.replace(MOVERS, densities=lambda s, a, t: 1.2 * densities(s, a, t))
    with pytest.raises(InvalidInput, match=r"off by 0\.2.*check that the candidate is a density"):
        broken.model(legendre(20, 0.0, 1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": 0}, "actions is 0"),
        ({"densities": lambda s, a, t: densities(s, a, t) / (s[0] - 1.0)}, "not finite"),
        ({"densities": lambda s, a, t: densities(s, a, t).sum()}, r"densities: shape is \(\)"),
        ({"rewards": lambda s, a: rewards(s, a)[:, None]}, r"rewards: shape is \(2, 1\)"),
        ({"initial": lambda s: jnp.zeros(())}, "initial is mass 0"),
        ({"horizon": 0}, "horizon is 0"),
    ],
)
def test_bad_models_are_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        dataclasses.replace(MOVERS, **change).model(legendre(20, 0.0, 1.0))


def test_on_a_sparse_grid_the_bound_is_measured():
    """Negative weights: rows still sum to one, but their length is not bounded by √d1, and what is declared says so."""

    def flat(state, action, following):
        return jnp.stack([jnp.ones(()), 1 + 0.5 * jnp.sin(6 * following[0]) * jnp.cos(5 * following[1] + state[0])])

    grid = sparse(5, [0.0, 0.0], [1.0, 1.0])
    model = make_continuous_model(
        flat, lambda s, a: jnp.ones(1), grid, 1, 2, initial=lambda s: jnp.ones(()), largest_defect=0.3
    )
    rows = np.asarray(jax.vmap(model.rows_at)(jnp.asarray(np.random.default_rng(0).uniform(size=(50, 2)))).transition)
    np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
    assert model.transition_bound > np.sqrt(2) * 1.1
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(grid.size, 400))
    assert np.linalg.norm(rows[:, :, 0] @ signs, axis=1).max() <= model.transition_bound * 1.01


def test_a_declared_bound_is_checked():
    def model(bound):
        arguments = (densities, rewards, legendre(14, 0.0, 1.0), 2, 3)
        return make_continuous_model(*arguments, initial=initial, transition_bound=bound)

    assert model(1.5).transition_bound == 1.5
    with pytest.raises(InvalidInput, match=r"up to 1\.41421, but must be at most transition_bound = 1\.4;"):
        model(1.4)


def test_the_bound_on_value_features_is_a_bound_and_attained_by_distributions():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 4, 6))
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1)
    assert np.linalg.norm(rows @ signs, axis=1).max() <= largest_value_feature(rows) + 1e-12
    assert largest_value_feature(rng.dirichlet(np.ones(6), size=(3, 4))) == pytest.approx(2.0)


def test_it_compiles_casts_and_is_one_program_for_equal_functions():
    compiled = jax.jit(lambda model, state: model.rows_at(state))
    single = the_model().astype(jnp.float32)
    assert single.nodes.dtype == jnp.float32
    np.testing.assert_allclose(
        compiled(single, jnp.array([0.3], jnp.float32)).transition,
        compiled(the_model(), jnp.array([0.3])).transition,
        atol=1e-5,
    )
    assert jax.tree.structure(MOVERS.model(legendre(14, 0.0, 1.0))) == jax.tree.structure(the_model())


# -- the world --------------------------------------------------------------------------------------------------------

DRAWS = 4000
FALSE_ALARM = 1e-6
"""Each Kolmogorov–Smirnov test fails a correct sampler with this probability; seeds are fixed besides."""


@pytest.mark.verify
@pytest.mark.parametrize(("state", "action"), [(0.0, 0), (0.4, 1), (1.0, 1)])
def test_the_sampler_agrees_with_its_densities(state, action):
    uniforms = jax.random.uniform(jax.random.key(3), (DRAWS, 1))
    place = jnp.array([state])
    drawn = np.asarray(jax.vmap(sampler, in_axes=(None, None, 0))(place, action, uniforms))[..., 0]
    axis = np.linspace(0, 1, 2001)
    density = np.asarray(jax.vmap(densities, in_axes=(None, None, 0))(place, action, jnp.asarray(axis)[:, None]))
    cumulative = np.concatenate([[0 * density[0]], np.cumsum((density[1:] + density[:-1]) / 2, axis=0) / 2000])
    for candidate in range(2):
        law = lambda x, c=candidate: np.interp(x, axis, cumulative[:, c])  # noqa: E731
        assert stats.kstest(drawn[:, candidate], law).pvalue > FALSE_ALARM
    other = np.interp(drawn[:, 0], axis, cumulative[:, 1])
    assert stats.kstest(other, "uniform").pvalue < FALSE_ALARM  # the test tells the candidates apart


@pytest.mark.verify
def test_a_step_is_drawn_from_the_blend():
    """By the law of the mixture; and its rewards have the mean of theirs (both at a false-alarm rate of about 1e-6)."""
    uniforms = jax.random.uniform(jax.random.key(5), (DRAWS, the_world().step_draws))
    place = jnp.array([0.3])
    following, reward = jax.vmap(lambda u: the_world().step(1, place, 1, u))(uniforms)

    def law(x):
        parts = [0.2 + 0.5 + 0.3 * (0.3 - 0.5), 0.25 + 0.5 * 0.3]
        laws = [stats.truncnorm((0 - m) / DEVIATION, (1 - m) / DEVIATION, m, DEVIATION) for m in parts]
        return sum(weight * each.cdf(x) for weight, each in zip(WEIGHTS, laws, strict=True))

    assert following.shape == (DRAWS, 1)
    assert stats.kstest(np.asarray(following)[:, 0], law).pvalue > FALSE_ALARM
    mean = 0.6 * 0.3**2 + 0.4 * 0.6
    assert abs(float(reward.mean()) - mean) < 4.9 * np.sqrt(mean * (1 - mean) / DRAWS)
    assert set(np.unique(reward)) <= {0.0, 1.0}


@pytest.mark.verify
def test_rewards_can_be_paid_as_they_are():
    paid = continuous_blend(
        MOVERS, WEIGHTS, REWARD_WEIGHTS, legendre(14, 0.0, 1.0), legendre(20, 0.0, 1.0), reward_kind="deterministic"
    )
    _, reward = paid.step(0, jnp.array([0.5]), 0, jnp.array([0.1, 0.2, 0.99]))
    assert float(reward) == pytest.approx(0.6 * 0.25 + 0.4)


def test_values_agree_with_simulated_users():
    """The mean return of 4000 real walks under the uniform policy is its value by quadrature, within 4.9 deviations."""
    uniforms = jax.random.uniform(
        jax.random.key(7), (DRAWS, the_world().start_draws + 3 * (1 + the_world().step_draws))
    )

    def walk(u):
        place, total = the_world().start(u[:1]), 0.0
        for step in range(3):
            draw = u[1 + 4 * step : 5 + 4 * step]
            place, reward = the_world().step(step, place, (draw[0] < 0.5).astype(int), draw[1:])
            total += reward
        return total

    returns = np.asarray(jax.jit(jax.vmap(walk))(uniforms))
    assert abs(returns.mean() - the_world().uniform_value) < 4.9 * returns.std() / np.sqrt(DRAWS)
    assert the_world().uniform_value < the_world().optimal_value


@pytest.mark.verify
def test_values_converge_in_the_nodes():
    fine = movers(judge=120)
    assert the_world().optimal_value == pytest.approx(fine.optimal_value, abs=1e-4)
    assert the_world().uniform_value == pytest.approx(fine.uniform_value, abs=1e-9)
    assert the_world().quadrature_error < 1e-3
    assert movers(nodes=40).quadrature_error < 1e-12  # the judge's own nodes
    states = jnp.linspace(0, 1, 5)[:, None]
    uniform = first_values(the_model(), the_world().transition_theta, the_world().reward_theta, states, jnp.mean)
    finer = first_values(fine.model, fine.transition_theta, fine.reward_theta, states, jnp.mean)
    np.testing.assert_allclose(uniform, finer, atol=1e-9)


def test_policies_are_judged_on_the_judging_grid():
    assert the_world().judged_states.shape == (40, 1)
    assert float(the_world().policy_value(the_world().optimal_policy)) == pytest.approx(the_world().optimal_value)
    assert float(the_world().policy_value(the_world().uniform_policy)) == pytest.approx(the_world().uniform_value)
    assert the_world().evaluate(the_world().uniform_policy).shape == (4, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": (0.7, 0.4)}, "simplex"),
        ({"judge": sparse(3, [0.0, 0.0], [1.0, 1.0])}, "positive weights"),
        ({"candidates": dataclasses.replace(MOVERS, sampler=lambda s, a, u: sampler(s, a, u) + 1)}, "inside the box"),
        ({"candidates": dataclasses.replace(MOVERS, sampler=lambda s, a, u: sampler(s, a, u)[:1])}, "shape"),
        ({"candidates": dataclasses.replace(MOVERS, start=lambda u: 2 * u)}, "start is from"),
        ({"reward_weights": (0.75, 0.6)}, "mean reward"),
    ],
)
def test_bad_worlds_are_refused(arguments, message):
    grid = legendre(14, 0.0, 1.0)
    given = {
        "candidates": MOVERS, "weights": WEIGHTS, "reward_weights": REWARD_WEIGHTS, "grid": grid, "judge": grid,
    } | arguments  # fmt: skip
    with pytest.raises(InvalidInput, match=message):
        continuous_blend(**given)


def test_weights_may_change_from_step_to_step():
    by_step = [(0.9, 0.1), (0.5, 0.5), (0.1, 0.9)]
    world = continuous_blend(MOVERS, by_step, REWARD_WEIGHTS, legendre(14, 0.0, 1.0), legendre(20, 0.0, 1.0))
    assert not world.model.stationary
    np.testing.assert_allclose(world.transition_theta, by_step)


# -- glucose ----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_glucose_numbers():
    """Against V* and the uniform value of 128 × 100 nodes (benchmarks/quadrature_error.py)."""
    world = make_world("glucose")
    assert (world.model.states, world.model.actions, world.model.d1, world.model.d2) == (168, 4, 4, 3)
    assert world.optimal_value == pytest.approx(4.21032, abs=1e-5)
    assert world.uniform_value == pytest.approx(3.60852, abs=1e-5)
    real = make_world("glucose:states=real")
    assert isinstance(real, ContinuousWorld)
    assert real.optimal_value == pytest.approx(4.20933, abs=5e-4)
    assert real.uniform_value == pytest.approx(3.607868, abs=2e-6)
    assert real.quadrature_error < 2e-3


@pytest.mark.verify
def test_glucose_densities_integrate_and_are_sampled():
    place, action = jnp.array([230.0, 4.0]), 2
    fine = tensor([legendre(80, 40.0, 340.0), legendre(60, 0.0, 10.0)])
    density = np.asarray(jax.vmap(glucose.densities, in_axes=(None, None, 0))(place, action, jnp.asarray(fine.nodes)))
    np.testing.assert_allclose(fine.integrate(density.T), 1, atol=1e-12)
    uniforms = jax.random.uniform(jax.random.key(11), (DRAWS, 2))
    drawn = np.asarray(jax.vmap(glucose.sampler, in_axes=(None, None, 0))(place, action, uniforms))[:, 3]
    mean = np.asarray(glucose.means(place, action))[3]
    for k, (low, high) in enumerate([(40, 340), (0, 10)]):
        deviation = glucose.ERRORS[k]
        law = stats.truncnorm((low - mean[k]) / deviation, (high - mean[k]) / deviation, mean[k], deviation)
        assert stats.kstest(drawn[:, k], law.cdf).pvalue > FALSE_ALARM


def test_glucose_stacks_doses_and_depends_on_the_patient():
    level = glucose.means(jnp.array([150.0, 0.0]), 2)[:, 0]
    stacked = glucose.means(jnp.array([150.0, 4.0]), 2)[:, 0]
    assert (stacked < level).all()
    order = [list(glucose.PATIENTS).index(kind) for kind in ("sensitive", "typical", "resistant")]
    assert (np.diff(np.asarray(level)[order]) > 0).all()
    slow = list(glucose.PATIENTS).index("slow")
    assert glucose.means(jnp.array([150.0, 0.0]), 3)[:, 1].argmax() == slow  # most of its insulin is still to come


def test_glucose_is_worth_learning():
    """Wrong beliefs lose more than dosing at random, and the optimum uses all doses."""
    world, grid = make_world("glucose:nodes=10"), glucose.grid(10)
    for kind, belief in zip(glucose.PATIENTS, np.eye(4), strict=True):
        believed = blend_on_nodes(glucose.candidates(), belief, glucose.BENEFIT_WEIGHTS, grid)
        assert (float(world.policy_value(believed.optimal_policy)) > world.uniform_value) == (kind == "sensitive")
    assert set(np.unique(np.asarray(world.optimal_policy).argmax(axis=-1)[:-1])) == {0, 1, 2, 3}


def test_glucose_refuses_too_few_nodes():
    with pytest.raises(InvalidInput, match="at least 8"):
        make_world("glucose:nodes=7")


@pytest.mark.verify
def test_private_dosing_ends_nearer_to_optimal_than_to_uniform():
    """ε = 1, δ = 1e-5, the registered defaults on fewer nodes; the measured final gap is below 5%."""
    world = make_world("glucose:nodes=10")
    agent = make_agent("private-linopt-vi:epsilon=1,delta=1e-5,bonus_scale=0.03", world.model, 20_000)
    curves = simulate(agent, world, [0, 1])
    gap = world.optimal_value - world.uniform_value
    assert (curves.tail_regret / gap).max() < 0.5
    assert curves.tail_regret.mean() / gap < 0.15
