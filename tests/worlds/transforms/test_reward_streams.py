# SPDX-License-Identifier: Apache-2.0
"""Streams of reward tables: mixtures of what is public, chosen as their kind says, and solved exactly in hindsight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.worlds import make_world
from reticent.worlds.transforms.changing_rewards import RewardStream, reward_stream, stream_of_tables

WORLD = make_world("random-blend:states=2,actions=2,horizon=2,d=2")


def value(stream: RewardStream, choices: np.ndarray, table: np.ndarray) -> float:
    """The worth of choices ``(H, S)`` under a table, by plain forward probabilities: no dynamic program."""
    chances, total = np.asarray(stream.world.model.initial), 0.0
    for actions, rows in zip(choices, np.asarray(stream.world.transitions), strict=True):
        total += sum(chances[s] * table[s, actions[s]] for s in range(len(chances)))
        chances = sum(chances[s] * rows[s, actions[s]] for s in range(len(chances)))
    return total


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.sampled_from(["alternating", "drifting", "adversarial"]), st.integers(0, 10**6), st.integers(1, 500))
def test_a_table_is_a_mixture_of_the_public_ones(kind: str, episode: int, period: int) -> None:
    stream = reward_stream(WORLD, kind, period=period)
    weights = np.asarray(stream.weights(episode, np.array([0.3, 0.2])))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(weights, stream.weights(episode + 2 * period, np.array([0.3, 0.2])))
    table = np.asarray(stream.table(weights))
    np.testing.assert_allclose(table, np.einsum("m,msa->sa", weights, np.asarray(stream.tables)), atol=1e-12)


def test_each_kind_chooses_as_it_says() -> None:
    alternating = reward_stream(WORLD, "alternating", period=3)
    assert [int(np.argmax(alternating.weights(k, np.zeros(2)))) for k in range(8)] == [0, 0, 0, 1, 1, 1, 0, 0]
    drifting = reward_stream(WORLD, "drifting", period=4)
    np.testing.assert_allclose([drifting.weights(k, np.zeros(2))[1] for k in range(5)], [0, 0.5, 1, 0.5, 0], atol=1e-12)
    adversarial = reward_stream(WORLD, "adversarial")
    for choices in itertools.product(range(2), repeat=4):
        policy = np.reshape(choices, (2, 2))
        worth = [value(adversarial, policy, table) for table in np.asarray(adversarial.tables)]
        np.testing.assert_allclose(adversarial.values(policy), worth, atol=1e-12)
        chosen = int(np.argmax(adversarial.weights(7, adversarial.values(policy))))
        assert worth[chosen] <= min(worth) + 1e-12  # two tables may be worth the same


def test_what_is_best_in_hindsight_is_the_best_of_all_policies() -> None:
    """Σ_k V^π(r_k) of each of the 16 deterministic policies, episode by episode, against one dynamic program."""
    stream = reward_stream(WORLD, "drifting", period=7, swing=0.9)
    weights = np.array([stream.weights(k, np.zeros(2)) for k in range(5)])
    tables = [np.asarray(stream.table(one)) for one in weights]
    policies = [np.reshape(choices, (2, 2)) for choices in itertools.product(range(2), repeat=4)]
    best = max(sum(value(stream, policy, table) for table in tables) for policy in policies)
    assert 5 * float(stream.best_value(weights.mean(axis=0))) == pytest.approx(best, abs=1e-12)


def test_the_swing_cancels_and_agents_are_told_what_to_expect() -> None:
    stream = reward_stream(WORLD, "alternating", swing=0.5, seed=3)
    first, second = np.asarray(stream.tables)
    np.testing.assert_allclose((first + second) / 2, 0.5 * np.asarray(WORLD.reward_means[0]) + 0.25, atol=1e-12)
    np.testing.assert_allclose(stream.world.model.known_rewards, (first + second) / 2, atol=1e-12)
    assert WORLD.model.known_rewards is None  # the world that was given is as it was
    # Whichever half is paid for, every state has an action that is: the two pull apart everywhere.
    assert (np.sign(first - second).sum(axis=1) == 0).all()
    assert (np.abs(first - second) > 0.4).all()


def test_what_cannot_be_is_refused() -> None:
    table = np.full((1, 2, 2), 0.5)
    for kind, given_period, tables, match in (
        ("sometimes", None, table, "kind"), ("alternating", 0, table, "period"), ("drifting", None, table[0], "shape"),
        ("adversarial", None, table[:0], "shape"), ("alternating", None, 3 * table, "tables at table 0"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=match):
            stream_of_tables(WORLD, tables, kind, period=given_period)
    with pytest.raises(InvalidInput, match="swing"):
        reward_stream(WORLD, "alternating", swing=1.5)
    steps = make_world("random-blend:states=2,actions=2,horizon=2,d=2,per_step=true")
    with pytest.raises(InvalidInput, match="stationary"):
        reward_stream(steps, "alternating")
