# SPDX-License-Identifier: Apache-2.0
"""Regression pairs of an episode and their products, against loops over the steps."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import few, worlds

from reticent.agents.linear_mixture.statistics import observe, products
from reticent.worlds import Episode, World

pairs = jax.jit(lambda model, values, episode: observe(model, values, episode))
all_products = jax.jit(products)


@pytest.mark.verify
@few
@given(world=worlds, seed=st.integers(0, 10**6))
def test_products_of_an_episode(world: World, seed: int) -> None:
    model, rng = world.model, np.random.default_rng(seed)
    horizon = model.horizon
    framed = rng.normal(size=(horizon, model.states))
    states = rng.integers(model.states, size=horizon + 1)
    actions = rng.integers(model.actions, size=horizon)
    rewards = rng.uniform(size=horizon)
    seen = pairs(model, framed, Episode(states, actions, rewards))
    sums = all_products(seen)
    psi, varphi = np.asarray(model.transition_features), np.asarray(model.reward_features)
    for h in range(horizon):
        phi = psi[:, states[h], actions[h], :] @ framed[h]
        feature = varphi[:, states[h], actions[h]]
        target = framed[h, states[h + 1]]
        for ours, theirs in (
            (seen.value_features[h], phi),
            (seen.targets[h], target),
            (seen.reward_features[h], feature),
            (seen.rewards[h], rewards[h]),
            (sums.transition_gram[h], np.outer(phi, phi)),
            (sums.transition_moment[h], phi * target),
            (sums.reward_gram[h], np.outer(feature, feature)),
            (sums.reward_moment[h], feature * rewards[h]),
        ):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
