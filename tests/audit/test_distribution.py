# SPDX-License-Identifier: Apache-2.0
"""The law of every noise source: passes at its scale, fails 10% off; and the release noise of every counter."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents.linear_mixture.privacy_plan import PrivateOptions
from reticent.agents.linear_mixture.private_linopt import make_private
from reticent.audit import Subject, check_noise, check_source
from reticent.audit.distribution import fits
from reticent.privacy.noise import SecureNoise
from reticent.privacy.simulation_noise import SimulationNoise
from reticent.worlds import make_world

WORLD = make_world("random-blend:states=3,actions=2,horizon=3,d1=3,d2=2,per_step=true")
KINDS = {
    "epochs": {"first": 2},
    "tree": {"counter": "tree"},
    "tree-reduced": {"counter": "tree-reduced"},
    "toeplitz": {"counter": "toeplitz"},
    "blt": {"counter": "blt"},
    "local": {"trust": "local", "first": 2},
    "paper": {"calibration": "paper"},
}


def subject(kind: str) -> Subject:
    return Subject(make_private(WORLD.model, 9, "value-iteration", PrivateOptions(**KINDS[kind])))


def scaled(honest: Subject, factor: float) -> Subject:
    sums = dataclasses.replace(honest.sums, noise_scale=factor * honest.sums.noise_scale)
    return Subject(dataclasses.replace(honest.agent, aggregator=sums))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_passes_at_its_scale_and_fails_ten_percent_off(kind: str) -> None:
    one = subject(kind)
    assert check_noise(one) == []
    assert check_noise(scaled(one, 0.9)) != []
    assert check_noise(scaled(one, 1.1)) != []


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_in_every_release_has_the_counters_std(kind: str) -> None:
    one = subject(kind)
    privatizer, runs = one.sums, 3000
    sizes = jnp.asarray(one.agent.schedule.round_sizes)

    def run(key: jax.Array) -> jax.Array:
        def close(state, t):
            if one.noised_reports:
                state = privatizer.absorb(
                    state, jnp.sqrt(sizes[t]) * privatizer.simulate_user_noise(jax.random.fold_in(key, t))
                )
            state = privatizer.close(state, privatizer.simulate_round_noise(jax.random.fold_in(key, t)))
            return state, privatizer.counter.release(state.counter)

        return jax.lax.scan(close, privatizer.init(), jnp.arange(privatizer.counter.rounds))[1]

    released = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(2), runs)))
    ends = one.agent.schedule.ends[: privatizer.counter.rounds]
    std = np.sqrt(ends) if one.noised_reports else privatizer.counter.release_std()
    scale = one.noise_scale
    for t in range(released.shape[1]):
        z = released[:, t][:, scale > 0] / scale[scale > 0]
        assert fits(z[:, ::5], std[t])
        assert not fits(z[:, ::5], 0.9 * std[t])


@pytest.mark.verify
def test_the_secure_source_passes() -> None:
    assert check_source(SecureNoise()) == []


def test_the_simulated_source_is_found_out() -> None:
    findings = check_source(SimulationNoise(jax.random.key(0)))
    assert any("not fit for deployment" in finding for finding in findings)
    assert any("floating-point" in finding for finding in findings)
