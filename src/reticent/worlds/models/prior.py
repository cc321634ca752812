# SPDX-License-Identifier: Apache-2.0
r"""Truths that might be: worlds drawn from a public prior over what a model leaves open.

Candidates are public, and so is the prior: :math:`\theta_p\sim\mathrm{Dirichlet}(\alpha,\dots,\alpha)`, at every step anew
where the model is not stationary, and for the rewards

* nothing, where they are known;
* :math:`\theta_r/\mathrm{total}\sim\mathrm{Dirichlet}(\alpha,\dots,\alpha)`, where their sum is declared; the *same*
  weights as the transitions', where candidates are whole kinds of people, as :func:`reticent.worlds.fit` finds them;
* :math:`\theta_r` uniform in :math:`[0,1]^{d_2}`, divided by its largest mean reward where that is above 1, else.

No user is asked: whatever is computed from such truths costs no privacy.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.model import Model
from reticent.worlds.world import World, world_from_parameters

RewardWeights = Literal["own", "same"]


def draw_truths(
    model: Model, count: int, *, seed: int = 0, concentration: float = 1.0, rewards: RewardWeights = "own"
) -> list[World]:
    """``count`` worlds of ``model`` from the prior of the module; all share the model.

    Args:
      model: a blend: transition weights are declared to sum to one.
      count: how many. seed: of the draws; a longer list begins with the shorter one's truths.
      concentration: α: 1 is uniform on the simplex, less favours single candidates, more the even blend.
      rewards: whether reward weights are drawn on their ``own`` or are the ``same`` as the transitions'.

    Raises:
      InvalidInput: the model is no blend, its rewards have no prior here, or a number is out of range.
    """
    if count < 1:
        raise InvalidInput("truths", count, "at least 1", "a few hundred give bands that can be relied upon")
    if not 0 < concentration < math.inf:
        raise InvalidInput("concentration", concentration, "positive and finite", "1 is uniform")
    if seed < 0:
        raise InvalidInput("seed", seed, "not negative", "give a seed of at least 0")
    if not model.sums_to_one:
        raise InvalidInput(
            "model",
            "whose weights are not declared to sum to one",
            "a blend of candidate models",
            "there is no public prior over its truths: simulate worlds of your own",
        )
    if rewards == "same" and (model.d1 != model.d2 or model.reward_total is None):
        raise InvalidInput(
            "rewards",
            "same",
            "own, unless there are as many reward tables as candidates and their weights sum to one",
            "draw reward weights of their own",
        )
    steps = 1 if model.stationary else model.horizon
    return [
        _truth(model, np.random.default_rng([seed, number]), steps, concentration, rewards) for number in range(count)
    ]


def _truth(model: Model, random: np.random.Generator, steps: int, alpha: float, rewards: RewardWeights) -> World:
    weights = random.dirichlet(np.full(model.d1, alpha), size=steps)
    if rewards == "same":
        assert model.reward_total is not None
        paid = model.reward_total * weights
    else:
        paid = _reward_weights(model, random, steps, alpha)
    many = model.horizon // steps  # a stationary model's one draw holds at all steps
    world = world_from_parameters(model, np.repeat(weights, many, axis=0), np.repeat(paid, many, axis=0), name="drawn")
    if model.known_rewards is None:
        return world
    return dataclasses.replace(world, reward_means=model.known_rewards[None])


def _reward_weights(model: Model, random: np.random.Generator, steps: int, alpha: float) -> np.ndarray:
    """θ_r of every step, ``(steps, d2)``."""
    if model.reward_total is not None:
        return np.asarray(model.reward_total * random.dirichlet(np.full(model.d2, alpha), size=steps))
    features = np.asarray(model.reward_features)
    if features.min() < 0:
        raise InvalidInput(
            "reward_features",
            "with negative entries",
            "nonnegative, or of a declared sum of weights, or known rewards",
            "there is no public prior over such rewards: simulate worlds of your own",
        )
    drawn = random.random((steps, model.d2))
    largest = np.einsum("hd,dsa->hsa", drawn, features).max(axis=(1, 2))
    drawn /= np.maximum(largest, 1.0)[:, None]
    return drawn
