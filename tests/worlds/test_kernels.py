# SPDX-License-Identifier: Apache-2.0
"""Kernel features: how well they reproduce the kernel, bounds that hold, and a learner without candidate models."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gamma, kv

from reticent.agents import make_agent
from reticent.errors import InvalidInput
from reticent.simulation.simulate import simulate
from reticent.worlds import blend
from reticent.worlds.continuous import legendre
from reticent.worlds.kernels import (
    approximation,
    continuous_kernel_model,
    fit_theta,
    kernel_model,
    matern,
    nystrom,
    quadrature_fourier,
    random_fourier,
    squared_exponential,
)

POINTS = np.random.default_rng(0).uniform(size=(150, 2))
many = settings(max_examples=40, deadline=None, derandomize=True)
places = st.lists(st.floats(0, 1), min_size=2, max_size=2).map(np.array)


def bessel_matern(distance, lengthscale, smoothness):
    """The Matérn kernel by its definition with a modified Bessel function."""
    scaled = math.sqrt(2 * smoothness) * distance / lengthscale
    return 2 ** (1 - smoothness) / gamma(smoothness) * scaled**smoothness * kv(smoothness, scaled)


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_matern_formulas_are_the_bessel_ones(smoothness):
    kernel = matern(0.3, smoothness)
    for distance in (1e-3, 0.1, 0.7, 2.0):
        found = float(kernel(jnp.array([0.0, 0.0]), jnp.array([0.6, 0.8]) * distance))
        assert found == pytest.approx(bessel_matern(distance, 0.3, smoothness), rel=1e-6)


def test_quadrature_fourier_error_decays_faster_than_exponentially():
    kernel = squared_exponential(0.4)
    found = [approximation(quadrature_fourier(n, 2, 0.4), kernel, POINTS) for n in (2, 4, 6, 8, 10, 12)]
    assert [each.features for each in found] == [4, 16, 36, 64, 100, 144]
    logs = np.log([each.largest for each in found])
    assert found[-1].largest < 1e-6
    assert (np.diff(logs) < -1).all()
    assert (np.diff(np.diff(logs)) < 0).all()  # each step gains more than the one before
    assert all(each.mean < each.largest for each in found)


@pytest.mark.parametrize("nodes", [2, 3, 4, 5])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_halving_the_frequencies_loses_nothing(nodes, dimension):
    """All ± frequencies of the tensor Gauss–Hermite rule, one cosine each, give the same kernel."""
    features = quadrature_fourier(nodes, dimension, 0.7)
    assert features.size == nodes**dimension
    roots, weights = np.polynomial.hermite.hermgauss(nodes)
    z, y = np.random.default_rng(1).uniform(size=(2, dimension))
    whole = 0.0
    for index in itertools.product(range(nodes), repeat=dimension):
        frequency = math.sqrt(2) / 0.7 * roots[list(index)]
        whole += np.prod(weights[list(index)]) / math.pi ** (dimension / 2) * math.cos(frequency @ (z - y))
    assert float(features(jnp.asarray(z)) @ features(jnp.asarray(y))) == pytest.approx(whole, abs=1e-13)


def test_random_features_err_like_one_over_root_d():
    """Seeds are fixed; the mean over 4 seeds of the mean error at 16 times the features is a quarter, within a half."""
    for smoothness, kernel in ((None, squared_exponential(0.4)), (1.5, matern(0.4, 1.5)), (2.5, matern(0.4, 2.5))):
        few, lots = (
            np.mean(
                [approximation(random_fourier(n, 2, 0.4, seed, smoothness), kernel, POINTS).mean for seed in range(4)]
            )
            for n in (100, 1600)
        )
        assert 0.125 < lots / few < 0.5
        assert lots < 0.03


@pytest.mark.verify
@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_nystrom_features_converge_for_matern(smoothness):
    kernel = matern(0.4, smoothness)
    public = np.random.default_rng(2).uniform(size=(300, 2))
    found = [approximation(nystrom(kernel, public, size), kernel, POINTS).largest for size in (10, 40, 160)]
    assert found[2] < found[1] < found[0]
    assert found[2] < {0.5: 0.3, 1.5: 0.05, 2.5: 0.02}[smoothness]
    assert approximation(nystrom(kernel, public[:40], 40), kernel, public[:40]).largest < 1e-8  # exact on landmarks


def test_nystrom_takes_no_landmark_twice():
    twice = np.concatenate([POINTS[:20], POINTS[:20]])
    assert nystrom(matern(0.4), twice, 40).size == 20


@many
@given(places, st.sampled_from(["quadrature", "random", "nystrom"]))
def test_features_are_at_most_unit_vectors(place, kind):
    made = MAPS[kind]
    norm = float(jnp.linalg.norm(made(jnp.asarray(place))))
    assert norm <= 1 + 1e-9
    if kind != "nystrom":
        assert norm == pytest.approx(1)


MAPS = {
    "quadrature": quadrature_fourier(5, 2, 0.4),
    "random": random_fourier(30, 2, 0.4, 0, 1.5),
    "nystrom": nystrom(matern(0.4, 1.5), POINTS, 30),
}


# -- models -----------------------------------------------------------------------------------------------------------

STATES = np.linspace(0, 1, 13)[:, None]


def ring_rewards(actions=2):
    return np.broadcast_to(np.exp(-(((STATES[:, 0] - 0.8) / 0.2) ** 2))[None, :, None], (1, 13, actions))


@pytest.mark.parametrize("kind", list(MAPS))
def test_value_features_keep_the_declared_bound(kind):
    model = kernel_model(MAPS[kind], STATES, ring_rewards(), 3)
    assert model.d1 == 2 * MAPS[kind].size  # every action has its own copy
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(2000, 13))
    signs = np.concatenate([signs, np.ones((1, 13))])
    lengths = np.linalg.norm(np.asarray(model.transition_features) @ signs.T, axis=0)
    assert lengths.max() <= model.transition_bound * (1 + 1e-12)
    assert lengths.max() > 0.5 * model.transition_bound  # and it is not idle
    assert model.transition_bound <= 13


def test_separate_actions_do_not_share_features():
    model = kernel_model(MAPS["quadrature"], STATES, ring_rewards(), 3)
    psi = np.asarray(model.transition_features)
    size = MAPS["quadrature"].size
    assert not psi[size:, :, 0].any()
    assert not psi[:size, :, 1].any()
    np.testing.assert_array_equal(psi[:size, :, 0], psi[size:, :, 1])
    wanted = MAPS["quadrature"](jnp.array([STATES[3, 0], STATES[7, 0]]))
    np.testing.assert_allclose(psi[:size, 3, 0, 7], wanted, atol=1e-14)


def test_actions_may_be_points():
    model = kernel_model(quadrature_fourier(3, 3, 0.6), STATES, ring_rewards(), 3, action_points=[[0.0], [1.0]])
    assert model.d1 == 27
    wanted = quadrature_fourier(3, 3, 0.6)(jnp.array([STATES[3, 0], 1.0, STATES[7, 0]]))
    np.testing.assert_allclose(model.transition_features[:, 3, 1, 7], wanted, atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": quadrature_fourier(3, 3, 0.6)}, "dimension is 3, but must be 2"),
        ({"action_points": [[0.0]]}, "action_points"),
    ],
)
def test_maps_that_do_not_fit_are_refused(arguments, message):
    given_ = {"features": MAPS["quadrature"]} | arguments
    with pytest.raises(InvalidInput, match=message):
        kernel_model(states=STATES, reward_features=ring_rewards(), horizon=3, **given_)


@pytest.mark.parametrize("make", [lambda: squared_exponential(0.0), lambda: quadrature_fourier(3, 1, math.nan)])
def test_bad_lengthscales_are_refused(make):
    with pytest.raises(InvalidInput, match="lengthscale"):
        make()


def test_only_three_smoothnesses():
    with pytest.raises(InvalidInput, match="smoothness is 2"):
        matern(0.4, 2.0)


@pytest.mark.parametrize("kind", ["quadrature", "nystrom"])
def test_on_a_box_the_bound_holds_at_real_states(kind):
    grid = legendre(12, -2.0, 3.0)
    model = continuous_kernel_model(MAPS[kind], lambda s, a: jnp.ones(1), grid, 2, 3, initial=lambda s: jnp.ones(()))
    assert model.transition_bound <= 5 + 1e-9  # the volume of the box
    assert not model.sums_to_one
    on_nodes = kernel_model(
        MAPS[kind], (grid.nodes + 2) / 5, np.ones((1, 12, 2)), 3, weights=grid.weights, initial=np.full(12, 1 / 12)
    )
    np.testing.assert_allclose(model.transition_features, on_nodes.transition_features, atol=1e-12)
    rng = np.random.default_rng(4)
    signs = jnp.asarray(rng.choice([-1.0, 1.0], size=(12, 300)))
    rows = jax.vmap(model.rows_at)(jnp.asarray(rng.uniform(-2, 3, size=(40, 1)))).transition
    longest = float(jnp.linalg.norm(rows @ signs, axis=1).max())
    # Fourier features: the same bound everywhere. Nyström: the largest that was probed, which a privatizer enforces.
    assert longest <= model.transition_bound * (1 + 1e-12 if kind == "quadrature" else 1.001)


# -- a law that smoothness describes ----------------------------------------------------------------------------------


def drifting(actions=2):
    """A walk on the grid that drifts to one side by action, ``(S, A, S)``; no candidate models are given away."""
    target = STATES[:, 0][:, None] + np.array([-0.15, 0.15])[:actions]
    law = np.exp(-(((STATES[:, 0] - target[..., None]) / 0.2) ** 2) / 2)
    return law / law.sum(axis=-1, keepdims=True)


def test_the_fit_improves_with_features():
    fits = [
        fit_theta(kernel_model(quadrature_fourier(n, 2, 0.35), STATES, ring_rewards(), 3), drifting())
        for n in (3, 5, 7)
    ]
    largest = [fit.largest_error for fit in fits]
    assert largest[0] > largest[1] > largest[2]
    assert largest[2] < 0.2
    assert all(fit.mean_error <= fit.largest_error and fit.norm > 0 for fit in fits)


def test_the_fit_wants_one_row_per_pair():
    with pytest.raises(InvalidInput, match=r"transitions.shape"):
        fit_theta(kernel_model(MAPS["quadrature"], STATES, ring_rewards(), 3), drifting(1))


@pytest.mark.verify
def test_a_learner_with_kernel_features_needs_no_candidates():
    """UCRL-VTR over 2 × 16 Fourier features in a world that is none of them: within a tenth of the gap after 2000 users."""
    world = blend(drifting()[None], ring_rewards(), [1.0], [1.0], 4, initial=2)
    features = kernel_model(
        quadrature_fourier(4, 2, 0.5), STATES, np.asarray(world.model.reward_features), 4, initial=2
    )
    spec = "ucrl-vtr:replan=epoch,bonus_scale=0.01,pool=true,regularization=0.01,span=step"
    curves = simulate(make_agent(spec, features, 2000), world, [0, 1])
    gap = world.optimal_value - world.uniform_value
    assert (curves.tail_regret / gap).max() < 0.1
