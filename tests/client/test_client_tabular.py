# SPDX-License-Identifier: Apache-2.0
"""Tabular agents, deployed: the same service and the same client, whose reports are visit counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from running_service import APP_KEY, running_service

from reticent.errors import InvalidInput
from reticent_client import Client

WORLD = "riverswim:states=3,horizon=4"
ROUNDS = "first=4,growth=1,epsilon=2"
AGENTS = {
    "joint": f"private-ucb-vi:counter=epochs,{ROUNDS}",
    "joint-po": f"private-ucb-po:counter=tree,{ROUNDS}",
    "local": f"private-ucb-vi:trust=local,{ROUNDS}",
    "ldp-obi": f"ldp-obi:law=gaussian,{ROUNDS}",
}


@pytest.fixture(params=AGENTS)
def deployed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The trust model and the address of a service of each agent."""
    agent = AGENTS[request.param]
    with running_service(tmp_path, world=WORLD, agent=agent, episodes=12, rate_limit=0) as url:
        yield ("local" if request.param in ("local", "ldp-obi") else "joint"), url


def play(client: Client, user: int) -> Any:
    draw = np.random.default_rng(user)
    with client.episode(f"user {user}") as episode:
        state = 0
        for _ in range(episode.horizon):
            episode.act(state)
            state = int(draw.integers(0, 3))
            episode.observe(float(draw.random()), state)
    return episode


@pytest.mark.verify
def test_users_are_served_and_learned_from_to_the_end(deployed: tuple[str, str]) -> None:
    trust, url = deployed
    demanded = {"epsilon": 2.0, "delta": 1e-5} if trust == "local" else {}
    with Client(url, APP_KEY, trust=trust, **demanded) as client:
        assert client.names == (("place 1", "place 2", "place 3"), ("left", "right"), None)
        episodes = [play(client, user) for user in range(12)]
        assert {episode.status for episode in episodes} == {"counted"}
        assert client.model.rules.form.name == "counts"
        assert episodes[-1].version > episodes[0].version
        status = client.status()
        assert (status["admitted"], status["trust"]) == (12, trust)
        assert f"({trust} differential privacy" in status["promise"]
        assert play(client, 12).reason == "horizon-used-up"
    # What is special to linear mixtures is left out, and says so by being null.
    diagnostics = httpx.get(f"{url}/v1/diagnostics").json()
    assert (diagnostics["signal"], diagnostics["value"]) == (None, None)
    assert httpx.get(f"{url}/v1/billboard").json()["report"] == {}
    assert httpx.get(f"{url}/dashboard").status_code == 200


def test_a_device_refuses_counts_with_too_little_noise(tmp_path: Path) -> None:
    with (
        running_service(tmp_path, world=WORLD, agent=AGENTS["local"], episodes=12) as url,
        Client(url, APP_KEY, trust="local", epsilon=1.9) as client,
        pytest.raises(InvalidInput, match="asks for less noise"),
    ):
        client.episode("ann").open()
