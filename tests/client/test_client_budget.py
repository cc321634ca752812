# SPDX-License-Identifier: Apache-2.0
"""The device's own budget: one report per user, whatever a service says, through two services."""

from __future__ import annotations

from pathlib import Path

from running_service import APP_KEY, running_service

from reticent_client import Budget, Client

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
SETTINGS = {"world": WORLD, "agent": "private-linopt-vi:trust=local", "episodes": 8, "rate_limit": 0}


def play(client: Client, user: str) -> str | None:
    with client.episode(user) as episode:
        for _ in range(episode.horizon):
            episode.act(0)
            episode.observe(0.5, 0)
    return episode.reason if episode.receipt is None else episode.status


def test_a_service_that_forgets_gets_no_second_report(tmp_path: Path) -> None:
    """Two deployments stand for one that lost its memory: each would take a report of the same user."""
    for home in ("one", "two"):
        (tmp_path / home).mkdir()
    budget = tmp_path / "budget.json"
    with running_service(tmp_path / "one", **SETTINGS) as url, Client(url, APP_KEY, budget=Budget(budget)) as client:
        assert play(client, "ann") == "counted"
    with running_service(tmp_path / "two", **SETTINGS) as url:
        with Client(url, APP_KEY, budget=Budget(budget)) as client:
            assert play(client, "ann") == "device-budget-spent"
            assert play(client, "bob") == "counted"
        with Client(url, APP_KEY, budget=Budget(budget, scope="another study")) as client:
            assert play(client, "carl") == "counted"
