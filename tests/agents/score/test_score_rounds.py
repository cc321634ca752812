# SPDX-License-Identifier: Apache-2.0
"""Rounds of Score-VI stand by themselves, under every trust model: their sums are in coordinates of their own."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from reticent.agents import make_agent
from reticent.worlds.registry import make_world

MODEL = make_world("random-blend:states=4,actions=2,horizon=2,d=2").model


@pytest.mark.parametrize("trust", ["joint", "local", "shuffle"])
def test_the_posterior_is_updated_with_the_last_round_alone(trust: str) -> None:
    """The local model added rounds up, and took the sum of all for the last one's: its regret was eight times as large."""
    agent = make_agent(f"private-score-vi:trust={trust},epsilon=30", MODEL, 2000)
    sums, silence = agent.aggregator, jnp.zeros((1, agent.dimension))
    state = sums.init()
    for size in (3.0, 5.0):
        state = sums.close(sums.absorb(state, jnp.full((1, agent.dimension), size)), silence)
        np.testing.assert_array_equal(sums.released(state), np.full(agent.dimension, size))
