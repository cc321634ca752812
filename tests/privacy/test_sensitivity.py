# SPDX-License-Identifier: Apache-2.0
"""Each stated sensitivity is searched for a counterexample and must also be attained; clipping and packing."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from reticent.errors import InvalidInput, UnknownName
from reticent.privacy.clipping import clip_interval, clip_norm
from reticent.privacy.packing import pack_symmetric, packed_size, unpack_symmetric
from reticent.privacy.sensitivity import (
    Adjacency,
    accounted_moment_sensitivity,
    gram_sensitivity,
    joint_sensitivity,
    moment_sensitivity,
)

Distance = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
ADJACENCIES: tuple[Adjacency, ...] = ("replace", "zero-out")


def distance(gram: float, weight: float) -> Distance:
    """‖[gram·(xxᵀ − yyᵀ), weight·(vx − v'y)]‖, from the arrays themselves and not from the formula under test."""

    def of(x: np.ndarray, y: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        matrix = gram * (x[..., :, None] * x[..., None, :] - y[..., :, None] * y[..., None, :])
        vector = weight * (v[..., None] * x - u[..., None] * y)
        return np.sqrt((matrix**2).sum((-1, -2)) + (vector**2).sum(-1))

    return of


def decode(
    raw: np.ndarray, dimension: int, bound: float, target: float, adjacency: Adjacency, nonnegative: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Any real vector as a pair of admissible users; every admissible pair is reached."""

    def ball(z: np.ndarray) -> np.ndarray:
        z = np.abs(z) if nonnegative else z
        return bound * z / np.maximum(1.0, np.linalg.norm(z, axis=-1, keepdims=True))

    def interval(z: np.ndarray) -> np.ndarray:
        return np.clip(np.abs(z) if nonnegative else z, -1.0, 1.0) * target

    x, y = ball(raw[..., :dimension]), ball(raw[..., dimension : 2 * dimension])
    v, u = interval(raw[..., -2]), interval(raw[..., -1])
    return (x, y, v, u) if adjacency == "replace" else (x, 0.0 * y, v, 0.0 * u)


def search(
    of: Distance, dimension: int, bound: float, target: float, adjacency: Adjacency, nonnegative: bool = False
) -> float:
    """The largest distance found: 20 000 random pairs, then local optimization from the best of them."""
    rng = np.random.default_rng(0)
    size = 2 * dimension + 2
    raw = rng.normal(size=(20_000, size)) * rng.choice([0.3, 1.0, 4.0], size=(20_000, 1))

    def value(z: np.ndarray) -> np.ndarray:
        return of(*decode(z, dimension, bound, target, adjacency, nonnegative))

    found = value(raw)
    best = float(found.max())
    starts = np.concatenate([raw[np.argsort(found)[-6:]], rng.normal(size=(6, size))])
    for start in starts:
        result = minimize(lambda z: -float(value(z)), start, method="Powell", options={"maxiter": 30, "xtol": 1e-6})
        best = max(best, -float(result.fun))
    return best


def assert_sharp(found: float, stated: float) -> None:
    assert found <= stated * (1 + 1e-9)
    assert found >= 0.999 * stated


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("dimension", [2, 4])
def test_gram_and_moment_are_sharp(adjacency: Adjacency, dimension: int) -> None:
    bound, target = 1.7, 0.6
    found = search(distance(1.0, 0.0), dimension, bound, target, adjacency)
    assert_sharp(found, gram_sensitivity(bound, adjacency))
    found = search(distance(0.0, 1.0), dimension, bound, target, adjacency)
    assert_sharp(found, moment_sensitivity(bound, target, adjacency))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.9, 2.0, 2.1, 3.0, 9.0])
def test_joint_is_sharp(adjacency: Adjacency, ratio: float) -> None:
    bound, target = 1.3, 0.7
    weight = float(np.sqrt(ratio)) * bound / target
    found = search(distance(1.0, weight), 2, bound, target, adjacency)
    assert_sharp(found, joint_sensitivity(bound, target, weight, adjacency))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_nonnegative_features_are_sharp(adjacency: Adjacency, ratio: float) -> None:
    bound, target = 1.3, 0.7
    weight = float(np.sqrt(ratio)) * bound / target
    found = search(distance(0.0, 1.0), 2, bound, target, adjacency, nonnegative=True)
    assert_sharp(found, moment_sensitivity(bound, target, adjacency, nonnegative=True))
    found = search(distance(1.0, weight), 2, bound, target, adjacency, nonnegative=True)
    assert_sharp(found, joint_sensitivity(bound, target, weight, adjacency, nonnegative=True))


def test_bounds_hold_in_dimension_one() -> None:
    for ratio in (0.5, 3.0):
        found = search(distance(1.0, float(np.sqrt(ratio))), 1, 1.0, 1.0, "replace")
        assert found <= joint_sensitivity(1.0, 1.0, float(np.sqrt(ratio)), "replace") * (1 + 1e-9)


scales = st.floats(0.01, 100.0)


@settings(deadline=None)
@given(scales, scales, scales, st.sampled_from(ADJACENCIES), st.booleans())
def test_shares_recompose(bound: float, target: float, weight: float, adjacency: Adjacency, nonneg: bool) -> None:
    joint = joint_sensitivity(bound, target, weight, adjacency, nonnegative=nonneg)
    share = accounted_moment_sensitivity(bound, target, weight, adjacency, nonnegative=nonneg)
    gram = gram_sensitivity(bound, adjacency)
    assert joint == pytest.approx(np.hypot(gram, weight * share), rel=1e-12)
    assert share <= moment_sensitivity(bound, target, adjacency, nonnegative=nonneg) * (1 + 1e-12)


@pytest.mark.parametrize("ratio", [0.01, 1.9, 2.0, 2.1, 3.0, 4.1, 9.0])
def test_shares_recompose_on_either_side_of_the_bend(ratio: float) -> None:
    """And signs are taken to help only where that is declared."""
    bound, target = 1.3, 0.7
    weight = float(np.sqrt(ratio)) * bound / target
    share = accounted_moment_sensitivity(bound, target, weight, "replace")
    joint = joint_sensitivity(bound, target, weight, "replace")
    assert joint == pytest.approx(np.hypot(gram_sensitivity(bound, "replace"), weight * share), rel=1e-12)
    for function, numbers in (
        (moment_sensitivity, (bound, target)), (joint_sensitivity, (bound, target, weight)),
        (accounted_moment_sensitivity, (bound, target, weight)),
    ):  # fmt: skip
        plain = function(*numbers, "replace")  # type: ignore[operator]
        assert plain == function(*numbers, "replace", nonnegative=False)  # type: ignore[operator]
        assert plain > function(*numbers, "replace", nonnegative=True)  # type: ignore[operator]


@settings(deadline=None)
@given(scales, scales, scales)
def test_one_joint_release_never_costs_more_than_two(bound: float, target: float, weight: float) -> None:
    separate = np.hypot(gram_sensitivity(bound, "replace"), weight * moment_sensitivity(bound, target, "replace"))
    assert joint_sensitivity(bound, target, weight, "replace") <= separate * (1 + 1e-12)


# Few lengths: each is compiled anew, operation by operation.
lengths = st.sampled_from([1, 2, 3, 12])
vectors = hnp.arrays(np.float64, lengths, elements=st.floats(allow_nan=True, allow_infinity=True, width=64))


@settings(max_examples=200, deadline=None)
@given(vectors, st.floats(1e-3, 1e3))
def test_clipped_norm_is_within_the_bound_whatever_comes_in(x: np.ndarray, bound: float) -> None:
    with np.errstate(all="ignore"):
        clipped = np.asarray(clip_norm(x, bound), dtype=np.longdouble)
    assert np.sqrt((clipped**2).sum()) <= bound


def test_clip_norm_keeps_short_vectors_and_directions() -> None:
    x = jnp.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    np.testing.assert_allclose(clip_norm(x, 1.0), [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]], rtol=1e-12)
    np.testing.assert_array_equal(clip_norm(x, 1.0)[0], x[0])
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda row: clip_norm(row, 1.0)))(x), clip_norm(x, 1.0), rtol=1e-15)
    single = clip_norm(jnp.full((7,), 3.0, jnp.float32), 1.0)
    assert single.dtype == jnp.float32
    assert np.linalg.norm(np.asarray(single, np.float64)) <= 1.0


def test_clip_norm_has_finite_gradients() -> None:
    for x in (jnp.zeros(3), jnp.array([3.0, 4.0, 0.0]), jnp.array([0.1, 0.0, 0.0])):
        assert np.isfinite(jax.jacobian(lambda z: clip_norm(z, 1.0))(x)).all()


def test_clip_interval() -> None:
    x = jnp.array([-2.0, 0.25, 7.0, jnp.nan, jnp.inf, -jnp.inf])
    np.testing.assert_array_equal(clip_interval(x, -0.5, 1.0), [-0.5, 0.25, 1.0, -0.5, 1.0, -0.5])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 3, 7]), st.integers(0, 2**31))
def test_packing_is_an_isometry_and_inverts(dimension: int, seed: int) -> None:
    raw = np.random.default_rng(seed).normal(size=(3, dimension, dimension))
    matrix = raw + raw.transpose(0, 2, 1)
    packed = pack_symmetric(matrix)
    assert packed.shape == (3, packed_size(dimension))
    np.testing.assert_allclose(np.linalg.norm(packed, axis=-1), np.linalg.norm(matrix, axis=(1, 2)), rtol=1e-13)
    np.testing.assert_allclose(unpack_symmetric(packed), matrix, rtol=1e-14)


def test_packing_under_jit_and_vmap() -> None:
    packed = jnp.arange(12.0).reshape(2, 6)
    matrix = jax.jit(jax.vmap(unpack_symmetric))(packed)
    np.testing.assert_array_equal(matrix, matrix.transpose(0, 2, 1))
    np.testing.assert_allclose(jax.jit(jax.vmap(pack_symmetric))(matrix), packed, rtol=1e-15)
    assert pack_symmetric(jnp.eye(3, dtype=jnp.float32)).dtype == jnp.float32


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_no_function_takes_a_bound_that_is_none(bad: float, adjacency: Adjacency) -> None:
    names = ("bound", "target", "weight")
    for function, count in (
        (gram_sensitivity, 1), (moment_sensitivity, 2), (joint_sensitivity, 3), (accounted_moment_sensitivity, 3)
    ):  # fmt: skip
        for name in names[:count]:
            with pytest.raises(InvalidInput, match=name):
                function(**{**dict.fromkeys(names[:count], 1.0), name: bad}, adjacency=adjacency)  # type: ignore[operator]


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="bound is -1"):
        gram_sensitivity(-1.0, "replace")
    with pytest.raises(InvalidInput, match="target"):
        moment_sensitivity(1.0, float("nan"), "replace")
    with pytest.raises(InvalidInput, match="weight"):
        joint_sensitivity(1.0, 1.0, 0.0, "replace")
    with pytest.raises(UnknownName, match="adjacency"):
        gram_sensitivity(1.0, "add-remove")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"packed\.shape"):
        unpack_symmetric(jnp.zeros(5))
    with pytest.raises(InvalidInput, match=r"matrix\.shape"):
        pack_symmetric(jnp.zeros((2, 3)))
