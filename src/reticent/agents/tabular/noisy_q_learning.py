# SPDX-License-Identifier: Apache-2.0
"""Noisy Q-learning (after Wang and Hegde 2019): hides the reward function, and promises nothing about users."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from reticent.agents.registry import AGENTS
from reticent.agents.tabular.counts import make_exact_counts
from reticent.agents.tabular.noisy_q_rule import FunctionNoise, NoisyQLearner, kernel, release_power
from reticent.errors import InvalidInput
from reticent.learning.promise import NoPromise
from reticent.learning.schedule import Schedule, geometric_sizes
from reticent.privacy.accounting.gaussian import mu_of
from reticent.worlds import Model


@AGENTS.register("noisy-q-learning")
def noisy_q_learning(
    model: Model,
    episodes: int,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    reward_change: float = 1.0,
    length: float = 1.0,
    first: int = 128,
    growth: float = 1.5,
) -> NoisyQLearner:
    """Noisy Q-learning (after Wang and Hegde 2019): hides the reward function; no user-level privacy.

    All releases together are (ε, δ)-indistinguishable if all realised rewards change by at most ``reward_change`` each.
    ``length`` is that of the noise's correlation over states; ``first`` and ``growth`` shape the epochs.
    """
    for field, value in (("reward_change", reward_change), ("length", length)):
        if not 0 < value < math.inf:
            raise InvalidInput(field, value, "a finite number above 0", "1 is the range of rewards")
    exact = make_exact_counts(model, pooled=False)
    schedule = Schedule(episodes, geometric_sizes(episodes, min(first, episodes), growth), final_release=True)
    power = schedule.releases * release_power(model.horizon, model.states, model.actions, length)
    sigma = reward_change * math.sqrt(power) / mu_of(epsilon, delta)
    root = sigma * np.linalg.cholesky(kernel(model.states, length))
    return NoisyQLearner(
        model=model,
        aggregator=FunctionNoise(exact, jnp.asarray(root)),
        schedule=schedule,
        method="value-iteration",
        name="noisy-q-learning",
        promise=NoPromise(
            "Promises nothing about users: their states and actions enter without noise. What is published is "
            f"({epsilon:g}, {delta:g})-indistinguishable from what it would be if every reward that was ever given "
            f"had been another by at most {reward_change:g}."
        ),
    )
