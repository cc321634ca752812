# SPDX-License-Identifier: Apache-2.0
"""Quadrature rules do what their names promise: exact degrees, nested nodes, fewer nodes on sparse grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds.continuous import Grid, clenshaw_curtis, hermite, legendre, sparse, tensor, trapezoid
from reticent.worlds.continuous.quadrature import nested_size

many = settings(max_examples=60, deadline=None, derandomize=True)
coefficients = st.lists(st.floats(-1, 1), min_size=1, max_size=24)
intervals = st.tuples(st.floats(-3, 3), st.floats(0.1, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def integral(polynomial: np.polynomial.Polynomial, low: float, high: float) -> float:
    primitive = polynomial.integ()
    return float(primitive(high) - primitive(low))


def on(interval, values):
    """A polynomial with these coefficients in the interval's own coordinate, so that its values stay near 1."""
    return np.polynomial.Polynomial(values, domain=interval)


@many
@given(coefficients, intervals)
def test_gauss_legendre_is_exact_for_degree_2n_minus_1(values, interval):
    size = math.ceil(len(values) / 2)  # degree len - 1 is at most 2n - 1
    rule, polynomial = legendre(size, *interval), on(interval, values)
    assert rule.integrate(polynomial(rule.nodes[:, 0])) == pytest.approx(integral(polynomial, *interval), abs=1e-11)


@many
@given(coefficients, intervals)
def test_clenshaw_curtis_is_exact_for_degree_n_minus_1(values, interval):
    rule, polynomial = clenshaw_curtis(len(values), *interval), on(interval, values)
    assert rule.integrate(polynomial(rule.nodes[:, 0])) == pytest.approx(integral(polynomial, *interval), abs=1e-11)


@pytest.mark.parametrize(("rule", "power"), [(legendre, 10), (clenshaw_curtis, 6), (trapezoid, 2)])
def test_exactness_ends_there(rule, power):
    """One degree more is not integrated exactly: the exactness tests could have failed."""
    made = rule(5)
    assert abs(made.integrate(made.nodes[:, 0] ** power) - 2 / (power + 1)) > 1e-4


@many
@given(st.integers(1, 12), st.floats(-2, 2), st.floats(0.2, 3), st.data())
def test_gauss_hermite_gives_gaussian_moments(size, centre, scale, data):
    degree = data.draw(st.integers(0, 2 * size - 1))
    rule = hermite(size, centre, scale)
    z = (rule.nodes[:, 0] - centre) / scale
    found = rule.integrate(z**degree * np.exp(-(z**2) / 2) / (scale * math.sqrt(2 * math.pi)))
    moment = 0.0 if degree % 2 else float(math.prod(range(degree - 1, 0, -2)))
    size_of_terms = float(math.prod(range(degree + degree % 2 - 1, 0, -2)))
    assert found == pytest.approx(moment, abs=1e-10 * max(1.0, size_of_terms))


@pytest.mark.parametrize("rule", [legendre, clenshaw_curtis, trapezoid])
@pytest.mark.parametrize("size", [2, 5, 16, 33])
def test_rules_have_positive_weights_that_sum_to_the_length(rule, size):
    made = rule(size, -1.5, 2.0)
    assert made.positive
    assert made.size == size
    assert made.weights.sum() == pytest.approx(3.5)
    assert (np.diff(made.nodes[:, 0]) > 0).all()
    assert -1.5 <= made.nodes.min() <= made.nodes.max() <= 2.0


def test_legendre_converges_faster_than_the_trapezoid():
    def bell(x):
        return np.exp(-(((x - 0.3) / 0.4) ** 2))

    exact = legendre(60, 0.0, 1.0)
    reference = exact.integrate(bell(exact.nodes[:, 0]))
    errors = {
        rule: abs(made.integrate(bell(made.nodes[:, 0])) - reference)
        for rule in (legendre, trapezoid)
        for made in [rule(12, 0.0, 1.0)]
    }
    assert errors[legendre] < 1e-10
    assert errors[trapezoid] > 1e-4


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_tensor_grid_is_exact_in_each_coordinate(dimension):
    sizes = (3, 4, 2)[:dimension]
    grid = tensor([legendre(n, 0.0, 1.0) for n in sizes])
    assert grid.size == math.prod(sizes)
    for powers in itertools.product(*(range(2 * n) for n in sizes)):
        found = grid.integrate((grid.nodes ** np.array(powers)).prod(axis=1))
        assert found == pytest.approx(math.prod(1 / (p + 1) for p in powers), abs=1e-12)
    np.testing.assert_array_equal(grid.nodes[:2, :-1], grid.nodes[:2, :-1][::-1])  # the last coordinate runs fastest


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_clenshaw_curtis_levels_are_nested(level):
    small, large = (clenshaw_curtis(nested_size(k)).nodes[:, 0] for k in (level, level + 1))
    assert np.abs(small[:, None] - large).min(axis=1).max() < 1e-14


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_sparse_grid_is_exact_for_total_degree(dimension, level):
    grid = sparse(level, [0.0] * dimension, [1.0] * dimension)
    assert grid.weights.sum() == pytest.approx(1.0)
    for powers in itertools.product(range(2 * level + 2), repeat=dimension):
        if sum(powers) <= 2 * level + 1:
            found = grid.integrate((grid.nodes ** np.array(powers)).prod(axis=1))
            assert found == pytest.approx(math.prod(1 / (p + 1) for p in powers), abs=1e-12)


def test_a_sparse_grid_is_sparse_and_signed():
    # At level 1 in three dimensions the midpoint's weights cancel, and it is left out.
    assert [sparse(k, [0.0] * 3, [1.0] * 3).size for k in range(5)] == [1, 6, 25, 69, 177]
    assert not sparse(3, [0.0, 0.0], [1.0, 1.0]).positive
    assert sparse(4, [0.0] * 3, [1.0] * 3).size < nested_size(4) ** 3 / 20


def test_probes_reach_the_corners():
    grid = tensor([legendre(2, -1.0, 1.0), legendre(2, 0.0, 5.0)])
    probes = grid.probes(3)
    assert probes.shape == (9, 2)
    for corner in itertools.product((-1.0, 1.0), (0.0, 5.0)):
        assert (probes == corner).all(axis=1).any()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: legendre(0), "size"),
        (lambda: trapezoid(1), "size"),
        (lambda: legendre(3, 1.0, 1.0), "low, high"),
        (lambda: legendre(3, 0.0, math.nan), "low, high"),
        (lambda: hermite(3, 0.0, 0.0), "scale"),
        (lambda: tensor([]), "rules"),
        (lambda: sparse(-1, [0.0], [1.0]), "level"),
    ],
)
def test_bad_input_is_named(make, field):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert caught.value.field == field


def test_a_grid_is_what_it_was_given():
    grid = Grid(np.zeros((3, 2)), np.array([1.0, -1.0, 2.0]), np.zeros(2), np.ones(2))
    assert (grid.size, grid.dimension, grid.positive) == (3, 2, False)
    assert grid.integrate(np.array([[1.0, 2.0, 3.0]])).tolist() == [5.0]
