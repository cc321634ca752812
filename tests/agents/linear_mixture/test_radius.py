# SPDX-License-Identifier: Apache-2.0
"""β_p and β_r against the printed formulas of Lemma CI, and the direction in which each constant moves them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference_linopt as slow
from hypothesis import given
from hypothesis import strategies as st
from random_models import few, random_world

from reticent.agents.linear_mixture.frame import PAPER_FRAME, Frame
from reticent.agents.linear_mixture.radius import Radii, radii, radius
from reticent.agents.linear_mixture.regularizer import Certificate
from reticent.errors import InvalidInput

positive = st.floats(1e-3, 1e6)
certificates = st.tuples(positive, positive, st.floats(0, 1e4))


def certificate(horizon: int, transition: tuple[float, ...], reward: tuple[float, ...]) -> Certificate:
    (low_p, high_p, nu_p), (low_r, high_r, nu_r) = transition, reward
    rows = (low_p, max(low_p, high_p), nu_p, low_r, max(low_r, high_r), nu_r)
    return Certificate(*(np.full((1, horizon), row) for row in rows))


@few
@given(
    H=st.integers(1, 60), K=st.integers(1, 10**8), d1=st.integers(1, 300), d2=st.integers(1, 60),
    alpha=st.floats(1e-9, 1.0), transition=certificates, reward=certificates,
)  # fmt: skip
def test_the_lemma_s_formulas(
    H: int, K: int, d1: int, d2: int, alpha: float, transition: tuple[float, ...], reward: tuple[float, ...]
) -> None:
    shared = {"episodes": K, "horizon": H, "alpha": alpha}
    for ours, theirs in (
        (
            radius(spread=H, feature_bound=math.sqrt(d1) * H, theta_bound=math.sqrt(d1), dimension=d1,
                   lambda_min=transition[0], lambda_max=transition[1], nu=transition[2], **shared),
            slow.beta_p(H, K, d1, alpha, *transition),
        ),
        (
            radius(spread=1, feature_bound=1, theta_bound=math.sqrt(d2), dimension=d2,
                   lambda_min=reward[0], lambda_max=reward[1], nu=reward[2], **shared),
            slow.beta_r(H, K, d2, alpha, *reward),
        ),
    ):  # fmt: skip
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=0)


@few
@given(
    seed=st.integers(0, 1000), K=st.integers(1, 10**6), alpha=st.floats(1e-6, 1.0),
    transition=certificates, reward=certificates,
)  # fmt: skip
def test_a_model_in_the_paper_s_frame_gets_the_paper_s_radii(
    seed: int, K: int, alpha: float, transition: tuple[float, ...], reward: tuple[float, ...]
) -> None:
    model = random_world(2 * seed, (5, 3, 4, 3, 4), "blend").model  # an even seed declares the paper's bounds
    limits = certificate(model.horizon, transition, reward)
    found = radii(model, PAPER_FRAME, limits, K, alpha)
    beta_p = slow.beta_p(4, K, 3, alpha, transition[0], max(transition[:2]), transition[2])
    beta_r = slow.beta_r(4, K, 4, alpha, reward[0], max(reward[:2]), reward[2])
    assert found.transition.shape == found.reward.shape == (1, 4)
    np.testing.assert_allclose(found.transition, beta_p, rtol=1e-12, atol=0)
    np.testing.assert_allclose(found.reward, beta_r, rtol=1e-12, atol=0)


BASE = {
    "spread": 5.0, "feature_bound": 3.0, "theta_bound": 2.0, "dimension": 4, "episodes": 1000, "horizon": 5,
    "alpha": 0.05, "lambda_min": 1.0, "lambda_max": 2.0, "nu": 0.5,
}  # fmt: skip


@few
@given(
    field=st.sampled_from(["spread", "feature_bound", "theta_bound", "episodes", "horizon", "lambda_max", "nu"]),
    factor=st.floats(1.01, 1e4),
)
def test_more_uncertainty_never_shrinks_the_radius(field: str, factor: float) -> None:
    larger = {**BASE, field: type(BASE[field])(math.ceil(BASE[field] * factor))}
    assert radius(**larger) > radius(**BASE)


@few
@given(field=st.sampled_from(["alpha", "lambda_min"]), factor=st.floats(1.01, 20.0))
def test_more_confidence_costs_radius(field: str, factor: float) -> None:
    assert radius(**{**BASE, field: BASE[field] / factor}) > radius(**BASE)


def test_tighter_frames_have_smaller_radii() -> None:
    model = random_world(0, (5, 3, 4, 3, 4), "blend").model
    limits = certificate(4, (1.0, 1.0, 0.0), (1.0, 1.0, 0.0))
    paper, step, centred = (
        np.asarray(radii(model, frame, limits, 1000, 0.05).transition)
        for frame in (PAPER_FRAME, Frame(span="step"), Frame(centred=True, span="step"))
    )
    assert (step < paper).all()  # V_{h+1} ≤ H − h < H
    assert (centred[:, :-1] < step[:, :-1]).all()
    assert np.ptp(paper) == 0


def test_rows_follow_the_closed_rounds() -> None:
    table = Radii(np.arange(6.0).reshape(3, 2), np.array([[7.0, 7.0]]))
    for closed, row in ((0, 0), (1, 1), (2, 2), (9, 2)):
        transition, reward = table.after(closed)
        np.testing.assert_array_equal(transition, [2 * row, 2 * row + 1])
        np.testing.assert_array_equal(reward, [7, 7])


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, math.nan])
def test_a_confidence_level_outside_its_domain_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        radius(**{**BASE, "alpha": alpha})
