# SPDX-License-Identifier: Apache-2.0
"""The table of release noise in docs, and the fitted parameters of the BLT counter."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.privacy.counters import BltCounter, ToeplitzCounter, TreeCounter, blt
from reticent.privacy.counters.blt import column_norm, release_variance, verify
from reticent.privacy.counters.blt_parameters import PARAMETERS
from reticent.privacy.counters.toeplitz import square_root_coefficients

ROUNDS = (100, 1_000, 10_000, 100_000)
# Largest and root-mean-square release std at mu = 1, Delta = 1.
TABLE = {
    "tree": ((6.48, 4.73), (9.49, 7.03), (13.49, 9.51), (16.49, 11.77)),
    "tree-reduced": ((5.15, 3.74), (7.28, 5.36), (10.11, 7.13), (12.23, 8.72)),
    "toeplitz": ((2.53, 2.37), (3.27, 3.10), (4.00, 3.84), (4.73, 4.57)),
    "blt": ((2.35, 2.26), (3.07, 2.98), (3.80, 3.71), (4.55, 4.46)),
}
LOWER_BOUND = (2.18, 2.90, 3.63, 4.37)
MAKE = {
    "tree": TreeCounter,
    "tree-reduced": lambda n: TreeCounter(n, "reduced"),
    "toeplitz": ToeplitzCounter,
    "blt": BltCounter,
}
FITTED = [(buffers, n) for buffers, fits in PARAMETERS.items() for n in fits]


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("column", range(4))
def test_table_of_release_noise(name, column):
    counter = MAKE[name](ROUNDS[column])
    std = counter.release_std() * counter.sensitivity
    largest, rms = TABLE[name][column]
    assert std.max() == pytest.approx(largest, rel=0.01)
    assert np.sqrt(np.mean(std**2)) == pytest.approx(rms, rel=0.01)
    assert std.max() > LOWER_BOUND[column]


@pytest.mark.parametrize(("buffers", "n"), [(b, n) for b, n in FITTED if n <= 512])
def test_blt_variance_is_that_of_the_dense_matrix(buffers, n):
    n -= n // 5
    decays, weights = BltCounter(n, buffers).parameters
    c = np.concatenate([[1.0], [np.dot(weights, np.power(decays, k)) for k in range(n - 1)]])
    dense = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    norms = np.linalg.norm(dense, axis=0)
    np.testing.assert_allclose(column_norm(np.arange(n, 0, -1.0), decays, weights), norms, rtol=1e-12)
    noise = np.tril(np.ones((n, n))) @ np.diag(norms) @ np.linalg.inv(dense)
    np.testing.assert_allclose(release_variance(n, decays, weights), np.sum(noise**2, axis=1), rtol=1e-9)


@pytest.mark.parametrize(("buffers", "n"), [(b, n) for b, n in FITTED if n <= 2**17])
def test_fitted_sizes_and_the_worst_size_between_pass_the_check(buffers, n):
    """Just above half a fitted size is where the fit is most off."""
    for rounds in (n, n // 2 + 1):
        counter = BltCounter(rounds, buffers)
        assert counter.parameters == PARAMETERS[buffers][n] or rounds <= 8
        if rounds >= 16:
            assert counter.release_std().max() < 1.02 * np.sum(square_root_coefficients(rounds) ** 2)


def test_more_buffers_are_no_worse():
    for n in (64, 1024, 2**16):
        largest = [BltCounter(n, buffers).release_std().max() for buffers in sorted(PARAMETERS)]
        assert all(more <= fewer * 1.001 for fewer, more in itertools.pairwise(largest))


def test_a_million_rounds_take_seconds():
    start = time.perf_counter()
    counter = BltCounter(1_000_000)
    std = counter.release_std()
    assert time.perf_counter() - start < 20, "a few seconds when the machine is idle"
    assert std.max() < ToeplitzCounter(1_000_000).sensitivity ** 2


def test_unfitted_buffers_are_refused():
    with pytest.raises(InvalidInput, match="buffers is 17"):
        BltCounter(10, buffers=17)


@pytest.mark.parametrize(
    ("decays", "weights", "complaint"),
    [
        ((0.5, 1.0), (0.2, 0.2), "decays"),
        ((0.5, 0.0), (0.2, 0.2), "decays"),
        ((0.5, 0.9), (0.2, -0.1), "weights"),
        ((0.5, 0.9), (0.6, 0.6), "sum of weights"),
        ((0.5,), (0.2, 0.2), "as many"),
        ((0.5, 0.6), (0.1, 0.1), "largest release std.*more buffers"),
    ],
)
def test_damaged_parameters_are_caught(decays, weights, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        verify(1000, decays, weights)


@pytest.mark.parametrize("off", [1e-8, -1e-8])
def test_blt_columns_that_are_not_as_long_as_stated_are_caught(off, monkeypatch):
    """The closed form is held to adding up: noise is calibrated by it."""
    parameters = (0.5, 0.9), (0.2, 0.1)
    verify.__wrapped__(12, *parameters)
    monkeypatch.setattr(blt, "column_norm", lambda *given: column_norm(*given) * (1 + off))
    with pytest.raises(InvalidInput, match="column norm error"):
        verify.__wrapped__(12, *parameters)


def test_square_root_squared_is_the_all_ones_triangle():
    c = square_root_coefficients(200)
    np.testing.assert_allclose(np.convolve(c, c)[:200], 1, rtol=1e-12)
