# SPDX-License-Identifier: Apache-2.0
"""Ridge estimates and widths by Cholesky, against plain solves, over conditions up to 1e8."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_models import few

from reticent.agents.linear_mixture.statistics import Statistics, estimates
from reticent.learning.ridge import estimate, width

solve_all = jax.jit(estimate)
widths = jax.jit(jax.vmap(width))


def regression(seed: int, d: int, condition: float, horizon: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """H positive definite matrices with eigenvalues from 1 to ``condition``, and right-hand sides."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(horizon, d, d)))
    eigenvalues = np.geomspace(1, condition, d)
    return (basis * eigenvalues) @ basis.swapaxes(-1, -2), rng.normal(size=(horizon, d))


problems = st.tuples(st.integers(0, 10**6), st.sampled_from([1, 3, 8]), st.floats(1.0, 1e8))


@few
@given(problem=problems)
def test_estimate_solves_the_normal_equations(problem: tuple[int, int, float]) -> None:
    gram, moment = regression(*problem)
    found = solve_all(gram, moment)
    expected = np.linalg.solve(gram, moment[..., None])[..., 0]
    np.testing.assert_allclose(found.theta, expected, rtol=0, atol=1e-13 * problem[2] + 1e-12)
    np.testing.assert_allclose(found.factor @ np.swapaxes(found.factor, -1, -2), gram, rtol=0, atol=1e-12 * problem[2])
    assert np.allclose(found.factor, np.tril(found.factor))


@few
@given(problem=problems)
def test_width_is_the_norm_in_the_inverse(problem: tuple[int, int, float]) -> None:
    gram, _ = regression(*problem)
    features = np.random.default_rng(problem[0] + 1).normal(size=(len(gram), problem[1], 4, 2))
    found = widths(np.linalg.cholesky(gram), features)
    solved = np.linalg.solve(gram, features.reshape(len(gram), problem[1], -1)).reshape(features.shape)
    np.testing.assert_allclose(np.asarray(found) ** 2, (features * solved).sum(axis=1), rtol=1e-6, atol=1e-12)


def test_the_two_regressions_are_not_mixed_up() -> None:
    gram_p, moment_p = regression(1, 3, 10.0)
    gram_r, moment_r = regression(2, 8, 10.0)
    transition, reward = estimates(Statistics(gram_p, moment_p, gram_r, moment_r))
    np.testing.assert_allclose(np.einsum("hij,hj->hi", gram_p, transition.theta), moment_p, atol=1e-12)
    np.testing.assert_allclose(np.einsum("hij,hj->hi", gram_r, reward.theta), moment_r, atol=1e-12)


def test_width_of_nothing_is_nothing() -> None:
    gram, _ = regression(0, 3, 100.0)
    assert not np.asarray(width(np.linalg.cholesky(gram[0]), np.zeros((3, 4, 2)))).any()
