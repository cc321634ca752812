# SPDX-License-Identifier: Apache-2.0
"""What every counter promises, checked on the matrices read off it."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counter_probes import (
    BUILT_IN,
    all_counters,
    label,
    probed,
    probed_noise,
    probed_states,
    releases,
    strategy,
    target_matrix,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidInput
from reticent.privacy.counters import (
    COUNTERS,
    BltCounter,
    EpochCounter,
    RunningSum,
    ToeplitzCounter,
    TreeCounter,
    groups_users,
    make_counter,
)

SIZES = (1, 2, 7, 33, 64)
PROBED = [counter for n in SIZES for counter in all_counters(n)]


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_without_noise_releases_are_the_prefix_sums(counter):
    np.testing.assert_allclose(probed(counter)[0], target_matrix(counter), atol=1e-12)


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_row_norms_of_the_noise_matrix_are_the_release_std(counter):
    np.testing.assert_allclose(np.linalg.norm(probed_noise(counter), axis=1), counter.release_std(), rtol=1e-9)


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_sensitivity_is_the_longest_column_of_the_strategy(counter):
    noise, protected = probed_noise(counter), strategy(counter)
    np.testing.assert_allclose(noise @ protected, target_matrix(counter), atol=1e-9)
    assert np.linalg.norm(protected, axis=0).max() == pytest.approx(counter.sensitivity, rel=1e-9)


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_a_stated_strategy_shows_of_items_what_the_noise_protects_or_more(counter):
    """By inner products of its columns, which all that returning users cost is worked out from. A plain tree states all
    of its blocks, also those that are never noised: as much of an item by itself, and no less of two together."""
    stated, protected = (matrix.T @ matrix for matrix in (counter.strategy(), strategy(counter)))
    assert stated.max() == pytest.approx(protected.max(), rel=1e-9)
    if counter.name == "tree":
        assert (stated >= protected - 1e-9).all()
    else:
        np.testing.assert_allclose(stated, protected, atol=1e-9)


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_strategy_never_looks_ahead(counter):
    """Adaptive streams are covered only if round t's noise protects no item that comes after it."""
    per_round = strategy(counter).reshape(counter.rounds, -1, counter.rounds)
    noise = probed_noise(counter).reshape(counter.rounds, counter.rounds, -1)
    for t in range(counter.rounds):
        np.testing.assert_allclose(per_round[t, :, t + 1 :], 0, atol=1e-9)
        assert not noise[t, t + 1 :].any()


@pytest.mark.parametrize("counter", PROBED, ids=label)
def test_exposure_is_the_longest_column_so_far(counter):
    per_round = np.sum(strategy(counter).reshape(counter.rounds, -1, counter.rounds) ** 2, axis=1)
    longest = np.cumsum(per_round, axis=0).max(axis=1)
    np.testing.assert_allclose(counter.exposure(), longest, rtol=1e-9)
    assert counter.exposure()[-1] == pytest.approx(counter.sensitivity**2)


@pytest.mark.parametrize("counter", [BltCounter(1000), BltCounter(1000, 3), BltCounter(700)], ids=label)
def test_item_one_is_the_most_exposed(counter):
    """The step of the BLT guarantee that is not a count, beyond the sizes that are probed."""
    n, (decays, weights) = counter.rounds, counter.parameters
    c = np.concatenate([[1.0], np.array(decays) ** np.arange(n - 1)[:, None] @ np.array(weights)])
    prefix = np.cumsum(c**2)
    np.testing.assert_allclose(counter.exposure(), prefix / prefix[-1], rtol=1e-10)
    for later in range(n):
        assert np.all(prefix[: n - later] / prefix[n - 1 - later] <= counter.exposure()[later:] * (1 + 1e-12))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    n=st.sampled_from([1, 2, 7]),
    which=st.integers(0, len(all_counters(1)) - 1),
    shape=st.sampled_from([(), (3,), (2, 2)]),
    seed=st.integers(0, 99),
)
def test_releases_are_linear_in_items_and_noise(n, which, shape, seed):
    counter = all_counters(n)[which]
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(n, *shape))
    noise = rng.normal(size=(n, *counter.noise_shape_prefix, *shape))
    expected = np.tensordot(target_matrix(counter), items, axes=1)
    expected = expected + np.tensordot(probed_noise(counter), noise.reshape(-1, *shape), axes=1)
    np.testing.assert_allclose(releases(counter, jnp.asarray(items), jnp.asarray(noise)), expected, atol=1e-10)


@pytest.mark.verify
@pytest.mark.parametrize("counter", [*all_counters(13), RunningSum(13)], ids=label)
def test_jit_scan_and_vmap_agree_with_a_plain_loop(counter):
    rng = np.random.default_rng(5)
    streams = 3
    items = jnp.asarray(rng.normal(size=(streams, 13, 2)))
    noise = jnp.asarray(rng.normal(size=(streams, 13, *counter.noise_shape_prefix, 2)))
    together = jax.vmap(lambda x, z: releases(counter, x, z))(items, noise)
    for stream in range(streams):
        state = counter.init((2,), items.dtype)
        assert not np.any(counter.release(state))
        for t in range(13):
            state = counter.close(state, items[stream, t], noise[stream, t])
            np.testing.assert_allclose(counter.release(state), together[stream, t], rtol=1e-9, atol=1e-12)


@pytest.mark.verify
@pytest.mark.parametrize("counter", all_counters(100), ids=label)
def test_measured_std_is_as_stated(counter):
    """50 000 coordinates: a std is measured to 0.32%, so 2% is 6.3 sigma, below 2e-7 over all 600 comparisons."""
    coordinates = 50_000

    def one_round(state, key):
        noise = jax.random.normal(key, (*counter.noise_shape_prefix, coordinates))
        state = counter.close(state, jnp.zeros(coordinates), noise)
        return state, jnp.sqrt(jnp.mean(counter.release(state) ** 2))

    keys = jax.random.split(jax.random.key(20_241, impl="rbg"), 100)
    _, measured = jax.jit(lambda keys: jax.lax.scan(one_round, counter.init((coordinates,), jnp.float64), keys))(keys)
    ratio = np.asarray(measured) / counter.release_std()
    assert np.all(np.abs(ratio - 1) < 0.02)
    assert np.all(np.abs(0.95 * ratio - 1) > 0.02), "the test would not notice noise that is 5% too small"


@pytest.mark.parametrize("counter", all_counters(6), ids=label)
def test_rounds_after_the_last_leave_no_trace(counter):
    rng = np.random.default_rng(11)
    items = jnp.asarray(rng.normal(size=(20, 2)))
    noise = jnp.asarray(rng.normal(size=(20, *counter.noise_shape_prefix, 2)))
    seen = releases(counter, items, noise)
    np.testing.assert_array_equal(seen[6:], np.broadcast_to(seen[5], (14, 2)))


@pytest.mark.parametrize("counter", all_counters(9), ids=label)
def test_single_precision_stays_single(counter):
    item = jnp.ones(2, jnp.float32)
    noise = jnp.ones((*counter.noise_shape_prefix, 2), jnp.float32)
    before = counter.init((2,), jnp.float32)
    after = jax.eval_shape(counter.close, before, item, noise)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), before) == jax.tree.map(lambda x: (x.shape, x.dtype), after)
    assert jax.eval_shape(counter.release, after).dtype == jnp.float32


@pytest.mark.parametrize("counter", [*all_counters(9), RunningSum(9)], ids=label)
def test_counters_are_frozen_values_and_say_their_memory(counter):
    assert hash(counter) == hash(dataclasses.replace(counter))
    assert counter == dataclasses.replace(counter)
    with pytest.raises(dataclasses.FrozenInstanceError):
        counter.rounds = 3
    held = sum(leaf.size for leaf in jax.tree.leaves(counter.init((5,), jnp.float64)) if leaf.ndim)
    assert held == 5 * counter.memory
    assert counter.release_std().shape == counter.exposure().shape == (counter.rounds,)


@pytest.mark.parametrize("kind", [TreeCounter, ToeplitzCounter, BltCounter, RunningSum])
@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, 2**31, "7"])
def test_bad_rounds_are_refused(kind, rounds):
    with pytest.raises(InvalidInput, match="rounds is"):
        kind(rounds)


@pytest.mark.parametrize("counter", [TreeCounter(5, "reduced"), ToeplitzCounter(5), BltCounter(5)], ids=label)
def test_counters_that_scale_their_noise_need_floats(counter):
    with pytest.raises(InvalidInput, match="floating"):
        counter.init((2,), jnp.int64)


@pytest.mark.parametrize("counter", [TreeCounter(7), EpochCounter((1, 5, 2, 2, 9, 1, 1))], ids=label)
def test_integer_items_are_summed_exactly(counter):
    """2^53 + 1 is not a double; integer grids of the deployed noise must not be rounded on the way."""
    large = 2**53 + 1
    state = counter.init((), jnp.int64)
    for t in range(7):
        state = counter.close(state, jnp.int64(large if t == 0 else 0), jnp.int64(0))
    held = state.released if counter.name == "tree" else state.weighted
    assert int(held) == large


def test_running_sum_claims_nothing():
    counter = RunningSum(4)
    assert counter.name == "sum"
    assert math.isinf(counter.sensitivity)
    assert not counter.release_std().any()
    seen = releases(counter, jnp.arange(4.0)[:, None], 100 * jnp.ones((4, 1)))
    np.testing.assert_array_equal(seen[:, 0], [0, 1, 3, 6])


def test_every_name_makes_its_counter():
    assert set(COUNTERS) == set(BUILT_IN)
    for name in BUILT_IN:
        counter = make_counter(name, (10, 20, 40, 30))
        assert counter.name == name
        assert counter.rounds == 4
        assert groups_users(name) == (name == "epochs")
        assert (counter.weights() is not None) == (name == "epochs")


# -- capabilities ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", [counter for counter in PROBED if counter.rounds > 1], ids=label)
def test_an_integer_strategy_has_zeros_and_ones_and_no_other_has(counter):
    """Exact discrete noise and the charge of Laplace noise rest on it."""
    protected = strategy(counter)
    whole = bool((np.minimum(np.abs(protected), np.abs(protected - 1)) < 1e-9).all())
    assert counter.integer_strategy == whole
    if whole:
        assert np.rint(protected).sum(axis=0).max() == pytest.approx(counter.sensitivity**2, rel=1e-9)


@pytest.mark.parametrize("counter", [counter for counter in PROBED if counter.rounds > 1], ids=label)
def test_a_state_of_noisy_sums_is_a_function_of_what_the_noise_protects(counter):
    """Such a state, linear in items x and noise z, reads them through Cx + z alone; any other holds a sum or noise bare."""
    from_items, from_noise = probed_states(counter)
    bare = np.abs(from_items - from_noise @ strategy(counter)).max()
    assert counter.keeps_noisy_sums_only == (bare < 1e-9)


def test_a_running_sum_protects_nothing_and_says_so():
    assert not RunningSum(3).keeps_noisy_sums_only
    assert RunningSum(3).integer_strategy
    assert math.isinf(RunningSum(3).sensitivity)
    np.testing.assert_array_equal(RunningSum(3).exposure(), np.full(3, math.inf))
    np.testing.assert_array_equal(RunningSum(3).strategy(), np.diag(np.full(3, math.inf)))
    assert RunningSum(3).weights() is None
