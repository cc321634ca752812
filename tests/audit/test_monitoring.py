# SPDX-License-Identifier: Apache-2.0
"""Canaries under watch: noise read off public releases, and the audit that may stop at any time."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.audit import NoiseMonitor, Subject, canary_noise, monitor, probe
from reticent.privacy.counters import EpochCounter, TreeCounter
from reticent.worlds import World, make_world


@functools.cache
def world() -> World:
    return make_world("random-blend:states=3,actions=2,horizon=2,d1=2,d2=2,per_step=true")


def subject(spec: str, factor: float = 1.0, users: int = 4) -> Subject:
    """An agent that draws ``factor`` times the noise that it promises."""
    agent = make_agent(spec, world().model, users)
    sums = dataclasses.replace(agent.aggregator, noise_scale=factor * agent.aggregator.noise_scale)
    return Subject(dataclasses.replace(agent, aggregator=sums))


SPECS = [
    "private-linopt-vi:first=1",
    pytest.param("private-linopt-vi:counter=tree", marks=pytest.mark.verify),
    pytest.param("private-linopt-vi:trust=local,first=1", marks=pytest.mark.verify),
    pytest.param("private-linopt-vi:trust=shuffle,first=1", marks=pytest.mark.verify),
    "pucb:first=1",
]


@pytest.mark.verify
@pytest.mark.parametrize("spec", SPECS)
def test_a_kept_promise_raises_no_alarm_and_a_tenth_less_noise_does_at_once(spec: str) -> None:
    """False alarms at most once in a thousand seeds; this one is fixed."""
    kept = monitor(subject(spec), world(), trials=512, seed=1)
    assert (kept.verdict, kept.runs) == ("consistent", 512)
    assert kept.guesses.guesses == 512
    assert "consistent after 512 runs" in kept.sentence()
    broken = monitor(subject(spec, 0.9), world(), trials=5120, seed=1)
    assert broken.verdict == "violated"
    assert broken.noise.alarm
    assert broken.runs <= 512
    assert broken.to_dict()["noise"]["alarm"]


@pytest.mark.verify
def test_a_user_who_stands_out_is_guessed_too_often() -> None:
    """Every contribution counts five times: the noise is as promised, and the guesses are too good."""
    honest = subject("private-linopt-vi:first=1,epsilon=2")
    real = type(honest.sums)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Loud(real):
        def report(self, seen, noise):
            return 5 * real.report(self, seen, noise)

    fields = {field.name: getattr(honest.sums, field.name) for field in dataclasses.fields(honest.sums)}
    loud = Subject(dataclasses.replace(honest.agent, aggregator=Loud(**fields)))
    state = monitor(loud, world(), trials=4000, seed=2)
    assert state.verdict == "violated"
    assert state.guesses.alarm
    assert not state.noise.alarm


@pytest.mark.verify
@pytest.mark.parametrize("name", ["private-lsvi-ucb", "lsl-improve"])
def test_agents_with_an_adversary_of_their_own_are_watched_by_their_guesses(name: str) -> None:
    place = make_world("linear-mdp:states=3,actions=2,d=2,horizon=1")
    state = monitor(Subject(make_agent(name, place.model, 16)), place, trials=256)
    assert (state.verdict, state.noise, state.guesses.guesses) == ("consistent", None, 256)


# -- in a running service -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", [EpochCounter((1, 2, 2, 4)), TreeCounter(4)], ids=["epochs", "tree"])
def test_the_noise_of_canary_rounds_is_read_off_public_releases(counter) -> None:
    """Rounds 1 and 3 are canaries'. In a tree, round 4 ends a block that holds users, and round 2 holds them itself."""
    draw = np.random.default_rng(3)
    shape, scale = (2, 3), np.array([[1.0, 2.0, 0.0], [0.5, 1.0, 3.0]])
    noise, items = scale * draw.normal(size=(4, *shape)), draw.normal(size=(4, *shape))
    state, releases = counter.init(shape, jnp.float64), []
    for item, drawn in zip(items, noise, strict=True):
        state = counter.close(state, jnp.asarray(item), jnp.asarray(drawn))
        releases.append(np.asarray(counter.release(state)))
    canaries = np.array([True, False, True, False])
    known = np.where(canaries[:, None, None], items, np.nan)
    known[~canaries] = 1e9  # of users' rounds nothing is read
    for rounds in (1, 3, 4):
        read = canary_noise(np.array(releases[:rounds]), known[:rounds], canaries[:rounds], probe(counter), scale)
        own = [t for t in (0, 2) if t < rounds]
        np.testing.assert_allclose(read, (noise[own] / np.where(scale > 0, scale, 1))[:, scale > 0], atol=1e-9)


def test_a_services_canary_rounds_find_a_tenth_less_noise() -> None:
    """Every fourth of 400 epochs is canaries': 100 rounds of 30 numbers, looked at after each."""
    draw = np.random.default_rng(4)
    counter, scale = EpochCounter((1,) * 40), np.full((2, 15), 2.0)
    response, canaries = probe(counter), np.arange(40) % 4 == 0
    for factor, alarm in ((1.0, False), (0.9, True)):
        watching = NoiseMonitor()
        for _ in range(10):  # ten generations of forty epochs
            items = draw.normal(size=(40, 2, 15))
            weighted = np.cumsum(items + factor * scale * draw.normal(size=items.shape), axis=0)
            watching = watching.observe(canary_noise(weighted, items, canaries, response, scale))
        assert (watching.releases, watching.numbers) == (100, 3000)
        assert watching.alarm == alarm
