# SPDX-License-Identifier: Apache-2.0
"""Devices that act on a belief about their own user, against the real service, in every trust model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played_episodes import asked_for_actions, client_of, play
from running_service import APP_KEY, running_service
from test_client_score import releases

import reticent_wire
from reticent_client import BeliefMemory, Client, InvalidInput, discrete_gaussian
from reticent_wire import Billboard, Model
from reticent_wire.boundary import DataEscapes
from reticent_wire.forms.kinds import LEAST

WORLD = "random-blend:states=4,actions=2,horizon=3,d=2"
USERS = 12


def agent(trust: str) -> str:
    """Rounds of four users."""
    return f"private-kinds:trust={trust},first=0.4,growth=1,epsilon=15"


def planned(trust: str) -> str:
    """The same, of users who act by a plan over beliefs."""
    return f"{agent(trust)},plan=point-based,points=4"


def laws(client: Client) -> tuple[np.ndarray, np.ndarray]:
    """Rows and mean rewards of the kinds, as the service publishes them."""
    model = client.model
    return model.transition_features, model.reward_features * float(model.rules.bounds["reward_total"])


def belief_by_hand(client: Client, version: int, seen: Any, steps: int) -> np.ndarray:
    """Bayes' rule in plain products; a reward r counts as that share of a success, and nothing is quite impossible."""
    report = client.billboard(version).report
    (rows, means), blend = laws(client), report["blend"]
    rows, means = (np.concatenate([table, np.tensordot(blend, table, axes=1)[None]]) for table in (rows, means))
    weights = report["shares"].copy()
    for h in range(steps):
        s, a, r, t = seen.states[h], seen.actions[h], seen.rewards[h], seen.states[h + 1]
        weights *= (rows[:, s, a, t] + LEAST) * (means[:, s, a] + LEAST) ** r * (1 - means[:, s, a] + LEAST) ** (1 - r)
    return weights / weights.sum()


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_users_act_on_bayes_rule_and_are_learned_from(tmp_path: Path, trust: str) -> None:
    demanded = {"epsilon": 30.0} if trust == "local" else {}
    with (
        running_service(tmp_path, world=WORLD, agent=agent(trust), episodes=USERS, rate_limit=0) as url,
        client_of(url, trust, **demanded) as (client, post),
    ):
        for user in range(USERS):
            episode, seen = play(client, user)
            assert episode.status == ("sent" if trust == "shuffle" else "counted")
            board = client.billboard(episode.version)
            for h in range(client.model.horizon):
                tables = np.concatenate([client.model.rules.bounds["tables"][h], board.report["blend_table"][h][None]])
                scores = belief_by_hand(client, episode.version, seen, h) @ tables[:, seen.states[h]]
                assert scores[seen.actions[h]] == pytest.approx(scores.max(), rel=1e-6)
            post()
        assert client.model.rules.form.name == "kinds"
        status = client.status()
        assert status["device_acts"] is True
        assert status["served_version"] >= 2
        assert not np.allclose(client.billboard(0).report["shares"], client.billboard(2).report["shares"])


@pytest.mark.parametrize(
    "trust",
    ["joint", pytest.param("local", marks=pytest.mark.verify), pytest.param("shuffle", marks=pytest.mark.verify)],
)
def test_users_act_by_the_published_plan_over_beliefs(tmp_path: Path, trust: str) -> None:
    with (
        running_service(tmp_path, world=WORLD, agent=planned(trust), episodes=USERS, rate_limit=0) as url,
        client_of(url, trust) as (client, post),
    ):
        ends = set()
        for user in range(USERS):
            episode, seen = play(client, user)
            ends.add(episode.status)
            post()
            board = client.billboard(episode.version).report
            for h in range(client.model.horizon):
                here = (h, seen.states[h])
                scores = board["vectors"][here] @ belief_by_hand(client, episode.version, seen, h)
                best = scores[board["choices"][here] == seen.actions[h]].max(initial=-np.inf)
                assert best == pytest.approx(scores.max(), rel=1e-6)
        assert ends == {"sent" if trust == "shuffle" else "counted"}
        assert client.model.rules.form.name == "kinds-planned"
        assert "tables" not in client.model.rules.bounds
        assert client.status()["device_acts"] is True
        assert not np.allclose(client.billboard(0).report["vectors"], client.billboard(2).report["vectors"])


@pytest.mark.verify
def test_a_local_report_is_the_clipped_vector_of_the_open_round_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the release is the sum of vectors. What leaves a device has the numbers of one vector, whatever
    happened to its user, and no belief."""
    monkeypatch.setattr(discrete_gaussian, "draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    with (
        running_service(tmp_path, world=WORLD, agent=agent("local"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY, trust="local") as client,
    ):
        assert client.status()["round_ends"][0] == 4
        late, seen_late = play(client, 100, submits=False)
        total, shapes = 0, set()
        for user in range(3):
            episode, seen = play(client, user)
            total = total + client.model.steps(client.billboard(0), seen)
            content = episode.submission.content
            shapes.add((tuple(content), tuple(content["report"]["shape"]), len(content["report"]["data"])))
        assert len(shapes) == 1
        second = 0
        for user in range(3, 7):  # the second round is open until its fourth user is admitted
            if user == 6:
                assert late.version == 0  # acted by the version it was served, formed under the round that counts it
                late.submit()
                second = second + client.model.steps(client.billboard(1), seen_late)
            _, seen = play(client, user)
            second = second + client.model.steps(client.billboard(1), seen)
        for user in range(7, 9):
            play(client, user)
        made = releases(tmp_path)
        np.testing.assert_array_equal(made[0], np.ravel(total) * client.model.rules.grid)
        np.testing.assert_array_equal(made[1], np.ravel(second) * client.model.rules.grid)


def test_the_belief_is_the_user_s_and_nothing_of_it_is_sent(tmp_path: Path) -> None:
    """Joint model: before the end nothing leaves, at the end the trajectory alone, and the server never acts."""
    sent: list[tuple[str, Any]] = []
    with (
        running_service(tmp_path, world=WORLD, agent=agent("joint"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY) as client,
        Client(url, APP_KEY, act="server") as asking,
    ):
        post = client.connection.post

        def noted(path: str, content: Any, **given: Any) -> Any:
            sent.append((path, content))
            return post(path, content, **given)

        client.connection.post = noted  # type: ignore[method-assign]
        episode = client.episode("ann").open()
        start = episode.belief
        assert start is not None
        np.testing.assert_allclose(start, client.billboard(0).report["shares"])
        for step in range(3):
            episode.act(step)
            episode.observe([1e300, None, "?"][step], step + 1)  # type: ignore[arg-type]
        assert len(sent) == 1
        known = episode._belief
        assert known is not None
        with pytest.raises(DataEscapes):
            json.dumps({"belief": float(known.likelihoods)})  # type: ignore[arg-type]
        episode.submit()
        assert set(sent[-1][1]) == {"token", "states", "actions", "rewards"}
        assert episode.belief is None  # forgotten with the rest
        with pytest.raises(InvalidInput, match="device where users act on a belief"):
            asking.episode("bob").open()
        assert asking.status()["admitted"] == 1
        # A program that asks all the same is refused, whatever its user's state is.
        ((status, text),) = asked_for_actions(url, asking.connection, "bob")
        assert status == 422
        assert "act='device'" in text


def test_a_returning_user_s_belief_stays_on_the_device_and_can_be_seen_and_erased(tmp_path: Path) -> None:
    """Later visits go on from the earlier ones' belief, whether they are learned from or not, and send nothing of it."""
    sent: list[Any] = []
    kept = BeliefMemory(tmp_path / "belief.json")
    with (
        running_service(tmp_path, world=WORLD, agent=agent("joint"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY, memory=kept) as client,
        Client(url, APP_KEY) as forgetful,
    ):
        post = client.connection.post
        client.connection.post = lambda path, content, **given: (  # type: ignore[method-assign]
            sent.append(content),
            post(path, content, **given),
        )[1]
        first, seen = play(client, 1)
        assert first.learning
        (known,) = kept.show()["user 1"].values()
        again = client.episode("user 1").open()
        assert not again.learning
        np.testing.assert_allclose(again.belief, belief_by_hand(client, 0, seen, 3), rtol=1e-6, atol=1e-8)
        stranger = forgetful.episode("user 1").open()
        np.testing.assert_allclose(stranger.belief, client.billboard(0).report["shares"])
        for step in range(3):
            again.act(step)
            again.observe(1.0, step + 1)
        again.submit()
        (later,) = kept.show()["user 1"].values()
        assert later != known
        left, _ = play(client, 2, submits=False)
        left.abandon()
        assert set(kept.show()) == {"user 1"}  # a visit that was not finished is not remembered
        fields = {name for content in sent for name in content}
        assert fields <= {"user", "episode", "token", "states", "actions", "rewards"}
        assert str(known[0]) not in str(sent)
        kept.erase("user 1")
        assert kept.show() == {}
        fresh = client.episode("user 1").open()
        np.testing.assert_allclose(fresh.belief, client.billboard(0).report["shares"])
    (tmp_path / "belief.json").write_text("nonsense")
    with pytest.raises(InvalidInput, match="memory is unreadable"):
        kept.recall("user 1", "a digest")


@pytest.mark.parametrize(
    ("array", "value"),
    [("shares", np.nan), ("shares", -1.0), ("blend", 0.0), ("blend_table", np.inf)],
)
def test_a_billboard_that_would_fail_in_the_middle_of_an_episode_is_refused_before(array: str, value: float) -> None:
    example = json.loads((Path(reticent_wire.__file__).parent / "vectors" / "kinds.json").read_text())["cases"][0]
    model, board = Model.read(example["model"]), Billboard.read(example["billboard"])
    model.rules.form.require_version(model, board)
    spoiled = {**board.report, array: np.full_like(board.report[array], value)}
    with pytest.raises(InvalidInput, match=array):
        model.rules.form.require_version(model, dataclasses.replace(board, report=spoiled))


def test_a_user_who_leaves_early_sends_what_any_other_sends(tmp_path: Path) -> None:
    with (
        running_service(tmp_path, world=WORLD, agent=agent("local"), episodes=USERS, rate_limit=0) as url,
        Client(url, APP_KEY) as client,
    ):
        full, _ = play(client, 1, submits=False)
        with pytest.warns(UserWarning, match="was left"), client.episode("gone") as gone:
            gone.act(0)
        assert gone.status == "empty"
        assert gone.submission.content.keys() == full.submission.content.keys()
        assert gone.submission.content["report"]["shape"] == full.submission.content["report"]["shape"]
