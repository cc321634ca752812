# SPDX-License-Identifier: Apache-2.0
"""Episodes of simulated users through the device's client."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
from running_service import APP_KEY, SHUFFLER_KEY

from reticent_client import Client, Connection, Shuffler
from reticent_wire import Trajectory


@contextlib.contextmanager
def client_of(url: str, trust: str, **options: Any) -> Iterator[tuple[Client, Callable[[], Any]]]:
    """A client of a service in this trust model, and what its shuffler does after each user: nothing without one."""
    with contextlib.ExitStack() as stack:
        shuffler = None
        if trust == "shuffle":
            shuffler = stack.enter_context(contextlib.closing(Shuffler(Connection(url, SHUFFLER_KEY), patience=0)))
            shuffler.post_due()  # before the first user
        client = stack.enter_context(Client(url, APP_KEY, trust=trust, shuffler=shuffler, **options))
        yield client, (lambda: None) if shuffler is None else shuffler.post_due


def asked_for_actions(url: str, app: Connection, user: str) -> set[tuple[int, str]]:
    """What the service answers a program that asks it for actions of a user, in whatever state they are."""
    episode = "b" * 32
    opened = app.post("/v1/episodes", {"user": user, "episode": episode})
    answers = set()
    for state in (0, 3, 10**30):
        answer = httpx.post(
            f"{url}/v1/episodes/{episode}/actions",
            json={"token": opened["token"], "step": 0, "state": state},
            headers={"Authorization": f"Bearer {APP_KEY}"},
        )
        answers.add((answer.status_code, answer.text))
    return answers


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
