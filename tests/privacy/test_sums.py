# SPDX-License-Identifier: Apache-2.0
"""Sums of contributions: rounds begin with nothing, end with the counter's release, and noise has the law that is named."""

from __future__ import annotations

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.privacy.counters import EpochCounter
from reticent.privacy.sums import PrivateSums, private_sums
from reticent.privacy.trust import JOINT, SHUFFLE, Trust

SHAPE = (2, 5)


def sums(trust: Trust = JOINT, scale: float = 2.0, grid: float = 0.0, law: str = "gaussian") -> PrivateSums:
    made = PrivateSums()
    made.noise_scale, made.grid, made.counter, made.trust, made.law = (
        jnp.full(SHAPE, scale), jnp.asarray(grid), EpochCounter((3, 4)), trust, law,
    )  # fmt: skip
    return made


def test_every_round_begins_with_nothing_and_nothing_follows_the_last() -> None:
    """Two epochs of sizes 3 and 4 by hand: the first counts for three quarters beside the second."""
    made = sums()
    assert made.horizon == 2
    draw = np.random.default_rng(2)
    reports, noise = draw.normal(size=(2, 4, *SHAPE))
    state = made.init()
    np.testing.assert_array_equal(made.released_sums(state), np.zeros(SHAPE))
    for report in reports[:2]:
        state = made.absorb(state, jnp.asarray(report))
    np.testing.assert_array_equal(made.released_sums(state), np.zeros(SHAPE))  # no release reads the open sum
    state = made.close(state, jnp.asarray(noise[0]))
    first = reports[0] + reports[1] + noise[0]
    np.testing.assert_allclose(made.released_sums(state), first, rtol=1e-12)
    assert not state.open.any()
    state = made.close(made.absorb(state, jnp.asarray(reports[2])), jnp.asarray(noise[1]))
    both = 0.75 * first + reports[2] + noise[1]
    np.testing.assert_allclose(made.released_sums(state), both, rtol=1e-12)
    assert int(state.rounds) == 2
    state = made.close(made.absorb(state, jnp.asarray(reports[3])), jnp.asarray(noise[2]))
    np.testing.assert_allclose(made.released_sums(state), both, rtol=1e-12)
    assert int(state.rounds) == 2


@pytest.mark.parametrize(("law", "size"), [("gaussian", math.sqrt(2 / math.pi)), ("laplace", 1.0)])
def test_simulated_noise_has_the_law_that_is_named(law: str, size: float) -> None:
    """Mean of the absolute values in units of the scale, 0.80 or 1, over 40 000 draws: six standard errors, 2e-9."""
    keys = jax.random.split(jax.random.key(1), 4000)
    noise = np.asarray(jax.vmap(sums(law=law).simulate_round_noise)(keys)) / 2.0
    assert noise.shape == (4000, *SHAPE)
    assert abs(np.abs(noise).mean() - size) < 6 / math.sqrt(noise.size)
    assert abs(noise.mean()) < 6 * math.sqrt(2 / noise.size)


def test_simulated_coins_are_whole_however_odd_the_scale() -> None:
    """A spread of 1.2 steps is that of 5.76 coins: six are flipped, and every number is a multiple of the grid."""
    made = sums(SHUFFLE, scale=0.3, grid=0.25, law="binomial")
    steps = np.asarray(jax.vmap(made.simulate_round_noise)(jax.random.split(jax.random.key(2), 200))) / 0.25
    assert set(np.unique(steps).tolist()) <= {-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0}
    # The variance of 2 000 centred sums of six coins is 1.5, within six standard errors: false alarm 2e-9.
    assert abs((steps**2).mean() - 1.5) < 6 * math.sqrt(3.75 / steps.size)


def test_an_agent_without_noisy_sums_is_refused_by_name() -> None:
    made = sums()
    assert private_sums(SimpleNamespace(aggregator=made, name="private")) is made
    with pytest.raises(InvalidInput, match="plain"):
        private_sums(SimpleNamespace(aggregator=object(), name="plain"))
