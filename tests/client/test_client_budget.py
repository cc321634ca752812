"""The device's own budget: one report per user, whatever a service says, across crashes and processes."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest
from running_service import APP_KEY, running_service

from reticent_client import Budget, Client, InvalidInput

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


def test_it_is_spent_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    budget = Budget(path, reports=2)

    def spend(_: int) -> bool:
        try:
            Budget(path, reports=2).spend("ann")
        except InvalidInput:
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 2
    assert (budget.left("ann"), budget.left("bob"), Budget(path, reports=2, scope="x").left("ann")) == (0, 2, 2)
    assert "ann" not in path.read_text()
    path.write_text("{")
    with pytest.raises(InvalidInput, match="nobody knows what was spent"):
        budget.spend("bob")
    with pytest.raises(InvalidInput, match="at least 0"):
        Budget(path, reports=-1)
