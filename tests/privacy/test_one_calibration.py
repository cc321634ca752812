# SPDX-License-Identifier: Apache-2.0
"""One calibration for all families: a family that states two sums gets noise, ledger and guarantee that fit each other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.privacy.accounting.account import GAUSSIAN, Account
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.calibration import (
    REMAINDER,
    ROUNDING,
    Calibrated,
    Release,
    coarsest_grid,
    fewest_coins,
    least_noise,
    of_whole_coins,
)
from reticent.privacy.counters import EpochCounter, TreeCounter
from reticent.privacy.counters.counter import Counter
from reticent.privacy.noise import GRID_BITS, touched_draws
from reticent.privacy.sensitivity import Adjacency
from reticent.privacy.trust import JOINT, LOCAL, SHUFFLE, Trust
from reticent_wire.shuffling import coins_for

ENDS = np.array([10, 30, 70])
MOVES = (1.5, 0.25)
WIDTHS = (4, 9)
EPOCHS = EpochCounter((10, 20, 40))


@dataclasses.dataclass(frozen=True)
class TwoSums(Calibrated):
    """A family of two sums per step, with noise of one scale each; ``silent`` has a third that is not released."""

    epsilon: float
    delta: float
    scales: tuple[float, float]
    moves: tuple[float, float] = MOVES
    counter: Counter = EPOCHS
    trust: Trust = JOINT
    adjacency: Adjacency = "replace"
    account: Account = GAUSSIAN
    silent: bool = False

    def releases(self) -> Sequence[Release]:
        first, second = zip(self.moves, self.scales, strict=True)
        found = [
            Release("second", 2, *second, slice(4, 13), alone=0.2, largest=1.0),
            Release("first", 1, *first, slice(0, 4), spread=(1.0, 1.0, 2.0, 2.0)),
        ]
        return [*found, Release("third", 1, 0.0, 0.0, slice(13, 14))] if self.silent else found


def on_grid(grid: float) -> tuple[float, float]:
    """How far one user moves either sum when every coordinate of both neighbours is rounded."""
    first, second = (move + grid * math.sqrt(width) for move, width in zip(MOVES, WIDTHS, strict=True))
    return first, second


def even(strength: float, grid: float, charged: float = 1.0) -> tuple[tuple[float, float], tuple[float, float]]:
    """Both sums get half of the budget's square."""
    moves = on_grid(grid)
    first, second = (math.sqrt(2) * charged * move / strength for move in moves)
    return moves, (first, second)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 8.0), st.floats(1e-8, 0.01), st.booleans())
def test_all_of_the_promise_is_spent_and_no_more(epsilon: float, delta: float, deployed: bool) -> None:
    draws = touched_draws(sum(WIDTHS), 1.0) if deployed else 0
    (moves, scales), grid, account = least_noise(
        even, lambda found: min(found[1]), epsilon=epsilon, delta=delta, draws=draws
    )
    noise = TwoSums(epsilon, delta, scales, moves, account=account)
    promise = noise.guarantee(ENDS, {})
    assert promise.spent <= epsilon * (1 + 1e-9)
    assert promise.spent >= 0.999 * epsilon
    assert noise.mu == pytest.approx(account.strength_of(epsilon, delta), rel=1e-12)
    assert (grid > 0) == deployed
    if deployed:
        assert 2.0**-GRID_BITS / 2 < grid / min(even(mu_of(epsilon, delta), 0.0)[1]) <= 2.0**-GRID_BITS * 1.01


def test_a_grid_is_no_coarser_than_it_is_useful() -> None:
    def noise(strength: float, grid: float) -> float:
        return 1e9 / strength + grid

    found, grid, account = least_noise(noise, float, epsilon=1.0, delta=1e-5, draws=3, coarsest=0.5)
    assert grid == 0.5
    assert found == noise(account.strength_of(1.0, 1e-5), 0.5)


@pytest.mark.parametrize(("trust", "counter"), [(JOINT, TreeCounter(3)), (LOCAL, EPOCHS)])
def test_ledger_and_guarantee_follow_the_counter_and_the_trust_model(trust: Trust, counter: Counter) -> None:
    charged = trust.sensitivity(counter)
    _, scales = even(mu_of(1.0, 1e-5), 0.0, charged)
    noise = TwoSums(1.0, 1e-5, scales, counter=counter, trust=trust)
    promise = noise.guarantee(ENDS, {"a": 1}, calibration="paper", remark="said")
    np.testing.assert_array_equal(promise.ledger.exposure, trust.exposure(counter))
    assert promise.ledger.counter == trust.released_by(counter)
    assert promise.spent == pytest.approx(1.0, rel=1e-6)
    largest = trust.release_std(counter, ENDS).max()
    assert [(row.name, row.step, row.sensitivity, row.scale) for row in promise.sums] == [
        ("first", 1, MOVES[0], scales[0]), ("second", 2, MOVES[1], scales[1]),
    ]  # fmt: skip
    assert [row.largest for row in promise.sums] == [scales[0] * largest, scales[1]]
    assert [(group.name, group.sensitivity, group.spread) for group in promise.groups] == [
        ("second", 0.2, ()), ("first", MOVES[0], (1.0, 1.0, 2.0, 2.0)),
    ]  # fmt: skip
    assert (promise.settings, promise.calibration, promise.remark) == ({"a": 1}, "paper", "said")


def test_noise_that_is_too_small_is_no_guarantee() -> None:
    _, scales = even(mu_of(1.0, 1e-5), 0.0)
    louder = TwoSums(1.0, 1e-5, (scales[0] / 1.001, scales[1]))
    with pytest.raises(InvalidInput, match="strength of the plan"):
        louder.guarantee(ENDS, {})


def test_what_is_not_released_costs_nothing_but_is_held_to_its_declaration() -> None:
    _, scales = even(mu_of(1.0, 1e-5), 0.0)
    promise = TwoSums(1.0, 1e-5, scales, silent=True).guarantee(ENDS, {})
    assert [share.name for share in promise.ledger.shares] == ["first", "second"]
    assert [(group.name, group.sensitivity) for group in promise.groups][-1] == ("third", 0.0)


@pytest.mark.parametrize("honest", [1.0, 0.6])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_coins_are_as_few_as_the_promise_allows(epsilon: float, honest: float) -> None:
    def coordinates(strength: float, grid: float) -> tuple[np.ndarray, np.ndarray]:
        moves, scales = even(strength, grid)
        return np.repeat(scales, WIDTHS), np.repeat(moves, WIDTHS)

    coarsest = coarsest_grid(zip(MOVES, map(math.sqrt, WIDTHS), strict=True))
    strength, grid, account = fewest_coins(
        coordinates, coarsest, epsilon=epsilon, delta=1e-5, sizes=(10, 20, 40), honest=honest
    )
    assert grid <= coarsest
    assert max(coarsest * math.sqrt(width) / move for move, width in zip(MOVES, WIDTHS, strict=True)) <= ROUNDING
    assert account.slope * strength <= REMAINDER * epsilon
    moves, scales = even(strength, grid)
    first, second = (float(of_whole_coins(scale, grid)) for scale in scales)
    assert first >= scales[0] * (1 - 1e-11)
    assert second >= scales[1] * (1 - 1e-11)
    assert (coins_for([first, second], grid) == coins_for(scales, grid)).all()
    noise = TwoSums(epsilon, 1e-5, (first, second), moves, trust=SHUFFLE, account=account)
    promise = noise.guarantee(ENDS, {}, honest)
    assert 0.97 * epsilon < promise.spent <= epsilon
    assert (account.excess > 1) == (honest < 1)
    assert promise.sums[0].largest == pytest.approx(first * account.excess * EPOCHS.release_std().max())


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0}])
def test_a_promise_that_is_none_is_refused(bad: dict[str, float]) -> None:
    promise = {"epsilon": 1.0, "delta": 1e-5, **bad}
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        least_noise(even, lambda found: min(found[1]), **promise)
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        fewest_coins(even, 0.1, sizes=(10,), honest=1.0, **promise)  # type: ignore[arg-type]
