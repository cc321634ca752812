# SPDX-License-Identifier: Apache-2.0
"""The privatizer by itself: packing, clipping, sums, what stays inside, and what an observation out of bounds counts as."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.privatizer import Privatizer, lift
from reticent.agents.linear_mixture.statistics import Observation, Statistics, products
from reticent.errors import InvalidInput
from reticent.privacy.trust import LOCAL
from reticent.worlds import Model, make_world

EPISODES = 12
H, D1, D2 = 3, 3, 2


@functools.cache
def the_model() -> Model:
    return make_world(f"random-blend:states=3,actions=2,horizon={H},d1={D1},d2={D2}").model


@functools.cache
def privatizer(**options) -> Privatizer:
    given_to = {"first": 2, "growth": 1.5, "contrasts": False, **options}
    return make_private(the_model(), EPISODES, "value-iteration", PrivateOptions(**given_to)).aggregator


def observation(seed: int, scale: float = 0.3) -> Observation:
    """Well inside every bound of every frame at every step but the last, where nothing is learned."""
    rng = np.random.default_rng(seed)
    inside = scale * (np.arange(H) < H - 1)
    return Observation(
        jnp.asarray(rng.uniform(-1, 1, (H, D1)) / math.sqrt(D1) * inside[:, None]),
        jnp.asarray(rng.uniform(0, 1, H) * inside),
        jnp.asarray(rng.uniform(0, 1, (H, D2)) / math.sqrt(D2)),
        jnp.asarray(rng.uniform(0, 1, H)),
    )


def exact(seeds, weights=None) -> Statistics:
    """The sums of the products themselves, by NumPy."""
    weights = np.ones(len(seeds)) if weights is None else weights
    found = None
    for seed, weight in zip(seeds, weights, strict=True):
        seen = jax.tree.map(np.asarray, observation(seed))
        outer = [np.einsum("hi,hj->hij", x, x) for x in (seen.value_features, seen.reward_features)]
        moments = [seen.value_features * seen.targets[:, None], seen.reward_features * seen.rewards[:, None]]
        each = [weight * array for array in (outer[0], moments[0], outer[1], moments[1])]
        found = each if found is None else [a + b for a, b in zip(found, each, strict=True)]
    return Statistics(*found)


def no_noise(one: Privatizer):
    return None if one.trust is LOCAL else jnp.zeros(one.counter.noise_shape_prefix + one.noise_scale.shape)


# Compiled as wholes: operation by operation, each is a program of its own for every shape.
clip, absorb, close, released, unpack = (
    jax.jit(method)
    for method in (Privatizer.clip, Privatizer.absorb, Privatizer.close, Privatizer.released, Privatizer.unpack)
)


@jax.jit
def report(one: Privatizer, seen: Observation):
    return one.report(seen, jnp.zeros_like(one.noise_scale) if one.trust is LOCAL else None)


# -- packing --------------------------------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=40)
@given(hnp.arrays(float, privatizer().noise_scale.shape, elements=st.floats(-1e6, 1e6)))
def test_unpack_and_pack_are_inverse_and_isometric(packed):
    one = privatizer()
    sums = unpack(one, jnp.asarray(packed))
    np.testing.assert_allclose(one.pack(sums), packed, rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(sums.transition_gram, jnp.swapaxes(sums.transition_gram, -1, -2))
    length = sum(float((np.asarray(leaf) ** 2).sum()) for leaf in sums)
    assert length == pytest.approx(float((packed**2).sum()), rel=1e-9)


def test_pack_and_unpack_are_inverse():
    sums = products(observation(0))
    for before, after in zip(sums, privatizer().unpack(privatizer().pack(sums)), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-14, atol=1e-300)


# -- clipping -------------------------------------------------------------------------------------------------------------

FRAMES = [
    {"span": "seen"},
    {"span": "step"},
    {"span": "horizon"},
    {"span": "step", "centred": False},
    {"calibration": "paper"},
]


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_clipping_changes_nothing_inside_the_bounds(frame):
    one = privatizer(**frame)
    seen = observation(1)
    for before, after in zip(seen, one.clip(seen), strict=True):
        np.testing.assert_array_equal(after, before)


ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64), st.sampled_from([1e300, -1e300, 5e-324, 1.0]))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.sampled_from(FRAMES), hnp.arrays(float, (H, D1), elements=ANY), hnp.arrays(float, H, elements=ANY),
    hnp.arrays(float, (H, D2), elements=ANY), hnp.arrays(float, H, elements=ANY),
)  # fmt: skip
def test_whatever_comes_in_what_is_counted_is_within_the_bounds(frame, phi, targets, varphi, rewards):
    one = privatizer(**frame)
    seen = clip(one, Observation(*map(jnp.asarray, (phi, targets, varphi, rewards))))
    bound = np.asarray(one.feature_bound)
    assert all(np.isfinite(leaf).all() for leaf in seen)
    assert (np.linalg.norm(seen.value_features, axis=-1) <= bound * (1 + 1e-12)).all()
    assert (np.asarray(seen.targets) >= one.target_low).all()
    assert (np.asarray(seen.targets) <= one.target_high).all()
    assert (np.linalg.norm(seen.reward_features, axis=-1) <= 1 + 1e-12).all()
    assert (np.asarray(seen.rewards) >= 0).all()
    assert (np.asarray(seen.rewards) <= 1).all()
    if one.nonnegative_rewards:
        assert (np.asarray(seen.reward_features) >= 0).all()
    packed = np.asarray(report(one, Observation(*map(jnp.asarray, (phi, targets, varphi, rewards)))))
    assert np.isfinite(packed).all()
    assert (packed[np.asarray(one.noise_scale) == 0] == 0).all()  # no noise, no news
    assert (np.abs(packed) <= one.contribution_bound * (1 + 1e-12)).all()


# -- sums -----------------------------------------------------------------------------------------------------------------

COUNTERS = [
    {"counter": "tree"}, {"counter": "tree-reduced"}, {"counter": "toeplitz"}, {"counter": "blt"},
    {"counter": "epochs"}, {"counter": "epochs", "pool": True}, {"counter": "blt", "pool": True},
    {"trust": "local"}, {"trust": "local", "pool": True}, {"calibration": "paper"},
]  # fmt: skip


def played(one: Privatizer, sizes, noise):
    """All states after 0, 1, ... rounds; users 0, 1, ... in the order of the rounds."""
    states, user = [one.init()], 0
    for index, size in enumerate(sizes):
        state = states[-1]
        for _ in range(size):
            state = absorb(one, state, report(one, observation(user)))
            user += 1
        states.append(close(one, state, noise(index)))
    return states


@pytest.mark.parametrize("options", COUNTERS, ids=str)
def test_without_noise_the_release_is_the_shifted_exact_sum(options):
    given_to = {"pool": False, **options} if "calibration" not in options else options
    one = privatizer(**given_to)
    weights = one.counter.weights()
    sizes = (
        list(one.counter.sizes)
        if weights is not None
        else ([3] * one.counter.rounds if one.trust is LOCAL else [1] * 5)
    )
    states = played(one, sizes, lambda _: no_noise(one))
    for rounds in range(len(sizes) + 1):
        users = sum(sizes[:rounds])
        row = min(rounds, one.transition_shift.shape[0] - 1)
        found = released(one, states[rounds])
        if users == 0:
            expected = Statistics(*(np.zeros(leaf.shape) for leaf in found))
        else:
            each = np.ones(users)
            if weights is not None:
                each = np.repeat([n / max(sizes[:rounds]) for n in sizes[:rounds]], sizes[:rounds])
            expected = exact(range(users), each)
        if given_to.get("pool"):
            expected = Statistics(*(np.broadcast_to(leaf.sum(axis=0), leaf.shape) for leaf in expected))
        eye_p = np.asarray(one.transition_shift[row])[:, None, None] * np.eye(D1)
        eye_r = np.asarray(one.reward_shift[row])[:, None, None] * np.eye(D2)
        np.testing.assert_allclose(found.transition_gram, expected.transition_gram + eye_p, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.reward_gram, expected.reward_gram + eye_r, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.transition_moment, expected.transition_moment, atol=1e-9)
        np.testing.assert_allclose(found.reward_moment, expected.reward_moment, atol=1e-9)


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize("options", COUNTERS, ids=str)
def test_after_the_last_round_nothing_more_is_released(options):
    one = privatizer(**options)
    state = one.init()
    for index in range(one.counter.rounds):
        state = one.close(
            one.absorb(state, report(one, observation(index))), one.simulate_round_noise(jax.random.key(index))
        )
    late = one.absorb(state, report(one, observation(99)))
    for extra in range(3):
        late = one.close(late, one.simulate_round_noise(jax.random.key(1000 + extra)))
        late = one.absorb(late, 7.0 * report(one, observation(98)))
    assert same(late._replace(open=0), state._replace(open=0))
    assert same(one.released(late), one.released(state))


@pytest.mark.parametrize("options", COUNTERS, ids=str)
def test_the_open_sum_is_not_read_before_its_round_ends(options):
    one = privatizer(**options)
    state = one.close(one.absorb(one.init(), report(one, observation(0))), one.simulate_round_noise(jax.random.key(0)))
    for disturbed in (
        one.absorb(state, report(one, observation(5))),
        state._replace(open=jnp.full_like(state.open, jnp.nan)),
    ):
        assert same(one.released(disturbed), one.released(state))


def test_joint_reports_are_exact_and_stay_in_the_state():
    one = privatizer(counter="tree")
    exact_report = np.asarray(one.pack(products(observation(3))))
    np.testing.assert_array_equal(one.report(observation(3), None), exact_report)
    assert one.simulate_user_noise(jax.random.key(0)) is None
    noise = one.simulate_round_noise(jax.random.key(0))
    closed = one.close(one.absorb(one.init(), one.report(observation(3), None)), noise)
    np.testing.assert_array_equal(closed.open, 0)
    np.testing.assert_allclose(one.counter.release(closed.counter), exact_report + noise, rtol=1e-12)
    with pytest.raises(InvalidInput, match="noise is None"):
        one.close(one.init(), None)


def test_local_reports_are_noised_before_they_leave():
    one = privatizer(trust="local")
    noise = one.simulate_user_noise(jax.random.key(4))
    active = np.asarray(one.noise_scale) > 0
    assert (np.asarray(noise)[active] != 0).all()
    sent = one.report(observation(3), noise)
    np.testing.assert_allclose(sent, one.pack(products(observation(3))) + noise, rtol=1e-12)
    assert one.simulate_round_noise(jax.random.key(4)) is None
    with pytest.raises(InvalidInput, match="noise is None"):
        one.report(observation(3), None)


def test_noise_is_independent_from_user_to_user_and_coordinate_to_coordinate():
    one = privatizer(trust="local")
    draws = jax.vmap(one.simulate_user_noise)(jax.random.split(jax.random.key(0), 3000))
    active = np.asarray(one.noise_scale) > 0
    scaled = (np.asarray(draws) / np.where(active, one.noise_scale, 1))[:, active]
    assert np.abs(np.corrcoef(scaled.T) - np.eye(scaled.shape[1])).max() < 0.1
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=0.07)


# -- deployment -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"counter": "tree"}, {"counter": "epochs"}, {"trust": "local"}], ids=str)
def test_on_the_grid_reports_are_integers_and_sums_are_exact(options):
    one = privatizer(deployment=True, **options)
    grid = float(one.grid)
    assert math.frexp(grid)[0] == 0.5
    assert grid <= float(one.noise_scale[one.noise_scale > 0].min()) * 2.0**-24
    reports = [np.asarray(report(one, observation(seed))) for seed in range(50)]
    integers = [np.rint(r / grid).astype(np.int64) for r in reports]
    for r, i in zip(reports, integers, strict=True):
        np.testing.assert_array_equal(r, i * grid)
        assert np.abs(i).max() < 2**42
    total = jnp.zeros_like(one.noise_scale)
    for r in reports:
        total = total + r
    np.testing.assert_array_equal(total, sum(integers) * grid)
    np.testing.assert_array_equal(np.sum(reports[::-1], axis=0), total)  # in any order
    plain = privatizer(**options)
    moved = np.abs(np.asarray(report(plain, observation(0))) - reports[0])
    assert moved.max() <= grid / 2


# -- out of bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where", "value", "counted"),
    [
        ("value_features", (1, slice(None)), 5.0, 1 / math.sqrt(D1)),
        ("value_features", (0, 0), math.inf, 0.0),
        ("targets", 0, -1.5, -1.0),
        ("targets", 2, 0.1, 0.0),
        ("reward_features", (2, slice(None)), 1.0, 1 / math.sqrt(D2)),
        ("rewards", 0, 1.01, 1.0),
        ("rewards", 1, math.nan, 0.0),
    ],
)
def test_a_value_out_of_bounds_is_counted_at_its_bound_and_never_refused(name, where, value, counted):
    """A refusal that depends on a user's values would tell of them."""
    one, seen = privatizer(), observation(0)
    strange, expected = (
        seen._replace(**{name: getattr(seen, name).at[where].set(at)}) for at in (value, counted)
    )  # fmt: skip
    np.testing.assert_allclose(report(one, strange), report(one, expected), rtol=1e-12, atol=1e-15)


def test_clipping_twice_is_clipping_once():
    one = privatizer(span="step")
    clipped = one.clip(Observation(*(jnp.full_like(leaf, 1e9) for leaf in observation(0))))
    for before, after in zip(clipped, one.clip(clipped), strict=True):
        np.testing.assert_array_equal(after, before)


# -- repair ---------------------------------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=50)
@given(hnp.arrays(float, (2, 3, 3), elements=st.floats(-100, 100)), st.floats(0, 50), st.floats(0.1, 20))
def test_lift_shifts_and_floors_and_does_nothing_else(raw, shift, floor):
    gram = (raw + raw.swapaxes(1, 2)) / 2
    lifted = np.asarray(lift(jnp.asarray(gram), jnp.full(2, shift), jnp.full(2, floor)))
    for before, after in zip(gram, lifted, strict=True):
        values = np.linalg.eigvalsh(before) + shift
        np.testing.assert_allclose(np.linalg.eigvalsh(after), np.maximum(values, floor), rtol=1e-9, atol=1e-9)
        if values[0] >= floor * (1 + 1e-12):
            # Not assert_array_equal: XLA flushes numbers below 1e-307 to zero.
            np.testing.assert_allclose(after, before + shift * np.eye(3), rtol=0, atol=1e-300)


def test_everything_is_static_or_an_array():
    leaves = jax.tree.leaves(privatizer())
    assert all(hasattr(leaf, "shape") for leaf in leaves)
    assert {field.name for field in dataclasses.fields(Privatizer)} >= {"counter", "trust", "pooled"}
