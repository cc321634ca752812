# SPDX-License-Identifier: Apache-2.0
"""E-processes: alarms as rare as stated however often one looks, under every kept promise; and broken ones are found."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, laplace, norm

from reticent.agents import make_agent
from reticent.audit.sequential import GAINS, SCALES, GuessMonitor, NoiseMonitor, largest_accuracy, log_ratio
from reticent.errors import InvalidInput
from reticent.worlds import make_world

FOUND_WITHIN = 3000
"""Numbers within which Gaussian noise at 0.9 of its scale is found, at α = 0.001; the docstring states it."""


def peaks(monitor: NoiseMonitor | GuessMonitor, looks: np.ndarray) -> np.ndarray:
    """The largest log-capital of each of many monitors ``(runs, looks, ...)`` over all looks."""
    paths = np.cumsum(monitor.log_factors(looks), axis=2)
    return np.asarray((logsumexp(paths, axis=0) - np.log(len(paths))).max(axis=1))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [*SCALES, 1e-6])
def test_ratios_have_mean_one_and_less_under_larger_noise_or_a_shift(law: str, scale: float) -> None:
    """By quadrature on the side where the ratio lives, as far as it lives."""
    reach = np.linspace(-1, 1, 400_001)
    width = 40 * scale if scale < 0.01 else 45.0
    z = width * reach
    law_of = {"gaussian": norm, "laplace": laplace}[law]
    density, wider = law_of.pdf(z), law_of.pdf(z, scale=1.3)
    ratio = np.exp(log_ratio(z, scale, law))
    step = z[1] - z[0]
    assert (ratio * density).sum() * step == pytest.approx(1, rel=1e-3)
    assert (ratio * wider).sum() * step < 1
    for shift in (0.3, 2.0):
        moved = np.exp(log_ratio(z + shift, scale, law))
        assert (moved * density).sum() * step < 1


@pytest.mark.verify
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_thousand_clean_monitors_of_ten_thousand_looks_keep_their_word(law: str) -> None:
    """Ville: each ever alarms with probability at most α, so at most a share α does on average; the seed is fixed."""
    draw = np.random.default_rng(20)
    noise = draw.normal(size=(1000, 10_000)) if law == "gaussian" else draw.laplace(size=(1000, 10_000))
    reached = np.concatenate([peaks(NoiseMonitor(law=law), part[..., None]) for part in np.array_split(noise, 10)])
    for alpha in (0.2, 0.05, 0.01, 0.001):
        assert (reached >= -np.log(alpha)).sum() <= 1000 * alpha
    assert (reached >= np.log(5)).sum() > 100  # not vacuous: the bound is nearly attained


@pytest.mark.verify
def test_clean_monitors_of_guesses_keep_their_word() -> None:
    draw = np.random.default_rng(21)
    monitor = GuessMonitor(accuracy=0.58)
    reached = np.concatenate([peaks(monitor, draw.random((100, 10_000)) < 0.58) for _ in range(10)])
    for alpha in (0.2, 0.05, 0.01, 0.001):
        assert (reached >= -np.log(alpha)).sum() <= 1000 * alpha


def test_clean_monitors_alarm_rarely_whatever_is_added_to_the_noise() -> None:
    """200 monitors of 2000 looks at α = 0.05: noise, with a shift that follows the past, larger, on a grid.

    More alarms than that quantile has a probability of at most 1e-4 each; the seed is fixed.
    """
    draw = np.random.default_rng(5)
    noise = draw.normal(size=(200, 2000))
    before = np.concatenate([np.zeros((200, 1)), np.cumsum(noise, axis=1)[:, :-1]], axis=1)
    for seen, resolution in (
        (noise, 0.0),
        (noise + np.sign(before), 0.0),
        (1.05 * noise, 0.0),
        (np.round(noise * 64) / 64, 1 / 64),
    ):
        alarms = peaks(NoiseMonitor(resolution=resolution), seen[..., None]) >= np.log(20)
        assert alarms.sum() <= binom.isf(1e-4, 200, 0.05)


def test_a_tenth_less_noise_is_found_in_twenty_of_twenty() -> None:
    """Each of these misses with probability below 1%; the seed is fixed."""
    draw = np.random.default_rng(6)
    for numbers in (1, 30):
        releases = FOUND_WITHIN // numbers
        for _ in range(20):
            assert NoiseMonitor().observe(0.9 * draw.normal(size=(releases, numbers))).alarm
            assert not NoiseMonitor().observe(draw.normal(size=(releases, numbers))).alarm


def test_releases_without_noise_are_found_although_they_are_rare() -> None:
    """One in a thousand: after 10 000 single numbers, or on a grid after a few releases of many."""
    draw = np.random.default_rng(7)
    noise = draw.normal(size=(10_000, 1))
    noise[::1000] = 0.0
    assert NoiseMonitor().observe(noise).alarm
    grid = np.round(draw.normal(size=(3000, 20)) * 1024) / 1024
    assert not NoiseMonitor(resolution=1 / 1024).observe(grid).alarm
    grid[[900, 2100]] = 0.0
    assert NoiseMonitor(resolution=1 / 1024).observe(grid).alarm


def test_a_monitor_goes_on_where_it_was_stored_and_an_alarm_stays() -> None:
    draw = np.random.default_rng(8)
    noise = 0.7 * draw.normal(size=(400, 5))
    whole = NoiseMonitor().observe(noise)
    parts = NoiseMonitor()
    for row in noise:
        parts = NoiseMonitor(**json.loads(json.dumps(parts.to_dict()["state"])) | {"stakes": parts.stakes})
        parts = parts.observe(row)
    assert (parts.releases, parts.numbers) == (400, 2000)
    assert parts.log_capital == pytest.approx(whole.log_capital)
    assert parts.peak == pytest.approx(whole.peak)
    calmed = whole.observe(3 * draw.normal(size=(5000, 5)))
    assert calmed.log_capital < whole.log_capital
    assert whole.alarm
    assert calmed.alarm
    assert NoiseMonitor().observe(np.zeros((0, 5))) == NoiseMonitor()
    assert not NoiseMonitor().observe(np.full((3, 2), np.inf)).alarm


def test_guesses_that_are_too_good_are_found() -> None:
    draw = np.random.default_rng(9)
    for accuracy, users in ((0.62, 4000), (0.7, 1000)):
        state = GuessMonitor(accuracy=0.5533).observe(draw.random(users) < accuracy)
        assert state.alarm
        assert state.right == pytest.approx(accuracy * users, rel=0.05)
        assert len(state.stakes) == len(GAINS)
    assert not GuessMonitor(accuracy=0.5533).observe(draw.random(4000) < 0.5533).alarm


def test_how_often_a_coin_may_be_guessed_follows_from_the_promise() -> None:
    model = make_world("random-blend:states=3,actions=2,horizon=1,d1=2,d2=2").model
    gaussian = make_agent("private-linopt-vi:epsilon=1", model, 8).promise
    assert largest_accuracy(gaussian) == pytest.approx(0.5531, abs=2e-3)
    pure = make_agent("pucb:epsilon=1", model, 8).promise
    assert largest_accuracy(pure) == pytest.approx(np.e / (1 + np.e))
    smooth = dataclasses.replace(pure, delta=0.1)
    assert largest_accuracy(smooth) == pytest.approx((np.e + 0.1) / (1 + np.e))


def test_bad_settings_are_named() -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        NoiseMonitor(alpha=0.0)
    with pytest.raises(InvalidInput, match="resolution"):
        NoiseMonitor(resolution=0.5)
    with pytest.raises(InvalidInput, match="accuracy"):
        GuessMonitor(accuracy=0.3)
