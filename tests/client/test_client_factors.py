# SPDX-License-Identifier: Apache-2.0
"""Devices that show items by their own user's tastes, against the real service, in every trust model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played_episodes import play
from running_service import APP_KEY, SHUFFLER_KEY, running_service
from test_client_score import releases

from reticent.worlds.models.model_file import save_model
from reticent.worlds.models.names import Names
from reticent.worlds.models.provenance import Provenance
from reticent.worlds.tastes import random_tastes
from reticent_client import BeliefMemory, Client, Connection, Shuffler, discrete_gaussian

MODEL = random_tastes(items=6, factors=2, horizon=3, shift=1.0, seed=3).model
USERS = 12


def settings(folder: Path, trust: str) -> dict[str, Any]:
    """Rounds of four users."""
    origin = Provenance("public", "simulated")
    path = save_model(folder / "tastes.npz", MODEL, names=Names(("here",), tuple("abcdef")), provenance=origin)
    agent = f"private-factors:trust={trust},first=0.4,growth=1,epsilon=15"
    return {"model_file": str(path), "agent": agent, "episodes": USERS, "rate_limit": 0}


def tastes_by_hand(client: Client, version: int, actions: list[int], rewards: list[float]) -> tuple[Any, Any]:
    """Mean and covariance of the user's vector by normal equations, all rewards at once."""
    bounds, mean = client.model.rules.bounds, client.billboard(version).report["mean"]
    loadings, noise = bounds["loadings"][actions], bounds["noise"][actions]
    precision = np.eye(len(mean)) + loadings.T @ (loadings / noise[:, None])
    told = mean + loadings.T @ ((np.asarray(rewards) - bounds["intercepts"][actions]) / noise)
    return np.linalg.solve(precision, told), np.linalg.inv(precision)


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_users_are_shown_what_their_ratings_say_and_are_learned_from(tmp_path: Path, trust: str) -> None:
    with running_service(tmp_path, **settings(tmp_path, trust)) as url:
        shuffler = Shuffler(Connection(url, SHUFFLER_KEY), patience=0) if trust == "shuffle" else None
        if shuffler is not None:
            shuffler.post_due()  # before the first user
        demanded = {"epsilon": 30.0} if trust == "local" else {}
        with Client(url, APP_KEY, trust=trust, shuffler=shuffler, **demanded) as client:
            bounds = client.model.rules.bounds
            for user in range(USERS):
                episode, seen = play(client, user, states=1)
                assert episode.status == ("sent" if trust == "shuffle" else "counted")
                shown = list(seen.actions)
                assert len(set(shown)) == 3  # none twice
                for h in range(3):
                    known, _ = tastes_by_hand(client, episode.version, shown[:h], list(seen.rewards[:h]))
                    scores = bounds["intercepts"] + bounds["loadings"] @ known
                    scores[shown[:h]] = -np.inf
                    assert scores[shown[h]] == pytest.approx(scores.max(), rel=1e-6)
                if shuffler is not None:
                    shuffler.post_due()
            assert client.model.rules.form.name == "factors"
            assert client.status()["served_version"] >= 2
            assert not np.allclose(client.billboard(0).report["mean"], client.billboard(2).report["mean"])
        if shuffler is not None:
            shuffler.close()


@pytest.mark.verify
def test_a_local_report_is_the_clipped_vector_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the release is the sum of clipped vectors; a report has the same form whatever the ratings were."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    with (
        running_service(tmp_path, **settings(tmp_path, "local")) as url,
        Client(url, APP_KEY, trust="local") as client,
    ):
        total, forms = 0, set()
        late, seen_late = play(client, 100, submits=False, states=1)
        for user in range(3):
            episode, seen = play(client, user, states=1)
            total = total + client.model.steps(client.billboard(0), seen)
            content = episode.submission.content
            forms.add((tuple(content), tuple(content["report"]["shape"]), len(content["report"]["data"])))
        assert len(forms) == 1
        second = 0
        for user in range(3, 7):
            if user == 6:  # a late report is formed under the round that counts it
                late.submit()
                second = second + client.model.steps(client.billboard(1), seen_late)
            _, seen = play(client, user, states=1)
            second = second + client.model.steps(client.billboard(1), seen)
        for user in range(7, 9):
            play(client, user, states=1)
        made = releases(tmp_path)
        np.testing.assert_array_equal(made[0], np.ravel(total) * client.model.rules.grid)
        np.testing.assert_array_equal(made[1], np.ravel(second) * client.model.rules.grid)


def test_tastes_stay_on_the_device_and_a_returning_user_s_are_remembered(tmp_path: Path) -> None:
    """Ratings out of range are clipped, a later visit goes on from the earlier one, and no belief is sent."""
    sent: list[Any] = []
    kept = BeliefMemory(tmp_path / "tastes.json")
    with running_service(tmp_path, **settings(tmp_path, "joint")) as url, Client(url, APP_KEY, memory=kept) as client:
        post = client.connection.post

        def noted(path: str, content: Any, **given: Any) -> Any:
            sent.append(content)
            return post(path, content, **given)

        client.connection.post = noted  # type: ignore[method-assign]
        episode = client.episode("ann").open()
        np.testing.assert_allclose(episode.belief, client.billboard(0).report["mean"])
        shown = []
        for step in range(3):
            shown.append(episode.act(0))
            episode.observe([1e300, None, 0.25][step], 0)  # type: ignore[arg-type]
        rated = [float(reward) for reward in (1.0, 0.0, 0.25)]
        expected, _ = tastes_by_hand(client, 0, shown, rated)
        np.testing.assert_allclose(episode.belief, expected, rtol=1e-6, atol=1e-9)
        episode.submit()
        assert set(sent[-1]) == {"token", "states", "actions", "rewards"}
        assert episode.belief is None
        again = client.episode("ann").open()
        np.testing.assert_allclose(again.belief, expected, rtol=1e-6, atol=1e-9)
        kept.erase("ann")
        fresh = client.episode("ann").open()
        np.testing.assert_allclose(fresh.belief, client.billboard(0).report["mean"])
        assert {name for content in sent for name in content} <= {
            "user", "episode", "token", "states", "actions", "rewards",
        }  # fmt: skip
