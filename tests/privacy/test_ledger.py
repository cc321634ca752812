"""The ledger against hand computation, the accountant, and plans that cannot be right."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from reticent.errors import InvalidInput, UnknownName
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
        "counter": counter,
        "shares": shares,
        "round_ends": 10 * np.arange(1, rounds + 1),
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": "replace",
        "trust": "joint",
    }
    return Ledger.of(**{**arguments, **changes})


def test_a_calibrated_plan_ends_at_its_target() -> None:
    ledger = plan()
    assert ledger.spent(8) == pytest.approx(1.0, rel=1e-9)
    assert ledger.spent(0) == 0.0
    assert ledger.mu_squared(8) == pytest.approx(mu_of(1.0, 1e-5) ** 2, rel=1e-12)


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
    ledger = plan(counter=counter, shares=shares, round_ends=np.arange(1, 2**levels))
    assert ledger.spent(ledger.rounds) == pytest.approx(0.087, abs=5e-4)


def test_a_plan_over_its_budget_is_refused() -> None:
    shares = [dataclasses.replace(share, sigma=0.99 * share.sigma) for share in plan().shares]
    with pytest.raises(InvalidInput, match=r"mu² of the plan.*calibrate sigma"):
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
    with pytest.raises(UnknownName, match="adjacency"):
        plan(adjacency="add")
    with pytest.raises(UnknownName, match="trust"):
        plan(trust="none")
    with pytest.raises(InvalidInput, match="after_round"):
        plan().spent(9)
    with pytest.raises(InvalidInput, match="sigma of 'gram'"):
        CounterShare("gram", 0, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="sensitivity of 'gram'"):
        CounterShare("gram", 0, -1.0, 1.0)
