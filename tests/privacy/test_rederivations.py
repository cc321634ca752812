# SPDX-License-Identifier: Apache-2.0
"""Accounts re-derived from the papers' definitions (docs/proofs/rederived.md), against the code.

Every reference here is written from the definition: sums of binomial coefficients in exact integers, integrals in 30
digits, column norms of the tree's blocks, neighbours searched by force. None of them calls the function that it checks.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import jax
import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import chi2

from reticent.agents import make_agent
from reticent.agents.bandits import wishart
from reticent.agents.evaluation.policy_evaluation import make_evaluation
from reticent.agents.evaluation.smooth_sensitivity import dilation_delta, smooth_noise
from reticent.privacy.accounting.binomial import account_of
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.counters import TreeCounter
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.sensitivity import joint_sensitivity
from reticent.runtime import double_precision
from reticent.worlds import make_world

DELTA = 1e-5


def below(epsilon: float) -> Fraction:
    """A fraction just below e^ε, so that a hockey-stick divergence made with it is never too small."""
    with mp.workdps(40):
        return Fraction(int(mp.floor(mp.e**epsilon * 10**30)), 10**30)


def gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    """δ of a Gaussian mechanism (Balle and Wang 2018, Theorem 8), in 30 digits."""
    with mp.workdps(30):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.e**e * mp.ncdf(-m / 2 - e / m)


# -- the binomial account of the shuffle --------------------------------------------------------------------------------


def binomial_delta(coins: tuple[int, ...], moved: tuple[int, ...], epsilon: float) -> Fraction:
    """Σ max(0, P(y) − e^ε P(y − k)) over all outcomes of independent coins, in exact integers."""
    factor = below(epsilon)
    total = Fraction(0)
    rows = [[math.comb(count, y) for y in range(count + 1)] for count in coins]

    def at(outcome: tuple[int, ...]) -> int:
        inside = all(0 <= y <= count for y, count in zip(outcome, coins, strict=True))
        return math.prod(row[y] for row, y in zip(rows, outcome, strict=True)) if inside else 0

    for outcome in itertools.product(*(range(count + 1) for count in coins)):
        excess = at(outcome) - factor * at(tuple(y - k for y, k in zip(outcome, moved, strict=True)))
        total += max(Fraction(0), excess)
    return total / 2 ** sum(coins)


@pytest.mark.parametrize(
    ("coins", "moved"),
    [((1600,), (14,)), ((1600,), (-14,)), ((800,), (3,)), ((110, 110), (2, -2)), ((140, 90), (3, 1))],
)
def test_the_binomial_account_is_not_below_the_exact_divergence(coins: tuple[int, ...], moved: tuple[int, ...]) -> None:
    account = account_of(np.array(coins), np.abs(np.array(moved, float)), 0.1 * DELTA)
    mu = math.sqrt(sum(k**2 / ((count + 1) / 4) for k, count in zip(moved, coins, strict=True)))
    claimed = account.epsilon_of(mu, DELTA)
    assert binomial_delta(coins, moved, claimed) <= Fraction(DELTA)
    assert binomial_delta(coins, moved, 0.5 * claimed) > Fraction(DELTA)  # and not twice what is needed
    assert account.strength_of(claimed, DELTA) == pytest.approx(mu, rel=1e-9)


# -- the tree and the regressions ---------------------------------------------------------------------------------------


def test_strengths_are_those_of_the_gaussian_mechanism_in_thirty_digits() -> None:
    for epsilon, delta in itertools.product((0.1, 1.0, 8.0), (1e-9, 1e-5, 1e-2)):
        mu = mu_of(epsilon, delta)
        assert gaussian_delta(mu, epsilon) <= delta * (1 + mp.mpf("1e-12"))
        assert gaussian_delta(mu * (1 + 1e-9), epsilon) > delta


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 8, 9, 31, 100])
def test_a_user_is_in_as_many_blocks_of_the_tree_as_it_charges(rounds: int) -> None:
    """Chan, Shi and Song: after round t, the block of the 2^i items that end at t is noised, i the lowest bit of t."""
    blocks = []
    for t in range(1, rounds + 1):
        length = t & -t
        blocks.append(set(range(t - length + 1, t + 1)))
        charged = max(sum(item in block for block in blocks) for item in range(1, t + 1))
        assert TreeCounter(rounds).exposure()[t - 1] >= charged
        live, end = [], t
        while end:  # and every release is a sum of such blocks
            live.append(end & -end)
            end -= live[-1]
        assert sum(live) == t
    every = max(sum(item in block for block in blocks) for item in range(1, rounds + 1))
    assert round(TreeCounter(rounds).sensitivity ** 2, 9) >= every
    reduced = [set(range(t - 2**i + 1, t + 1)) for t in range(1, rounds + 1) for i in range((t & -t).bit_length())]
    most = max(sum(item in block for block in reduced) for item in range(1, rounds + 1))
    assert round(TreeCounter(rounds, "reduced").sensitivity ** 2, 9) == most


@pytest.mark.parametrize("share", [0.3, 1.0, 2.0, 3.5])
def test_no_two_users_are_farther_apart_than_the_joint_sensitivity(share: float) -> None:
    bound, target = 1.3, 0.7
    weight = math.sqrt(share) * bound / target

    def apart(z: np.ndarray) -> float:
        x, y = (bound * part / max(1.0, float(np.linalg.norm(part))) for part in (z[:3], z[3:6]))
        v, w = target * np.clip(z[6:], -1, 1)
        matrix = np.outer(x, x) - np.outer(y, y)
        return -math.sqrt((matrix**2).sum() + weight**2 * ((v * x - w * y) ** 2).sum())

    draw = np.random.default_rng(0)
    found = -min(minimize(apart, draw.normal(size=8) * 2, method="Nelder-Mead").fun for _ in range(25))
    declared = joint_sensitivity(bound, target, weight, "replace")
    assert found <= declared * (1 + 1e-9)
    assert found >= 0.99 * declared


@pytest.mark.parametrize("spec", ["private-linopt-vi:counter=tree", "private-linopt-po:counter=tree-reduced"])
def test_everything_that_a_regression_agent_releases_is_one_gaussian_mechanism(spec: str) -> None:
    """ε of all groups and all blocks, from the noise that is stated, by the definition."""
    model = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=3,per_step=true").model
    guarantee = guarantee_of(make_agent(spec, model, 20))
    assert guarantee is not None
    blocks = guarantee.ledger.rounds.bit_length()
    squared = sum((share.sensitivity / share.sigma) ** 2 for share in guarantee.ledger.shares)
    spent = gaussian_delta(math.sqrt(blocks * squared), guarantee.epsilon)
    assert guarantee.delta * (1 - 1e-4) <= spent <= guarantee.delta * (1 + 1e-6)


# -- Wishart noise ------------------------------------------------------------------------------------------------------


def wishart_delta(n: int, epsilon: float) -> mp.mpf:
    """max over both directions of E(1 − e^{ε − ℓ})_+ for one block and the longest user, from the densities alone."""
    with mp.workdps(25):
        half, e = mp.mpf(n) / 2, mp.mpf(epsilon)

        def density(x: mp.mpf) -> mp.mpf:
            return mp.e ** ((half - 1) * mp.log(x) - x / 2 - half * mp.log(2) - mp.loggamma(half))

        def log_ratio(x: mp.mpf, sign: int) -> mp.mpf:  # ln f(W)/f(W ± zzᵀ), by the matrix determinant lemma
            return -(mp.mpf(n) - 2) / 2 * mp.log(1 + sign / x) + sign * mp.mpf(1) / 2

        def excess(x: mp.mpf, sign: int) -> mp.mpf:
            return density(x) * max(mp.mpf(0), 1 - mp.e ** (e - log_ratio(x, sign)))

        spread = mp.sqrt(2 * n)
        points = [max(mp.mpf(1), n - 12 * spread), n - 6 * spread, n - 3 * spread, n, n + 3 * spread, n + 14 * spread]
        points = [mp.mpf(1), *[p for p in points if p > 1]]
        removal = mp.quad(lambda x: excess(x, -1), points) + mp.gammainc(half, 0, mp.mpf(1) / 2, regularized=True)
        points = [mp.mpf("1e-6"), *points]
        return max(removal, mp.quad(lambda x: excess(x, 1), points))


@pytest.mark.parametrize("degrees", [40, 158, 500])
def test_one_wishart_block_is_worth_what_is_claimed(degrees: int) -> None:
    dimension = 6
    claimed = wishart.wishart_epsilon(degrees, dimension, 1, DELTA, "zero-out")
    exact = wishart_delta(degrees - dimension + 1, claimed)
    assert exact <= DELTA
    assert wishart_delta(degrees - dimension + 1, 0.6 * claimed) > DELTA


@pytest.mark.parametrize(("n", "s"), [(35, 2.0), (60, 8.0), (153, 10.0), (153, 40.0), (495, 20.0)])
def test_wishart_moments_are_the_integrals(n: int, s: float) -> None:
    with mp.workdps(25):
        half = mp.mpf(n) / 2
        cut = 4.0 if n < 50 else n / 3

        def log_density(x: mp.mpf) -> mp.mpf:
            return (half - 1) * mp.log(x) - x / 2 - half * mp.log(2) - mp.loggamma(half)

        def moment(sign: int, low: float) -> mp.mpf:
            spread = math.sqrt(2 * n)
            points = sorted({low, *(p for p in (n - 8 * spread, n - 3 * spread, n, n + 3 * spread) if p > low)})

            def weigh(x: mp.mpf) -> mp.mpf:
                return mp.e ** (
                    log_density(x) + s * (-(mp.mpf(n) - 2) / 2 * mp.log(1 + sign / x) + sign * mp.mpf(1) / 2)
                )

            return mp.log(mp.quad(weigh, [*points, n + 14 * spread, n + 60 * spread]))

        assert wishart._log_removal(n, s, cut) == pytest.approx(float(moment(-1, cut)), abs=1e-5)
        assert wishart._log_insertion(n, s) == pytest.approx(float(moment(1, 1e-6)), abs=1e-5)


def test_no_wishart_epsilon_is_below_its_own_theorem() -> None:
    """The theorem's bound with fine Gauss-Legendre integrals, least over orders: Simpson's rule was 1.4e-7 below it."""
    n, levels, delta = 40 - 6 + 1, 15, 0.01
    cut = chi2.ppf(0.1 * delta / levels, n)
    nodes, weights = np.polynomial.legendre.leggauss(400)

    def log_moment(s: float, sign: int, low: float) -> float:
        edges = np.array([low, low + 2, low + 6, 20.0, 35.0, 50.0, 70.0, 110.0, 200.0, 400.0])
        x = np.concatenate([(b - a) / 2 * nodes + (a + b) / 2 for a, b in itertools.pairwise(edges)])
        w = np.concatenate([(b - a) / 2 * weights for a, b in itertools.pairwise(edges)])
        return float(np.log((w * np.exp(chi2.logpdf(x, n) + s * (-(n - 2) / 2 * np.log1p(sign / x) + sign / 2))).sum()))

    def bound(s: float) -> float:
        worst = max(0.0, log_moment(s, -1, float(cut)), log_moment(s, 1, 1e-9))
        constant = s * math.log(s / (1 + s)) - math.log1p(s)
        return (levels * worst + constant - math.log(0.9 * delta)) / s

    found = minimize_scalar(
        lambda order: bound(math.exp(order)), bounds=(-1, 4), method="bounded", options={"xatol": 1e-9}
    )
    least = float(found.fun)
    assert least * (1 - 1e-12) <= wishart.wishart_epsilon(40, 6, levels, delta, "zero-out") <= least * (1 + 1e-4)


@double_precision
def test_exchanging_a_user_costs_at_most_the_two_losses_of_wishart_noise() -> None:
    """The loss of a replaced user, from the Wishart density at random matrices, against ℓ₊(X_z) + ℓ₋(X_v)."""
    draw, dimension, degrees = np.random.default_rng(3), 4, 60
    n = degrees - dimension + 1
    for _ in range(200):
        vectors = draw.normal(size=(degrees, dimension))
        noise = vectors.T @ vectors
        z, v = (unit / np.linalg.norm(unit) * draw.random() ** 0.2 for unit in draw.normal(size=(2, dimension)))

        def log_density(matrix: np.ndarray) -> float:
            return (degrees - dimension - 1) / 2 * float(np.linalg.slogdet(matrix)[1]) - float(np.trace(matrix)) / 2

        loss = log_density(noise) - log_density(noise + np.outer(z, z) - np.outer(v, v))
        inverse = np.linalg.inv(noise)
        of_z, of_v = float(z @ inverse @ z), float(v @ inverse @ v)
        bound = -(n - 2) / 2 * (math.log1p(of_z) + math.log1p(-of_v)) + (z @ z - v @ v) / 2
        assert loss <= bound + 1e-9


# -- smooth sensitivity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beta", "epsilon", "dimension"), [(0.02, 0.5, 4), (0.1, 0.3, 1), (0.05, 0.5, 30), (0.3, 2.0, 3)]
)
def test_a_wider_gaussian_is_told_apart_as_often_as_the_integral_says(
    beta: float, epsilon: float, dimension: int
) -> None:
    """The hockey-stick divergence of N(0, I) and N(0, e^{2β}I) as an integral over the radius."""
    with mp.workdps(25):
        half = mp.mpf(dimension) / 2

        def density(square: mp.mpf, scale: mp.mpf) -> mp.mpf:  # of the squared radius
            x = square / scale**2
            return mp.e ** ((half - 1) * mp.log(x) - x / 2 - half * mp.log(2) - mp.loggamma(half)) / scale**2

        wide, factor = mp.e**beta, mp.e**epsilon

        def excess(square: mp.mpf, one: mp.mpf, other: mp.mpf) -> mp.mpf:
            return max(mp.mpf(0), density(square, one) - factor * density(square, other))

        squeeze = 1 - mp.e ** (-2 * mp.mpf(beta))
        inside, outside = (2 * (dimension * mp.mpf(beta) + sign * mp.mpf(epsilon)) / squeeze for sign in (-1, 1))
        narrow = (
            mp.quad(lambda x: excess(x, mp.mpf(1), wide), [mp.mpf("1e-12"), inside / 2, inside]) if inside > 0 else 0
        )
        broad = mp.quad(lambda x: excess(x, wide, mp.mpf(1)), [outside, outside + 20, outside + 100, outside + 400])
        assert dilation_delta(beta, epsilon, dimension) == pytest.approx(float(max(narrow, broad)), rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_smooth_noise_keeps_its_promise_for_the_worst_neighbours(epsilon: float) -> None:
    """In one dimension: the centre moves by the whole sensitivity and the scale by the whole e^{±β}, both directions."""
    found = smooth_noise(epsilon, DELTA, 1)
    with mp.workdps(25):
        kappa, factor = mp.mpf(found.multiplier), mp.e ** mp.mpf(epsilon)

        def excess(x: mp.mpf, one: tuple[mp.mpf, mp.mpf], other: tuple[mp.mpf, mp.mpf]) -> mp.mpf:
            return max(mp.mpf(0), mp.npdf(x, *one) - factor * mp.npdf(x, *other))

        for sign in (-1, 1):
            there = mp.mpf(1), kappa * mp.e ** (sign * mp.mpf(found.beta))
            pairs = [((mp.mpf(0), kappa), there)]
            if sign > 0:  # from the neighbour's side, whose own sensitivity is e^β times as large
                pairs.append((there, (mp.mpf(0), kappa)))
            for one, other in pairs:
                wide = 14 * kappa
                points = [-wide + wide / 8 * step for step in range(17)]
                assert mp.quad(lambda x, one=one, other=other: excess(x, one, other), points) <= DELTA


@double_precision
@pytest.mark.parametrize("kind", ["lsw", "lsl"])
def test_no_exchange_moves_an_evaluation_by_more_than_its_local_bound(kind: str) -> None:
    """Trajectories of two steps; one is exchanged for any other, and the smooth bound changes by at most e^β."""
    draw = np.random.default_rng(5)
    places, dimension, users = 6, 3, 9
    features = draw.normal(size=(places, dimension))
    bound = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    groups = np.array([0, 0, 0, 1, 1, 1])
    evaluation = make_evaluation(
        features, np.ones(places), bound, users, 1.0, DELTA, ridge=2.0 if kind == "lsl" else None, groups=groups
    )
    estimate, sensitivity, smooth = map(jax.jit, (evaluation.estimate, evaluation.sensitivity, evaluation.smooth))

    def summed(people: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        visits, sums = np.zeros(places), np.zeros(places)
        for where, paid in people:
            visits[where] += 1
            sums[where] += paid
        return visits, sums

    def person() -> tuple[np.ndarray, np.ndarray]:
        where = np.array([draw.integers(3), 3 + draw.integers(3)])
        return where, bound[where] * np.where(draw.random(2) < 0.5, -1.0, 1.0)

    for _ in range(40):
        people = [person() for _ in range(users)]
        before = summed(people)
        after = summed([person(), *people[1:]])
        moved = np.linalg.norm(np.asarray(estimate(*after)) - np.asarray(estimate(*before)))
        assert moved <= float(sensitivity(before[0])) * (1 + 1e-9)
        ratio = float(smooth(before[0])) / float(smooth(after[0]))
        assert abs(math.log(ratio)) <= float(evaluation.beta) * (1 + 1e-9)
