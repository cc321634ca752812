# SPDX-License-Identifier: Apache-2.0
"""Whatever is said to be spent includes the δ of discrete noise: guarantee, ledger, status, chain, and effects.

The reference adds the two parts of δ itself: that of a Gaussian of the stated strength at the stated ε, and that of the
draws that one user can touch, counted here from the noise that is really drawn.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from reticent.inference import Contrast
from reticent.inference.effects import plan_effects, total_guarantee
from reticent.privacy.accounting.account import GaussianAccount, epsilon_spent
from reticent.privacy.accounting.gaussian import delta_of, epsilon_of
from reticent.privacy.guarantee import Guarantee
from reticent.privacy.noise import GRID_BITS, SecureNoise, discretization_delta
from reticent.service.durability.ledger_chain import _overspent
from reticent.service.mechanism import make_mechanism
from reticent.worlds.registry import make_world

MODEL = make_world("random-blend:states=3,actions=2,horizon=2,d=2").model
DELTA = 1e-5


def whole_delta(mu: float, epsilon: float, draws: int) -> float:
    return delta_of(mu, epsilon) + discretization_delta(draws, epsilon, GRID_BITS - 1)


def test_the_delta_of_the_draws_is_part_of_what_is_spent() -> None:
    for mu in (0.1, 0.5, 2.0):
        for draws in (1, 10**4, 10**9):
            spent = epsilon_spent(mu, DELTA, draws)
            assert whole_delta(mu, spent, draws) <= DELTA
            assert spent > epsilon_of(mu, DELTA)
            assert whole_delta(mu, spent * (1 - 1e-9), draws) > DELTA  # and no more than that
    assert epsilon_spent(0.5, DELTA, 0) == epsilon_of(0.5, DELTA)
    assert epsilon_spent(0.0, DELTA, 10**9) == 0.0
    assert math.isinf(epsilon_spent(30.0, 1e-12, 10**12))  # no ε leaves the draws enough of this δ


WAYS = [
    (spec, contributions, pan_private)
    for spec in (
        "private-score-vi",
        "private-score-vi:trust=local",
        "private-linopt-vi:counter=tree",
        "private-ucb-vi:counter=epochs",
    )
    for contributions, pan_private in ((1, False), (3, False), (1, True))
    if not (pan_private and ("tree" in spec or "local" in spec))
]


@pytest.mark.parametrize(("spec", "contributions", "pan_private"), WAYS)
def test_status_and_ledger_of_a_deployment_include_it(spec: str, contributions: int, pan_private: bool) -> None:
    full = f"{spec}{',' if ':' in spec else ':'}epsilon=15"  # where the δ of draws is no longer lost in rounding
    mechanism = make_mechanism(full, MODEL, 40, SecureNoise(), contributions=contributions, pan_private=pan_private)
    guarantee: Guarantee = mechanism.guarantee
    releases = guarantee.ledger.rounds
    # At the least: one release of every noised number that a user moves, for her and for what she is replaced by.
    tabular = "ucb" in spec
    numbers = 2 * 3 * MODEL.horizon if tabular else int((mechanism.noise_scale > 0).sum())
    least = numbers * contributions * (2 if pan_private else 1)
    strength = guarantee.mu
    assert strength is not None
    told = {
        "guarantee": guarantee.spent,
        "ledger": guarantee.ledger.entries()[-1].epsilon,
        "status": mechanism.spent(releases)[1],
        "worker": mechanism.configuration.spent(releases)[1],
    }
    for name, spent in told.items():
        assert whole_delta(strength, spent, least) <= DELTA, name
        assert spent <= 15 * (1 + 1e-6), name
    assert len(set(told.values())) == 1


def test_an_outsider_works_out_the_same_from_the_chain() -> None:
    guarantee = make_mechanism("private-score-vi:epsilon=15", MODEL, 40, SecureNoise()).guarantee
    account = guarantee.ledger.account
    assert isinstance(account, GaussianAccount)
    promise = {
        "law": account.law, "draws": account.draws, "epsilon": 15.0, "delta": DELTA,
        "shares": [dataclasses.asdict(share) for share in guarantee.ledger.shares],
    }  # fmt: skip
    entry = {"version": 1, "exposure": 1.0, "epsilon": guarantee.spent}
    assert _overspent(promise, entry) == []
    without = epsilon_of(guarantee.mu or 0.0, DELTA)
    assert _overspent(promise, {**entry, "epsilon": without * (1 - 1e-5)}) != []


def test_effects_include_it() -> None:
    contrast = Contrast(np.zeros((4, 3), np.int64), 0.2)
    plan = plan_effects(contrast, 100, epsilon=15.0, delta=DELTA, deployment=True)
    guarantee = plan.guarantee
    assert guarantee is not None
    assert guarantee.mu is not None
    assert whole_delta(guarantee.mu, guarantee.spent, 3 * contrast.size) <= DELTA
    both = total_guarantee([guarantee, guarantee], 1e-4)
    assert whole_delta(math.sqrt(2) * guarantee.mu, both, 6 * contrast.size) <= 1e-4
