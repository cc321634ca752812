# SPDX-License-Identifier: Apache-2.0
"""A world on the unit interval for tests: a walker who is told where to go, and who may be obedient, contrary or lazy."""

from __future__ import annotations

import functools

import jax.numpy as jnp

from reticent.worlds.continuous import Candidates, continuous_blend, legendre, truncated

DEVIATION, PULL = 0.12, 0.3
WEIGHTS, REWARD_WEIGHTS = (0.15, 0.7, 0.15), (0.8, 0.2)


def means(state, action):
    """The next place by kind of walker: with the order, against it, or towards the middle whatever is said."""
    order = PULL * (action - 1.0)
    return jnp.stack([state + order, state - order, 0.5 + 0.5 * (state - 0.5)])


def densities(state, action, following):
    return truncated.density(following, means(state, action), DEVIATION, 0.0, 1.0)[:, 0]


def sampler(state, action, uniforms):
    return truncated.sample(uniforms, means(state, action), DEVIATION, 0.0, 1.0)


def rewards(state, action):
    return jnp.stack([jnp.exp(-(((state[0] - 0.8) / 0.2) ** 2)), jnp.where(action == 1, 1.0, 0.5)])


def initial(state):
    return truncated.density(state, 0.3, 0.2, 0.0, 1.0)[0]


def start(uniforms):
    return truncated.sample(uniforms, 0.3, 0.2, 0.0, 1.0)


CANDIDATES = Candidates(densities, sampler, rewards, initial, start, actions=3, horizon=4)


@functools.cache
def line_world(nodes=12, judge=40, **options):
    """Made when it is first asked for, and then at hand."""
    grids = legendre(nodes, 0.0, 1.0), legendre(judge, 0.0, 1.0)
    return continuous_blend(CANDIDATES, WEIGHTS, REWARD_WEIGHTS, *grids, name="line", **options)
