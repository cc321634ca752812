# SPDX-License-Identifier: Apache-2.0
"""Trust models as objects: who noises what, what crosses the wire, and how counters are charged under each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.errors import InvalidInput, UnknownName
from reticent.naming import choices_of
from reticent.privacy.counters import EpochCounter, RunningSum, TreeCounter
from reticent.privacy.sums import PrivateSums
from reticent.privacy.trust import JOINT, LOCAL, SHUFFLE, TRUSTS, Trust, TrustName, trust_named

EXACT = np.random.default_rng(0).uniform(-1, 1, (2, 5))
GRID = 2.0**-6
ALL = pytest.mark.parametrize("trust", list(TRUSTS.values()), ids=repr)


def sums(trust: Trust, grid: float = 0.0, law: str = "gaussian") -> PrivateSums:
    made = PrivateSums()
    counter = trust.counter(lambda: EpochCounter((3, 4)), 2)
    made.noise_scale, made.grid, made.counter, made.trust, made.law = (
        jnp.full(EXACT.shape, 2.0), jnp.asarray(grid), counter, trust, law,
    )  # fmt: skip
    return made


def test_names_are_those_of_the_option() -> None:
    assert list(TRUSTS) == ["joint", "shuffle", "local"]
    assert choices_of(TrustName) == list(TRUSTS)
    for name, trust in TRUSTS.items():
        assert trust_named(name) is trust
        assert trust.name == repr(trust) == name
    with pytest.raises(UnknownName, match="nobody"):
        trust_named("nobody")


@ALL
def test_each_says_what_is_exposed_to_whom(trust: Trust) -> None:
    assert trust.exposed
    assert trust.trusted
    assert trust.wire in ("trajectory", "report", "messages")
    assert {other.wire for other in TRUSTS.values() if other is not trust} == (
        {"trajectory", "report", "messages"} - {trust.wire}
    )


@ALL
def test_somebody_adds_noise_and_only_once(trust: Trust) -> None:
    """Either every report is private by itself, or what a round releases is."""
    assert trust.noised_reports != trust.noised_rounds
    law = "binomial" if trust is SHUFFLE else "gaussian"
    noise = sums(trust, GRID, law).simulate_round_noise(jax.random.key(0))
    assert (noise is not None) == trust.noised_rounds


def test_joint_users_send_what_they_did() -> None:
    assert JOINT.simulate_user_noise(jax.random.key(0), jnp.asarray(EXACT), lambda prefix: jnp.ones(prefix)) is None
    np.testing.assert_array_equal(sums(JOINT).send(jnp.asarray(EXACT), None), EXACT)
    np.testing.assert_array_equal(sums(JOINT, GRID).send(jnp.asarray(EXACT), None), GRID * np.round(EXACT / GRID))


def test_local_users_send_nothing_without_noise() -> None:
    made = sums(LOCAL, GRID)
    noise = made.simulate_user_noise(jax.random.key(0))
    assert noise.shape == EXACT.shape
    np.testing.assert_array_equal(made.send(jnp.asarray(EXACT), noise), GRID * np.round(EXACT / GRID) + noise)
    with pytest.raises(InvalidInput, match="local model"):
        made.send(jnp.asarray(EXACT), None)


def test_shuffled_users_round_at_random_and_stay_within_a_step() -> None:
    made = sums(SHUFFLE, GRID, "binomial")
    noise = made.simulate_user_noise(jax.random.key(0))
    assert float(noise.min()) >= 0
    assert float(noise.max()) < 1
    sent = np.asarray(made.send(jnp.asarray(EXACT), noise))
    assert (np.abs(sent - EXACT) < GRID).all()
    np.testing.assert_array_equal(sent / GRID, np.rint(sent / GRID))


@pytest.mark.parametrize("trust", [JOINT, SHUFFLE], ids=repr)
def test_a_round_cannot_end_without_noise_where_it_is_owed(trust: Trust) -> None:
    made = sums(trust, GRID, "binomial" if trust is SHUFFLE else "gaussian")
    with pytest.raises(InvalidInput, match=f"in the {trust.name} model"):
        made.close(made.init(), None)


def test_a_local_round_ends_without_noise_of_its_own() -> None:
    made = sums(LOCAL)
    report = made.send(jnp.asarray(EXACT), made.simulate_user_noise(jax.random.key(3)))
    closed = made.close(made.absorb(made.init(), report), None)
    np.testing.assert_array_equal(made.released_sums(closed), report)


@pytest.mark.parametrize("trust", [JOINT, SHUFFLE], ids=repr)
def test_the_counter_is_charged_where_the_server_releases(trust: Trust) -> None:
    counter = TreeCounter(8)
    assert trust.counter(lambda: counter, 8) is counter
    assert trust.sensitivity(counter) == counter.sensitivity
    np.testing.assert_array_equal(trust.exposure(counter), counter.exposure())
    np.testing.assert_array_equal(trust.release_std(counter, np.arange(1, 9)), counter.release_std())
    assert trust.released_by(counter) == "tree"


def test_a_local_report_is_charged_once_whatever_the_server_does_with_it() -> None:
    chosen = LOCAL.counter(lambda: pytest.fail("the counter of the options is not asked for"), 8)
    assert chosen == RunningSum(8)
    assert LOCAL.sensitivity(chosen) == 1.0
    np.testing.assert_array_equal(LOCAL.exposure(chosen), np.ones(8))
    # Noise of n reports: variances add.
    np.testing.assert_allclose(LOCAL.release_std(chosen, np.array([4, 9, 100])), [2.0, 3.0, 10.0])


def test_rounds_are_groups_of_users_where_the_server_sees_no_data() -> None:
    assert [trust.grouped for trust in TRUSTS.values()] == [False, True, True]
    assert LOCAL.released_by(RunningSum(8)) == "local noise"


def test_a_shuffled_contribution_without_chance_is_rounded_to_the_nearest() -> None:
    for grid, spacing in ((GRID, GRID), (0.0, 1.0)):
        sent = sums(SHUFFLE, grid, "binomial").send(jnp.asarray(EXACT), None)
        np.testing.assert_array_equal(sent, spacing * np.floor(EXACT / spacing + 0.5))


def test_only_a_shuffler_relies_on_other_users() -> None:
    assert JOINT.reliance(1.0) == LOCAL.reliance(1.0) == ""
    assert "every user" in SHUFFLE.reliance(1.0)
    assert "25% of the users" in SHUFFLE.reliance(0.25)
