# SPDX-License-Identifier: Apache-2.0
"""Rounds released by themselves: each once, each with its own noise, and charged like the identity that they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.privacy.counters.separate import SeparateRounds

ROUNDS = 4
COUNTER = SeparateRounds(ROUNDS)


def test_each_round_is_released_alone_and_nothing_after_the_last() -> None:
    draw = np.random.default_rng(5)
    items, noise = draw.normal(size=(2, ROUNDS + 3, 2))
    state = COUNTER.init((2,), jnp.float64)
    np.testing.assert_array_equal(COUNTER.release(state), np.zeros(2))
    for number in range(ROUNDS + 3):
        state = COUNTER.close(state, jnp.asarray(items[number]), jnp.asarray(noise[number]))
        shown = min(number, ROUNDS - 1)
        np.testing.assert_array_equal(COUNTER.release(state), items[shown] + noise[shown])
        assert int(state.t) == min(number + 1, ROUNDS)


def test_separate_rounds_are_charged_once_each() -> None:
    """Releases are x + z: the strategy is the identity, its columns have length 1, and so has the noise of a release."""
    np.testing.assert_array_equal(COUNTER.strategy(), np.eye(ROUNDS))
    assert np.linalg.norm(COUNTER.strategy(), axis=0).max() == COUNTER.sensitivity
    np.testing.assert_array_equal(COUNTER.exposure(), np.ones(ROUNDS))
    np.testing.assert_array_equal(COUNTER.release_std(), np.ones(ROUNDS))
    assert COUNTER.weights() is None
    assert COUNTER.noise_shape_prefix == ()
    assert COUNTER.integer_strategy  # entries 0 and 1: discrete noise may protect it


def test_separate_rounds_keep_one_noisy_sum_and_nothing_else() -> None:
    state = COUNTER.close(COUNTER.init((5,), jnp.float64), jnp.ones(5), jnp.full(5, -1.0))
    held = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
    assert sum(leaf.size for leaf in held) == 5 * COUNTER.memory
    assert not any(leaf.any() for leaf in held)  # noise that cancels the item leaves nothing of it
    assert COUNTER.keeps_noisy_sums_only


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, "7"])
def test_bad_numbers_of_separate_rounds_are_refused(rounds: object) -> None:
    with pytest.raises(InvalidInput, match="rounds is"):
        SeparateRounds(rounds)  # type: ignore[arg-type]
