r"""What the learner keeps of an episode: regression pairs, and the four sums of section 6.1.

At step h of episode j, with the value function :math:`V^j` of the *policy version the user was served*, the pairs are
:math:`(\phi_h^j(s_h,a_h),\,V_{h+1}^j(s_{h+1}))` for the transition parameter and :math:`(\varphi(s_h,a_h),\,r_h)` for the
reward parameter. The features must be those of the episode's own time: only then are the statistics a sum over users.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from reticent.learning.ridge import Estimate, estimate
from reticent.worlds import Episode, Model


class Observation(NamedTuple):
    """The regression pairs of one episode, before any product is formed.

    Attributes:
      value_features: ``(H, d1)``, the :math:`\\phi_h` of the visited pairs, in the plan's frame.
      targets: ``(H,)``, the next states' values, in the plan's frame.
      reward_features: ``(H, d2)``.
      rewards: ``(H,)``.
    """

    value_features: Array
    targets: Array
    reward_features: Array
    rewards: Array


class Statistics(NamedTuple):
    """The four sums per step; also the type of their regularized form (Λ_p, u_p, Λ_r, u_r).

    Attributes:
      transition_gram: ``(H, d1, d1)``, sums of :math:`\\phi\\phi^\\top`.
      transition_moment: ``(H, d1)``, sums of :math:`\\phi V`.
      reward_gram: ``(H, d2, d2)``, sums of :math:`\\varphi\\varphi^\\top`.
      reward_moment: ``(H, d2)``, sums of :math:`\\varphi r`.
    """

    transition_gram: Array
    transition_moment: Array
    reward_gram: Array
    reward_moment: Array


def observe(model: Model, framed_values: Array, episode: Episode, table: Array | None = None) -> Observation:
    """Regression pairs of one episode under ``framed_values`` ``(H, S)``, row h being V_{h+1} in its frame.

    ``table`` ``(H, d1, S, A)`` are the features of all pairs under these values, where they have been computed.
    """
    here, there = episode.states[:-1], episode.states[1:]
    steps = jnp.arange(framed_values.shape[0])
    if table is None:
        features = jax.vmap(model.value_features_at)(framed_values, here, episode.actions)
    else:
        features = table[steps, :, here, episode.actions]
    return Observation(
        value_features=features,
        targets=framed_values[steps, there],
        reward_features=jax.vmap(model.reward_features_at)(here, episode.actions),
        rewards=episode.rewards,
    )


def products(seen: Observation) -> Statistics:
    """The four products per step whose sums over users are the sufficient statistics."""
    phi, varphi = seen.value_features, seen.reward_features
    return Statistics(
        transition_gram=phi[:, :, None] * phi[:, None, :],
        transition_moment=phi * seen.targets[:, None],
        reward_gram=varphi[:, :, None] * varphi[:, None, :],
        reward_moment=varphi * seen.rewards[:, None],
    )


def estimates(sums: Statistics) -> tuple[Estimate, Estimate]:
    """The transition and the reward estimate from regularized statistics."""
    return (
        estimate(sums.transition_gram, sums.transition_moment),
        estimate(sums.reward_gram, sums.reward_moment),
    )
