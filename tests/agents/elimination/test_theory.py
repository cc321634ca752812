# SPDX-License-Identifier: Apache-2.0
"""The constants of the theorem: how the bound grows, and that the count of catches holds and needs its threshold."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from reticent.agents.elimination.lattice import covering
from reticent.agents.elimination.options import constants_of
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.sweeps import sweep_rounds
from reticent.agents.elimination.theory import (
    NO_NOISE,
    Constants,
    Noise,
    catches,
    confidence_level,
    first_size,
    least_count,
    regret_bound,
    threshold,
    width,
)
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.runtime import double_precision
from reticent.worlds import make_world

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


def test_the_stated_worth_of_the_theorem() -> None:
    """The figures of docs/theory/elimination.md: the bound over KH, and the term of privacy over that of sampling."""
    noise = Noise(2 / mu_of(1.0, 1e-5))
    for users, worth, price in ((10**6, 6.5, 0.60), (10**8, 0.63, 0.09), (10**10, 0.076, 0.013)):
        found = bound(users, noise, Constants.blend(3, 2, 2, pooled=True))
        assert found.value / (3 * users) == pytest.approx(worth, rel=0.02)
        assert found.terms["privacy"] / found.terms["sampling"] == pytest.approx(price, rel=0.04)
    for users, worth in ((10**10, 2.7), (10**11, 0.73)):
        assert bound(users, noise, Constants.paper(5, 4, 4)).value / (5 * users) == pytest.approx(worth, rel=0.02)


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

    assert allowed(most, BLEND.dimension, reach * BLEND.diameter)
    assert not allowed(most - 1, BLEND.dimension, reach * BLEND.diameter)


def test_the_product_of_lemma_3_is_a_central_binomial_coefficient() -> None:
    """∏(1 + m/i) over i ≤ m is C(2m, m), which is at least 2^m: (3) is met by a smaller m than with 2^m."""
    for most in (1, 2, 7, 40):
        product = math.prod(1 + most / i for i in range(1, most + 1))
        assert product == pytest.approx(math.comb(2 * most, most))
        assert product >= 2**most


def allowed(count: int, dimension: int, length: float, slack: float = 1.0) -> bool:
    """(3) of Lemma 3, length = ZW."""
    inner = 1 + count * length**2 / ((1 + slack) ** 2 * dimension)
    return math.log(math.comb(2 * count, count)) > dimension * math.log(inner)


def longest_sequence(
    dimension: int, longest: float, least: float, draw: np.random.Generator, slack: float = 1.0
) -> int:
    """A greedy adversary of Lemma 3 with W = 2: w_i in the unit ball and in all strips, z_i along w_i as long as may be."""
    strips = np.zeros((0, dimension))
    count = 0
    while True:
        w = draw.normal(size=(4000, dimension))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        # Shrunk until every strip |⟨z, w⟩| ≤ 1 + χ holds.
        if len(strips):
            w *= np.minimum(1, (1 + slack) / np.abs(w @ strips.T).max(axis=1).clip(1e-12))[:, None]
        best = w[np.linalg.norm(w, axis=1).argmax()]
        if longest * np.linalg.norm(best) <= least:
            return count
        strips = np.vstack([strips, longest * best / np.linalg.norm(best)])
        count += 1


@pytest.mark.parametrize("slack", [1.0, 1.5])
@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_an_adversary_does_not_exceed_the_count(dimension: int, slack: float) -> None:
    """Lemma 3, also for an oracle that meets earlier catches only up to χ of their widths."""
    draw, longest = np.random.default_rng(dimension), 1e4
    most = least_count(dimension, 2 * longest / (1 + slack))
    assert allowed(most, dimension, 2 * longest, slack)
    assert not allowed(most - 1, dimension, 2 * longest, slack)
    found = longest_sequence(dimension, longest, threshold(most, slack) - 1, draw, slack)
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
    assert len(units) > 1.5 * least_count(dimension, longest * diameter / 2)


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


@pytest.mark.parametrize("scale", [1.0, 0.25])
@double_precision
def test_constants_do_not_depend_on_how_rewards_are_scaled(scale: float) -> None:
    """Corollary 2: W ≤ 2 and ϖ = O(√d·H²), whatever norm a model's reward features have."""
    for d in (2, 8, 32):
        world = make_world(f"random-blend:states=5,actions=3,horizon=5,d={d}").model
        model = dataclasses.replace(
            world, reward_features=scale * world.reward_features, reward_total=world.reward_total / scale
        )
        parameters = Parameters.of(model)
        constants, worst = constants_of(model, parameters), Constants.blend(5, d, d, pooled=True)
        assert parameters.diameter == constants.diameter == 2
        assert constants.noise_factor <= worst.noise_factor * (1 + 1e-9)


def losses_of_schedule(most: int, first: int, horizon: int, loss_of, users: int, wanted, draw) -> float:
    """The proof's losses of a run whose catches an adversary chooses: at most m − 1, anywhere; users end anywhere.

    A model's loss is one number, that of the last test that it passed (``loss_of`` its size), or H before any.
    """
    total, left, epoch, caught, fallback = 0.0, users, 0, 0, float(horizon)
    while left > 0:
        for _ in range(most):
            if left == 0:
                return total
            at = int(draw.integers(0, epoch + 1)) if caught < most - 1 and wanted(epoch, draw) else epoch + 1
            sizes = [first * 2**step for step in range(epoch + 1)]
            served = [min(size, max(left - sum(sizes[:step]), 0)) for step, size in enumerate(sizes)]
            passed = sum(one == size for one, size in zip(served[:at], sizes[:at], strict=True))
            own = loss_of(sizes[passed - 1]) if passed else float(horizon)
            total += own * sum(served[: at + 1]) + fallback * sum(served[at + 1 :])
            if at <= epoch:
                caught += 1
            elif passed == epoch + 1:
                fallback = own
            left -= sum(served)
        epoch += 1
    return total


def test_no_schedule_of_catches_exceeds_the_theorem() -> None:
    """(4) against adversaries: any m, n₀, noise and bias, catches where they like, users that end anywhere."""
    draw = np.random.default_rng(0)
    policies = [lambda *_: True, lambda _, own: own.random() < 0.5, lambda epoch, _: epoch >= 4]
    for trial in range(300):
        most, first, horizon = (int(draw.choice(those)) for those in ([1, 2, 5, 20], [1, 3, 16], [1, 3, 10]))
        s, noise, level = 10 ** draw.uniform(-3, 1), 10 ** draw.uniform(-3, 3), draw.uniform(3, 15)
        bias, users = float(draw.choice([0.0, 0.05])), int(10 ** draw.uniform(0, 5))

        def loss_of(size: int, most=most, s=s, noise=noise, level=level, bias=bias) -> float:
            return (3 + 2 * math.sqrt(most)) * (bias + math.sqrt(2 * level * (s**2 / size + (noise / size) ** 2)))

        lost = losses_of_schedule(most, first, horizon, loss_of, users, policies[trial % 3], draw)
        epochs = 1 + max(0.0, math.log2(users / (most * first)))
        inner = 18 * s * math.sqrt(2 * level * most * users) + 12 * bias * users
        inner += 4 * most * (epochs + 1) * noise * math.sqrt(2 * level)
        assert lost <= 2 * most * first * horizon + (3 + 2 * math.sqrt(most)) * inner
