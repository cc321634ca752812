# SPDX-License-Identifier: Apache-2.0
r"""HeartSteps: an activity suggestion at five moments of a day, for 37 people who were often not available.

**Origin.** HeartSteps V1 (P. Klasnja et al., "Efficacy of contextually tailored suggestions for physical activity: a
micro-randomized optimization trial of HeartSteps", Annals of Behavioral Medicine 2019), public data set HeartStepsV1,
CC BY 4.0. File: ``heartsteps_suggestions.csv.gz``, the published ``suggestions.csv``, compressed: 37 people over six
weeks, 8 274 decision points, at 6 590 of which the person was available. If so, a suggestion to be active, one
to sit less, or none was drawn with probabilities 0.3, 0.3, 0.4.

**The problem.** An episode is a day of H = 5 moments. The state is whether the person is available (awake, not driving,
phone reached), the steps in the half hour before, and whether the last moment had a suggestion. Actions: none, move,
sit less. Reward: log(steps + ½) of the half hour after, from 0 to 1. If the person is not available all actions are none:
no suggestion was ever sent there, and every candidate says that nothing would change.

**Populations.** Thirty-seven people are too few to deploy to. Each of them is a group that blends the candidates
(:mod:`reticent.worlds.records.mixture`); simulated populations blend the same candidates by weights drawn from a
Dirichlet distribution.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reticent.worlds.models.provenance import Provenance
from reticent.worlds.people.data import Published, find
from reticent.worlds.people.recorded import RandomisedRecords
from reticent.worlds.records import Columns, Fitted, fit
from reticent.worlds.records.coding import Bins, Categories, Coding

PUBLISHED = Published(
    "heartsteps_suggestions.csv.gz",
    "the recorded people of HeartSteps V1",
    "https://github.com/klasnja/HeartStepsV1 (data_files/suggestions.csv, compressed)",
    "0c2d00d0fde6",
)
HORIZON = 5
ACTIONS = ("none", "move", "sit less")
CHANCES = (0.4, 0.3, 0.3)
"""With which the trial drew the actions where a person was available."""

CUTS = (1.0, 200.0)
"""Steps in the half hour before: none, some, many."""

REWARDS = (math.log(0.5), math.log(6000.5))
CODING = Coding(
    (Categories("available", ("no", "yes")), Bins("steps before", CUTS), Categories("suggested before", ("no", "yes"))),
    Categories("suggestion", ACTIONS),
    reward_range=REWARDS,
)
COLUMNS = Columns(
    user="day", step="moment", state=("available", "steps before", "suggested before"), action="suggestion",
    reward="log steps", group="person",
)  # fmt: skip


def load_decisions(folder: str | Path | None = None) -> pl.DataFrame:
    """What is used of the published table: person, index, slot, available, suggestion, steps before and after.

    Raises:
      MissingData: the file is not there.
    """
    path = find(PUBLISHED, folder)
    table = pl.read_csv(path, infer_schema_length=None, null_values=["NA"], encoding="utf8-lossy")
    reachable = pl.col("avail")
    return table.select(
        pl.col("user.index").alias("person"),
        pl.col("decision.index").alias("index"),
        pl.col("sugg.select.slot").alias("slot"),
        pl.col("avail").alias("available"),
        pl.when(reachable & pl.col("send.active"))
        .then(pl.lit("move"))
        .when(reachable & pl.col("send.sedentary"))
        .then(pl.lit("sit less"))
        .when(reachable & pl.col("send"))
        .then(None)  # one suggestion of a kind that was not recorded
        .otherwise(pl.lit("none"))
        .alias("suggestion"),
        pl.col("jbsteps30pre.zero").alias("steps before"),
        pl.col("jbsteps30.zero").alias("steps after"),
    ).sort("person", "index")


def days_log(decisions: pl.DataFrame) -> pl.DataFrame:
    """The long table for :func:`reticent.worlds.fit`: whole days, moments 1 to 5 in a row, each an episode."""
    begins = (pl.col("slot") == 1) | (pl.col("index").diff() != 1) | (pl.col("person").diff() != 0)
    table = decisions.with_columns(run=begins.fill_null(True).cum_sum())
    table = table.filter(
        (pl.len().over("run") == HORIZON) & (pl.col("slot").first().over("run") == 1)
        & ((pl.col("slot") - pl.col("slot").shift(1).over("run")).fill_null(1) == 1).all().over("run")
        & pl.col("suggestion").is_not_null().all().over("run")
    )  # fmt: skip
    before = (pl.col("suggestion") != "none").shift(1).over("run").fill_null(False)

    def yes(condition: pl.Expr) -> pl.Expr:
        return pl.when(condition).then(pl.lit("yes")).otherwise(pl.lit("no"))

    return table.select(
        pl.col("run").rank("dense").cast(pl.Int64).alias("day"),
        (pl.col("slot") - 1).alias("moment"),
        yes(pl.col("available")).alias("available"),
        "steps before",
        yes(before).alias("suggested before"),
        "suggestion",
        (pl.col("steps after") + 0.5).log().alias("log steps"),
        "person",
    )


def fit_people(log: pl.DataFrame, candidates: int | tuple[int, int] = 3, *, seed: int = 0, **options: Any) -> Fitted:
    """Candidates that the 37 people are blends of; ``options`` are those of :func:`reticent.worlds.fit`."""
    return fit(
        log,
        horizon=HORIZON,
        candidates=candidates,
        columns=COLUMNS,
        coding=CODING,
        seed=seed,
        source="HeartSteps V1",
        origin=Provenance("public", "37 people of HeartSteps V1"),
        **options,
    )


def recorded(log: pl.DataFrame) -> RandomisedRecords:
    """Whole days for replay by weighting."""
    ordered = log.sort("day", "moment")
    state = CODING.state_of(**{part.column: ordered[part.column].to_numpy() for part in CODING.parts})
    action = CODING.action.encode(ordered["suggestion"].to_numpy())
    low, high = REWARDS
    shape = (-1, HORIZON)
    available = (ordered["available"] == "yes").to_numpy()
    return RandomisedRecords(
        state.reshape(shape),
        action.reshape(shape),
        ((ordered["log steps"].to_numpy() - low) / (high - low)).reshape(shape),
        np.array(CHANCES)[action].reshape(shape),
        available.reshape(shape),
    )
