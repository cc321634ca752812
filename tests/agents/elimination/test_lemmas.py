# SPDX-License-Identifier: Apache-2.0
"""The lemmas on simulated users: vectors in the unit ball, means as (1) says, the truth kept, catches counted."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, norm

from reticent.agents import make_agent
from reticent.agents.elimination.constraint import no_constraint, violations
from reticent.agents.elimination.options import constants_of
from reticent.agents.elimination.parameters import Parameters
from reticent.agents.elimination.population import Population
from reticent.agents.elimination.theory import catches, confidence_level
from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.simulation.rollout import episode_uniforms, rollout
from reticent.simulation.simulate import simulate
from reticent.worlds import World, make_model, make_world

SMALL = "random-blend:states=4,actions=3,horizon=3,d1=3,d2=2"


def truth_of(agent, world: World) -> jax.Array:
    """η of the hidden truth."""
    groups = agent.parameters.groups
    theta, weights = (jnp.atleast_2d(part)[:groups] for part in (world.transition_theta, world.reward_theta))
    return agent.parameters.coordinates(theta, weights)


@double_precision
def misfits(spec: str, world_spec: str, users: int, seeds: int, **changes) -> tuple[np.ndarray, object]:
    """The truth's misfit over its width, by seed and release; and what the runs ended with."""
    world = make_world(world_spec)
    agent = dataclasses.replace(make_agent(spec, world.model, users), **changes)
    memory = simulate(agent, world, range(seeds)).carry.state.past
    truth, rounds = truth_of(agent, world), agent.schedule.rounds
    of_run = jax.jit(jax.vmap(jax.vmap(violations, in_axes=(0, None)), in_axes=(0, None)))
    assert rounds <= memory.search.kept.error.shape[1]
    return np.asarray(of_run(memory.search.kept, truth[None]))[:, :rounds, 0], memory


@pytest.mark.parametrize("world_spec", [SMALL, f"{SMALL},per_step=true"])
@double_precision
def test_users_of_a_plan_are_in_the_ball_and_right_on_average(world_spec: str) -> None:
    """(1): at the truth the mean of e − ⟨X, η* − η̃⟩ is 0. 4 000 users; false alarm 6e-7 for five standard errors."""
    world = make_world(world_spec)
    agent = make_agent("elimination", world.model, 100)
    plan = jax.jit(agent.plan)(agent.init())

    def user(number):
        episode = rollout(agent, world, plan, episode_uniforms(jax.random.key(3), number, world.model.horizon))
        return agent.statistic(plan, episode)

    vectors = np.asarray(jax.jit(jax.vmap(user))(jnp.arange(4000)))
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-9
    scales = plan.extension.scales
    features = np.asarray(scales.centre) + float(scales.feature_factor) * vectors[:, :-1]
    errors = float(scales.error_centre) + float(scales.error_factor) * vectors[:, -1]
    off = errors - features @ np.asarray(truth_of(agent, world) - plan.extension.eta)
    assert abs(off.mean()) <= 5 * off.std() / math.sqrt(len(off))
    # The model's own promise is not kept: the mean of e alone is far from 0.
    assert errors.mean() < -5 * errors.std() / math.sqrt(len(off))
    certain = float(((1 + np.ptp(np.asarray(plan.values[1:]), axis=1)) ** 2).sum() / 4)
    assert off.std() ** 2 <= certain


@double_precision
def test_widths_are_those_of_the_noise() -> None:
    """Where noise outweighs sampling, two standard deviations miss the truth in 2Φ(−2) = 4.6 % of releases, at 0.7 of the
    width in 16 %. 24 runs; false alarm 1e-4 each way, were releases independent, as their noise is."""
    spec = "private-elimination:epsilon=0.05,radius=2,pool=false,first=0.05,candidates=8,proposals=1"
    ratio, _ = misfits(spec, SMALL, 400, 24)
    count = ratio.size
    missed = int((ratio > 1).sum())
    expected = 2 * norm.sf(2)
    assert binom.ppf(1e-4, count, 0.75 * expected) <= missed <= binom.isf(1e-4, count, expected)
    assert int((ratio > 0.7).sum()) > binom.isf(1e-4, count, expected)


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_the_truth_stays(trust: str) -> None:
    """Lemma 2 with the theorem's radius, κ = 1 and p = 0.5: 64 runs that catch and move on. Of them at most half may
    lose the truth; more than binom.isf(1e-6, 64, 0.5) = 51 is the alarm, and none is what Hoeffding's slack gives."""
    level = jnp.asarray(confidence_level(4000, 0.5))
    ratio, memory = misfits(
        f"private-elimination:epsilon=3,pool=false,first=0.2,trust={trust}", SMALL, 4000, 64, level=level, certain=True
    )
    assert (ratio > 1).any(axis=1).sum() <= binom.isf(1e-6, 64, 0.5)
    if trust == "joint":
        assert np.asarray(memory.catches).max() >= 1


@pytest.mark.parametrize("caught", [True, False])
@double_precision
def test_constraints_of_catches_are_never_forgotten(caught: bool) -> None:
    """Lemma 3 needs them for every later model. Of other releases the population keeps the last ones only: 4 here."""
    model = make_world(SMALL).model
    parameters = Parameters.of(model)
    population = Population.of(model, parameters, 64, rounds=4, most=3, proposals=4, seed=0)
    everything = no_constraint(parameters.size, jnp.zeros(()).dtype)
    thin = everything._replace(features=jnp.ones(parameters.size), fixed=jnp.asarray(2e-4))
    narrow = jax.jit(lambda state, *rest: population.narrow(model, parameters, state, *rest))
    state = population.init()
    for number in range(12):
        release = (thin, jnp.asarray(caught)) if number == 0 else (everything, jnp.asarray(False))
        state = narrow(state, *release, jax.random.key(number))
    believed = np.asarray(state.violation) <= 1
    outside = np.asarray(violations(thin, state.eta)) > 1 + 1e-9
    assert believed.sum() > 10
    assert (believed & outside).any() == (not caught)
    assert int(state.catches) == int(caught)


@pytest.mark.verify
@pytest.mark.parametrize(("d", "horizon"), [(2, 2), (2, 4), (4, 2), (4, 4)])
def test_catches_stay_below_m(d: int, horizon: int) -> None:
    """Lemma 3 is about κ = 1 + 2√m; measured with κ = 1, which catches earlier and more often."""
    world = make_world(f"random-blend:states=5,actions=3,horizon={horizon},d={d}")
    agent = make_agent("elimination:candidates=64", world.model, 5000)
    found = np.asarray(simulate(agent, world, range(16)).carry.state.past.catches)
    level = confidence_level(5000, 0.05)
    most = catches(constants_of(agent.model, agent.parameters), 5000, level)
    assert found.max() < most


@pytest.mark.verify
def test_more_noise_does_not_mean_more_catches() -> None:
    """Lemma 3: m does not depend on σ. 32 runs each; three standard errors, false alarm about 1e-3."""
    world = make_world(SMALL)

    def caught(spec: str) -> np.ndarray:
        agent = make_agent(spec, world.model, 5000)
        return np.asarray(simulate(agent, world, range(32)).carry.state.past.catches, float)

    one, other = caught("private-elimination:epsilon=10"), caught("private-elimination:epsilon=0.5")
    assert other.mean() <= one.mean() + 3 * math.hypot(one.std(), other.std()) / math.sqrt(32)


def test_theorem_settings_carry_their_bound() -> None:
    model = make_world(SMALL).model
    agent = make_agent("private-elimination:calibration=theorem,oracle=lattice,candidates=60", model, 1000)
    curve, bound = agent.regret_bound(np.array([10, 1000]))
    assert curve[0] < curve[1] == bound.value
    assert bound.vacuous
    assert bound.caveats == ()
    assert not agent.pool
    rough = make_agent("elimination:calibration=theorem,candidates=4", model, 1000)
    assert "approximate" in rough.regret_bound(np.array([1000]))[1].remark
    assert make_agent("elimination:candidates=4", model, 1000).regret_bound(np.array([1])) is None


@pytest.mark.parametrize(
    ("spec", "world", "named"),
    [
        ("elimination", "riverswim:states=3,horizon=4", "blend"),
        ("elimination", f"{SMALL},initial=unknown", "initial_known"),
        ("elimination:oracle=lattice", f"{SMALL},per_step=true", "oracle"),
        ("elimination:oracle=lattice,candidates=3", SMALL, "candidates"),
        ("elimination:radius=0", SMALL, "radius"),
        ("elimination:sweeps=0", SMALL, "sweeps"),
        ("elimination:failure=1", SMALL, "failure"),
        ("private-elimination:honest=0.5", SMALL, "honest"),
    ],
)
def test_what_it_is_not_made_for_is_refused(spec: str, world: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        make_agent(spec, make_world(world).model, 100)


@pytest.mark.parametrize(
    ("rows", "rewards", "named"),
    [
        ([[1.2, -0.2], [-0.2, 1.2]], [0.5, 0.5], "not distributions"),
        ([[0.5, 0.5], [1.0, 0.0]], [0.9, 0.1], "reward_features"),
        ([[0.5, 0.5], [1.0, 0.0]], [-0.1, 0.1], "reward_features"),
    ],
)
@double_precision
def test_corners_that_are_no_mdps_are_refused(rows: list, rewards: list, named: str) -> None:
    """(1) needs values that are not clipped: some blends of these would have negative rows, or rewards outside [0, 1]."""
    candidates = np.broadcast_to(np.array(rows)[:, None, None], (2, 2, 1, 2))
    tables = np.broadcast_to(np.array(rewards)[:, None, None], (2, 2, 1))
    model = make_model(candidates, tables, 3, sums_to_one=True, stationary=True, reward_total=1.5, transition_bound=5.0)
    with pytest.raises(InvalidInput, match=named):
        Parameters.of(model)
