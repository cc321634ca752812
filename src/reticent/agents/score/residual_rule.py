# SPDX-License-Identifier: Apache-2.0
"""Where residuals are learned: a public rule about model, trust and schedule, which no user has a part in."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from jax import Array

from reticent.privacy.trust import Trust
from reticent.runtime import on_device
from reticent.worlds.continuous.model import ContinuousModel
from reticent.worlds.models.model import Model

Residual = Literal["auto", "on", "off"]

MOST_BASIS = 24
"""Directions in which rows may leave the blend, of a model with more than so many states."""

MOST_NUMBERS = 10_000
"""Numbers of the residual block beyond which it is not used: S·A·(m + 2), and H times as many where steps differ."""

MOST_ROUNDS = 64
"""Rounds beyond which it is not used: every estimate reads all earlier releases anew."""


def cells_of(model: Model) -> int:
    """Q: pairs of state and action, of every step by itself where the model is not declared stationary."""
    return (1 if model.stationary else model.horizon) * model.states * model.actions


def is_table(features: Array) -> bool:
    """Whether every entry has a feature of its own, so that features say nothing: a table without candidates."""
    table = np.asarray(features)
    return bool(table.shape[0] == table[0].size > 1 and np.count_nonzero(table) == table.shape[0])


def without_table(model: Model) -> Model:
    """The model with one candidate that says nothing (uniform rows, rewards of one half) in the place of a table.

    A table has a feature for every entry, which is to say no candidates: nothing is left for a blend, and residuals around
    the uniform candidate are all that is learned. Sizes, names and first states stay.
    """
    pairs = model.states, model.actions
    changed: dict[str, Any] = {}
    if is_table(model.transition_features):
        rows = np.full((1, *pairs, model.states), 1 / model.states)
        changed = {"transition_features": on_device(rows), "sums_to_one": True, "successors": None}
    if is_table(model.reward_features) and model.known_rewards is None:
        changed |= {"reward_features": on_device(np.full((1, *pairs), 0.5)), "reward_total": 1.0}
    return dataclasses.replace(model, **changed) if changed else model


def why_no_residual(model: Model, directions: int, trust: Trust, rounds: int) -> str | None:
    """What speaks against residuals, in words; None where they can be learned."""
    if isinstance(model, ContinuousModel):
        return "real states"
    if trust.wire == "messages":
        return f"trust={trust.name}, whose users would send millions of messages each"
    if trust.wire != "trajectory":
        return f"trust={trust.name}, whose noise on so many numbers would leave nothing"
    if not model.initial_known:
        return "first states that are not declared"
    if model.horizon == 1 or model.states == 1:
        return "a bandit"
    numbers = cells_of(model) * (min(directions, model.states - 1) + 2)
    if numbers > MOST_NUMBERS:
        return f"{numbers} numbers per user, more than {MOST_NUMBERS}"
    if rounds > MOST_ROUNDS:
        return f"{rounds} rounds, more than {MOST_ROUNDS}"
    return None
