# SPDX-License-Identifier: Apache-2.0
"""The tree against a second, naive tree, and the two facts the paper's proofs rest on (its Lemma on P-sums)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from counter_probes import probed_noise, releases, strategy

from reticent.errors import InvalidInput
from reticent.privacy.counters import TreeCounter


def blocks_of(t: int) -> list[tuple[int, int]]:
    """The dyadic blocks (first, last) that partition 1..t, longest first."""
    found, first = [], 1
    for level in reversed(range(t.bit_length())):
        if t >> level & 1:
            found.append((first, first + 2**level - 1))
            first += 2**level
    return found


def naive_plain(items: np.ndarray, noise: np.ndarray, t: int) -> np.ndarray:
    """A block's noise is that of the round in which it ends."""
    return sum(items[a - 1 : b].sum(axis=0) + noise[b - 1] for a, b in blocks_of(t))


def naive_estimate(items: np.ndarray, noise: np.ndarray, a: int, b: int) -> tuple[np.ndarray, float]:
    """Best linear estimate of a block from all noisy sums in it, with its variance; top down."""
    level = (b - a + 1).bit_length() - 1
    own = items[a - 1 : b].sum(axis=0) + noise[b - 1, level]
    if a == b:
        return own, 1.0
    middle = (a + b) // 2
    left, left_variance = naive_estimate(items, noise, a, middle)
    right, right_variance = naive_estimate(items, noise, middle + 1, b)
    precision = 1 + 1 / (left_variance + right_variance)
    return (own + (left + right) / (left_variance + right_variance)) / precision, 1 / precision


@pytest.mark.parametrize("rounds", range(1, 65))
def test_plain_tree_is_the_naive_tree(rounds):
    """Round by round, without ``scan``: 64 compilations would take longer than all other tests here."""
    rng = np.random.default_rng(rounds)
    items, noise = rng.normal(size=(2, rounds, 2))
    counter = TreeCounter(rounds)
    state, seen = counter.init((2,), jnp.float64), []
    for item, drawn in zip(items, noise, strict=True):
        state = counter.close(state, item, drawn)
        seen.append(counter.release(state))
    np.testing.assert_allclose(seen, [naive_plain(items, noise, t) for t in range(1, rounds + 1)], atol=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 7, 31, 64])
def test_reduced_tree_is_the_naive_best_estimate(rounds):
    counter = TreeCounter(rounds, "reduced")
    rng = np.random.default_rng(rounds)
    items, noise = rng.normal(size=(rounds, 2)), rng.normal(size=(rounds, counter.levels, 2))
    estimates = [[naive_estimate(items, noise, a, b) for a, b in blocks_of(t)] for t in range(1, rounds + 1)]
    seen = releases(counter, jnp.asarray(items), jnp.asarray(noise))
    np.testing.assert_allclose(seen, [sum(value for value, _ in parts) for parts in estimates], atol=1e-12)
    variances = [sum(variance for _, variance in parts) for parts in estimates]
    np.testing.assert_allclose(counter.release_std() ** 2, variances, rtol=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 33, 64])
def test_each_item_is_in_one_noised_block_per_level_at_most(rounds):
    counter = TreeCounter(rounds)
    membership = strategy(counter)
    np.testing.assert_allclose(membership, np.round(membership), atol=1e-9)
    assert set(np.round(membership).ravel()) <= {0.0, 1.0}
    for item in range(1, rounds + 1):
        ends = {b for t in range(1, rounds + 1) for a, b in blocks_of(t) if a <= item <= b}
        assert np.round(membership[:, item - 1]).sum() == len(ends) <= counter.levels
    assert np.round(membership[:, 0]).sum() == counter.levels


def test_noise_of_a_block_is_drawn_once_and_kept_while_the_block_lives():
    """Row t of B has a 1 for every live block and nothing else: the very draw made when the block ended."""
    seen = probed_noise(TreeCounter(64))
    for t in range(1, 65):
        ends = {b for _, b in blocks_of(t)}
        np.testing.assert_array_equal(seen[t - 1], [float(draw in ends) for draw in range(1, 65)])


def test_reduced_tree_uses_only_the_blocks_that_end():
    counter = TreeCounter(40, "reduced")
    used = np.any(probed_noise(counter).reshape(40, 40, counter.levels), axis=0)
    expected = [[end % 2**level == 0 for level in range(counter.levels)] for end in range(1, 41)]
    np.testing.assert_array_equal(used, expected)


def test_numbers_by_hand():
    counter = TreeCounter(9)
    np.testing.assert_allclose(counter.release_std() ** 2, [1, 1, 2, 1, 2, 2, 3, 1, 2])
    np.testing.assert_array_equal(counter.exposure(), [1, 2, 2, 3, 3, 3, 3, 4, 4])
    assert counter.levels == 4
    # With prefixes up to K - 1 the level count is the paper's ceil(log2 K).
    assert [TreeCounter(k - 1).levels for k in (2, 3, 4, 5, 1024, 10_000)] == [1, 2, 2, 3, 10, 14]


def test_unknown_estimate_is_refused():
    with pytest.raises(InvalidInput, match="estimate"):
        TreeCounter(4, "best")
