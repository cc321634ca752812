# SPDX-License-Identifier: Apache-2.0
"""The accountant against the paper's targets, an independent library, high precision and its own promises."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import compose, delta_of, epsilon_of, group, mu_of, zcdp_epsilon, zcdp_of

epsilons = st.floats(-5, 2.5).map(lambda power: 10.0**power)
deltas = st.floats(-200, -0.3).map(lambda power: 10.0**power)
mus = st.floats(-6, 1.5).map(lambda power: 10.0**power)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.0325), (1.0, 0.2681), (10.0, 2.0004)])
def test_targets(epsilon: float, mu: float) -> None:
    assert mu_of(epsilon, 1e-5) == pytest.approx(mu, abs=5e-5)


def test_noise_of_one_release() -> None:
    assert 1 / mu_of(1.0, 1e-5) == pytest.approx(3.73063, abs=5e-6)


@pytest.mark.parametrize(
    ("mu", "epsilon", "log_delta"),
    # ln δ to 17 digits by mpmath at 400 digits, from the two-term formula; mpmath is no dependency.
    [
        (1e-06, 1e-05, -69.368627594086766),
        (0.0001, 0.001, -64.762962409325132),
        (0.01, 0.1, -60.108304488070151),
        (0.0325, 0.1, -11.520642581754276),
        (0.3, 5.0, -144.16045966594876),
        (0.49999, 0.1, -1.8372390247787467),
        (0.5, 0.1, -1.8372140060848781),
        (0.2681, 1.0, -11.509898682548625),
        (1.0, 0.001, -0.96072234048614116),
        (2.0, 10.0, -11.518923133467919),
        (0.6, 22.0, -669.90288155922848),
        (3.0, 0.5, -0.18633462646003074),
        (30.0, 100.0, -1.5462427442505484e-31),
        (0.01, 0.6, -1813.4136428613291),
    ],
)
def test_curve_in_high_precision(mu: float, epsilon: float, log_delta: float) -> None:
    from reticent.privacy.accounting.gaussian import _log_delta

    assert math.expm1(_log_delta(mu, epsilon) - log_delta) == pytest.approx(0.0, abs=2e-12)


@settings(deadline=None)
@given(mus, epsilons)
def test_curve_is_the_two_term_formula_where_that_is_accurate(mu: float, epsilon: float) -> None:
    first, second = float(log_ndtr(-epsilon / mu + mu / 2)), epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    plain = math.exp(first) - math.exp(second) if second < 700 else math.nan
    if plain > 1e-3 * math.exp(first):
        # the two-term formula itself loses a factor |exponent| of precision
        assert delta_of(mu, epsilon) == pytest.approx(plain, rel=1e-9)


@settings(max_examples=300, deadline=None)
@given(epsilons, deltas)
def test_mu_of_is_private_and_tight(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert delta_of(mu, epsilon) <= delta
    assert delta_of(mu * (1 + 1e-9), epsilon) > delta


@settings(max_examples=300, deadline=None)
@given(mus, deltas)
def test_epsilon_of_is_private_and_tight(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if epsilon > 1e-6:
        assert delta_of(mu, epsilon * (1 - 1e-8)) > delta


@settings(deadline=None)
@given(mus, deltas)
def test_orders_of_the_bounds(mu: float, delta: float) -> None:
    rho = zcdp_of(mu)
    exact, optimised, simple = (
        epsilon_of(mu, delta),
        zcdp_epsilon(rho, delta),
        zcdp_epsilon(rho, delta, simple=True),
    )
    assert exact <= optimised * (1 + 1e-12) + 1e-15
    assert optimised <= simple


def test_zcdp_conversion_agrees_with_dp_accounting() -> None:
    import numpy as np
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = 1 + np.exp(np.linspace(-3, 8, 4000))
    for rho in (1e-3, 0.05, 0.7):
        theirs, _ = rdp.compute_epsilon(orders, rho * orders, 1e-5)
        assert zcdp_epsilon(rho, 1e-5) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_agrees_with_dp_accounting_sigma(epsilon: float, delta: float) -> None:
    from dp_accounting import get_sigma_gaussian

    assert 1 / mu_of(epsilon, delta) == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-6)


@pytest.mark.parametrize("count", [1, 4, 40])
@pytest.mark.parametrize("sigma", [3.0, 12.0])
def test_agrees_with_numerical_composition(count: int, sigma: float) -> None:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    loss = from_gaussian_mechanism(sigma, value_discretization_interval=1e-4).self_compose(count)
    mu = compose([1 / sigma] * count)
    for delta in (1e-4, 1e-6):
        assert epsilon_of(mu, delta) == pytest.approx(loss.get_epsilon_for_delta(delta), rel=1e-3)
    for epsilon in (0.5, 2.0):
        if delta_of(mu, epsilon) > 1e-9:
            assert delta_of(mu, epsilon) == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-3)


def test_where_rounding_hides_the_change_of_sign_the_nearer_end_is_the_root() -> None:
    from reticent.privacy.accounting.gaussian import _root

    assert _root(lambda x: x + 1e-9, 0.0, 1.0) == 0.0
    assert _root(lambda x: x - 1.0 - 1e-9, 0.0, 1.0) == 1.0
    assert _root(lambda x: x - 0.25, 0.0, 1.0) == 0.25


def test_limits() -> None:
    assert delta_of(0.0, 1.0) == 0.0
    assert delta_of(1e-300, 1.0) == 0.0
    assert delta_of(1e3, 1.0) == 1.0
    assert delta_of(1.0, 0.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-14)
    assert epsilon_of(0.0, 1e-5) == 0.0
    assert epsilon_of(1e-7, 1e-5) == 0.0
    assert zcdp_epsilon(0.0, 1e-5) == 0.0
    assert zcdp_of(3.0) == 4.5
    assert zcdp_epsilon(0.5, math.exp(-8), simple=True) == pytest.approx(0.5 + 2 * 2, rel=1e-12)
    assert compose([]) == 0.0
    assert compose([3.0, 4.0]) == 5.0
    assert group(0.2, 3) == pytest.approx(0.6)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_epsilon_is_named(bad: float) -> None:
    with pytest.raises(InvalidInput, match=r"epsilon is .* must be finite and greater than 0"):
        mu_of(bad, 1e-5)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-5, math.nan])
def test_bad_delta_is_named(bad: float) -> None:
    with pytest.raises(InvalidInput, match=r"delta is .* strictly between 0 and 1"):
        mu_of(1.0, bad)
    with pytest.raises(InvalidInput, match="delta"):
        epsilon_of(1.0, bad)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_mu_is_named(bad: float) -> None:
    with pytest.raises(InvalidInput, match=r"mu is .* at least 0"):
        compose([1.0, bad])


def test_bad_group_and_rho_are_named() -> None:
    for times in (0, 2.5):
        with pytest.raises(InvalidInput, match="times"):
            group(1.0, times)  # type: ignore[arg-type]
    assert group(0.5, 1) == 0.5
    for rho in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="rho"):
            zcdp_epsilon(rho, 1e-5)
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match=r"epsilon is .* finite and at least 0"):
            delta_of(1.0, epsilon)
