# SPDX-License-Identifier: Apache-2.0
"""The radius of a model that is wrong by ζ: the bound itself, and that agents use it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents import make_agent
from reticent.agents.linear_mixture.frame import Frame
from reticent.agents.linear_mixture.radius import inflation, radii
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.errors import InvalidInput
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=5,actions=2,horizon=3,d=2")


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 60),
    d=st.integers(1, 6),
    bias=st.floats(0, 3),
    base=st.floats(1e-3, 5),
)
def test_a_bias_moves_the_estimate_by_no_more_than_stated(seed: int, n: int, d: int, bias: float, base: float) -> None:
    """‖Σ wᵢφᵢbᵢ‖ in the norm of Λ⁻¹ is at most ζR√n for |bᵢ| ≤ ζR, weights in [0, 1] and any regularizer Z ≻ 0."""
    rng = np.random.default_rng(seed)
    features, weights = rng.normal(size=(n, d)), rng.uniform(0, 1, size=n)
    biases = bias * rng.choice([-1, 1], size=n)
    root = rng.normal(size=(d, d))
    gram = (features * weights[:, None]).T @ features + base * np.eye(d) + root @ root.T
    moved = features.T @ (weights * biases)
    assert np.sqrt(moved @ np.linalg.solve(gram, moved)) <= bias * np.sqrt(n) + 1e-9


@pytest.mark.parametrize("spec", ["ucrl-vtr", "ucrl-vtr:replan=epoch,pool=true,span=step", "oppo", "private-linopt-vi"])
def test_agents_add_the_stated_term_to_the_transition_radius_alone(spec: str) -> None:
    plain, told = (
        make_agent(f"{spec}{',' if ':' in spec else ':'}misspecification={zeta}", WORLD.model, 200)
        for zeta in (0.0, 0.1)
    )
    rounds = np.concatenate([[0], told.schedule.ends])
    bounds = told.frame.bounds(WORLD.model)
    spread = bounds.high - bounds.low
    if told.aggregator.pooled:
        spread = np.full(WORLD.model.horizon, np.sqrt((spread**2).sum()))
    wanted = 0.1 * np.sqrt(rounds)[:, None] * spread
    added = np.asarray(told.radii.transition) - np.asarray(plain.radii.transition)
    np.testing.assert_allclose(added, wanted[: len(added)], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(told.radii.reward, plain.radii.reward)
    assert len(added) == told.schedule.releases + 1


def test_it_grows_with_the_root_of_the_users_and_refuses_nonsense() -> None:
    rows = inflation(WORLD.model, Frame(False, "horizon"), 0.2, np.array([0, 25, 100]))
    np.testing.assert_allclose(rows[:, 0], [0, 0.2 * 5 * 3, 0.2 * 10 * 3])
    for zeta in (-0.1, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match="misspecification"):
            inflation(WORLD.model, Frame(), zeta, np.array([1]))


def test_a_pooled_regression_counts_the_largest_bounds_at_every_step() -> None:
    """Its targets are those of all steps, so the radius of a late step may not be that of its own small range."""
    frame = Frame(False, "step")
    ones = np.ones((1, 3))
    certificate = Certificate(ones, ones, 0 * ones, ones, ones, 0 * ones)
    apart, together = (radii(WORLD.model, frame, certificate, 100, 0.05, pooled=pooled) for pooled in (False, True))
    assert np.asarray(apart.transition)[0, -1] < np.asarray(apart.transition)[0, 0]
    np.testing.assert_allclose(together.transition, np.full((1, 3), float(apart.transition[0, 0])))
