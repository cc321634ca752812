# SPDX-License-Identifier: Apache-2.0
"""Optimistic Q-learning without privacy."""

from __future__ import annotations

import math

import jax.numpy as jnp

from reticent.agents.linear_mixture.linopt import check_scale
from reticent.agents.registry import AGENTS
from reticent.agents.tabular.counts import check_size
from reticent.agents.tabular.q_rule import OneEpisode, QLearner, empty_table
from reticent.agents.tabular.ucbvi import check_alpha
from reticent.learning.schedule import Schedule
from reticent.worlds import Model


@AGENTS.register("q-learning")
def q_learning(
    model: Model,
    episodes: int,
    *,
    bonus_scale: float = 0.001,
    alpha: float = 0.05,
) -> QLearner:
    """Q-learning with a Hoeffding bonus (Jin et al. 2018): model-free and optimistic, no privacy.

    ``bonus_scale`` is the paper's constant c. Every episode is a round.
    """
    check_scale("bonus_scale", bonus_scale)
    check_alpha(alpha)
    check_size(model, transitions=False)
    iota = math.log(model.states * model.actions * episodes * model.horizon / alpha)
    table = empty_table(model.horizon, model.states, model.actions, model.reward_features.dtype)
    return QLearner(
        model=model,
        aggregator=OneEpisode(table),
        bonus_scale=jnp.asarray(float(bonus_scale)),
        iota=jnp.asarray(iota),
        schedule=Schedule(episodes, None, final_release=True),
        method="value-iteration",
        name="q-learning",
    )
