# SPDX-License-Identifier: Apache-2.0
"""Replay, noise law and audit of the agents that count, over laws, counters, trust models and adjacencies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from audited import replays_of_world_users

from reticent.agents import make_agent
from reticent.audit import (
    Evidence,
    Subject,
    audit,
    check_noise,
    lower_bounds,
    play_releases,
    probe,
    realised_mu,
    replay,
    seen_as,
    worst_pair,
)
from reticent.privacy.counters import EpochCounter, RunningSum, TreeCounter
from reticent.worlds import make_world

pytestmark = pytest.mark.guard

WORLD = make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2")
USERS = 4
STREAM = {"counter": "epochs", "first": 1, "growth": 1.5}
KINDS = {
    "epochs": ("private-ucb-vi", STREAM),
    "laplace epochs": ("pucb", STREAM),
    "tree": ("dp-ucbvi", {"counter": "tree", "pool": False}),
    "laplace tree": ("pucb", {"counter": "tree"}),
    "laplace tree, reduced": ("pucb", {"counter": "tree-reduced"}),
    "blt": ("private-ucb-vi", {"counter": "blt"}),
    "local": ("private-ucb-vi", {"trust": "local", "first": 2}),
    "laplace local": ("ldp-obi", {"first": 2}),
    "zero-out": ("private-ucb-vi", {"adjacency": "zero-out", **STREAM}),
    "laplace zero-out": ("pucb", {"adjacency": "zero-out", "counter": "tree"}),
    "policy optimization": ("private-ucb-po", STREAM),
}
QUICK = {"epochs", "laplace tree", "laplace local", "zero-out"}


def subject(kind: str, **options: object) -> Subject:
    name, own = KINDS[kind]
    return Subject(make_agent(name, WORLD.model, USERS, **{**own, **options}))


def params() -> list:
    return [pytest.param(kind, marks=[] if kind in QUICK else [pytest.mark.verify]) for kind in KINDS]


@pytest.mark.verify
@pytest.mark.parametrize("kind", params())
def test_the_worst_pair_found_spends_the_promise_and_no_more(kind: str) -> None:
    one = subject(kind)
    pair, cost = worst_pair(one, random=8)
    exposure = one.exposure
    assert cost * exposure <= one.promised * (1 + 1e-9)
    # The reduced tree's releases are a lossy function of its blocks.
    assert cost * exposure >= (0.8 if "reduced" in kind else 1 - 1e-6) * one.promised
    found = replay(one, [seen_as(pair.canary)] * USERS, 1, seen_as(pair.replacement))
    assert found.findings == ()
    assert found.realised == pytest.approx(cost * exposure)


@pytest.mark.verify
@pytest.mark.parametrize("kind", params())
def test_users_of_the_world_in_any_place(kind: str) -> None:
    one = subject(kind)
    for found in replays_of_world_users(one, USERS):
        assert found.findings == ()
        assert found.realised <= found.promised * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["epochs", "laplace epochs", "local", "laplace local"])
def test_the_noise_has_the_calibrated_law_and_scale(kind: str) -> None:
    """Each check raises a false alarm with probability 1e-7; a tenth less noise is found."""
    one = subject(kind)
    assert check_noise(one, draws=2000) == []
    assert any("scale" in finding for finding in check_noise(with_less_noise(one, 0.9), draws=2000))


def with_less_noise(honest: Subject, factor: float) -> Subject:
    """The same promise, kept with too little noise."""
    sums = dataclasses.replace(honest.sums, noise_scale=factor * honest.sums.noise_scale)
    return Subject(dataclasses.replace(honest.agent, aggregator=sums))


def evidence(subject: Subject, pair) -> Evidence:
    scores = play_releases(subject, pair, 20_000, 5)
    return lower_bounds(scores.without, scores.present, 0.0, 0.999)


def test_a_counters_blocks_are_its_exposure_in_the_1_norm() -> None:
    for rounds in (1, 2, 5, 8):
        assert probe(TreeCounter(rounds)).pure_exposures.max() == pytest.approx(rounds.bit_length())
    # The reduced estimate is a function of the same blocks, so no item costs more than their number.
    assert probe(TreeCounter(6, "reduced")).pure_exposures.max() <= 3 + 1e-9
    np.testing.assert_allclose(probe(EpochCounter((1, 2, 4))).pure_exposures, 1)
    assert np.isinf(probe(RunningSum(3)).pure_exposures).all()


@pytest.mark.verify
def test_the_likelihood_ratio_finds_laplace_noise_that_is_too_small() -> None:
    """At ε = 4 with a fifth of the noise; the bound fails for correct code with probability 0.001."""
    honest = subject("laplace epochs", epsilon=4.0)
    pair, _ = worst_pair(honest, random=2)
    assert evidence(honest, pair).lower_bound.epsilon < 4
    broken = evidence(with_less_noise(honest, 0.2), pair)
    assert broken.best == "clopper-pearson"
    assert broken.lower_bound.epsilon > 4


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["epochs", "laplace epochs", "laplace local"])
def test_an_audit_of_correct_code_is_consistent(kind: str) -> None:
    found = audit(subject(kind), WORLD, trials=4000, seed=1)
    assert found.verdict == "consistent"
    assert (found.claimed_mu is None) == ("laplace" in kind)
    assert found.to_dict()["delta"] == (0.0 if "laplace" in kind else 1e-5)


def test_the_worlds_own_trajectories_are_far_apart_but_possible() -> None:
    world = make_world("riverswim:states=3,horizon=4")
    one = Subject(make_agent("private-ucb-vi", world.model, 8, first=2))
    pair = one.neighbours.possible_pair(world, 0)
    assert 0.5 * one.promised < realised_mu(one, pair) <= one.promised * (1 + 1e-9)
    for side in (pair.canary, pair.replacement):
        states, actions = np.asarray(side.states), np.asarray(side.actions)
        chances = np.broadcast_to(world.transitions, (4, 3, 2, 3))[np.arange(4), states[:-1], actions, states[1:]]
        assert chances.min() > 0
