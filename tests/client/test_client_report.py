# SPDX-License-Identifier: Apache-2.0
"""What device and service form, against the simulation's JAX: the same integers, for every model and any trajectory."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents.linear_mixture.frame import LinOptPlan
from reticent.errors import InvalidInput
from reticent.privacy import clipping
from reticent.privacy.accounting import gaussian as accountant
from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import Mechanism, make_mechanism
from reticent.worlds import Episode, make_model, make_world
from reticent_client.report import noised_report
from reticent_wire import Billboard, Model, Trajectory
from reticent_wire.boundary import Clipped
from reticent_wire.clipping import clip_interval, clip_norm
from reticent_wire.promise import epsilon_of, report_epsilon, require_promise

WORLDS = (
    "riverswim:states=4",
    "mobile-health",
    "random-blend:states=6,actions=3,horizon=4,d=3,seed=1",
    "large-blend:states=40,successors=6,seed=2",
    "hard-instance",
)
AGENTS = ("private-linopt-vi:trust=local", "private-ucb-vi:trust=local")


def deployed(model, agent: str = AGENTS[0]) -> Mechanism:
    """A deployment on ``model``, with what its service would publish."""
    return make_mechanism(agent, model, 500, SecureNoise())


@jax.jit
def silent_report(agent, plan, episode):
    return agent.report(plan, episode, jnp.zeros_like(agent.aggregator.noise_scale))


def library_report(mechanism: Mechanism, values: np.ndarray, seen: Trajectory) -> np.ndarray:
    """The report of the simulation's agent under a plan with these framed values, without noise, in units of the grid."""
    plan = mechanism.plan_of(mechanism.billboard(0, mechanism.agent.init()))
    end = jnp.zeros((1, values.shape[1]))
    framed = plan._replace(values=jnp.concatenate([end, jnp.asarray(values)]))
    if isinstance(plan.extension, LinOptPlan):
        frame = plan.extension
        unframed = frame._replace(centres=jnp.zeros_like(frame.centres), scales=jnp.ones_like(frame.scales))
        framed = framed._replace(extension=unframed)
    episode = Episode(jnp.asarray(seen.states), jnp.asarray(seen.actions), jnp.asarray(seen.rewards))
    units = np.asarray(silent_report(mechanism.agent, framed, episode)) / mechanism.grid
    assert (units == np.rint(units)).all()
    return units.astype(np.int64)


def board_of(known: Model, values: np.ndarray) -> Billboard:
    """A billboard with these framed values; where contributions are made of none, they are not looked at."""
    return Billboard(0, np.zeros((known.horizon, known.states), np.int32), {"framed_values": values}, "digest")


def random_trajectory(rng: np.random.Generator, known: Model) -> Trajectory:
    return Trajectory(
        rng.integers(0, known.states, known.horizon + 1),
        rng.integers(0, known.actions, known.horizon),
        rng.random(known.horizon),
    )


@pytest.fixture(scope="module", params=[(world, agent) for world in WORLDS for agent in AGENTS], ids=" ".join)
def subject(request):
    world, agent = request.param
    return deployed(make_world(world).model, agent)


@given(seed=st.integers(0, 2**32 - 1), stretch=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=25, deadline=None)
def test_contributions_equal_the_simulations_bit_for_bit(subject: Mechanism, seed: int, stretch: float) -> None:
    """``stretch`` takes values inside, to and far beyond the declared bounds: clipping is compared too."""
    known, rng = subject.published, np.random.default_rng(seed)
    values = stretch * rng.uniform(-1, 1, (known.horizon, known.states))
    seen = random_trajectory(rng, known)
    seen = seen._replace(rewards=stretch * seen.rewards)
    mine = known.steps(board_of(known, values), seen)
    np.testing.assert_array_equal(mine, library_report(subject, values, seen))


@pytest.mark.verify
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
    mechanism = deployed(make_model(psi, phi, 2, successors=following))
    declared = dataclasses.replace(mechanism.agent.aggregator, nonnegative_rewards=nonnegative)
    mechanism = Mechanism.of(
        dataclasses.replace(mechanism.agent, aggregator=declared), mechanism.guarantee, mechanism.noise_factor,
        mechanism.pan_private, SecureNoise(),
    )  # fmt: skip
    known = mechanism.published
    assert known.rules.bounds["nonnegative_rewards"] == nonnegative
    values = rng.uniform(-1, 1, (known.horizon, states))
    seen = random_trajectory(rng, known)
    mine = known.steps(board_of(known, values), seen)
    np.testing.assert_array_equal(mine, library_report(mechanism, values, seen))


@pytest.mark.parametrize(
    "agent", ["private-linopt-vi", "private-linopt-po", "private-ucb-vi:counter=epochs", "dp-ucbvi:counter=tree"]
)
def test_the_service_forms_what_the_simulation_forms(agent: str) -> None:
    """The joint model's contributions, by NumPy on the published arrays, on random episodes of a plan that has learned."""
    model = make_world("random-blend:states=6,actions=3,horizon=4,d=3,seed=1").model
    mechanism, rng = make_mechanism(agent, model, 500, SecureNoise()), np.random.default_rng(5)
    state = mechanism.agent.init()
    first = mechanism.billboard(0, state)
    total = sum(mechanism.contribution(first, random_trajectory(rng, mechanism.published)) for _ in range(40))
    state, _ = mechanism.close(0, state, first, total, mechanism.round_noise())
    board = mechanism.billboard(1, state)
    for _ in range(200):
        seen = random_trajectory(rng, mechanism.published)
        theirs = np.asarray(
            silent_report(mechanism.agent, mechanism.plan_of(board), Episode(*map(jnp.asarray, seen[:3])))
        )
        np.testing.assert_array_equal(mechanism.contribution(board, seen), theirs / mechanism.grid)


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4),
    st.just(0.0) | st.floats(1e-9, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_clipping_is_the_library_s_also_for_numbers_that_are_none(entries: list[float], bound: float) -> None:
    """The same source with NumPy and with JAX; XLA may add up squares in another order."""
    x = np.array([entries])
    mine, theirs = clip_norm(x, np.array([bound])), np.asarray(clipping.clip_norm(x, np.array([bound])))
    np.testing.assert_allclose(mine, theirs, rtol=1e-14, atol=1e-300)
    assert sum(Fraction(entry) ** 2 for entry in mine[0].tolist()) <= Fraction(bound) ** 2
    low, high = np.array([-bound]), np.array([bound])
    for mine, theirs in zip(clip_interval(x[0], low, high), clipping.clip_interval(x[0], low, high), strict=True):
        assert mine == pytest.approx(float(theirs), rel=0, abs=1e-300)  # XLA takes subnormal numbers for 0


@pytest.mark.parametrize("agent", AGENTS)
def test_noise_is_added_once_per_coordinate_with_the_published_scale(agent: str) -> None:
    """Sum of squares of (report − contribution)/scale over 8 reports: chi-square, false alarm 1e-6."""
    from scipy.stats import chi2

    known = deployed(make_world("riverswim:states=3").model, agent).published
    rng = np.random.default_rng(3)
    board, seen = board_of(known, np.zeros((known.horizon, known.states))), random_trajectory(rng, known)
    scale = known.rules.noise_scale / known.rules.grid
    noisy = scale > 0
    total, count = 0.0, 0
    for shown in [seen, None] * 4:  # a user who shows nothing sends noise alone
        exact = 0 if shown is None else known.steps(board, shown)
        noise = noised_report(known, board, None if shown is None else Clipped(shown)) - exact
        assert (noise[~noisy] == 0).all()
        total += float(((noise[noisy] / scale[noisy]) ** 2).sum())
        count += int(noisy.sum())
    assert chi2.isf(1 - 5e-7, count) < total < chi2.isf(5e-7, count)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_device_finds_the_promised_epsilon_by_itself(world: str, agent: str, epsilon: float) -> None:
    known = deployed(make_world(world).model, f"{agent},epsilon={epsilon},delta=1e-6").published
    assert report_epsilon(known, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    require_promise(known, epsilon, 1e-6)
    require_promise(known, None, 1e-6)
    with pytest.raises(InvalidInput, match="do not send"):
        require_promise(known, 0.99 * epsilon, 1e-6)


@pytest.mark.parametrize("place", ["transition gram", "transition moment", "reward gram", "reward moment", "visits"])
def test_one_silent_coordinate_is_found(place: str) -> None:
    known = deployed(make_world("mobile-health").model, AGENTS[place == "visits"]).published
    d1 = known.d1
    k = 0 if place == "visits" else known.rules.bounds["reward_basis"].shape[1]  # the contrasts of rewards
    gram = d1 * (d1 + 1) // 2
    column = {
        "transition gram": 1, "transition moment": gram, "reward gram": gram + d1,
        "reward moment": gram + d1 + k * (k + 1) // 2, "visits": 0,
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
