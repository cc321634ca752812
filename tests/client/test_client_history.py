# SPDX-License-Identifier: Apache-2.0
"""A model whose states have a history, served: the device makes its states of its own observations."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import numpy as np
import polars as pl
from running_service import APP_KEY, running_service

from reticent.service.durability.export import write_policy
from reticent.worlds.records import fit
from reticent_client import Client

HORIZON = 3


def fitted_model(path: Path) -> Path:
    random = np.random.default_rng(0)
    users = 200
    place = random.integers(2, size=(users, HORIZON))
    table = pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), HORIZON),
            "step": np.tile(np.arange(HORIZON), users),
            "state": np.array(["out", "home"])[place.ravel()],
            "action": random.choice(["rest", "walk"], size=users * HORIZON),
            "reward": (random.random(users * HORIZON) < 0.5) * 1.0,
        }
    )
    return fit(table, horizon=HORIZON, origin="simulated", candidates=2, history=2).save(path, anyway=True)


def test_the_device_makes_its_states_and_sends_nothing_else(tmp_path: Path) -> None:
    model = fitted_model(tmp_path / "model.npz")
    with running_service(
        tmp_path, world=None, model_file=str(model), agent="private-score-vi:epsilon=1", episodes=20, rate_limit=0
    ) as url:
        with Client(url, APP_KEY) as client:
            history = client.names.history
            assert history is not None
            assert history.observations == ("home", "out")
            draw = np.random.default_rng(1)
            for user in range(3):
                seen = [int(draw.integers(2))]
                with client.episode(f"user {user}") as episode:
                    for _ in range(HORIZON):
                        episode.act(history.state(seen))
                        seen.append(int(draw.integers(2)))
                        episode.observe(1.0, history.state(seen))
                assert episode.status == "counted"
            assert client.names.state(history.state([0])) == "home (first)"
            assert client.names.state(history.state([0, 1])) == "out after home"
        published = httpx.get(f"{url}/v1/names").json()
        board = httpx.get(f"{url}/v1/billboards/0").json()
    # What is exported says it too, as text: no pickled objects.
    for name in ("policy.npz", "policy.json"):
        write_policy(tmp_path / name, board, "a promise", published)
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as arrays:
        assert json.loads(str(arrays["history"])) == published["history"]
    assert json.loads((tmp_path / "policy.json").read_text())["history"] == published["history"]
