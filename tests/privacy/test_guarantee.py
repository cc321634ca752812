# SPDX-License-Identifier: Apache-2.0
"""A guarantee made by hand: its numbers are the ledger's, its sentence says what it must, and no other promise is one."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise
from reticent.privacy.accounting.account import GAUSSIAN, LAPLACE, Account
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.guarantee import Guarantee, check_promise, guarantee_of, noisy_sums
from reticent.privacy.ledger import CounterShare, Ledger
from reticent.privacy.participation import ONCE, Participation
from reticent.privacy.trust import JOINT
from reticent.worlds.models.provenance import Provenance


def promise(account: Account = GAUSSIAN, spare: float = 2.0, **changes: Any) -> Guarantee:
    """ε = 1 at δ = 1e-5 in three releases, with ``spare`` times the noise that it takes."""
    strength = account.strength([CounterShare("sum", 1, 0.5, 1.0)], 1.0)
    shares = (CounterShare("sum", 1, 0.5, spare * strength / account.strength_of(1.0, 1e-5)),)
    ledger = Ledger.of(shares, "epochs", [1.0, 1.0, 1.0], [2, 4, 6], epsilon=1.0, delta=1e-5, account=account)
    made: dict[str, Any] = {
        "trust": JOINT, "adjacency": "replace", "epsilon": 1.0, "delta": 1e-5, "ledger": ledger,
        "sums": noisy_sums(shares, 3.0),
    }  # fmt: skip
    return Guarantee(**{**made, **changes})


def test_numbers_are_those_of_the_ledger() -> None:
    made = promise()
    assert made.mu == pytest.approx(mu_of(1.0, 1e-5) / 2, rel=1e-9)
    assert made.promised_strength == pytest.approx(mu_of(1.0, 1e-5), rel=1e-12)
    assert made.spent == made.ledger.spent(3) < 1.0
    assert (made.releases, made.contributions, made.late_report_ratio) == (3, 1, 1.0)
    assert promise(participation=Participation(4)).contributions == 4
    assert not made.pure
    (row,) = made.sums
    assert (row.name, row.step, row.sensitivity) == ("sum", 1, 0.5)
    assert row.scale == made.ledger.shares[0].sigma
    assert row.largest == pytest.approx(3 * row.scale, rel=1e-15)


def test_a_promise_without_delta_has_no_mu() -> None:
    made = promise(LAPLACE)
    assert made.pure
    assert made.mu is None
    assert made.promised_strength == 1.0


def test_the_sentence_says_law_and_remark_only_where_there_is_something_to_say() -> None:
    plain = promise().sentence()
    assert "noise" not in plain
    assert ";" not in plain.partition("at the same delta")[2]
    assert ", Laplace noise" in promise(LAPLACE).sentence()
    assert "at the same delta; data are used twice)." in promise(remark="data are used twice").sentence()


def test_the_sentence_says_what_those_have_spent_who_are_in_both() -> None:
    released = promise(origin=Provenance("released", "a first study", 0.5, 1e-6)).sentence()
    assert released.endswith(": to those who are in both, (1.5, 1.1e-05) is promised.")
    public = promise(origin=Provenance("public", "the pilot")).sentence()
    assert " Candidates come from public records (the pilot)" in public
    assert public.endswith("not covered by ε.")
    assert "andidates" not in promise().sentence()


def test_plain_values_say_the_same() -> None:
    made, origin = promise(), Provenance("public", "the pilot")
    told = made.to_dict()
    assert (told["epsilon"], told["delta"], told["releases"], told["counter"]) == (1.0, 1e-5, 3, "epochs")
    assert (told["epsilon_spent"], told["mu"], told["sentence"]) == (made.spent, made.mu, made.sentence())
    assert told["origin"] is None
    assert promise(origin=origin).to_dict()["origin"] == origin.to_dict()


def test_users_who_are_charged_more_spend_more_of_the_same_noise() -> None:
    made = promise(spare=3.0)
    twice = made.for_contributions(1.0, 2.0, contributions=2, also_seen=", and a look,")
    assert twice.mu == pytest.approx(2 * made.mu, rel=1e-12)
    assert twice.ledger.shares[0].sensitivity == 2 * made.ledger.shares[0].sensitivity
    assert twice.participation == Participation(2, 2)
    assert ", and a look," in twice.sentence()
    assert twice.settings["epsilon"] == 1.0
    returning = promise(spare=3.0, participation=Participation(5))
    assert returning.for_contributions(1.0, 1.5, contributions=1).participation == Participation(5)
    assert made.for_contributions(1.0, 1.0, contributions=1).participation == ONCE
    with pytest.raises(InvalidInput, match="strength of the plan"):
        made.for_contributions(1.0, 3.01, contributions=3)


def test_an_agent_that_promises_nothing_has_no_guarantee() -> None:
    made = promise()
    assert guarantee_of(SimpleNamespace(promise=made)) is made
    assert guarantee_of(SimpleNamespace(promise=NoPromise())) is None


def test_what_is_no_promise_is_refused() -> None:
    check_promise(0.125, 1e-9)
    check_promise(30.0, 0.5)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            check_promise(epsilon, 1e-5)
    for delta in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(InvalidInput, match="delta"):
            check_promise(1.0, delta)
