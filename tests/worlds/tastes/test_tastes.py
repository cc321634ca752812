# SPDX-License-Identifier: Apache-2.0
"""Worlds of tastes: exact values against simulated users, recorded people, and loadings from a pilot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.runtime import double_precision
from reticent.worlds import Provenance
from reticent.worlds.tastes import fit_tastes, make_taste_model, random_tastes, recorded_tastes, taste_world
from reticent.worlds.tastes.fitting import Loadings, log_likelihoods, posteriors

COVARIANCE = np.array([[1.0, 0.4, 0.0], [0.4, 0.8, 0.1], [0.0, 0.1, 1.2]])
WORLD = taste_world(
    random_tastes(items=7, factors=3, horizon=4, strength=0.3, scatter=0.3, seed=2).model,
    [0.5, -0.2, 0.1],
    covariance=COVARIANCE,
)


@double_precision
def drawn(users: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Vectors ``(n, m)`` and rewards of all items ``(n, A)`` of simulated users."""
    draws = jax.random.uniform(jax.random.key(3), (users, 3 + WORLD.model.actions))

    def one(draw: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden, items = WORLD.start(draw[:3]), jnp.arange(WORLD.model.actions)
        step = jax.vmap(lambda item, own: WORLD.step(0, hidden, item, own[None])[1])
        return hidden, step(items, draw[3:])

    hidden, rewards = jax.jit(jax.vmap(one))(draws)
    return np.asarray(hidden), np.asarray(rewards)


def test_simulated_users_have_the_declared_law() -> None:
    """Means within 5 standard errors, covariances within 5 %."""
    hidden, rewards = drawn()
    assert (np.abs(hidden.mean(axis=0) - WORLD.mean) < 5 * hidden.std(axis=0) / np.sqrt(len(hidden))).all()
    np.testing.assert_allclose(np.cov(hidden.T), COVARIANCE, atol=0.05)
    error = rewards.std(axis=0) / np.sqrt(len(rewards))
    assert (np.abs(rewards.mean(axis=0) - np.asarray(WORLD.item_means)) < 5 * error).all()
    assert rewards.min() >= 0
    assert rewards.max() <= 1
    assert ((rewards == 0) | (rewards == 1)).mean() > 0.01  # the clip of rewards matters here
    with jax.enable_x64(True):
        one = jnp.asarray(hidden[0])
        known = np.asarray([WORLD.mean_reward(one, item) for item in range(7)])
        scatter = np.random.default_rng(1).normal(size=(200_000, 7)) * np.sqrt(np.asarray(WORLD.model.noise))
    centre = np.asarray(WORLD.model.intercepts) + np.asarray(WORLD.model.loadings) @ hidden[0]
    np.testing.assert_allclose(np.clip(centre + scatter, 0, 1).mean(axis=0), known, atol=0.004)


def test_values_of_lists_and_of_those_who_know() -> None:
    means = np.asarray(WORLD.item_means)
    best = np.sort(means)[::-1][:4].sum()
    assert float(WORLD.policy_value(WORLD.best_list())) == pytest.approx(best, rel=1e-12)
    assert WORLD.uniform_value == pytest.approx(4 * means.mean(), rel=1e-12)
    even = np.full((4, 1, 7), 1 / 7)
    assert float(WORLD.policy_value(even)) == pytest.approx(WORLD.uniform_value, rel=1e-12)
    hidden, _ = drawn(2000)
    with jax.enable_x64(True):
        each = jax.vmap(lambda one: jax.vmap(lambda item: WORLD.mean_reward(one, item))(jnp.arange(7)))(hidden)
    by_hand = np.sort(np.asarray(each), axis=1)[:, -4:].sum(axis=1)
    error = by_hand.std() * np.sqrt(1 / 2000 + 1 / 8192)
    assert abs(WORLD.optimal_value - by_hand.mean()) < 5 * error
    assert WORLD.optimal_value > best


def test_recorded_people_answer_with_their_ratings() -> None:
    ratings = np.random.default_rng(0).random((5, 7))
    people = recorded_tastes(WORLD.model, ratings)
    with jax.enable_x64(True):
        for person in range(5):
            hidden = people.start(people.draw_of(person))
            assert int(hidden) == person
            assert float(people.step(0, hidden, 3, jnp.zeros(1))[1]) == ratings[person, 3]
        assert int(people.start(jnp.ones(1))) == 4
    assert people.optimal_value == pytest.approx(np.sort(ratings, axis=1)[:, -4:].sum(axis=1).mean())
    assert float(people.policy_value(np.array([[2], [3]]))) == pytest.approx(ratings[:, [2, 3]].sum(axis=1).mean())
    for wrong in (ratings[:, :6], np.where(ratings > 0.9, np.nan, ratings), ratings * 2):
        with pytest.raises(InvalidInput, match="ratings"):
            recorded_tastes(WORLD.model, wrong)


# -- loadings from a pilot ------------------------------------------------------------------------------------------------


def pilot(people: int = 1500, items: int = 12, seed: int = 0) -> tuple[np.ndarray, Loadings]:
    draw = np.random.default_rng(seed)
    known = Loadings(draw.normal(0.5, 0.05, items), draw.normal(0, 0.07, (items, 2)), draw.uniform(0.005, 0.01, items))
    table = known.intercepts + draw.normal(size=(people, 2)) @ known.loadings.T
    table += draw.normal(size=table.shape) * np.sqrt(known.noise)
    missing = draw.random(table.shape) < 0.4
    missing[np.arange(people), np.arange(people) % items] = False
    table[missing] = np.nan
    return np.clip(table, 0, 1), known


def test_a_fit_finds_the_law_behind_a_pilot() -> None:
    table, known = pilot()
    fitted = fit_tastes(table, 4, (1, 2, 4), provenance=Provenance("simulated", "a test"))
    assert fitted.model.factors == 2
    assert max(fitted.held_out[1], fitted.held_out[4] - 0.01) < fitted.held_out[2]
    assert fitted.model.about.provenance is not None
    found = np.asarray(fitted.model.loadings)
    np.testing.assert_allclose(fitted.model.intercepts, known.intercepts, atol=0.012)
    # Loadings are known up to a rotation: what they say of covariances is not.
    np.testing.assert_allclose(found @ found.T, known.loadings @ known.loadings.T, atol=0.004)
    np.testing.assert_allclose(fitted.model.noise, known.noise, rtol=0.35, atol=0.002)
    assert fit_tastes(table, 4, 3).held_out == {}


def test_missing_ratings_are_integrated_out() -> None:
    """Against the density of what was rated, written out."""
    table, known = pilot(people=6)
    written = []
    for row, mean in zip(table, posteriors(known, table)[0], strict=True):
        rated = ~np.isnan(row)
        load, noise = known.loadings[rated], known.noise[rated]
        covariance, rest = load @ load.T + np.diag(noise), row[rated] - known.intercepts[rated]
        square, volume = rest @ np.linalg.solve(covariance, rest), np.linalg.slogdet(2 * np.pi * covariance)[1]
        written.append(-0.5 * (square + volume))
        np.testing.assert_allclose(mean, load.T @ np.linalg.solve(covariance, rest), rtol=1e-8)
    np.testing.assert_allclose(log_likelihoods(known, table), written, rtol=1e-9)


def test_what_is_no_pilot_and_no_model_is_refused() -> None:
    table, _ = pilot(people=40)
    empty = table.copy()
    empty[:, 3] = np.nan
    for wrong, factors, match in (
        (table * 3, 2, "out of range"),
        (empty, 2, "one item"),
        (empty.T, 2, "one person"),
        (table, 0, "factors"),
        (table, 12, "people in the pilot"),
    ):
        with pytest.raises(InvalidInput, match=match):
            fit_tastes(wrong, 4, factors)
    middle, load = np.full(5, 0.5), np.zeros((5, 2))
    for arguments, match in (
        ((middle, load, 0.1, 6), "at least horizon = 6"),
        ((middle, load[:4], 0.1, 3), "one row per item"),
        ((middle, load, 0.0, 3), "noise"),
        ((middle * np.nan, load, 0.1, 3), "finite"),
    ):
        with pytest.raises(InvalidInput, match=match):
            make_taste_model(*arguments)
    with pytest.raises(InvalidInput, match="mean"):
        taste_world(WORLD.model, [1.0])
    with pytest.raises(InvalidInput, match="covariance"):
        taste_world(WORLD.model, covariance=-np.eye(3))
