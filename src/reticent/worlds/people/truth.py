# SPDX-License-Identifier: Apache-2.0
"""Worlds whose truth is what recorded people did, which no blend of candidates meets exactly."""

from __future__ import annotations

import dataclasses

import numpy as np

from reticent.worlds.models.model import About, Model
from reticent.worlds.records import Fitted
from reticent.worlds.records.fitting import model_of
from reticent.worlds.records.kernel import Kernel
from reticent.worlds.world import World, checked_truth, world_from_parameters


def world_of(fitted: Fitted, truth: Kernel, initial: np.ndarray, weights: np.ndarray, name: str) -> World:
    """The world of people with a model of their own, met by a learner who has candidates from elsewhere.

    Its hidden parameters are ``weights``, the blend next to the truth; its transitions and rewards are the truth's.
    """
    kernel = fitted.kernel
    model = dataclasses.replace(
        model_of(kernel, fitted.model.horizon, initial, dense=True, shared_rewards=fitted.model.d2 == 1),
        about=About(fitted.names),
    )
    rows = table_of(truth)[0]
    blended = blend_world(model, kernel, weights, name)
    means = truth.rewards[:, 0].reshape(1, truth.states, truth.actions)
    return dataclasses.replace(blended, **checked_truth(rows[None], means))


def blend_world(model: Model, kernel: Kernel, weights: np.ndarray, name: str) -> World:
    """The world that blends a fit's candidates by ``weights``, rewards included."""
    longest = float(np.linalg.norm(kernel.rewards[:, : model.d2], axis=1).max()) or 1.0
    reward_weights = weights if model.d2 == kernel.d else np.ones(1)
    return world_from_parameters(model, weights, longest * reward_weights, name=name)


def table_of(kernel: Kernel) -> np.ndarray:
    """All candidates written out, ``(d, S, A, S)``."""
    table = np.zeros((kernel.d, kernel.states * kernel.actions, kernel.states))
    table[:, kernel.pair, kernel.following] = kernel.chances.T
    return table.reshape(kernel.d, kernel.states, kernel.actions, kernel.states)
