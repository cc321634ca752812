# SPDX-License-Identifier: Apache-2.0
"""The ledger against hand computation, the accountant, and plans that cannot be right."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from reticent.agents.evaluation.evaluation_plan import SmoothAccount
from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, LAPLACE, Account
from reticent.privacy.accounting.binomial import BinomialAccount, account_of
from reticent.privacy.accounting.gaussian import compose, epsilon_of, mu_of
from reticent.privacy.ledger import CounterShare, Entry, Ledger


@dataclasses.dataclass
class Growing:
    """As much of a counter as a ledger looks at: one more node per doubling, as in a tree."""

    rounds: int
    name: str = "growing"

    def exposure(self) -> np.ndarray:
        return np.floor(np.log2(np.arange(1, self.rounds + 1))) + 1


def plan(rounds: int = 8, horizon: int = 3, **changes: Any) -> Ledger:
    """Two counters per step whose strengths, over all rounds, exactly use up the budget."""
    epsilon, delta = 1.0, 1e-5
    counter: Any = Growing(rounds)
    unit = mu_of(epsilon, delta) / math.sqrt(float(counter.exposure()[-1]) * 2 * horizon)
    shares = [
        CounterShare(name, step, sensitivity, sensitivity / unit)
        for step in range(horizon)
        for name, sensitivity in (("transition gram", 1.4), ("transition moment", 0.7))
    ]
    arguments: dict[str, Any] = {
        "shares": shares,
        "counter": counter.name,
        "exposure": counter.exposure(),
        "round_ends": 10 * np.arange(1, rounds + 1),
        "epsilon": epsilon,
        "delta": delta,
    }
    return Ledger.of(**{**arguments, **changes})


def test_a_calibrated_plan_ends_at_its_target() -> None:
    ledger = plan()
    assert ledger.spent(8) == pytest.approx(1.0, rel=1e-9)
    assert ledger.spent(0) == 0.0
    assert ledger.spent() == ledger.spent(8)
    assert ledger.strength(8) == pytest.approx(mu_of(1.0, 1e-5), rel=1e-12)
    assert ledger.strength(0) == 0.0


def test_entries_follow_the_formula() -> None:
    ledger = plan()
    entries = ledger.entries()
    assert [entry.round for entry in entries] == list(range(1, 9))
    assert [entry.episode for entry in entries] == list(range(10, 90, 10))
    for entry, exposure in zip(entries, [1, 2, 2, 3, 3, 3, 3, 4], strict=True):
        mus = [share.sensitivity / share.sigma for share in ledger.shares] * exposure
        assert math.sqrt(entry.mu_squared) == pytest.approx(compose(mus), rel=1e-12)
        assert entry.epsilon == pytest.approx(epsilon_of(compose(mus), 1e-5), rel=1e-9)
        assert entry.remaining == pytest.approx(1.0 - entry.epsilon, abs=1e-12)
        assert entry.what == ("transition gram", "transition moment")
    assert np.all(np.diff([entry.epsilon for entry in entries]) >= 0)
    assert entries[-1].remaining == pytest.approx(0.0, abs=1e-9)


def test_selected_rounds_and_rows() -> None:
    ledger = plan()
    assert ledger.entries([0, 8])[0] == Entry(0, 0, ("transition gram", "transition moment"), 0.0, 0.0, 1.0)
    rows = ledger.to_rows([1, 8])
    assert json.loads(json.dumps(rows)) == rows
    assert rows[1]["what"] == "transition gram, transition moment"
    assert list(rows[0]) == ["round", "episode", "what", "mu_squared", "epsilon", "remaining"]


def test_many_rounds_are_quick() -> None:
    assert len(plan(rounds=20_000).entries()) == 20_000


def test_paper_noise_spends_far_less_than_it_says() -> None:
    # PRIVACY.md: at a nominal ε = 1, H = 10, δ = 1e-5, the paper's σ really gives ε = 0.087.
    horizon, levels, delta = 10, 14, 1e-5
    counter: Any = Growing(2**levels - 1)
    sigma = horizon * math.sqrt(32 * levels * math.log(4 * horizon / delta))
    shares = [CounterShare(str(i), step, 1.0, sigma) for step in range(horizon) for i in range(4)]
    ledger = plan(exposure=counter.exposure(), shares=shares, round_ends=np.arange(1, 2**levels))
    assert ledger.spent() == pytest.approx(0.087, abs=5e-4)


def test_a_plan_over_its_budget_is_refused() -> None:
    shares = [dataclasses.replace(share, sigma=0.99 * share.sigma) for share in plan().shares]
    with pytest.raises(InvalidInput, match=r"strength of the plan.*calibrate sigma"):
        plan(shares=shares)


def test_bad_plans_are_named() -> None:
    with pytest.raises(InvalidInput, match="round_ends"):
        plan(round_ends=np.arange(1, 5))
    with pytest.raises(InvalidInput, match="increasing"):
        plan(round_ends=np.array([1, 2, 3, 3, 5, 6, 7, 8]))
    with pytest.raises(InvalidInput, match="increasing"):
        plan(round_ends=np.arange(8))
    with pytest.raises(InvalidInput, match="shares"):
        plan(shares=[])
    with pytest.raises(InvalidInput, match="round_ends"):
        plan(round_ends=np.arange(1, 9).reshape(2, 4), exposure=np.ones((2, 4)))
    for outside in (-1, 9):
        with pytest.raises(InvalidInput, match="after_round"):
            plan().spent(outside)
    for sigma in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="sigma of 'gram'"):
            CounterShare("gram", 0, 1.0, sigma)
    for sensitivity in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="sensitivity of 'gram'"):
            CounterShare("gram", 0, sensitivity, 1.0)
    CounterShare("a user moves nothing", 0, 0.0, 1e-3)


# -- one ledger for every law ---------------------------------------------------------------------------------------------

BINOMIAL = account_of(np.full(6, 10**7), np.full(6, 3.0), 1e-6)
LAWS: list[Account] = [GAUSSIAN, LAPLACE, BINOMIAL, SmoothAccount(1.0)]


def booked(account: Account, epsilon: float = 1.0, delta: float = 1e-5, slack: float = 1.0) -> Ledger:
    """Six equal sums under a doubling exposure 1, 2, 4, with noise that keeps the promise with nothing to spare."""
    exposure = np.array([1.0, 2.0, 4.0])
    strength = account.strength([CounterShare("sum", 1, 1.0, 1.0)] * 6, exposure[-1])
    scale = slack * strength / account.strength_of(epsilon, delta)
    shares = [CounterShare("sum", step, 1.0, scale) for step in range(1, 7)]
    return Ledger.of(shares, "doubling", exposure, [2, 4, 6], epsilon=epsilon, delta=delta, account=account)


@pytest.mark.parametrize("account", LAWS, ids=lambda account: account.law)
def test_every_law_starts_at_nothing_and_ends_at_its_promise(account: Account) -> None:
    ledger = booked(account)
    spent = [ledger.spent(index) for index in range(4)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert spent[-1] == ledger.spent() == pytest.approx(1.0, rel=1e-6)
    assert ledger.spent() <= 1.0 * (1 + 1e-6)
    last = ledger.entries()[-1]
    assert (last.mu_squared is None) == account.pure
    assert json.loads(json.dumps(ledger.to_rows()))[-1]["epsilon"] == last.epsilon


def test_gaussian_squares_add_up_and_laplace_costs_do() -> None:
    """After the second of three releases half of all charges were made: half of ε, or μ²."""
    assert booked(LAPLACE).spent(2) == pytest.approx(0.5)
    assert booked(LAPLACE).spent(1) == pytest.approx(0.25)
    assert booked(GAUSSIAN).strength(2) == pytest.approx(mu_of(1.0, 1e-5) / math.sqrt(2), rel=1e-9)
    assert booked(GAUSSIAN).spent(2) == pytest.approx(epsilon_of(mu_of(1.0, 1e-5) / math.sqrt(2), 1e-5), rel=1e-9)


def test_laplace_noise_alone_needs_no_delta_and_all_noise_is_counted_on() -> None:
    assert [account.pure for account in (GAUSSIAN, LAPLACE, BINOMIAL)] == [False, True, False]
    assert GAUSSIAN.excess == LAPLACE.excess == BINOMIAL.excess == 1.0
    assert booked(LAPLACE).entries()[-1].mu_squared is None


def test_laplace_noise_has_no_delta_to_lose() -> None:
    assert booked(LAPLACE, delta=0.0).spent() == booked(LAPLACE, delta=1e-5).spent()


def test_binomial_noise_is_dearer_than_gaussian_noise_of_the_same_spread() -> None:
    strength = mu_of(1.0, 1e-5)
    assert BINOMIAL.epsilon_of(strength, 1e-5) > GAUSSIAN.epsilon_of(strength, 1e-5)
    assert BINOMIAL.strength_of(1.0, 1e-5) < strength
    assert isinstance(BINOMIAL, BinomialAccount)


def test_smooth_noise_is_spent_at_once() -> None:
    ledger = booked(SmoothAccount(1.0))
    assert [ledger.spent(index) for index in range(4)] == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("account", LAWS[:3], ids=lambda account: account.law)
def test_noise_one_percent_too_small_is_refused_under_every_law(account: Account) -> None:
    with pytest.raises(InvalidInput, match="strength of the plan"):
        booked(account, slack=0.99)


def test_a_smooth_promise_that_is_larger_than_the_ledgers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="strength of the plan"):
        Ledger.of(
            [CounterShare("weights", 1, 1.0, 1.0)], "one release", [1.0], [9],
            epsilon=1.0, delta=1e-5, account=SmoothAccount(1.01),
        )  # fmt: skip
