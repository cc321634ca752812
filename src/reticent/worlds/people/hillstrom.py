# SPDX-License-Identifier: Apache-2.0
r"""Hillstrom: one of three e-mails for a customer, at random, and whether they came to the shop.

**Origin.** The "MineThatData E-Mail Analytics and Data Mining Challenge" of Kevin Hillstrom (20 March 2008): 64 000
customers who bought within twelve months, a third each drawn to get an e-mail with men's merchandise, one with
women's, or none; visits in the two weeks after were recorded. No licence is stated. File: ``hillstrom.csv.gz``, the
published CSV, compressed.

**The problem.** H = 1: the state is what the customer bought before and whether they are new, the action an e-mail, the
reward a visit. Candidate rewards are the three arms, :math:`r_j(s,a)=[a=j]`, whose weights are the visit rates to
learn: with one decision per user there is no telling kinds of people apart, so there is nothing to estimate from a
pilot but a first guess.

**Pilot and deployment.** Pilot: customers who bought women's merchandise only. The service meets all others.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from reticent.worlds.people.data import Published, find
from reticent.worlds.people.recorded import RandomisedRecords
from reticent.worlds.records.coding import Categories, Coding
from reticent.worlds.records.table import Columns

PUBLISHED = Published(
    "hillstrom.csv.gz",
    "the recorded customers of the MineThatData challenge",
    "https://blog.minethatdata.com/2008/03/minethatdata-e-mail-analytics-and-data.html",
    "eb39d9a22910",
)
ARMS = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
CODING = Coding(
    (Categories("bought", ("men's", "women's", "both")), Categories("newcomer", ("no", "yes"))),
    Categories("e-mail", ARMS),
)
COLUMNS = Columns(user="customer", step="step", state=("bought", "newcomer"), action="e-mail", reward="visit")
"""The columns of :func:`log_of`, for :func:`reticent.worlds.fit`."""


def load_customers(folder: str | Path | None = None) -> pl.DataFrame:
    """The published table.

    Raises:
      MissingData: the file is not there.
    """
    return pl.read_csv(find(PUBLISHED, folder), infer_schema_length=None)


class Customers(NamedTuple):
    """Two populations, as tables of :func:`log_of`."""

    pilot: pl.DataFrame
    deployed: pl.DataFrame


def log_of(table: pl.DataFrame) -> pl.DataFrame:
    """The long table for :func:`reticent.worlds.fit`: one row per customer."""
    men, women = pl.col("mens") == 1, pl.col("womens") == 1
    return table.select(
        pl.int_range(pl.len()).alias("customer"),
        pl.lit(0).alias("step"),
        pl.when(men & women)
        .then(pl.lit("both"))
        .when(men)
        .then(pl.lit("men's"))
        .otherwise(pl.lit("women's"))
        .alias("bought"),
        pl.when(pl.col("newbie") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("newcomer"),
        pl.col("segment").alias("e-mail"),
        pl.col("visit").cast(pl.Float64),
    )


def customers(table: pl.DataFrame) -> Customers:
    """Those who bought women's merchandise only, and all others."""
    log = log_of(table)
    only = pl.col("bought") == "women's"
    return Customers(log.filter(only), log.filter(~only))


def recorded(log: pl.DataFrame) -> RandomisedRecords:
    """Customers for replay by weighting: every arm was drawn with probability 1/3."""
    state = CODING.state_of(bought=log["bought"].to_numpy(), newcomer=log["newcomer"].to_numpy())
    action = CODING.action.encode(log["e-mail"].to_numpy())
    shape = (len(state), 1)
    return RandomisedRecords(
        state.reshape(shape),
        action.reshape(shape),
        log["visit"].to_numpy().reshape(shape),
        np.full(shape, 1 / len(ARMS)),
        np.ones(shape, bool),
    )


def visit_rates(log: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Visit rates and numbers of customers of all contexts and arms, each ``(S, A)``; empty cells have the arm's rate."""
    records = recorded(log)
    pair = records.states[:, 0] * len(ARMS) + records.actions[:, 0]
    number = np.bincount(pair, minlength=CODING.states * len(ARMS)).reshape(CODING.states, -1)
    visits = np.bincount(pair, weights=records.rewards[:, 0], minlength=number.size).reshape(number.shape)
    arm = visits.sum(axis=0) / np.maximum(number.sum(axis=0), 1)
    return np.where(number > 0, visits / np.maximum(number, 1), arm), number
