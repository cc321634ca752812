# SPDX-License-Identifier: Apache-2.0
"""The audit itself: sharp and never above the claim on unbroken code, and what it writes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.audit import Evidence, Scores, Subject, audit, lower_bounds, play_releases, worst_pair
from reticent.errors import InvalidInput, UnknownName
from reticent.reports.audit_page import audit_html
from reticent.reports.plots.audit import draw_audit
from reticent.simulation.rollout import rollout
from reticent.worlds import make_world

SMALL = "random-blend:states=3,actions=2,horizon=2,d1=2,d2=3,per_step=true"
WORLD = make_world(SMALL)


def subject(world=WORLD, episodes: int = 8, **options) -> Subject:
    return Subject(make_private(world.model, episodes, "value-iteration", PrivateOptions(**options)))


def evidence(scores: Scores) -> Evidence:
    return lower_bounds(scores.without, scores.present, 1e-5, 0.999)


@pytest.mark.verify
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"first": 2}, id="epochs"),
        pytest.param({"trust": "local"}, id="local"),
        pytest.param({"counter": "tree"}, id="tree"),
        pytest.param({"counter": "blt"}, id="blt"),
        pytest.param({"counter": "toeplitz"}, id="toeplitz"),
        pytest.param({"adjacency": "zero-out", "first": 2}, id="zero-out"),
    ],
)
def test_unbroken_code_is_consistent_and_the_bound_is_sharp(options) -> None:
    found = audit(subject(epsilon=2.0, **options), WORLD, trials=20_000, seed=1).to_dict()
    assert found["verdict"] == "consistent"
    assert found["method"] == "gdp-fit"
    assert 0.75 < found["tightness"] <= 1.0
    statistics, trajectory = found["attacks"]
    assert statistics["mu_possible"] == pytest.approx(found["mu_claimed"])
    assert trajectory["mu_possible"] < statistics["mu_possible"]
    assert trajectory["mu_estimate"] == pytest.approx(trajectory["mu_possible"], abs=0.05)


@pytest.mark.verify
def test_halved_noise_is_called_violated() -> None:
    honest = subject(first=2)
    weak = dataclasses.replace(honest.sums, noise_scale=honest.sums.noise_scale / 2)
    broken = Subject(dataclasses.replace(honest.agent, aggregator=weak))
    found = audit(broken, WORLD, trials=10_000)
    assert found.verdict == "violated"
    page = audit_html(found, draw_audit(found))
    assert "The promise was broken" in page
    assert "Do not use this system" in page


@pytest.mark.verify
def test_the_learned_filter_is_as_good_as_the_matched_one() -> None:
    one = subject(first=2, epsilon=4.0)
    pair, _ = worst_pair(one, gradient=False)
    matched, learned = (
        evidence(play_releases(one, pair, 20_000, 0, learn=learn)).mu_estimate for learn in (False, True)
    )
    assert learned == pytest.approx(matched, rel=0.06)


@pytest.mark.verify
def test_scores_are_reproducible() -> None:
    one = subject(first=2)
    pair, _ = worst_pair(one, gradient=False)
    first, again, other = (play_releases(one, pair, 1000, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.without, again.without)
    np.testing.assert_array_equal(first.present, again.present)
    assert not np.array_equal(first.without, other.without)


@pytest.mark.verify
def test_the_actions_adversary_sees_less_than_the_promise() -> None:
    found = audit(subject(first=2, epsilon=4.0), WORLD, adversary="actions", trials=2000, rollout=rollout)
    assert found.verdict == "consistent"
    assert found.lower_bound_epsilon < 4.0


def test_bad_input_is_named() -> None:
    one = subject(first=2)
    with pytest.raises(UnknownName, match="adversary"):
        audit(one, WORLD, adversary="guess")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="trials"):
        audit(one, WORLD, trials=10)
    with pytest.raises(InvalidInput, match="confidence"):
        audit(one, WORLD, confidence=1.0)
    with pytest.raises(InvalidInput, match="rollout"):
        audit(one, WORLD, adversary="actions")


# -- the long ones -------------------------------------------------------------------------------------------------------

REPETITIONS = 20


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_the_shipped_defaults_are_never_above_their_claim(trust: str) -> None:
    world = make_world("mobile-health")
    one = subject(world, 512, trust=trust)
    pair, _ = worst_pair(one)
    bounds = [evidence(play_releases(one, pair, 20_000, seed)).lower_bound.epsilon for seed in range(REPETITIONS)]
    assert max(bounds) <= 1.0
    assert min(bounds) > 0.6


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_bound_reaches_four_fifths_of_the_claim(trust: str, epsilon: float) -> None:
    world = make_world("mobile-health")
    one = subject(world, 512, trust=trust, epsilon=epsilon)
    pair, _ = worst_pair(one, gradient=False)
    found = evidence(play_releases(one, pair, 60_000, 5))
    assert found.best == "gdp-fit"
    assert 0.8 * epsilon <= found.lower_bound.epsilon <= epsilon
