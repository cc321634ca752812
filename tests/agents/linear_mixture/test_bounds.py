# SPDX-License-Identifier: Apache-2.0
"""The theorems' constants against a transcription of the proofs, and against what learners really lose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.agents.linear_mixture.bounds import (
    Bound,
    Constants,
    private_corollary,
    theorem_po,
    theorem_vi,
    trivial,
)
from reticent.agents.linear_mixture.certified_bounds import bound_curve, certified, potential
from reticent.agents.linear_mixture.frame import Frame
from reticent.agents.linear_mixture.privacy_plan import PrivateOptions, plan_privacy
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.agents.linear_mixture.regularizer import make_fixed_regularizer
from reticent.errors import InvalidInput
from reticent.learning.schedule import Schedule
from reticent.simulation.simulate import simulate
from reticent.worlds import make_world

SIZES = st.fixed_dictionaries(
    {
        "H": st.integers(1, 30), "K": st.integers(1, 10**6), "d1": st.integers(1, 40), "d2": st.integers(1, 40),
        "alpha": st.floats(1e-6, 0.25), "A": st.integers(2, 20),
    }
)  # fmt: skip


def by_hand(H, K, d1, d2, alpha, A, lam_p, LAM_p, nu_p, lam_r, LAM_r, nu_r):
    """T1, T2, T3, (i), (ii) as the proofs write them."""
    log = math.log
    T = K * H
    beta_p = H / 2 * math.sqrt(2 * log(H / alpha) + d1 * log(1 + K * H**2 / lam_p)) + math.sqrt(d1 * LAM_p) + nu_p
    beta_r = 0.5 * math.sqrt(2 * log(H / alpha) + d2 * log(1 + K / (d2 * lam_r))) + math.sqrt(d2 * LAM_r) + nu_r
    return (
        2 * beta_p * math.sqrt(K * H) * math.sqrt(2 * H * d1 * log(1 + K * H**2 / lam_p)),
        2 * H * beta_r * math.sqrt(K * H) * math.sqrt(2 * H * d2 * log(1 + K / (d2 * lam_r))),
        H * math.sqrt(2 * K * H * log(1 / alpha)),
        math.sqrt(2 * H**3 * T * log(A)),
        4 * H * math.sqrt(2 * T * log(1 / alpha)),
    )


@settings(deadline=None, derandomize=True)
@given(SIZES, st.floats(1e-2, 1e6), st.floats(1, 9), st.floats(0, 1e3))
def test_theorems_are_the_sums_of_their_proofs_terms(sizes, low, ratio, nu):
    H, K, d1, d2, alpha, A = (sizes[key] for key in ("H", "K", "d1", "d2", "alpha", "A"))
    constants = Constants(low, low * ratio, nu, 2 * low, 3 * low * ratio, 2 * nu)
    t1, t2, t3, mirror, martingale = by_hand(
        H, K, d1, d2, alpha, A, low, low * ratio, nu, 2 * low, 3 * low * ratio, 2 * nu
    )
    vi = theorem_vi(H, K, d1, d2, constants, alpha)
    po = theorem_po(H, K, d1, d2, A, constants, alpha)
    assert vi.value == pytest.approx(t1 + t2 + t3, rel=1e-9)
    assert po.value == pytest.approx(t1 + t2 + mirror + martingale, rel=1e-9)
    assert vi.confidence == po.confidence == 1 - 4 * alpha
    assert trivial(H, K) == K * H
    assert vi.vacuous == (vi.value >= K * H)
    assert (vi.remark.find("says nothing") >= 0) == vi.vacuous


@settings(deadline=None, derandomize=True, max_examples=50)
@given(SIZES, st.floats(0.01, 100), st.floats(1e-9, 0.5))
def test_private_corollary_has_the_papers_constants(sizes, epsilon, delta):
    H, K, d1, d2, alpha, A = (sizes[key] for key in ("H", "K", "d1", "d2", "alpha", "A"))
    m = max(1, math.ceil(math.log2(K)))
    unit = H / epsilon * math.sqrt(32 * m * math.log(4 * H / delta))
    tail, chi = math.sqrt(8 * math.log(8 * K * H / alpha)), math.sqrt(2 * math.log(4 * K * H / alpha))
    Sp = unit * d1 * H**2 * math.sqrt(m) * (4 * math.sqrt(d1) + tail)
    Sr = unit * math.sqrt(m) * (4 * math.sqrt(d2) + tail)
    nu_p = unit * math.sqrt(d1) * H**2 * math.sqrt(m / Sp) * (math.sqrt(d1) + chi)
    nu_r = unit * math.sqrt(m / Sr) * (math.sqrt(d2) + chi)
    t1, t2, t3, mirror, martingale = by_hand(H, K, d1, d2, alpha, A, Sp, 3 * Sp, nu_p, Sr, 3 * Sr, nu_r)
    vi = private_corollary(epsilon, delta, H, K, d1, d2, alpha)
    po = private_corollary(epsilon, delta, H, K, d1, d2, alpha, actions=A)
    assert vi.value == pytest.approx(t1 + t2 + t3, rel=1e-9)
    assert po.value == pytest.approx(t1 + t2 + mirror + martingale, rel=1e-9)


def test_the_private_corollary_is_vacuous_at_any_number_of_users_one_would_meet():
    """√T growth with constants this large: at ε = 1 it first says something beyond a hundred million users."""
    early = private_corollary(1.0, 1e-5, 5, 20_000, 4, 4, 0.05)
    assert early.vacuous
    assert "says nothing" in early.remark
    assert private_corollary(1.0, 1e-5, 5, 10**8, 4, 4, 0.05).vacuous
    assert not private_corollary(1.0, 1e-5, 5, 10**14, 4, 4, 0.05).vacuous
    assert not theorem_vi(5, 10**8, 4, 4, Constants.fixed(), 0.05).vacuous


def test_an_agents_certificate_gives_the_theorem_to_the_letter_with_the_papers_calibration():
    model = make_world("random-blend").model
    for method, actions in (("value-iteration", None), ("policy-optimization", model.actions)):
        plan = plan_privacy(model, 500, method, PrivateOptions(calibration="paper"))
        found = certified(
            method, model, plan.regularization.certificate, 500, plan.options.alpha,
            frame=plan.frame, schedule=plan.schedule, actions=actions,
        )  # fmt: skip
        expected = private_corollary(1.0, 1e-5, model.horizon, 500, model.d1, model.d2, 0.05, actions=actions)
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert not found.caveats


def test_the_curve_ends_in_the_bound_and_grows():
    model = make_world("random-blend").model
    certificate = make_fixed_regularizer(model.horizon, model.d1, model.d2).certificate()
    curve, end = bound_curve([1, 10, 100, 1000], "value-iteration", model, certificate, 1000, 0.05)
    assert (np.diff(curve) > 0).all()
    assert curve[-1] == end.value == pytest.approx(theorem_vi(5, 1000, 4, 4, Constants.fixed(), 0.05).value, rel=1e-12)
    inside = theorem_vi(5, 100, 4, 4, Constants.fixed(), 0.05, planned=1000)
    assert curve[2] == pytest.approx(inside.value, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_potential_bounds_what_adversarial_rounds_can_collect(seed, weighted):
    """Against the sum itself, for pairs that prefer what is unexplored, with stale and weighted Grams."""
    rng = np.random.default_rng(seed)
    dimension, feature, low = 3, 2.0, [0.05, 1.0, 30.0][seed % 3]
    rounds = np.array([[1] * 60, [1, 2, 4, 8, 16, 29], [3, 3, 5, 5, 7, 11, 20]][seed // 2])
    weights = rounds if weighted else np.ones_like(rounds)
    summed = np.zeros((dimension, dimension))
    collected = 0.0
    for index, users in enumerate(rounds):
        scale = weights[max(index - 1, 0)]
        gram = summed / scale + low * np.eye(dimension)
        _, vectors = np.linalg.eigh(gram)
        pairs = vectors[:, [0] * users].T if rng.random() < 0.7 else rng.normal(size=(users, dimension))
        pairs = feature * pairs / np.linalg.norm(pairs, axis=1, keepdims=True)
        collected += np.minimum(1, np.einsum("ni,ij,nj->n", pairs, np.linalg.inv(gram), pairs)).sum()
        summed += weights[index] * pairs.T @ pairs
    assert collected <= potential(dimension, feature, low, rounds, weighted=weighted)


def test_frames_rounds_and_scales_are_stated_where_they_leave_the_theorem():
    model = make_world("random-blend").model
    plan = plan_privacy(model, 2000, "value-iteration", PrivateOptions())
    given_to = {
        "frame": plan.frame, "schedule": plan.schedule, "pooled": True, "weighted": True,
        "bonus_scale": 0.05, "shift_scale": 0.5,
    }  # fmt: skip
    found = certified("value-iteration", model, plan.regularization.certificate, 2000, 0.05, **given_to)
    assert found.vacuous
    assert "multiplies its bonuses by 0.05" in found.remark
    assert "multiplies its shifts by 0.5" in found.remark
    seen = certified(
        "value-iteration", model, plan.regularization.certificate, 2000, 0.05, frame=Frame(True, "seen")
    )  # fmt: skip
    assert math.isfinite(seen.value)
    whole = certified(
        "value-iteration", model, plan.regularization.certificate, 2000, 0.05, schedule=Schedule(2000, (2000,))
    )
    assert whole.value > seen.value


@pytest.mark.verify
def test_the_bound_holds_for_a_learner_that_follows_the_theory():
    world = make_world("random-blend:states=4,actions=2,horizon=2,d=2")
    agent = make_private(world.model, 300, "value-iteration", PrivateOptions(calibration="paper", bonus_scale=1))
    curves = simulate(agent, world, [0, 1])
    found = certified("value-iteration", world.model, agent.theory.certificate, 300, 0.05, frame=agent.frame)
    assert curves.regret[:, -1].max() <= min(found.value, trivial(2, 300))


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("horizon", lambda: theorem_vi(0, 10, 1, 1, Constants.fixed(), 0.05)),
        ("episodes", lambda: theorem_vi(1, 0, 1, 1, Constants.fixed(), 0.05)),
        ("d1", lambda: theorem_vi(1, 10, 0, 1, Constants.fixed(), 0.05)),
        ("alpha", lambda: theorem_vi(1, 10, 1, 1, Constants.fixed(), 0.0)),
        ("alpha", lambda: theorem_po(1, 10, 1, 1, 2, Constants.fixed(), float("nan"))),
        ("actions", lambda: theorem_po(1, 10, 1, 1, 0, Constants.fixed(), 0.05)),
        ("epsilon", lambda: private_corollary(0.0, 1e-5, 1, 10, 1, 1, 0.05)),
        ("delta", lambda: private_corollary(1.0, 1.0, 1, 10, 1, 1, 0.05)),
        ("lambda_p", lambda: Constants.fixed(0.0)),
        ("nu_r", lambda: Constants(1, 1, 0, 1, 1, -1)),
    ],
)
def test_bad_input_is_named(field, call):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.field == field


def test_a_bound_says_what_it_is_worth():
    useful = Bound("Theorem VI", {"T1": 3.0, "T2": 4.0}, 5, 10, 0.8)
    assert not useful.vacuous
    assert "The trivial bound is KH = 50" in useful.remark
    assert "with probability at least 0.8" in useful.remark
