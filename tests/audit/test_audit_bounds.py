# SPDX-License-Identifier: Apache-2.0
"""Lower bounds: exact where an exact value is known, valid as often as they say, and sharp enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, nct

from reticent.audit.bounds import LARGEST_MU, clopper_pearson_limit, epsilon_of_rates, lower_bounds, noncentral_limit
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of


@pytest.mark.parametrize(("errors", "trials"), [(0, 50), (3, 50), (49, 50), (120, 1000)])
def test_clopper_pearson_is_exact(errors: int, trials: int) -> None:
    limit = clopper_pearson_limit(errors, trials, 0.99)
    assert binom.cdf(errors, trials, limit) == pytest.approx(0.01)


def test_clopper_pearson_of_nothing_but_errors() -> None:
    assert clopper_pearson_limit(7, 7, 0.95) == 1.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_rates_of_randomized_response_give_its_epsilon_back(epsilon: float) -> None:
    lie = 1 / (1 + math.exp(epsilon))
    assert epsilon_of_rates(lie, lie, 0.0) == pytest.approx(epsilon)
    assert epsilon_of_rates(0.5, 0.5, 0.0) == 0.0
    assert epsilon_of_rates(0.5, 0.49, 0.02) == 0.0  # δ absorbs it


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("size", [30, 200])
def test_the_noncentral_limit_is_that_of_the_noncentral_t(mu: float, size: int) -> None:
    limit = noncentral_limit(mu, size, size, 0.99)
    scale = math.sqrt(size / 2)
    # At the true limit, so large a statistic has probability 1%.
    assert nct.sf(mu * scale, 2 * size - 2, limit * scale) == pytest.approx(0.01, rel=0.1 if size < 100 else 0.03)


@pytest.mark.verify
def test_bounds_are_valid_as_often_as_they_say() -> None:
    """Of 400 audits of exact Gaussian scores, at 95% about 20 may exceed; more than 45 has probability below 1e-6."""
    draw = np.random.default_rng(0)
    mu, exceeded = mu_of(1.0, 1e-5), {"gdp-fit": 0, "gdp-threshold": 0, "clopper-pearson": 0}
    for _ in range(400):
        found = lower_bounds(draw.normal(size=2000), mu + draw.normal(size=2000), 1e-5, 0.95)
        for name, bound in found.bounds.items():
            exceeded[name] += bound.epsilon > 1.0
    assert 4 <= exceeded["gdp-fit"] <= 45  # not only valid: exact
    assert exceeded["gdp-threshold"] <= 45
    assert exceeded["clopper-pearson"] == 0


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_fit_is_sharp_and_the_others_are_in_order(epsilon: float) -> None:
    draw = np.random.default_rng(1)
    mu = mu_of(epsilon, 1e-5)
    found = lower_bounds(draw.normal(size=100_000), mu + draw.normal(size=100_000), 1e-5, 0.999)
    assert found.best == "gdp-fit"
    assert 0.9 * epsilon < found.bounds["gdp-fit"].epsilon <= epsilon
    assert 0.7 * epsilon < found.bounds["gdp-threshold"].epsilon < found.bounds["gdp-fit"].epsilon
    assert found.bounds["clopper-pearson"].epsilon < found.bounds["gdp-threshold"].epsilon


def test_a_tenth_of_the_noise_missing_shows_in_the_fit_only() -> None:
    draw = np.random.default_rng(2)
    mu = mu_of(1.0, 1e-5) / 0.9
    found = lower_bounds(draw.normal(size=100_000), mu + draw.normal(size=100_000), 1e-5, 0.999)
    assert found.bounds["gdp-fit"].epsilon > 1.0
    assert found.bounds["clopper-pearson"].epsilon < 1.0


def test_scores_that_are_not_normal_void_the_fit() -> None:
    draw = np.random.default_rng(3)
    heavy = draw.standard_t(2, size=(2, 20_000))
    assert lower_bounds(heavy[0], heavy[1] + 0.5, 1e-5, 0.99).best == "gdp-threshold"
    uneven = draw.normal(size=(2, 20_000))
    assert lower_bounds(uneven[0], 1.2 * uneven[1], 1e-5, 0.99).best == "gdp-threshold"


def test_perfect_separation_is_a_number() -> None:
    found = lower_bounds(np.zeros(1000), np.ones(1000), 1e-5, 0.99)
    assert found.mu_estimate == LARGEST_MU
    assert np.isfinite(found.lower_bound.epsilon)
    assert found.lower_bound.epsilon > 5
    assert epsilon_of(LARGEST_MU, 1e-5) < math.inf


def test_too_few_scores_are_named() -> None:
    with pytest.raises(InvalidInput, match="trials"):
        lower_bounds(np.zeros(10), np.zeros(10), 1e-5, 0.99)
    with pytest.raises(InvalidInput, match="finite"):
        lower_bounds(np.full(200, np.nan), np.zeros(200), 1e-5, 0.99)
