# SPDX-License-Identifier: Apache-2.0
"""The named worlds: known numbers, and the stories they are meant to tell."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.worlds import blend, make_world
from reticent.worlds.zoo import mobile_health as health
from reticent.worlds.zoo import riverswim as river


def constant(world, action):
    shape = (world.model.horizon, world.model.states, world.model.actions)
    return float(world.policy_value(jnp.broadcast_to(jnp.eye(world.model.actions)[action], shape)))


@pytest.mark.parametrize("features", ["tabular", "blend"])
@pytest.mark.parametrize(
    ("states", "horizon", "optimal"), [(3, 12, 5.71992), (4, 16, 5.65089), (5, 20, 5.58513), (6, 20, 3.39726)]
)
def test_riverswim_has_the_published_optimum(states, horizon, optimal, features):
    world = make_world(f"riverswim:states={states},features={features}")
    assert world.model.horizon == horizon
    assert world.optimal_value == pytest.approx(optimal, abs=1e-5)


@pytest.mark.parametrize("features", ["tabular", "blend"])
def test_riverswim_6_reference_policies(features):
    world = make_world(f"riverswim:features={features}")
    assert world.uniform_value == pytest.approx(0.04379, abs=1e-5)
    assert constant(world, river.LEFT) == pytest.approx(0.1, abs=1e-9)
    assert (world.model.d1, world.model.d2) == ((72, 12) if features == "tabular" else (4, 2))


@pytest.mark.parametrize("states", [3, 4, 5, 6])
def test_the_currents_blend_to_the_same_river_and_are_independent(states):
    table, mixed = (make_world(f"riverswim:states={states},features={kind}") for kind in ("tabular", "blend"))
    np.testing.assert_allclose(mixed.transitions, table.transitions, atol=1e-12)
    np.testing.assert_allclose(mixed.mean_rewards, table.mean_rewards, atol=1e-12)
    features = np.asarray(mixed.model.transition_features).reshape(4, -1)
    assert np.linalg.matrix_rank(features) == 4


def test_only_rivers_with_known_answers():
    with pytest.raises(InvalidInput, match="3, 4, 5 or 6"):
        make_world("riverswim:states=7")


def test_mobile_health_numbers():
    world = make_world("mobile-health")
    assert world.optimal_value == pytest.approx(3.32194, abs=1e-5)
    assert world.uniform_value == pytest.approx(2.30647, abs=1e-5)
    fixed = [constant(world, message) for message in range(3)]
    assert fixed == pytest.approx([2.06458, 2.86648, 1.46559], abs=1e-5)


def test_mobile_health_is_worth_learning():
    """The gap to chance is a sixth of the horizon, and no other belief about the people does as well as the truth."""
    world = make_world("mobile-health")
    assert world.optimal_value - world.uniform_value >= 0.15 * world.model.horizon

    def believed(population):
        other = blend(
            world.model.transition_features, health.benefits(), population, health.BENEFIT_WEIGHTS, 6, initial=4
        )  # fmt: skip
        return float(world.policy_value(other.optimal_policy)), other.optimal_policy

    single = [believed(kind) for kind in np.eye(4)]
    assert [value for value, _ in single] == pytest.approx([2.06458, 3.20174, 2.81575, 2.35227], abs=1e-5)
    assert believed(np.full(4, 0.25))[0] == pytest.approx(2.35292, abs=1e-5)
    choices = np.stack([np.asarray(policy[0].argmax(axis=-1)) for _, policy in single])
    assert (choices != choices[0]).any(axis=0).all(), "in some state all kinds of people want the same message"
    assert set(np.unique(world.optimal_policy[0].argmax(axis=-1))) == {0, 1, 2}


def test_mobile_health_is_identifiable_and_speaks_in_words():
    world = make_world("mobile-health")
    assert np.linalg.matrix_rank(np.asarray(world.model.transition_features).reshape(4, -1)) == 4
    assert np.linalg.matrix_rank(np.asarray(world.model.reward_features).reshape(4, -1)) == 4
    assert health.state_of("light", "fresh") == int(world.model.initial.argmax())
    assert [health.state_of(*health.state_name(s).split(", ")) for s in range(16)] == list(range(16))


def test_random_blends_are_seeded():
    first, again, other = (make_world("random-blend", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.transitions, again.transitions)
    assert not np.array_equal(first.transitions, other.transitions)
    longer = make_world("random-blend:seed=1,horizon=7,per_step=true")
    np.testing.assert_array_equal(longer.model.transition_features, first.model.transition_features)
    assert not np.array_equal(longer.transitions[0], longer.transitions[1])


def test_random_blends_have_a_gap_and_candidates_that_differ():
    gaps, distances = [], []
    for seed in range(20):
        world = make_world("random-blend", seed=seed)
        gaps.append(world.optimal_value - world.uniform_value)
        psi = np.asarray(world.model.transition_features)
        distances.append(np.abs(psi[0] - psi[1]).sum(axis=-1).mean() / 2)
    assert 0.7 <= np.median(gaps) <= 1.2
    assert min(gaps) > 0.5
    assert np.mean(distances) > 0.8


def test_random_blend_sizes():
    world = make_world("random-blend:states=7,actions=3,horizon=2,d=5,d2=2")
    assert world.model.transition_features.shape == (5, 7, 3, 7)
    assert world.model.reward_features.shape == (2, 7, 3)


@pytest.mark.parametrize("option", ["states=0", "d=0", "d2=0", "horizon=0", "seed=-1", "concentration=0"])
def test_random_blend_refuses_sizes_that_make_no_sense(option):
    with pytest.raises(InvalidInput, match=f"random-blend: {'d1' if option == 'd=0' else option.split('=')[0]}"):
        make_world(f"random-blend:{option}")


@pytest.mark.parametrize("spec", ["mobile-health", "random-blend", "riverswim", "riverswim:features=blend"])
def test_tight_bounds_are_offered_everywhere_and_leave_the_world_alone(spec):
    paper, tight = make_world(spec), make_world(spec, bounds="tight")
    np.testing.assert_array_equal(paper.transitions, tight.transitions)
    assert tight.model.transition_theta_bound < paper.model.transition_theta_bound
    assert tight.model.transition_bound <= paper.model.transition_bound
