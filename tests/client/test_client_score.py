# SPDX-License-Identifier: Apache-2.0
"""Devices of the flagship against the real service: places, references of rounds, and the exact numbers they send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from played_episodes import play
from running_service import APP_KEY, SHUFFLER_KEY, running_service

from reticent_client import Client, Connection, Shuffler, discrete_gaussian, messages

WORLD = "random-blend:states=4,actions=2,horizon=3,d=2"
ROUNDS = "first=0.4,growth=1,epsilon=15"
USERS = 12


def agent(trust: str) -> str:
    return f"private-score-vi:{ROUNDS},trust={trust}"


@pytest.fixture(params=["joint", "local", "shuffle"])
def deployed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    with running_service(tmp_path, world=WORLD, agent=agent(request.param), episodes=USERS, rate_limit=0) as url:
        yield request.param, url


def releases(directory: Path) -> list[np.ndarray]:
    engine = sa.create_engine(f"sqlite:///{directory}/service.db")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT release FROM rounds WHERE state = 'released' ORDER BY number")).all()
    engine.dispose()
    return [np.frombuffer(row.release, "<f8") for row in rows]


def test_users_of_every_trust_model_are_served_and_learned_from(deployed: tuple[str, str]) -> None:
    trust, url = deployed
    demanded = {"epsilon": 30.0} if trust == "local" else {}
    shuffler = Shuffler(Connection(url, SHUFFLER_KEY), patience=0) if trust == "shuffle" else None
    if shuffler is not None:
        shuffler.post_due()  # before the first user
    with Client(url, APP_KEY, trust=trust, shuffler=shuffler, **demanded) as client:
        episodes = []
        for user in range(USERS):
            episodes.append(play(client, user)[0])
            if shuffler is not None:
                shuffler.post_due()
        assert {episode.status for episode in episodes} == {"sent" if trust == "shuffle" else "counted"}
        assert client.model.rules.form.name == ("score-residual" if trust == "joint" else "score")
        sizes = np.diff([0, *client.status()["round_ends"]])
        assert [episode.place for episode in episodes] == [place for size in sizes for place in range(size)]
        late, _ = play(client, 99)
        assert (late.reason, late.place) == ("horizon-used-up", None)
        diagnostics = httpx.get(f"{url}/v1/diagnostics").json()
        assert diagnostics["value"]["deviation"] > 0
        assert 0 <= diagnostics["value"]["explorers"] <= 3
        assert diagnostics["value"]["proven_low"] is None
        if diagnostics["version"]:
            assert diagnostics["signal"]["transition_together"] > 0
        assert (diagnostics["fit"] is None) == (diagnostics["version"] < 2)
    if shuffler is not None:
        shuffler.close()


def test_local_devices_form_their_vector_once_under_the_open_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the release is the sum of vectors; one that was formed under an earlier round is not in it."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    with (
        running_service(tmp_path, world=WORLD, agent=agent("local"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY, trust="local") as client,
    ):
        size = client.status()["round_ends"][0]
        assert size == 4
        early, late = (play(client, user, submits=False) for user in (100, 101))
        stale = early[0].submission  # formed now, sent when the round is over
        total = 0
        for user in range(2):
            _, seen = play(client, user)
            total = total + client.model.steps(client.billboard(0), seen)
        second = 0
        for user in range(2, 6):
            _, seen = play(client, user)
            assert seen.place == user - 2
            second = second + client.model.steps(client.billboard(1), seen)
        late[0].submit()
        second = second + client.model.steps(client.billboard(1), late[1])
        assert early[0].submission is stale
        assert stale.content["reference"] == 0
        early[0].submit()
        assert early[0].status == "counted"
        play(client, 6)
        made = releases(tmp_path)
        np.testing.assert_array_equal(made[0], np.ravel(total) * client.model.rules.grid)
        np.testing.assert_array_equal(made[1], np.ravel(second) * client.model.rules.grid)


def test_an_empty_report_asks_and_carries_what_any_other_does(tmp_path: Path) -> None:
    asked: list[str] = []
    with (
        running_service(tmp_path, world=WORLD, agent=agent("local"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY, observer=lambda route, _seconds, _status: asked.append(route)) as client,
    ):
        kinds = []
        play(client, 8)  # fetches what is kept
        for user in (0, 1):
            asked.clear()
            episode, _ = play(client, user, submits=False)
            episode.submit_empty() if user else episode.submit()
            kinds.append((asked.copy(), episode.submission.content.keys(), episode.submission.content["reference"]))
        assert kinds[0] == kinds[1]


def test_messages_are_formed_under_the_reference_of_her_own_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "secure_coins", lambda count: np.ones(count, bool))
    monkeypatch.setattr(messages, "_uniforms", np.zeros)
    with (
        running_service(tmp_path, world=WORLD, agent=agent("shuffle"), episodes=USERS, rate_limit=0) as url,
        # A round's end compiles its programs. On a busy machine that takes longer than the ten seconds of a request.
        Shuffler(Connection(url, SHUFFLER_KEY, timeout=120, deadline=300)) as shuffler,
        Client(url, APP_KEY, shuffler=shuffler, timeout=120, deadline=300) as client,
    ):
        rules = client.model.rules
        assert shuffler.post_due() == []
        waiting = [play(client, user, submits=False) for user in range(6)]  # two rounds before any batch
        assert [(one.version, one._reference) for one, _ in waiting] == [(0, 0)] * 6
        for number in range(2):
            total = rules.grid * rules.shuffle.coins / 2
            for episode, seen in waiting[4 * number : 4 * number + 4]:
                episode.submit()
                total = total + rules.grid * np.floor(client.model.contribution(client.billboard(0), seen) / rules.grid)
            shuffler.finish(number)
            waiting += [play(client, user, submits=False) for user in (6, 7) if number == 0]
            np.testing.assert_array_equal(releases(tmp_path)[number], total.ravel())
        assert client.status()["served_version"] == 2
        episode, _ = play(client, 8)
        assert (episode.version, episode._reference) == (2, 2)


def test_a_joint_device_acts_by_her_place(tmp_path: Path) -> None:
    """What the device does by itself is what the service says; the model itself is not fetched for it."""
    asked: list[str] = []
    with (
        running_service(tmp_path, world=WORLD, agent=agent("joint"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY, observer=lambda route, _seconds, _status: asked.append(route)) as own,
        Client(url, APP_KEY, act="server") as asking,
    ):
        for user in range(5):
            play(own, user)
        assert "GET /v1/model" not in asked
        explorers = int(own.billboard(1).report["explorers"])
        for user in range(5, 8):
            mine, theirs = own.episode(f"user {user}").open(), asking.episode(f"user {user}")
            theirs.id = mine.id
            theirs.open()
            assert (mine.place, theirs.place) == (user - 4, user - 4)
            board = own.billboard(1)
            wanted = board.report["curious"][0] if mine.place < explorers else board.policy[0]
            assert mine.act(2) == theirs.act(2) == int(wanted[2])
