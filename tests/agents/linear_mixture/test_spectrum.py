# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the noise's operator norm: against closed forms, simulation, and the proven bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from reticent.agents.linear_mixture.spectrum import (
    chi_quantile,
    eigenvalue_density,
    eigenvalues_beyond,
    lemma_chi,
    lemma_operator_norm,
    operator_norm_bound,
    operator_norm_quantile,
)
from reticent.errors import InvalidInput

PROBABILITIES = [10.0**-k for k in range(1, 13)]


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 8, 17, 32, 63, 64, 128, 255, 256])
def test_density_integrates_to_the_dimension(dimension: int) -> None:
    assert 2 * eigenvalues_beyond(dimension, 0.0) == pytest.approx(dimension, rel=1e-11)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 7, 20])
def test_density_has_the_right_second_and_fourth_moment(dimension: int) -> None:
    # E tr M² = d + d(d−1)/2 and E tr M⁴ = (2d³ + 5d² + 5d)/4, from the entries' variances by Wick's formula.
    x = np.linspace(-20, 20, 20_001)
    density, step = eigenvalue_density(dimension, x), x[1] - x[0]
    assert (x**2 * density).sum() * step == pytest.approx(dimension * (dimension + 1) / 2, rel=1e-10)
    fourth = (2 * dimension**3 + 5 * dimension**2 + 5 * dimension) / 4
    assert (x**4 * density).sum() * step == pytest.approx(fourth, rel=1e-10)


def test_dimension_one_is_the_normal_distribution() -> None:
    for p in PROBABILITIES:
        assert operator_norm_quantile(1, p) == pytest.approx(norm.isf(p / 2), rel=1e-10)


def test_dimension_two_in_closed_form() -> None:
    # Eigenvalues are m ± r with m ~ N(0, 1/2) and r² exponential of mean 1; so one side has the tail below.
    x = np.linspace(2.0, 9.0, 29)
    for point in x:
        m = np.linspace(-9, 9, 200_001)
        radius = np.maximum(point - m, 0.0)
        weight = np.exp(-(m**2)) / math.sqrt(math.pi) * (m[1] - m[0])
        largest = (weight * np.exp(-(radius**2))).sum()
        smallest = (weight * np.where(m > point, 1 - np.exp(-((m - point) ** 2)), 0.0)).sum()
        assert eigenvalues_beyond(2, float(point)) == pytest.approx(largest + smallest, rel=1e-7)


@pytest.mark.verify
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 8])
def test_simulated_exceedances(dimension: int) -> None:
    # Fails on correct code if a binomial count leaves an interval of coverage 1 − 2e-7: 10 such checks, below 2e-6.
    trials, rng = 250_000, np.random.default_rng(dimension)
    raw = rng.normal(size=(trials, dimension, dimension))
    matrix = (raw + raw.transpose(0, 2, 1)) / 2
    norms = np.abs(np.linalg.eigvalsh(matrix)).max(axis=1)
    for p in (1e-2, 1e-3):
        count = int((norms > operator_norm_quantile(dimension, p)).sum())
        assert count <= binom.isf(1e-7, trials, p)
        assert count >= binom.ppf(1e-7, trials, 0.98 * p)


@pytest.mark.parametrize(
    "dimension", [1, 2, 3, 4, 5, 8, 16, 31, 32, 64, pytest.param(255, marks=pytest.mark.verify), 256]
)
def test_quantiles_are_ordered_and_below_the_bound(dimension: int) -> None:
    quantiles = [operator_norm_quantile(dimension, p) for p in PROBABILITIES]
    assert np.all(np.diff(quantiles) > 0)
    for p, x in zip(PROBABILITIES, quantiles, strict=True):
        assert x < operator_norm_bound(dimension, p)
        assert p * (1 - 1e-9) <= 2 * eigenvalues_beyond(dimension, x) <= p
        # the lemma speaks of the larger, unpacked noise; measured here so that the gain is never a loss
        assert x < lemma_operator_norm(dimension, 1.0, p)


def test_quantile_grows_with_the_dimension() -> None:
    quantiles = [operator_norm_quantile(d, 1e-9) for d in range(1, 65)]
    assert np.all(np.diff(quantiles) > 0)


def test_large_dimensions_use_the_bound() -> None:
    assert operator_norm_quantile(257, 1e-6) == operator_norm_bound(257, 1e-6)
    assert operator_norm_quantile(256, 1e-6) < operator_norm_quantile(257, 1e-6)


def test_paper_lemmas() -> None:
    # Σ_{p,1}/(σ√m) with p = α/(4KH), as the paper writes it.
    alpha, episodes, horizon, d = 0.05, 10_000, 10, 4
    written = 4 * math.sqrt(d) + math.sqrt(8 * math.log(8 * episodes * horizon / alpha))
    assert lemma_operator_norm(d, 1.0, alpha / (4 * episodes * horizon)) == pytest.approx(written, rel=1e-14)
    for dimension in (1, 4, 64):
        for p in PROBABILITIES:
            assert chi_quantile(dimension, p) < lemma_chi(dimension, p)
    assert chi_quantile(2, 1e-6) == pytest.approx(math.sqrt(2 * math.log(1e6)), rel=1e-12)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="dimension"):
        operator_norm_quantile(0, 0.1)
    with pytest.raises(InvalidInput, match="probability"):
        chi_quantile(3, 0.0)
    with pytest.raises(InvalidInput, match="sigma"):
        lemma_operator_norm(3, -1.0, 0.1)
