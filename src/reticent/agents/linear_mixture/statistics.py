# SPDX-License-Identifier: Apache-2.0
r"""What the learner keeps of an episode: regression pairs, and the four sums of section 6.1.

At step h of episode j, with the value function :math:`V^j` of the *policy version the user was served*, the pairs are
:math:`(\phi_h^j(s_h,a_h),\,V_{h+1}^j(s_{h+1}))` for the transition parameter and :math:`(\varphi(s_h,a_h),\,r_h)` for the
reward parameter, or their contrasts (:mod:`reticent.agents.linear_mixture.reward_coordinates`). The features must be those
of the episode's own time: only then are the statistics a sum over users.

Pairs and products are those of the wire's form ``regressions`` (:mod:`reticent_wire.forms.regressions`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from reticent.agents.linear_mixture.reward_coordinates import RewardCoordinates
from reticent.learning.ridge import Estimate, estimate
from reticent.worlds import Episode, Model
from reticent_wire.forms.regressions import Observation, Statistics, products

__all__ = ["Observation", "Statistics", "estimates", "observe", "products"]


def observe(
    model: Model,
    framed_values: Array,
    episode: Episode,
    table: Array | None = None,
    coordinates: RewardCoordinates | None = None,
) -> Observation:
    """Regression pairs of one episode under ``framed_values`` ``(H, S)``, row h being V_{h+1} in its frame.

    ``table`` ``(H, d1, S, A)`` are the features of all pairs under these values, where they have been computed;
    ``coordinates`` those of the reward parameter, None the model's own.
    """
    here, there = episode.states[:-1], episode.states[1:]
    steps = jnp.arange(framed_values.shape[0])
    if table is None:
        features = jax.vmap(model.value_features_at)(framed_values, here, episode.actions)
    else:
        features = table[steps, :, here, episode.actions]
    reward_features, rewards = jax.vmap(model.reward_features_at)(here, episode.actions), episode.rewards
    if coordinates is not None:
        reward_features, rewards = coordinates.pairs(reward_features, rewards)
    return Observation(
        value_features=features,
        targets=framed_values[steps, there],
        reward_features=reward_features,
        rewards=rewards,
    )


def estimates(sums: Statistics) -> tuple[Estimate, Estimate]:
    """The transition and the reward estimate from regularized statistics."""
    return (
        estimate(sums.transition_gram, sums.transition_moment),
        estimate(sums.reward_gram, sums.reward_moment),
    )
