# SPDX-License-Identifier: Apache-2.0
"""Missing and repeated noise: counted where it is, and nowhere else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.privacy.degenerate_noise import HonestNoise, count_degenerate, make_reader, reader_of_units, tolerance

ROUNDS, SHAPE, RUNS = 3, (2, 4), 2000
SCALE = np.array([[0.5, 2.0, 1.0, 0.0], [3.0, 1.0, 1.0, 1.0]])
MIXING = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
"""Releases hold earlier rounds' noise, as those of epochs do."""
ITEMS = np.arange(24.0).reshape(ROUNDS, *SHAPE)


def counted(noise: np.ndarray) -> tuple[int, int, int]:
    """Runs with this noise ``(runs, rounds, H, D)`` that have a silent release, a silent number, a repeat.

    The second half of the runs is read with another item: noise is compared, and not what it hides.
    """
    reader = make_reader(np.linalg.inv(MIXING), SCALE, 1)
    halves = []
    for half, item in zip(np.array_split(noise, 2), (ITEMS, 2 * ITEMS), strict=True):
        released = np.einsum("ts,rshd->rthd", MIXING, half) + item
        halves.append(jax.vmap(lambda seen, item=item: reader.read(seen, jnp.asarray(item)))(released))
    missing, partly, repeated = count_degenerate(halves, HonestNoise.of("gaussian", SCALE, 0.0, ROUNDS))
    assert missing.runs == partly.runs == repeated.runs == len(noise)
    return missing.hits, partly.hits, repeated.hits


def gaussian(seed: int = 0) -> np.ndarray:
    return SCALE * np.random.default_rng(seed).normal(size=(RUNS, ROUNDS, *SHAPE))


def test_honest_noise_has_no_atoms() -> None:
    assert counted(gaussian()) == (0, 0, 0)
    assert counted(SCALE * np.random.default_rng(1).laplace(size=(RUNS, ROUNDS, *SHAPE))) == (0, 0, 0)


def test_a_forgotten_round_is_read_out_of_releases_that_hold_other_noise() -> None:
    noise = gaussian()
    noise[[5, 1500], [1, 2]] = 0.0
    assert counted(noise) == (2, 2, 0)


def test_a_number_without_noise_is_counted_unless_it_is_to_have_none() -> None:
    noise = gaussian()
    noise[7, 2, 1, 3] = 0.0
    assert counted(noise) == (0, 1, 0)


def test_noise_is_compared_within_a_run_and_between_runs() -> None:
    within, between = gaussian(), gaussian()
    within[3, 2] = within[3, 0]
    between[[11, 1999], 1] = between[4, 1]
    assert counted(within) == (0, 0, 1)
    assert counted(between) == (0, 0, 2)


def test_on_a_grid_single_zeros_are_allowed_for_and_whole_ones_are_not() -> None:
    """Of N coins the probability of the middle is below √(2/πN); of all numbers together it is a product."""
    scale = np.full((1, 6), 2.0)
    honest = HonestNoise.of("binomial", scale, 0.25, 2)
    middle = np.sqrt(2 / (np.pi * 256))
    np.testing.assert_allclose(honest.each, middle)
    assert honest.partly() == pytest.approx(2 * 6 * middle)
    assert honest.missing() == pytest.approx(2 * middle**6)
    coins = np.random.default_rng(0).binomial(256, 0.5, size=(20_000, 6)) - 128
    assert (coins == 0).mean() == pytest.approx(middle, rel=0.05)


def test_directions_are_orthonormal_and_look_only_where_there_is_noise() -> None:
    directions = np.asarray(make_reader(np.eye(ROUNDS), SCALE, 0).directions)
    np.testing.assert_allclose(np.einsum("khd,lhd->kl", directions, directions), np.eye(2), atol=1e-12)
    assert not directions[:, SCALE == 0].any()


@pytest.mark.parametrize("apart", [-1.0, 1.0, -1e-8, 1e-8])
@pytest.mark.parametrize("same", [0, 1])
def test_noise_that_agrees_in_one_projection_only_is_no_repeat(same: int, apart: float) -> None:
    """Neither within a run nor between two; and what agrees in both is one."""
    reader = reader_of_units(2, SHAPE)
    one, fresh = np.random.default_rng(3).normal(size=(2, *SHAPE))
    other = one + apart * np.asarray(reader.directions[1 - same])
    nothing = jnp.zeros((2, *SHAPE))
    assert not reader.read(jnp.asarray([one, other]), nothing).repeated
    assert reader.read(jnp.asarray([one, one]), nothing).repeated
    honest = HonestNoise.of("gaussian", np.ones(SHAPE), 0.0, 2)
    for last, hits in ((other, 0), (one, 1)):
        runs = jax.vmap(lambda seen: reader.read(seen, nothing))(jnp.asarray([[one, fresh], [last, -fresh]]))
        assert count_degenerate([runs], honest)[2].hits == hits


def test_noise_is_missing_where_it_is_a_million_roundings_or_less() -> None:
    reader = reader_of_units(1, SHAPE)
    for size, missing in ((0.0, True), (1e-10, True), (1e-9, False), (-1e-9, False)):
        seen = reader.read(jnp.full((1, *SHAPE), size), jnp.zeros((1, *SHAPE)))
        assert (bool(seen.missing), bool(seen.partly)) == (missing, missing)


def test_chances_are_those_of_every_pair_and_number_and_never_above_one() -> None:
    rounds, runs = 5, 7
    honest = HonestNoise.of("gaussian", SCALE, 0.0, rounds)
    near = 2 * tolerance(np.dtype(np.float64))
    assert honest.each.size == int((SCALE > 0).sum()) == 7
    assert honest.missing() == pytest.approx(rounds * near)
    assert honest.partly() == pytest.approx(rounds * 7 * near)
    pairs = runs + rounds * (rounds - 1) / 2  # with every other run, and within its own
    assert pairs * near**2 <= honest.repeated(runs) <= (pairs + rounds) * near**2
    silent = HonestNoise.of("gaussian", np.zeros(SHAPE), 0.0, rounds)
    assert silent.missing() == 1.0
    assert silent.partly() == 0.0
    crowded = HonestNoise.of("binomial", np.full((1, 50), 0.5), 0.5, rounds)
    assert crowded.partly() == 1.0
