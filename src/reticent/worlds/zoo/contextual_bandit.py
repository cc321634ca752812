# SPDX-License-Identifier: Apache-2.0
r"""A linear contextual bandit: one decision per user, whose reward is linear in known features.

A user is a *context* s, drawn from a known distribution; the service chooses one of A actions and the user answers with a
reward of mean :math:`\langle\varphi(s,a),\theta\rangle`. That is an episode of H = 1 step of a linear mixture MDP
whose transitions do not matter (the context stays, one candidate model, nothing to learn), so every agent of this
library runs here, and those of :mod:`reticent.agents.bandits` run nowhere else.

Features are random directions in the positive orthant of lengths from ½ to 1, and :math:`\theta` is one of length 1:
mean rewards are then cosines times lengths, in [0, 1]. At the defaults (20 contexts, 8 actions, d = 5) optimal minus
uniform value is 0.219 at seed 0, and between 0.19 and 0.30 for 90% of seeds 0-199.
"""

from __future__ import annotations

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.model import make_model
from reticent.worlds.registry import register_world
from reticent.worlds.world import World, world_from_parameters

SHORTEST = 0.5
"""Least length of a feature vector. Lengths differ, so that the first user is not met with ties."""


@register_world("contextual-bandit", episodes=20_000, sizes=(20, 8, 1, 1, 5))
def contextual_bandit(*, contexts: int = 20, actions: int = 8, d: int = 5, seed: int = 0) -> World:
    """A seeded linear contextual bandit (H = 1): contexts are first states, rewards linear in known features."""
    for field, size in (("contexts", contexts), ("actions", actions), ("d", d)):
        if size < 1:
            raise InvalidInput(f"contextual-bandit: {field}", size, "at least 1", "give a positive size")
    if seed < 0:
        raise InvalidInput("contextual-bandit: seed", seed, "not negative", "give a seed of at least 0")
    of_features, of_lengths, of_theta, of_contexts = np.random.default_rng(seed).spawn(4)
    features = np.abs(of_features.normal(size=(d, contexts, actions)))
    features *= of_lengths.uniform(SHORTEST, 1, size=(contexts, actions)) / np.linalg.norm(features, axis=0)
    theta = np.abs(of_theta.normal(size=d))
    stays = np.broadcast_to(np.eye(contexts)[None, :, None, :], (1, contexts, actions, contexts))
    model = make_model(
        stays,
        features,
        1,
        initial=of_contexts.dirichlet(np.ones(contexts)),
        transition_bound=1.0,
        transition_theta_bound=1.0,
        reward_theta_bound=1.0,
        sums_to_one=True,
        stationary=True,
    )
    return world_from_parameters(model, [1.0], theta / np.linalg.norm(theta), name="contextual-bandit")
