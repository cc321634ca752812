# SPDX-License-Identifier: Apache-2.0
"""The client against the real service: what is sent, what is sent again, and what never leaves the device."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from faulty_proxy import CLOSE_AFTERWARDS, LOSE_ANSWER, LOSE_REQUEST, proxied
from running_service import APP_KEY, running_service
from scipy.stats import chi2

from reticent.errors import InvalidInput
from reticent_client import Client, Episode, EpisodeAbandoned, ServiceError, Unreachable
from reticent_wire import Billboard, Trajectory
from reticent_wire.arrays import from_json

WORLD = "random-blend:states=4,actions=3,horizon=3,d=2"
HORIZON, STATES = 3, 4
BUSY = (503, {"Content-Type": "application/problem+json"}, b'{"title": "busy", "status": 503}')
names = (f"user-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    settings = {"world": WORLD, "episodes": 400, "agent": "private-linopt-vi:epsilon=2", "rate_limit": 0}
    with running_service(tmp_path_factory.mktemp("joint"), **settings) as url:
        yield url


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    settings = {"world": WORLD, "episodes": 400, "agent": "private-linopt-po:epsilon=2,trust=local", "rate_limit": 0}
    with running_service(tmp_path_factory.mktemp("local"), **settings) as url:
        yield url


@pytest.fixture
def proxy(joint):
    with proxied(joint) as made:
        yield made


@pytest.fixture
def local_proxy(local):
    with proxied(local) as made:
        yield made


def play(episode, states=(1, 3, 0, 2), rewards=(0.0, 0.5, 1.0)) -> Trajectory:
    """Play an open episode along given states."""
    actions = []
    for here, there, reward in zip(states, states[1:], rewards, strict=False):
        actions.append(episode.act(here))
        episode.observe(reward, there)
    return Trajectory(np.array(states), np.array(actions), np.array(rewards))


def admitted(client: Client) -> int:
    return int(client.status()["admitted"])


# -- the two trust models ---------------------------------------------------------------------------------------------


def test_the_joint_model_sends_the_trajectory_and_is_counted(proxy) -> None:
    with Client(proxy.url, APP_KEY, trust="joint") as client:
        before = admitted(client)
        with client.episode(next(names)) as episode:
            seen = play(episode)
        assert (episode.status, episode.receipt.status, episode.receipt.version) == (
            "counted",
            "counted",
            episode.version,
        )
        assert admitted(client) == before + 1
        (sent,) = proxy.posts("/trajectory")
        assert sent.content.keys() == {"token", "states", "actions", "rewards"}
        assert sent.content["states"] == seen.states.tolist()
        assert sent.content["actions"] == seen.actions.tolist()
        assert sent.content["rewards"] == seen.rewards.tolist()
        # Everything went over one connection.
        assert proxy.connections == 1


def test_in_the_local_model_every_byte_that_leaves_is_explained_by_the_noised_report(local_proxy) -> None:
    """All requests are rebuilt from the user's name, ids, the key and the noised report alone, byte for byte."""
    user = next(names)
    with Client(local_proxy.url, APP_KEY, trust="local", epsilon=2.0) as client:
        client.require_trustworthy()  # status and model, before there is a user
        local_proxy.sent.clear()
        episode = client.episode(user).open()
        board = client.billboard(episode.version)
        seen = play(episode)
        with episode:
            pass
        assert episode.status == "counted"
        opened, fetched, reported = local_proxy.sent
        token = reported.content["token"]
        report = from_json(
            "report", reported.content["report"], dtype="<i8", shape=client.model.rules.noise_scale.shape
        )

        def rebuilt(method: str, path: str, content=None) -> bytes:
            body = b"" if content is None else json.dumps(content, separators=(",", ":")).encode()
            lines = [f"{method} {path} HTTP/1.1", f"Host: {local_proxy.url.removeprefix('http://')}"]
            lines += ["Accept-Encoding: identity"]
            lines += [f"Content-Length: {len(body)}"] if body else []
            lines += ["Accept: application/json", f"Authorization: Bearer {APP_KEY}"]
            lines += ["Content-Type: application/json"] if body else []
            return "\r\n".join([*lines, "", ""]).encode() + body

        assert opened.raw == rebuilt("POST", "/v1/episodes", {"user": user, "episode": episode.id})
        assert fetched.raw == rebuilt("GET", f"/v1/billboards/{episode.version}")
        named = {"token": token, "report": reported.content["report"], "reference": episode.version}
        assert reported.raw == rebuilt("POST", f"/v1/episodes/{episode.id}/report", named)
        # And the report is the statistics plus noise of the published scale (chi-square, false alarm 1e-6).
        scale = client.model.rules.noise_scale / client.model.rules.grid
        exact = client.model.steps(board, seen)
        noise = (report - exact)[scale > 0] / scale[scale > 0]
        assert (report == exact)[scale == 0].all()
        assert chi2.isf(1 - 5e-7, noise.size) < (noise**2).sum() < chi2.isf(5e-7, noise.size)


def test_the_shape_of_what_leaves_does_not_depend_on_the_trajectory(local_proxy) -> None:
    """Numbers and lengths of requests; only the service's token, whose length is the service's, is left out."""

    def footprint(states, rewards) -> list[tuple[str, int]]:
        with Client(local_proxy.url, APP_KEY) as client:
            local_proxy.sent.clear()
            with client.episode(f"{next(names):>10}") as episode:
                play(episode, states, rewards)
        *before, last = local_proxy.sent
        lengths = [(request.method, len(request.raw)) for request in before]
        return [*lengths, ("report", len(last.body) - len(last.content["token"]))]

    assert footprint((0, 0, 0, 0), (0.0, 0.0, 0.0)) == footprint((3, 1, 2, 3), (1.0, 0.123456789, 1.0))


def test_asking_the_server_for_actions_gives_the_billboard_s(proxy, joint) -> None:
    with Client(proxy.url, APP_KEY, act="server") as asking, Client(joint, APP_KEY) as acting:
        with asking.episode(next(names)) as episode:
            seen = play(episode)
        assert len(proxy.posts("/actions")) == HORIZON
        board = acting.billboard(episode.version)
        assert seen.actions.tolist() == [board.policy[step, state] for step, state in enumerate((1, 3, 0))]


# -- a device that trusts nobody --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"act": "server"}, "asking for actions would show every state"),
        ({"trust": "joint"}, "trust is local, but must be joint, as demanded"),
        ({"epsilon": 1.9}, "asks for less noise"),
    ],
)
def test_a_service_that_is_not_what_was_demanded_is_told_no_name(local_proxy, options, message: str) -> None:
    with Client(local_proxy.url, APP_KEY, **options) as client:
        with pytest.raises(InvalidInput, match=message), client.episode("ann"):
            pytest.fail("the episode was opened")
        assert not local_proxy.posts()
        assert b"ann" not in b"".join(request.body for request in local_proxy.sent)


def test_a_raw_trajectory_is_not_sent_to_a_service_that_changes_its_mind(proxy, local) -> None:
    """It says local when asked for its status, and joint when the episode is opened."""
    with Client(local, APP_KEY) as honest:
        status = json.dumps(honest.status()).encode()
        model = json.dumps(honest.connection.get("/v1/model")).encode()
    proxy.faults = [(200, {}, status), (200, {}, model)]
    with Client(proxy.url, APP_KEY, trust="local") as client:
        with pytest.raises(InvalidInput, match="as the service said before"), client.episode(next(names)):
            pytest.fail("the episode was opened")
        assert not proxy.posts("/trajectory")


@pytest.mark.parametrize(
    "url", ["http://example.org", "http://192.0.2.1:8400", "ftp://127.0.0.1", "127.0.0.1:8400", ""]
)
def test_keys_are_not_sent_in_the_clear(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        Client(url, APP_KEY)


def test_other_addresses_are_allowed_when_asked_for() -> None:
    for url, options in (
        ("http://service:8400", {"plain_http": True}),
        ("https://example.org", {}),
        ("http://[::1]:1", {}),
    ):
        Client(url, APP_KEY, **options).close()


# -- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER, BUSY], ids=["request", "answer", "busy"])
def test_a_broken_request_is_repeated_and_counts_once(proxy, fault) -> None:
    with Client(proxy.url, APP_KEY) as client:
        before = admitted(client)
        client.require_trustworthy()  # asks for the status, which is not to be broken here
        episode = client.episode(next(names))
        proxy.faults = [fault, fault, fault]
        with episode:
            assert len(proxy.posts("/episodes")) == 4
            play(episode)
            proxy.faults = [fault, fault]
        assert episode.status == "counted"
        assert len(proxy.posts("/trajectory")) == 3
        assert len({request.raw for request in proxy.posts("/trajectory")}) == 1
        assert admitted(client) == before + 1


def test_noise_is_never_drawn_again_for_the_same_episode(local_proxy, local) -> None:
    with Client(local_proxy.url, APP_KEY) as client, Client(local, APP_KEY) as later:
        episode = client.episode(next(names)).open()
        play(episode)
        client.connection.deadline = 0.3
        local_proxy.faults = [LOSE_ANSWER] * 50
        with pytest.raises(Unreachable, match="repeating a request is safe"):
            episode.submit()
        with pytest.raises(Unreachable):
            episode.submit()
        local_proxy.faults, client.connection.deadline = [], 30.0
        kept = episode.submission
        assert episode.submit().status == "counted"
        bodies = {request.body for request in local_proxy.posts("/report")}
        assert len(local_proxy.posts("/report")) >= 3
        assert len(bodies) == 1
        # After a restart: what was kept is sent by another client, to the same receipt.
        assert later.send(kept) == episode.receipt


def test_the_service_s_own_pause_is_kept(proxy) -> None:
    with Client(proxy.url, APP_KEY) as client:
        proxy.faults = [(429, {"Retry-After": "1"}, b"{}")]
        start = time.monotonic()
        client.status()
        assert 1.0 <= time.monotonic() - start < 5.0
        assert len(proxy.sent) == 2


def test_refusals_are_final_and_read_well(proxy) -> None:
    with Client(proxy.url, "wrong-key") as client, pytest.raises(ServiceError) as refused, client.episode("ann"):
        pytest.fail("the episode was opened")
    assert (refused.value.status, refused.value.name) == (401, "unauthorized")
    assert len(proxy.posts()) == 1
    with Client(proxy.url, APP_KEY, act="server") as client, client.episode(next(names)) as episode:
        content = {"token": episode._token, "step": 99, "state": 0}
        with pytest.raises(ServiceError) as refused:
            client.connection.post(f"/v1/episodes/{episode.id}/actions", content)
        assert (refused.value.status, refused.value.name) == (422, "invalid-input")
        assert "step" in str(refused.value)
        assert str(refused.value).endswith("(HTTP 422)")
        assert refused.value.remedy
        assert len(proxy.posts("/actions")) == 1
        episode.abandon()


def test_waiting_ends_at_the_deadline() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Client(f"http://127.0.0.1:{nobody.getsockname()[1]}", APP_KEY, deadline=0.5) as client:
            start = time.monotonic()
            with pytest.raises(Unreachable) as failed:
                client.status()
            assert time.monotonic() - start < 5
            assert failed.value.attempts > 1
    # One that accepts and never answers.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", APP_KEY, deadline=0.6, timeout=0.2)
        with client, pytest.raises(Unreachable, match="attempts over"):
            client.status()


def test_a_page_that_is_no_service_is_said_to_be_none(proxy) -> None:
    proxy.faults = [(200, {"Content-Type": "text/html"}, b"<html>"), (404, {}, b"<html>")]
    with Client(proxy.url, APP_KEY) as client:
        with pytest.raises(ServiceError, match="not a JSON object"):
            client.status()
        with pytest.raises(ServiceError, match="HTTP 404 without an explanation"):
            client.status()


def test_a_connection_that_was_closed_meanwhile_is_opened_again(proxy) -> None:
    with Client(proxy.url, APP_KEY) as client:
        proxy.faults = [CLOSE_AFTERWARDS, CLOSE_AFTERWARDS]
        assert [client.status()["episodes"] for _ in range(3)] == [400] * 3
        client.close()
        assert client.status()["episodes"] == 400


# -- episodes that go other ways --------------------------------------------------------------------------------------


def test_leaving_early_abandons_and_says_so(proxy) -> None:
    with Client(proxy.url, APP_KEY) as client:
        early, broken = client.episode(next(names)), client.episode(next(names))

        def leave() -> None:
            with early:
                early.act(0)
                early.observe(1, 1)

        def crash() -> None:
            with broken:
                play(broken)
                raise RuntimeError("the app crashed")

        with pytest.warns(EpisodeAbandoned, match="after 1 of 3 steps; nothing was submitted"):
            leave()
        with pytest.raises(RuntimeError) as failed:
            crash()
        assert "was left after 3 of 3 steps; nothing was submitted" in failed.value.__notes__[0]
        with client.episode(next(names)) as meant:
            meant.abandon()
        assert early.status == broken.status == meant.status == "abandoned"
        for episode in (early, broken, meant):
            with pytest.raises(InvalidInput, match="episode is abandoned"):
                episode.submit()
        assert not proxy.posts("/trajectory")


def test_a_user_s_second_episode_is_served_but_not_sent(proxy) -> None:
    user = next(names)
    with Client(proxy.url, APP_KEY) as client:
        with client.episode(user) as first:
            play(first)
        with client.episode(user) as second:
            play(second)
        assert (first.status, second.status) == ("counted", "served")
        assert (second.learning, second.reason, second.receipt) == (False, "user-already-counted", None)
        assert len(proxy.posts("/trajectory")) == 1


def opened_before_a_publication(client: Client, others: Client) -> tuple[Episode, int]:
    """An episode that is open, and the later version that others are served."""
    early = client.episode(next(names)).open()
    for _ in range(200):
        with others.episode(next(names)) as other:
            play(other)
        if other.version > early.version:
            break
    assert other.version > early.version
    return early, other.version


def test_a_user_keeps_the_version_they_were_served(joint) -> None:
    with Client(joint, APP_KEY) as client:
        early, _ = opened_before_a_publication(client, client)
        seen = play(early)
        board = client.billboard(early.version)
        assert seen.actions.tolist() == [board.policy[step, state] for step, state in enumerate((1, 3, 0))]
        assert early.submit().version == early.version


def test_a_device_reports_under_the_version_it_was_served(local_proxy, local, monkeypatch) -> None:
    """Opened early and submitted late, a report is made of the user's own billboard, whatever is in force by then."""
    monkeypatch.setattr("reticent_client.discrete_gaussian.draw", lambda scale, grid: np.zeros(scale.shape, np.int64))
    with Client(local_proxy.url, APP_KEY) as client, Client(local, APP_KEY) as others:
        early, later = opened_before_a_publication(client, others)
        seen = play(early)
        early.submit()
        sent = local_proxy.posts("/report")[-1].content["report"]
        report = from_json("report", sent, dtype="<i8", shape=client.model.rules.noise_scale.shape)
        np.testing.assert_array_equal(report, client.model.steps(client.billboard(early.version), seen))
        assert not np.array_equal(report, client.model.steps(client.billboard(later), seen))


def test_misuse_is_refused_and_changes_nothing(joint) -> None:
    with Client(joint, APP_KEY) as client, client.episode(next(names)) as episode:
        for call, message in (
            (lambda: episode.observe(0.5, 1), r"call act\(state\) first"),
            (episode.submit, "observe every step first"),
            (episode.open, "start another one"),
        ):
            with pytest.raises(InvalidInput, match=message):
                call()
        first = episode.act(2)
        assert episode.act(2) == first
        episode.observe(np.float32(0.5), np.int64(1))
        with pytest.raises(InvalidInput, match="observed last") as refused:
            episode.act(2)
        assert "2" not in str(refused.value)  # where she is stays out of messages
        assert episode.step == 1
        play(episode, (1, 0, 0), (0.0, 0.0))
        with pytest.raises(InvalidInput, match="the episode is over"):
            episode.act(0)


def test_what_she_did_is_clipped_and_never_stops_an_episode(proxy) -> None:
    """An exception would abandon the episode, and the service would see that nothing came."""
    with Client(proxy.url, APP_KEY) as client, client.episode(next(names)) as episode:
        assert episode.act(-7) == client.billboard(episode.version).act(0, 0)
        episode.observe(1.5, STATES + 5)
        episode.act(STATES + 5)
        episode.observe(float("nan"), 1)
        episode.act(1)
        episode.observe(-float("inf"), -1)
    assert (episode.status, episode.clipped) == ("counted", 7)
    (sent,) = proxy.posts("/trajectory")
    assert sent.content["states"] == [0, STATES - 1, 1, 0]
    assert sent.content["rewards"] == [1.0, 0.0, 0.0]


def test_an_empty_contribution_of_the_joint_model_is_counted(proxy) -> None:
    with Client(proxy.url, APP_KEY) as client:
        episode = client.episode(next(names)).open()
        episode.act(0)
        receipt = episode.submit_empty()
        assert (episode.status, receipt.status, episode.submit(), episode.submit_empty()) == (
            "empty", "counted", receipt, receipt,
        )  # fmt: skip
        (sent,) = proxy.posts("/empty")
        assert sent.content.keys() == {"token"}


@pytest.mark.parametrize("way", ["asked", "left", "crashed"])
def test_leaving_looks_like_staying_in_the_local_model(local_proxy, way: str) -> None:
    """Routes and lengths of all requests are those of a user who stays; what she sends is noise of the published scale."""
    with Client(local_proxy.url, APP_KEY) as client:
        client.require_trustworthy()
        footprints = []
        for stays in (True, False):
            local_proxy.sent.clear()
            episode = client.episode(f"{next(names):>10}").open()
            if stays:
                play(episode)
                episode.submit()
            else:
                leave(episode, way)
            sent = [request for request in local_proxy.sent if request.method == "POST"]
            assert [request.content.keys() for request in sent] == [
                {"user", "episode"},
                {"token", "report", "reference"},
            ]
            footprints.append([len(request.body) - len(request.content.get("token", "")) for request in sent])
            last = sent[-1].content["report"]
        assert footprints[0] == footprints[1]
        assert episode.status == "empty"
        scale = client.model.rules.noise_scale / client.model.rules.grid
        report = from_json("report", last, dtype="<i8", shape=scale.shape)
        noise = report[scale > 0] / scale[scale > 0]
        assert (report[scale == 0] == 0).all()
        assert chi2.isf(1 - 5e-7, noise.size) < (noise**2).sum() < chi2.isf(5e-7, noise.size)


def leave(episode, way: str) -> None:
    """End an open episode after its first step, in one of three ways."""
    if way == "asked":
        episode.act(0)
        episode.observe(1.0, 1)
        episode.submit_empty()
        return
    expected = pytest.warns(EpisodeAbandoned, match="after 1 of 3 steps; an empty submission was sent")
    if way == "crashed":
        expected = pytest.raises(RuntimeError, match="the app crashed")
    with expected, episode:
        episode.act(0)
        episode.observe(1.0, 1)
        if way == "crashed":
            raise RuntimeError("the app crashed")


def test_an_episode_has_one_submission_even_if_she_changes_her_mind(local_proxy) -> None:
    """A report that may have arrived is sent again, not replaced by an empty one: two draws could be averaged."""
    with Client(local_proxy.url, APP_KEY) as client:
        episode = client.episode(next(names)).open()
        play(episode)
        client.connection.deadline = 0.3
        local_proxy.faults = [LOSE_ANSWER] * 20
        with pytest.raises(Unreachable):
            episode.submit()
        local_proxy.faults, client.connection.deadline = [], 30.0
        episode.submit_empty()
        assert episode.status == "counted"
        assert len({request.body for request in local_proxy.posts("/report")}) == 1
        # The other way round: an empty one stays empty.
        other = client.episode(next(names)).open()
        play(other)
        client.connection.deadline = 0.3
        local_proxy.faults = [LOSE_ANSWER] * 20
        with pytest.raises(Unreachable):
            other.submit_empty()
        local_proxy.faults, client.connection.deadline = [], 30.0
        local_proxy.sent.clear()
        kept = other.submission
        other.submit()
        assert other.status == "empty"
        assert {request.content["report"]["data"] for request in local_proxy.posts("/report")} == {
            kept.content["report"]["data"]
        }


def test_a_failure_on_leaving_does_not_hide_why_she_left(local_proxy) -> None:
    with Client(local_proxy.url, APP_KEY) as client:
        episode = client.episode(next(names)).open()
        client.connection.deadline = 0.3
        local_proxy.faults = [LOSE_REQUEST] * 20
        with pytest.raises(RuntimeError, match="the app crashed") as failed, episode:
            raise RuntimeError("the app crashed")
        assert "an empty submission failed (Unreachable): nothing was submitted" in failed.value.__notes__[0]
        assert episode.status == "abandoned"


def test_the_promise_says_what_silence_reveals(local, joint) -> None:
    with Client(local, APP_KEY) as client:
        assert "Whether a report comes at all is not hidden" in client.status()["promise"]
    with Client(joint, APP_KEY) as client:
        assert "not hidden" not in client.status()["promise"]


def test_threads_share_one_client(joint) -> None:
    with Client(joint, APP_KEY) as client:
        before, done = admitted(client), []

        def user(name: str) -> None:
            with client.episode(name) as episode:
                play(episode)
            done.append(episode.status)

        threads = [threading.Thread(target=user, args=(next(names),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert done == ["counted"] * 8
        assert admitted(client) == before + 8


# -- small things -----------------------------------------------------------------------------------------------------


def test_random_policies_are_followed() -> None:
    """Chi-square of 20 000 actions, false alarm 1e-6; and an action of probability 0 never comes."""
    chances = np.array([0.5, 0.0, 0.2, 0.3])
    board = Billboard(0, chances[None, None])
    counts = np.bincount([board.act(0, 0) for _ in range(20_000)], minlength=4)
    assert counts[1] == 0
    expected = 20_000 * chances[[0, 2, 3]]
    assert ((counts[[0, 2, 3]] - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 2)


@pytest.mark.parametrize("service", ["joint", "local"])
def test_the_example_of_a_device_runs(service: str, request) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "examples" / "device.py"), next(names)]
    command += ["--url", request.getfixturevalue(service), "--trust", service]
    environment = os.environ | {"RETICENT_APP_KEY": APP_KEY}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "counted, under version" in said


def test_the_client_imports_neither_jax_nor_a_web_framework() -> None:
    listed = "*sorted({name.partition('.')[0] for name in sys.modules})"
    code = f"import sys; from reticent_client import Client; print({listed})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in found
    heavy = {
        "reticent",
        "jax",
        "jaxlib",
        "scipy",
        "fastapi",
        "starlette",
        "pydantic",
        "uvicorn",
        "httpx",
        "sqlalchemy",
        "opendp",
    }
    assert not heavy & set(found)
