"""What a device would send, against the library: the same integers, for every kind of model and any trajectory."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reticent.client.promise import epsilon_of, report_epsilon, require_promise
from reticent.client.published import Billboard, Model, Rules
from reticent.client.report import Trajectory, clip_interval, clip_norm, noised_report, statistics

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.statistics import observe
from reticent.errors import InvalidInput
from reticent.privacy import sensitivity
from reticent.privacy.accounting import gaussian as accountant
from reticent.worlds import Episode, make_model, make_world_from

WORLDS = (
    "riverswim:states=4",
    "mobile-health",
    "random-blend:states=6,actions=3,horizon=4,d=3,seed=1",
    "large-blend:states=40,successors=6,seed=2",
    "hard-instance",
)


def deployed(model, trust: str = "local", method: str = "value-iteration", **options):
    """The library's agent of a deployment on ``model``, and what its service would publish about reports."""
    agent, plan = make_private(model, 500, method, PrivateOptions(trust=trust, deployment=True, **options))
    privatizer = agent.aggregator
    rules = Rules(
        float(plan.calibration.grid),
        *(
            np.asarray(getattr(privatizer, name))
            for name in ("noise_scale", "feature_bound", "target_low", "target_high")
        ),
        bool(privatizer.nonnegative_rewards),
    )
    known = Model(
        "digest", model.horizon, model.states, model.actions,
        np.asarray(model.transition_features), np.asarray(model.reward_features),
        None if model.successors is None else np.asarray(model.successors), rules,
    )  # fmt: skip
    return agent, known


@jax.jit
def silent_report(agent, framed_values, episode):
    noise = jnp.zeros_like(agent.aggregator.noise_scale)
    return agent.aggregator.report(observe(agent.model, framed_values, episode), noise)


def library_report(agent, framed_values: np.ndarray, seen: Trajectory, grid: float) -> np.ndarray:
    """The library's report without noise, in units of the grid."""
    episode = Episode(jnp.asarray(seen.states), jnp.asarray(seen.actions), jnp.asarray(seen.rewards))
    report = silent_report(agent, jnp.asarray(framed_values), episode)
    units = np.asarray(report) / grid
    assert (units == np.rint(units)).all()
    return units.astype(np.int64)


def random_trajectory(rng: np.random.Generator, known: Model) -> Trajectory:
    return Trajectory(
        rng.integers(0, known.states, known.horizon + 1),
        rng.integers(0, known.actions, known.horizon),
        rng.random(known.horizon),
    )


@pytest.fixture(scope="module", params=WORLDS)
def subject(request):
    return deployed(make_world_from(request.param).model)


@given(seed=st.integers(0, 2**32 - 1), stretch=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=25, deadline=None)
def test_statistics_equal_the_library_s_bit_for_bit(subject, seed: int, stretch: float) -> None:
    """``stretch`` takes values inside, to and far beyond the declared bounds: clipping is compared too."""
    agent, known = subject
    rng = np.random.default_rng(seed)
    low, high = known.rules.target_low, known.rules.target_high
    values = stretch * (low + rng.random((known.states, known.horizon)) * (high - low)).T
    seen = random_trajectory(rng, known)
    mine = statistics(known, Billboard(0, np.zeros(values.shape, np.int32), values, "digest"), seen)
    np.testing.assert_array_equal(mine, library_report(agent, values, seen, known.rules.grid))


@pytest.mark.parametrize("nonnegative", [False, True])
@given(seed=st.integers(0, 2**32 - 1), sizes=st.sampled_from([(5, 2, 3, 3, 2), (2, 3, 4, 1, 1)]))
@settings(max_examples=5, deadline=None)
def test_any_sparse_model_too(nonnegative: bool, seed: int, sizes: tuple[int, ...]) -> None:
    """Features of any sign, successors listed twice: nothing that make_model lets pass makes a difference.

    Nor do negative reward features where they were declared to be none: both sides clip them.
    """
    states, actions, entries, d1, d2 = sizes
    rng = np.random.default_rng(seed)
    psi = rng.uniform(-1, 1, (d1, states, actions, entries)) / (entries * math.sqrt(d1))
    phi = rng.uniform(-1, 1, (d2, states, actions)) / math.sqrt(d2)
    following = rng.integers(0, states, (states, actions, entries))
    agent, known = deployed(make_model(psi, phi, 2, successors=following))
    declared = dataclasses.replace(agent.aggregator, nonnegative_rewards=nonnegative)
    agent = dataclasses.replace(agent, aggregator=declared)
    known = dataclasses.replace(known, rules=dataclasses.replace(known.rules, nonnegative_rewards=nonnegative))
    values = rng.uniform(-1, 1, (known.horizon, states))
    seen = random_trajectory(rng, known)
    mine = statistics(known, Billboard(0, np.zeros(values.shape, np.int32), values, "digest"), seen)
    np.testing.assert_array_equal(mine, library_report(agent, values, seen, known.rules.grid))


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4),
    st.just(0.0) | st.floats(1e-9, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_clipping_is_the_library_s_also_for_numbers_that_are_none(entries: list[float], bound: float) -> None:
    """Up to 1e-150: smaller numbers count as 0 on the device."""
    x = np.array([entries])
    mine, theirs = clip_norm(x, np.array([bound])), np.asarray(sensitivity.clip_norm(x, np.array([bound])))
    np.testing.assert_allclose(mine, theirs, rtol=1e-14, atol=1e-150)
    assert sum(Fraction(entry) ** 2 for entry in mine[0].tolist()) <= Fraction(bound) ** 2
    low, high = np.array([-bound]), np.array([bound])
    for mine, theirs in zip(clip_interval(x[0], low, high), sensitivity.clip_interval(x[0], low, high), strict=True):
        assert mine == pytest.approx(float(theirs), rel=0, abs=1e-300)  # XLA takes subnormal numbers for 0


def test_noise_is_added_once_per_coordinate_with_the_published_scale() -> None:
    """Sum of squares of (report − statistics)/scale over 8 reports: chi-square, false alarm 1e-6."""
    from scipy.stats import chi2

    _, known = deployed(make_world_from("riverswim:states=3").model)
    rng = np.random.default_rng(3)
    values = np.zeros((known.horizon, known.states))
    board = Billboard(0, np.zeros(values.shape, np.int32), values, "digest")
    seen = random_trajectory(rng, known)
    scale = known.rules.noise_scale / known.rules.grid
    noisy = scale > 0
    total, count = 0.0, 0
    for _ in range(8):
        noise = noised_report(known, board, seen) - statistics(known, board, seen)
        assert (noise[~noisy] == 0).all()
        total += float(((noise[noisy] / scale[noisy]) ** 2).sum())
        count += int(noisy.sum())
    assert chi2.isf(1 - 5e-7, count) < total < chi2.isf(5e-7, count)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_device_finds_the_promised_epsilon_by_itself(world: str, epsilon: float) -> None:
    _, known = deployed(make_world_from(world).model, epsilon=epsilon, delta=1e-6)
    assert report_epsilon(known, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    require_promise(known, epsilon, 1e-6)
    require_promise(known, None, 1e-6)
    with pytest.raises(InvalidInput, match="do not send"):
        require_promise(known, 0.99 * epsilon, 1e-6)


@pytest.mark.parametrize("place", ["transition gram", "transition moment", "reward gram", "reward moment"])
def test_one_silent_coordinate_is_found(place: str) -> None:
    _, known = deployed(make_world_from("mobile-health").model)
    d1, d2 = known.d1, known.d2
    gram = d1 * (d1 + 1) // 2
    column = {
        "transition gram": 1, "transition moment": gram, "reward gram": gram + d1,
        "reward moment": gram + d1 + d2 * (d2 + 1) // 2,
    }[place]  # fmt: skip
    quiet = known.rules.noise_scale.copy()
    quiet[0, column] = 0.0
    rules = dataclasses.replace(known.rules, noise_scale=quiet)
    with pytest.raises(InvalidInput, match="is inf"):
        require_promise(dataclasses.replace(known, rules=rules), None, 1e-5)


@given(st.floats(0.01, 20), st.floats(1e-12, 0.3))
@settings(max_examples=80, deadline=None)
def test_the_device_s_accountant_is_the_library_s(mu: float, delta: float) -> None:
    assert epsilon_of(mu, delta) == pytest.approx(accountant.epsilon_of(mu, delta), rel=1e-7, abs=1e-9)


def test_published_json_is_read_back(tmp_path) -> None:
    """A model and a billboard through JSON: every number as it was, and wrong shapes refused."""
    from reticent.service.arrays import to_json

    _, known = deployed(make_world_from("large-blend:states=40,successors=6,seed=2").model)
    rules = known.rules
    names = ("noise_scale", "feature_bound", "target_low", "target_high")
    content = {
        "digest": "digest", "horizon": known.horizon, "states": known.states, "actions": known.actions,
        "d1": known.d1, "d2": known.d2, "trust": "local",
        "transition_features": to_json(known.transition_features), "successors": to_json(known.successors),
        "reward_features": to_json(known.reward_features),
        "report": {"grid": rules.grid, "nonnegative_rewards": rules.nonnegative_rewards}
        | {name: to_json(getattr(rules, name)) for name in names},
    }  # fmt: skip
    read = Model.read(json.loads(json.dumps(content)))
    np.testing.assert_array_equal(read.transition_features, known.transition_features)
    np.testing.assert_array_equal(read.successors, known.successors)
    np.testing.assert_array_equal(read.rules.noise_scale, rules.noise_scale)
    assert read.rules.grid == rules.grid
    with pytest.raises(InvalidInput, match="reward_features"):
        Model.read({**content, "d2": known.d2 + 1, "report": content["report"]})
    with pytest.raises(InvalidInput, match="power of two"):
        Model.read({**content, "report": {**content["report"], "grid": 0.3}})
