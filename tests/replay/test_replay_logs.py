# SPDX-License-Identifier: Apache-2.0
"""Logs that can be met again: episodes as recorded, and rejection that leaves the policy's own distribution."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from reticent.errors import InvalidInput
from reticent.replay.before_launch import CAUTION, LogReplay, _best_fixed
from reticent.replay.logs import RandomisedUsers, replayable, require_enough
from reticent.worlds import make_world
from reticent.worlds.people.recorded import RecordedUsers
from reticent.worlds.records import Columns, read_log


def table(users: int = 3, steps: int = 2) -> pl.DataFrame:
    rows = [
        {"user": user, "step": step, "state": "ab"[(user + step) % 2], "action": "xy"[user % 2], "reward": 0.25 * step,
         "p": 0.5 if user else 0.25, "paid_x": 0.1 * user, "paid_y": 1.0}
        for user in range(users) for step in range(steps)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_all_rewards_recorded_is_exact() -> None:
    log = read_log(table(), columns=Columns(rewards_of="paid_"))
    users = replayable(log, 2, states_unaffected=True)
    assert isinstance(users, RecordedUsers)
    np.testing.assert_allclose(users.returns(np.zeros((2, 2), int)), [0.0, 0.2, 0.4])  # always x
    np.testing.assert_allclose(users.returns(np.ones((2, 2), int)), 2.0)  # always y
    mixed = np.array([[0, 1], [0, 1]])  # x in a, y in b: everybody visits both
    np.testing.assert_allclose(users.returns(mixed), [1.0, 1.1, 1.2])


def test_randomised_episodes_are_as_recorded() -> None:
    log = read_log(table(), columns=Columns(probability="p"))
    users = replayable(log, 2)
    assert isinstance(users, RandomisedUsers)
    assert users.states.tolist() == [[0, 1, 1], [1, 0, 0], [0, 1, 1]]  # what follows the last row is unknown: unchanged
    assert users.actions.tolist() == [[0, 0], [1, 1], [0, 0]]
    np.testing.assert_allclose(users.coins, [[1, 1], [0.5, 0.5], [0.5, 0.5]])
    # Only user 1 did y throughout: weight 1/0.25 on her reward of the second step, a mean over three users.
    assert users.value(np.ones((2, 2), int)).value == pytest.approx(0.25 * 4 / 3)


def test_those_who_left_stay_away() -> None:
    short = table(3, 3).filter((pl.col("user") > 0) | (pl.col("step") == 0))
    log = read_log(short, columns=Columns(probability="p"), leaves_before=3)
    users = replayable(log, 3)
    assert isinstance(users, RandomisedUsers)
    over = log.coding.states - 1
    assert users.states[0].tolist() == [0, over, over, over]
    assert users.free[0].tolist() == [False, True, True]
    assert users.rewards[0].tolist() == [0, 0, 0]
    with pytest.raises(InvalidInput, match=r"users of the table with fewer than 3 rows is 1"):
        replayable(read_log(short, columns=Columns(probability="p")), 3)


def test_accepted_episodes_are_distributed_as_the_policys_own() -> None:
    """Rejection with uneven probabilities: kept returns have the policy's mean, which the records' mean is far from."""
    random = np.random.default_rng(0)
    count = 40_000
    chance = np.where(random.random(count) < 0.5, 0.2, 0.8)  # of action x, by a hidden coin that also pays
    action = np.where(random.random(count) < chance, "x", "y")
    reward = ((action == "x") * chance > random.random(count)) * 1.0
    frame = pl.DataFrame(
        {"user": np.arange(count), "step": 0, "state": "s", "action": action, "reward": reward,
         "p": np.where(action == "x", chance, 1 - chance)}
    )  # fmt: skip
    users = replayable(read_log(frame, columns=Columns(probability="p")), 1)
    assert isinstance(users, RandomisedUsers)
    kept = (users.actions[:, 0] == 0) & (random.random(count) < users.coins[:, 0])
    mean, error = users.rewards[kept].mean(), 0.5 / np.sqrt(kept.sum())
    assert abs(mean - 0.5) < 5 * error  # a false alarm in 10^6; matching without coins would give 0.68
    assert abs(users.rewards[users.actions[:, 0] == 0].mean() - 0.68) < 5 * error
    assert abs(kept.mean() - 0.2) < 5 * 0.4 / np.sqrt(count)


def arms(users: int, actions: int, rate: float, seed: int = 0) -> RandomisedUsers:
    """One state, actions drawn evenly, and rewards that do not depend on them."""
    random = np.random.default_rng(seed)
    shape = (users, 1)
    return RandomisedUsers(
        np.zeros((users, 2), np.int64), random.integers(actions, size=shape), (random.random(shape) < rate) * 1.0,
        np.full(shape, 1 / actions), np.zeros(shape, bool), actions, "drawn",
    )  # fmt: skip


def test_how_many_will_be_met_is_known_before() -> None:
    assert arms(10_000, 80, 0.004).expected_met == pytest.approx(125)
    log = read_log(table(3, 3).filter((pl.col("user") > 0) | (pl.col("step") == 0)), columns=Columns(probability="p"),
                   leaves_before=3)  # fmt: skip
    users = replayable(log, 3)
    assert isinstance(users, RandomisedUsers)
    assert users.expected_met == pytest.approx(0.25 + 2 * 0.25**3)  # who left after one moment needs one match


def test_too_few_met_are_refused_with_the_number_needed() -> None:
    few = arms(10_000, 80, 0.004)
    with pytest.raises(InvalidInput, match=r"about 125 of 10,000, but must be at least [\d,]+, .*give [\d,]+ records"):
        require_enough(few, few.rewards.sum(axis=1), "the log")
    many = arms(10_000, 3, 0.3)
    require_enough(many, many.rewards.sum(axis=1), "the log")


def test_the_best_of_many_noisy_arms_is_not_overstated() -> None:
    """Eighty equal arms: the largest of 80 estimates is about three standard errors too high, half against half is not."""
    model = make_world("random-blend:states=2,actions=80,horizon=1,d=2").model
    found, naive = [], []
    for seed in range(12):
        users = arms(4_000, 80, 0.1, seed)
        row = _best_fixed(users, model, np.random.default_rng(seed))
        assert row.value is not None
        found.append(row.value)
        naive.append(max(users.value(np.full((1, 1), action)).value for action in range(80)))
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - 0.1) < 5 * error  # Student's t of 11 degrees: a false alarm in 2 500
    assert np.mean(naive) > 0.18


def test_what_is_printed_says_that_it_is_not_private() -> None:
    """Its promise is the deployment's, and not about these figures."""
    found = LogReplay("a log", 2, "an agent", "why", "a promise", (), ())
    assert json.loads(json.dumps(found.to_dict()))["caution"] == CAUTION
    assert "without noise" in CAUTION
