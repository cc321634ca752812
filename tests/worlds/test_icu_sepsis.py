# SPDX-License-Identifier: Apache-2.0
"""ICU-Sepsis: the truth is the benchmark's, the phenotypes blend to it, and being wrong about them costs lives."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import scipy.sparse

from reticent.agents import make_agent
from reticent.cli import main
from reticent.errors import InvalidInput, MissingExtra
from reticent.simulation.simulate import simulate
from reticent.worlds import WORLDS, make_world, world_from_parameters
from reticent.worlds.gymnasium_env import WorldEnv
from reticent.worlds.registry import world_numbers
from reticent.worlds.zoo import icu_sepsis as icu

STATES, ACTIONS = 716, 25
UNIFORM = np.full((STATES, ACTIONS), 1 / ACTIONS)

with_data = pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs reticent[icu]")


@pytest.fixture(scope="module")
def ward():
    return icu.load_ward()


@pytest.fixture(scope="module")
def world():
    return make_world("icu-sepsis")


def returns(ward, horizon, policy=None):
    """The benchmark's own undiscounted return: 1 on the transition into survival; optimal without a policy."""
    rows = scipy.sparse.csr_array(ward.transitions.reshape(-1, STATES))
    survives = ward.transitions[:, :, icu.SURVIVAL].copy()
    survives[icu.DEATH :] = 0
    values = np.zeros(STATES)
    for _ in range(horizon):
        table = survives + (rows @ values).reshape(STATES, ACTIONS)
        values = table.max(axis=1) if policy is None else (table * policy).sum(axis=1)
    return float(ward.initial @ values)


@pytest.mark.verify
@with_data
def test_the_data_are_the_published_benchmark(ward):
    """The package's published baselines: random .78, expert .78, optimal .88 without a limit of time."""
    assert returns(ward, 300, UNIFORM) == pytest.approx(0.7801, abs=1e-3)
    assert returns(ward, 300, ward.clinicians) == pytest.approx(0.7818, abs=1e-3)
    assert returns(ward, 300) == pytest.approx(0.8751, abs=1e-3)


@pytest.mark.verify
@with_data
@pytest.mark.parametrize(("horizon", "optimal"), [(5, 0.4389), (10, 0.6364), (20, 0.7922), (40, 0.8612)])
def test_the_optimum_is_the_benchmarks(horizon, optimal):
    assert make_world("icu-sepsis", horizon=horizon).optimal_value == pytest.approx(optimal, abs=1e-4)


@pytest.mark.verify
@with_data
def test_values_are_those_of_the_benchmark_under_its_own_reward(world, ward):
    """Paying one step later, in the state of survival, changes no value: another formula, the same numbers."""
    assert world.model.horizon == 10 + 1
    assert world.optimal_value == pytest.approx(returns(ward, 10), abs=1e-12)
    assert world.uniform_value == pytest.approx(returns(ward, 10, UNIFORM), abs=1e-12)


@pytest.mark.verify
@with_data
def test_the_phenotypes_blend_to_the_real_dynamics_exactly(world, ward):
    model = world.model
    successors, features = np.asarray(model.successors), np.asarray(model.transition_features)
    assert features.shape == (4, STATES, ACTIONS, 213)
    assert features.min() >= 0
    np.testing.assert_allclose(features.sum(axis=-1), 1, atol=1e-12)
    mixed = np.zeros((STATES, ACTIONS, STATES))
    state, action = np.ogrid[:STATES, :ACTIONS]
    np.add.at(mixed, (state[..., None], action[..., None], successors), np.tensordot(icu.SHARES, features, axes=1))
    np.testing.assert_allclose(mixed, ward.transitions, atol=1e-13)
    np.testing.assert_array_equal(model.initial, ward.initial)
    assert sum(icu.SHARES) == pytest.approx(1, abs=1e-15)
    assert np.linalg.matrix_rank(features.reshape(4, -1)) == 4


def test_a_phenotype_is_its_band_of_the_ranked_outcomes():
    """By hand: outcomes of probabilities .2, .5, .3 from bad to good, under no drug at all (treatment 0).

    The ischaemia-prone and overload-prone do best there, the later listed of two equals better: from the worst,
    fluid-responsive [0, .4], pressor-dependent [.4, .5], ischaemia-prone [.5, .8], overload-prone [.8, 1].
    """
    bands = icu.candidates(np.broadcast_to([0.2, 0.5, 0.3], (1, 25, 3)))[:, 0, 0]
    by_hand = {
        "ischaemia-prone": [0, 2 / 3, 1 / 3],
        "fluid-responsive": [1 / 2, 1 / 2, 0],
        "overload-prone": [0, 0, 1],
        "pressor-dependent": [0, 1, 0],
    }
    np.testing.assert_allclose(bands, [by_hand[name] for name in icu.PHENOTYPES], atol=1e-12)


@pytest.mark.verify
@with_data
def test_treatment_suits_whom_it_should(world):
    """More fluid is better for those who respond to it and worse for the overloaded; likewise the vasopressor."""
    health = -icu.load_ward().sofa
    health[[icu.DEATH, icu.SURVIVAL]] = -30, 30
    expected = np.asarray(world.model.value_features(health))
    better = (expected - np.tensordot(icu.SHARES, expected, axes=1)).mean(axis=1).reshape(4, 5, 5)
    by_level = {"fluid": better.mean(axis=2), "vasopressor": better.mean(axis=1)}
    signs = {"fluid-responsive": 1, "overload-prone": -1, "pressor-dependent": 1, "ischaemia-prone": -1}
    for number, (name, phenotype) in enumerate(icu.PHENOTYPES.items()):
        assert (signs[name] * np.diff(by_level[phenotype.drug][number]) > 0).all(), name


@pytest.mark.verify
@with_data
def test_the_blend_is_worth_knowing(world):
    """No wrong belief comes near the optimum, and most are hardly better than chance."""
    gap = world.optimal_value - world.uniform_value
    assert gap == pytest.approx(0.1146, abs=1e-4)

    def lost(shares):
        believed = world_from_parameters(world.model, shares, [1.0])
        return (world.optimal_value - float(world.policy_value(believed.optimal_choices))) / gap

    pure = dict(zip(icu.PHENOTYPES, (lost(shares) for shares in np.eye(4)), strict=True))
    assert pure.pop("ischaemia-prone") == pytest.approx(0.19, abs=0.01)
    assert min(pure.values()) > 0.8
    assert lost(np.full(4, 0.25)) > 0.8
    assert lost(icu.SHARES) == pytest.approx(0, abs=1e-12)


@with_data
def test_a_patient_survives_at_most_once_and_is_paid_for_it(world):
    ward, chooser = WorldEnv(world), np.random.default_rng(7)
    outcomes = set()
    for patient in range(100):
        state, paid, survived, over = ward.reset(seed=patient)[0], 0.0, False, False
        while not over:
            survived |= state == icu.SURVIVAL
            state, reward, over, _, _ = ward.step(int(chooser.integers(ACTIONS)))
            paid += reward
        assert paid == survived
        outcomes.add(paid)
    assert outcomes == {0.0, 1.0}


@with_data
@pytest.mark.verify
def test_it_is_learned_in_private(world):
    """At ε = 1 and two fifths of the registered K, these seeds end at a tenth of the way from optimal to uniform.

    (The mean of seeds 100-115 is 27% at this K; the seeds are fixed, so there are no false alarms.)
    """
    agent = make_agent("private-linopt-vi:bonus_scale=0.1,epsilon=1,delta=1e-5", world.model, 20_000)
    curves, gap = simulate(agent, world, [100, 101]), world.optimal_value - world.uniform_value
    assert (world.optimal_value - curves.value[:, 0]).min() > 0.8 * gap
    assert curves.tail_regret.max() < 0.25 * gap


def test_it_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "icu_sepsis", None)  # how Python itself is told that a package is not there
    with pytest.raises(MissingExtra, match=r"icu-sepsis needs the package icu-sepsis.*pip install 'reticent\[icu\]'"):
        make_world("icu-sepsis")
    numbers = world_numbers("icu-sepsis")
    assert (numbers["needs"], numbers["optimal_value"]) == ("pip install 'reticent[icu]'", None)
    monkeypatch.setattr(WORLDS, "_entries", {"icu-sepsis": WORLDS.find("icu-sepsis")})
    monkeypatch.setattr(sys, "argv", ["reticent", "worlds"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    assert "needs: pip install 'reticent[icu]'" in capsys.readouterr().out


def test_it_needs_a_decision():
    with pytest.raises(InvalidInput, match="icu-sepsis: horizon is 0, but must be at least 1"):
        make_world("icu-sepsis:horizon=0")
