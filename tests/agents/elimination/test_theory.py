# SPDX-License-Identifier: Apache-2.0
"""The constants of the theorem: how the bound grows, and that the count of catches holds and needs its threshold."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from reticent.agents.elimination.lattice import covering
from reticent.agents.elimination.sweeps import sweep_rounds
from reticent.agents.elimination.theory import (
    NO_NOISE,
    Constants,
    Noise,
    catches,
    confidence_level,
    first_size,
    regret_bound,
    threshold,
    width,
)
from reticent.errors import InvalidInput

BLEND = Constants.blend(5, 4, 4, pooled=True)


def bound(users: int, noise: Noise = NO_NOISE, constants: Constants = BLEND, bias: float = 0.0):
    return regret_bound(constants, noise, users, first=1, failure=0.05, bias=bias)


def test_privacy_is_additive_and_grows_with_logarithms_only() -> None:
    private, larger = bound(10**8, Noise(7.5)), bound(10**10, Noise(7.5))
    assert larger.terms["privacy"] < 3 * private.terms["privacy"]
    assert larger.terms["sampling"] > 9 * private.terms["sampling"]
    assert bound(10**8, Noise(75.0)).terms["privacy"] == pytest.approx(10 * private.terms["privacy"])
    assert bound(10**8).terms["sampling"] == private.terms["sampling"]
    # Local: noise multiplies the square root.
    local = bound(10**8, Noise(7.5, on_reports=True))
    assert local.terms["privacy"] == 0
    ratio = math.sqrt(1 + (7.5 * BLEND.noise_factor) ** 2 / BLEND.variance)
    assert local.terms["sampling"] == pytest.approx(ratio * private.terms["sampling"])


def test_the_rates_of_the_paper_setting() -> None:
    """d√(H⁴T) and d^{5/2}H^{7/2}/ε up to logarithms: exponents from doubling, a tenth for the logarithms each way."""

    def exponent(one: Constants, two: Constants, term: str) -> float:
        return math.log2(bound(10**12, Noise(7.5), two).terms[term] / bound(10**12, Noise(7.5), one).terms[term])

    steps = Constants.paper(32, 64, 64), Constants.paper(64, 64, 64)
    # Per user count K: √(H⁴·KH).
    assert exponent(*steps, "sampling") == pytest.approx(2.5, abs=0.25)
    assert exponent(*steps, "privacy") == pytest.approx(3.5, abs=0.25)
    wide = Constants.paper(32, 64, 64), Constants.paper(32, 128, 128)
    assert exponent(*wide, "sampling") == pytest.approx(1.0, abs=0.25)
    assert exponent(*wide, "privacy") == pytest.approx(2.5, abs=0.25)


def test_m_is_the_least_that_the_lemma_allows() -> None:
    level = confidence_level(10**5, 0.05)
    most, root = catches(BLEND, 10**5, level), math.sqrt(2 * level)
    reach = math.sqrt(10**5 * BLEND.ratio) / root + (math.sqrt(BLEND.dimension) + root) / (BLEND.diameter * root)

    def allowed(count: int) -> bool:
        inner = 1 + count * (reach * BLEND.diameter) ** 2 / (4 * BLEND.dimension)
        return count * math.log(2) > BLEND.dimension * math.log(inner)

    assert allowed(most)
    assert not allowed(most - 1)


def longest_sequence(dimension: int, longest: float, least: float, draw: np.random.Generator) -> int:
    """A greedy adversary of Lemma 3 with W = 2: w_i in the unit ball and in all strips, z_i along w_i as long as may be."""
    strips = np.zeros((0, dimension))
    count = 0
    while True:
        w = draw.normal(size=(4000, dimension))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        # Shrunk until every strip |⟨z, w⟩| ≤ 2 holds.
        if len(strips):
            w *= np.minimum(1, 2 / np.abs(w @ strips.T).max(axis=1).clip(1e-12))[:, None]
        best = w[np.linalg.norm(w, axis=1).argmax()]
        if longest * np.linalg.norm(best) <= least:
            return count
        strips = np.vstack([strips, longest * best / np.linalg.norm(best)])
        count += 1


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_an_adversary_does_not_exceed_the_count(dimension: int) -> None:
    draw, longest = np.random.default_rng(dimension), 1e4
    most = 1
    while most * math.log(2) <= dimension * math.log1p(most * (2 * longest) ** 2 / (4 * dimension)):
        most += 1
    found = longest_sequence(dimension, longest, 2 * math.sqrt(most), draw)
    assert dimension <= found < most


def test_a_constant_threshold_lets_exponentially_many_through() -> None:
    """The counterexample of the page: 2/γ > κ − 1 on the diagonal and at most 2 off it, for far more vectors than m."""
    draw, dimension, kappa = np.random.default_rng(0), 200, 4.9
    units = draw.choice([-1.0, 1.0], size=(3000, dimension)) / math.sqrt(dimension)
    gram = np.abs(units @ units.T)
    np.fill_diagonal(gram, 0)
    gamma = gram.max()
    assert 2 / gamma > kappa - 1
    z = w = math.sqrt(2 / gamma) * units
    products = z @ w.T
    assert np.diag(products).min() > kappa - 1
    np.fill_diagonal(products, 0)
    assert np.abs(products).max() <= 2 + 1e-9
    longest, diameter = math.sqrt(2 / gamma), 2 * math.sqrt(2 / gamma)
    most = 1
    while most * math.log(2) <= dimension * math.log1p(most * (longest * diameter) ** 2 / (4 * dimension)):
        most += 1
    assert len(units) > 1.5 * most


def test_first_rounds_are_as_small_as_a_test_can_use() -> None:
    level = confidence_level(10**9, 0.05)
    most = catches(BLEND, 10**9, level)
    for noise in (NO_NOISE, Noise(7.5), Noise(7.5, on_reports=True)):
        users = first_size(BLEND, noise, 10**9, level, most)
        assert threshold(most) * width(BLEND, noise, users, level) <= 5
        assert threshold(most) * width(BLEND, noise, users / 2, level) > 5
    assert first_size(BLEND, NO_NOISE, 77, level, most) == 77
    assert first_size(BLEND, NO_NOISE, 10**6, level, most, bias=5.0) == 10**6


def test_a_biased_search_pays_for_every_user() -> None:
    plain, biased = bound(10**6), bound(10**6, bias=0.01)
    assert biased.terms["bias"] / 10**6 >= 12 * 0.01
    assert dataclasses.replace(biased, terms={**biased.terms, "bias": 0.0}).value == plain.value


@pytest.mark.parametrize("dimension", [2, 3, 4, 5])
def test_rounding_to_the_lattice_stays_within_its_covering(dimension: int) -> None:
    draw, spacing = np.random.default_rng(dimension), 7
    points = np.vstack([draw.dirichlet(np.ones(dimension), 500), np.full(dimension, 1 / dimension)])
    scaled = spacing * points
    rounded = np.floor(scaled)
    for own, rest in zip(rounded, scaled - rounded, strict=True):
        own[np.argsort(-rest)[: round(rest.sum())]] += 1
    assert (rounded.sum(axis=1) == spacing).all()
    apart = np.abs(points - rounded / spacing).sum(axis=1)
    assert apart.max() <= 2 * covering(dimension) / spacing + 1e-12


def test_sweeps_are_ladders() -> None:
    rounds = sweep_rounds(1000, 3, 4)
    assert sum(rounds.sizes) == 1000
    ladders = np.split(np.array(rounds.sizes), 1 + np.flatnonzero(rounds.ends)[:-1])
    for ladder in ladders[:-1]:
        assert ladder.tolist() == [3 * 2**step for step in range(len(ladder))]
    assert [len(ladder) for ladder in ladders[:9]] == [1] * 4 + [2] * 4 + [3]
    with pytest.raises(InvalidInput, match="first"):
        sweep_rounds(10, 0, 1)
    with pytest.raises(InvalidInput, match="failure"):
        confidence_level(10, 0.0)
