# SPDX-License-Identifier: Apache-2.0
"""Stays of users who act by the policy alone, through the real service: by which policy they act, and that no server does.

What they have in common with stays of users who act on a belief is in ``test_client_stays.py``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from played_episodes import asked_for_actions, client_of
from running_service import APP_KEY
from test_client_stays import HORIZON, USERS, VISITS, score, serving, stay

from reticent_client import Client, Connection, InvalidInput


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_every_visit_is_by_the_served_policy_and_a_stay_is_counted_once(tmp_path: Path, trust: str) -> None:
    with serving(tmp_path, trust, agent=score(trust)) as url, client_of(url, trust) as (client, post):
        ends = set()
        for user in range(USERS):
            episode, seen = stay(client, user)
            assert (episode.visits, episode.belief) == (VISITS, None)
            ends.add(episode.status)
            here = seen.states.reshape(VISITS, -1)[:, :-1].ravel()
            for count, action in enumerate(seen.actions):
                state, board = int(here[count]), client.billboard(episode.version)
                assert board.probability(count % HORIZON, state, episode.place, int(action)) > 0
            post()
        assert ends == {"sent" if trust == "shuffle" else "counted"}
        status = client.status()
        assert (status["device_acts"], status["served_version"] >= 2) == (True, True)
        assert "comes up to 3 times and reports once" in status["promise"]
        assert not client.episode("user 1").open().learning  # one stay per person


def test_no_server_acts_for_a_user_with_a_stay(tmp_path: Path) -> None:
    with serving(tmp_path, "joint", agent=score("joint")) as url, contextlib.closing(Connection(url, APP_KEY)) as app:
        with Client(url, APP_KEY, act="server") as asking, pytest.raises(InvalidInput, match="report a whole stay"):
            asking.episode("bob").open()
        ((status, text),) = asked_for_actions(url, app, "ann")
        assert status == 422
        assert "act='device'" in text
        assert app.get("/v1/status")["admitted"] == 1
