# SPDX-License-Identifier: Apache-2.0
"""Users who return: which patterns are allowed, what the worst of them costs, and that the cost is exactly that."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from counter_probes import all_counters, label
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reticent.agents import make_agent
from reticent.audit.response import probe
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.counters import SeparateRounds
from reticent.privacy.guarantee import guarantee_of
from reticent.privacy.participation import ONCE, Participation, allowed, pattern_norm, worst_norm
from reticent.worlds.registry import make_world

MODEL = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model
COUNTERS = [SeparateRounds(12), *all_counters(12)]
PATTERNS = [Participation(1), Participation(3), Participation(3, gap=4), Participation(4, 2), Participation(5, 5)]


def multiplicities(participation: Participation, rounds: int) -> list[np.ndarray]:
    """Every allowed pattern as how often each round counts the user, by brute force over maximal ones."""
    found = []
    for used in range(1, min(participation.contributions, rounds) + 1):
        for chosen in itertools.combinations(range(rounds), used):
            if any(b - a < participation.gap for a, b in itertools.pairwise(chosen)):
                continue
            for times in itertools.product(range(1, participation.per_round + 1), repeat=used):
                if sum(times) <= participation.contributions:
                    found.append(np.bincount(chosen, times, rounds))
    return found


@pytest.mark.parametrize("counter", COUNTERS, ids=label)
def test_the_strategy_is_what_the_counter_really_does(counter) -> None:
    """Measured on impulses; releases of a tree may show less than its noisy blocks do, and never more."""
    response = probe(counter)
    measured = response.items.T @ response.filters
    stated = counter.strategy().T @ counter.strategy()
    assert math.sqrt(stated.diagonal().max()) == pytest.approx(counter.sensitivity, rel=1e-9)
    if counter.name.startswith("tree"):
        assert np.linalg.eigvalsh(stated - measured).min() > -1e-9
    else:
        np.testing.assert_allclose(measured, stated, atol=1e-8)


@pytest.mark.parametrize("participation", PATTERNS, ids=str)
@pytest.mark.parametrize("counter", COUNTERS, ids=label)
def test_no_pattern_costs_more_than_the_stated_norm(counter, participation: Participation) -> None:
    strategy, stated = counter.strategy(), pattern_norm(counter.strategy(), participation)
    worst = max(np.linalg.norm(strategy @ times) for times in multiplicities(participation, counter.rounds))
    assert worst <= stated * (1 + 1e-12)
    if (
        counter.name in ("separate", "epochs", "toeplitz")
        and participation.contributions % participation.per_round == 0
    ):
        assert worst == pytest.approx(stated, rel=1e-9)  # and it is the least such number
    assert stated <= 1.35 * worst  # the bound for the others is not far away


@pytest.mark.parametrize("pattern", [(1, 1, 1), (3, 1, 2), (4, 2, 1), (5, 2, 1), (5, 2, 3), (5, 3, 2), (4, 4, 1)])
def test_exposures_are_those_of_the_worst_pattern(pattern: tuple[int, int, int]) -> None:
    """By enumeration: the largest sum of squares where rounds are noised separately, the most reports where each is."""
    participation, rounds = Participation(*pattern), np.arange(1, 7)
    every = [multiplicities(participation, int(count)) for count in rounds]
    assert participation.separate_exposure(rounds).tolist() == [max((t**2).sum() for t in some) for some in every]
    assert participation.local_exposure(rounds).tolist() == [max(t.sum() for t in some) for some in every]
    assert participation.separate_exposure(6) == participation.separate_exposure(rounds)[-1]


def test_separate_rounds_cost_the_root_and_a_gap_helps_where_rounds_share_noise() -> None:
    separate, tree = SeparateRounds(64).strategy(), all_counters(64)[0].strategy()
    assert pattern_norm(separate, Participation(10)) == pytest.approx(math.sqrt(10))
    assert pattern_norm(separate, Participation(10, per_round=10)) == 10
    norms = [pattern_norm(tree, Participation(4, gap=gap)) for gap in (1, 4, 16)]
    assert norms[0] > norms[1] > norms[2] > math.sqrt(4)


@pytest.mark.parametrize("later", [1.04, 1.3])
def test_later_rounds_that_show_more_are_not_taken_for_equal_ones(later: float) -> None:
    strategy = np.diag([1.0, later, later])
    assert pattern_norm(strategy, ONCE) == pytest.approx(later)
    assert pattern_norm(strategy, Participation(2)) == pytest.approx(math.sqrt(2) * later)
    assert pattern_norm(np.diag([1.0, later, 1.0]), ONCE) == pytest.approx(later)


def test_rounds_that_are_farther_apart_may_share_more() -> None:
    shared = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])  # rounds 1 and 3, and nothing with round 2
    assert worst_norm(shared, Participation(2)) >= math.sqrt(3)


@pytest.mark.parametrize("unit", [1e-4, 1e4])
@pytest.mark.parametrize("counter", COUNTERS, ids=label)
def test_the_unit_of_the_strategy_does_not_matter(counter, unit: float) -> None:
    strategy, pattern = counter.strategy(), Participation(3)
    assert pattern_norm(unit * strategy, pattern) == pytest.approx(unit * pattern_norm(strategy, pattern), rel=1e-9)


def test_a_strategy_whose_columns_may_cancel_is_refused() -> None:
    with pytest.raises(InvalidInput, match="inner product"):
        pattern_norm(np.array([[1.0, 0.0], [-1.0, 1.0]]), Participation(2))


@given(
    st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(0, 11), min_size=1, max_size=30)
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_whatever_is_asked_for_what_is_counted_stays_within_the_cost(g: int, k: int, b: int, asked: list[int]) -> None:
    participation = Participation(g, min(g, k), b)
    counted: list[int] = []
    for number in asked:  # in any order: reports may be late
        if allowed(participation, counted, number):
            counted.append(number)
    assert counted[0] == asked[0]  # the first is always allowed, and one more than all never
    assert allowed(participation, [0] * g, 5) is False
    times = np.bincount(counted, minlength=12)
    assert np.linalg.norm(times) <= pattern_norm(np.eye(12), participation) + 1e-12
    assert times.sum() <= participation.local_exposure(12)


def test_shifts_that_follow_the_past_cost_what_fixed_ones_do() -> None:
    """The Lemma: rounds and directions chosen by what was seen. Both tests fail falsely once in 1000 each."""
    draw = np.random.default_rng(3)
    trials, sigma, g = 20_000, 2.0, 3
    spent, loss, last = np.zeros(trials), np.zeros(trials), np.zeros(trials)
    for _ in range(12):
        shift = np.where((spent < g) & (last > -0.5), np.where(last > 0.5, 1.0, -1.0), 0.0)
        noise = draw.normal(0, sigma, trials)
        loss += (shift**2 - 2 * shift * noise) / (2 * sigma**2)
        spent += shift**2
        last = (noise - shift) / sigma  # what the adversary sees
    rest = np.sqrt(g - spent)
    loss += (rest**2 - 2 * rest * draw.normal(0, sigma, trials)) / (2 * sigma**2)
    mu = math.sqrt(g) / sigma
    assert (spent < g).any()
    assert (spent == g).any()
    assert stats.kstest(loss, stats.norm(mu**2 / 2, mu).cdf).pvalue > 1e-3
    assert stats.kstest(loss, stats.norm(g / sigma**2 / 2, g / sigma).cdf).pvalue < 1e-3  # g would be another law


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
def test_the_flagship_pays_the_root_and_its_ledger_says_when(trust: str, adjacency: str) -> None:
    spec = f"private-score-vi:trust={trust},adjacency={adjacency},epsilon=2,largest=50,first=0.1"
    once = make_agent(spec, MODEL, 1000)
    ten = make_agent(f"{spec},contributions=10", MODEL, 1000)
    assert float(ten.noise_scale / once.noise_scale) == pytest.approx(math.sqrt(10))
    guarantee = guarantee_of(ten)
    assert guarantee is not None
    assert guarantee.participation == Participation(10)
    assert guarantee.spent == pytest.approx(2.0, rel=1e-6)
    assert [round(entry.mu_squared / mu_of(2, 1e-5) ** 2, 6) for entry in guarantee.ledger.entries([1, 5, 10, 15])] == [
        0.1, 0.5, 1.0, 1.0,
    ]  # fmt: skip
    assert "at most 10 times, at most once in a round" in guarantee.sentence()


def test_per_round_and_gap_reach_the_noise() -> None:
    def scale(options: str) -> float:
        return float(make_agent(f"private-score-vi:largest=60,{options}", MODEL, 3000).noise_scale)

    once = scale("contributions=1")
    assert scale("contributions=6,per_round=6") == pytest.approx(6 * once)
    assert scale("contributions=6,per_round=3") == pytest.approx(math.sqrt(18) * once)
    rounds = make_agent("private-score-vi:largest=60,contributions=30,gap=25", MODEL, 3000).schedule.releases
    assert scale("contributions=30,gap=25") == pytest.approx(math.sqrt(-(-rounds // 25)) * once)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInput, match="per_round"):
        Participation(2, per_round=3)
    for wrong in ({"contributions": 0}, {"contributions": 2.5}, {"contributions": True}, {"gap": 0}, {"per_round": 0}):
        with pytest.raises(InvalidInput, match="whole number"):
            Participation(**wrong)
    Participation(np.int64(2), per_round=2)
    with pytest.raises(InvalidInput, match="shuffle"):
        make_agent("private-score-vi:trust=shuffle,contributions=2", MODEL, 5000)


def test_how_often_is_said_as_a_clause() -> None:
    assert [Participation(*pattern).clause.removeprefix(", who contributes at most ") for pattern in
            ((1,), (3,), (3, 3), (4, 2), (4, 2, 5))] == [
        "", "3 times, at most once in a round", "3 times", "4 times, at most 2 times in a round",
        "4 times, at most 2 times in a round and never in rounds less than 5 apart",
    ]  # fmt: skip
    assert ONCE.clause == ""
