# SPDX-License-Identifier: Apache-2.0
"""In every data set of recorded people, nobody is in the pilot and among those who are deployed: on people who can be
told apart, every one of them by their own row."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from reticent.worlds.people import hillstrom, jester, msnbc


def rows(people: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in people}


@pytest.mark.parametrize("seed", range(3))
def test_readers_of_msnbc(seed: int) -> None:
    paths = np.array([path for path in itertools.product(range(17), repeat=3) if path[0] != path[1] != path[2]])
    starts = 3 * np.arange(len(paths))
    sessions = msnbc.Sessions(paths.ravel().astype(np.int8), starts, starts + 3)
    pilot, deployed = msnbc.populations(sessions, horizon=2, pilot=200, seed=seed)
    assert len(rows(pilot)) == len(pilot) == 200
    assert rows(pilot).isdisjoint(rows(deployed))
    assert len(rows(deployed)) == len(deployed)


def test_listeners_of_jester() -> None:
    ratings = np.random.default_rng(0).uniform(-10, 10, (60, 100))
    ratings[::2][np.arange(30), 50 + np.arange(30)] = np.nan  # one joke each
    people = jester.audience(ratings)
    assert (len(people.pilot), len(people.deployed)) == (30, 30)
    assert rows(people.pilot[:, :7]).isdisjoint(rows(people.deployed[:, :7]))


def test_customers_of_hillstrom() -> None:
    draw, count = np.random.default_rng(1), 300
    table = pl.DataFrame(
        {
            "mens": draw.integers(0, 2, count), "womens": draw.integers(0, 2, count),
            "newbie": draw.integers(0, 2, count), "segment": ["No E-Mail"] * count, "visit": [0] * count,
        }
    )  # fmt: skip
    pilot, deployed = hillstrom.customers(table)
    assert set(pilot["customer"]).isdisjoint(deployed["customer"])
    assert len(pilot) + len(deployed) == count
