# SPDX-License-Identifier: Apache-2.0
"""Episodes of simulated users through the device's client."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent_client import Client
from reticent_wire import Trajectory


def play(
    client: Client, user: int, submits: bool = True, *, states: int = 4, horizon: int = 3
) -> tuple[Any, Trajectory]:
    """The episode of a user whose states and rewards are drawn from their number, and what they saw."""
    draw = np.random.default_rng(user)
    visited, rewards, actions = draw.integers(0, states, horizon + 1), draw.random(horizon), []
    episode = client.episode(f"user {user}").open()
    for step in range(horizon):
        actions.append(episode.act(visited[step]))
        episode.observe(rewards[step], visited[step + 1])
    if submits:
        episode.submit()
    return episode, Trajectory(visited, np.array(actions), rewards, episode.place)
