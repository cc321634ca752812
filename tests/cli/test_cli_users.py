# SPDX-License-Identifier: Apache-2.0
"""``reticent users`` against the real service: counts that add up, crowds that are late or lost, and plain failures."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
from running_service import ADMIN_KEY, APP_KEY, SHUFFLER_KEY, running_service
from scipy.stats import chi2

from reticent.errors import InvalidInput
from reticent.experiments.users import Crowd, MovingTruth, Truth
from reticent.worlds import make_world
from reticent.worlds.transforms.non_stationary import phases_of
from reticent_client import Client

WORLD = "random-blend:states=3,actions=2,horizon=2,d=2"
EPISODES = 120


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("users"), world=WORLD, episodes=EPISODES, rate_limit=0) as address:
        yield address


@pytest.fixture
def users(reticent, monkeypatch):
    """Call ``reticent users`` with the app's key."""
    monkeypatch.setenv("RETICENT_APP_KEY", APP_KEY)
    return lambda *arguments: reticent("users", *arguments)


@pytest.mark.verify
def test_every_user_is_accounted_for(users, url) -> None:
    """First a crowd that fits, then one that runs over the horizon: what the command counts is what the service did."""
    with Client(url, ADMIN_KEY) as operator:
        code, out, _ = users(
            "--url", url, "--users", 60, "--concurrency", 4, "--late", 0.3, "--lost", 0.2, "--prefix", "first", "--json"
        )
        found = json.loads(out)
        assert code == 0
        assert (found["world"], found["users"], found["served"]) == (WORLD, 60, 60)
        assert found["counted"] + found["abandoned"] == 60
        # 60 coins of 0.2: outside [1, 30] with probability below 2e-6; the seed is fixed, so it is the same every time.
        assert 1 <= found["abandoned"] <= 30
        waiting = operator.connection.get("/v1/admin/status")
        assert (waiting["admitted"], waiting["open_episodes"]) == (60, found["abandoned"])
        routes = {row["route"]: row for row in found["routes"]}
        assert routes["POST /v1/episodes"]["requests"] == 60
        assert routes["POST /v1/episodes/{episode}/trajectory"]["requests"] >= found["counted"]  # retries included
        assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in found["routes"])
        assert found["requests"] == sum(row["requests"] for row in found["routes"])
        assert found["versions"]["first"] == 0
        assert found["versions"]["last"] >= 1

        code, out, _ = users("--url", url, "--world", WORLD, "--users", 80, "--act", "server", "--prefix", "second")
        assert code == 0
        assert operator.status()["admitted"] == EPISODES
        assert "not learned from" in out
        assert "POST /v1/episodes/{episode}/actions" in out
        assert "in the first tenth" in out

        # The same names are the same users: nobody is counted again.
        code, out, _ = users("--url", url, "--users", 20, "--prefix", "first", "--json")
        assert (json.loads(out)["counted"], json.loads(out)["not_learned_from"]) == (0, 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world", "mobile-health"], "world: horizon is 6, but must be 2, as the service says"),
        (["--users", 0], "users is 0, but must be at least 1"),
        (["--late", 0.7, "--lost", 0.6], "late + lost is 1.2999999999999998, but must be at most 1"),
        (["--act", "elsewhere"], "act is elsewhere, but must be 'device' or 'server'"),
        (["--drift", "5,3"], "--drift is 5,3, but must be visits from 2 to 1000 in increasing order"),
        (["--users", 8, "--drift", "9"], "--drift is 9, but must be visits from 2 to 8 in increasing order"),
        (["--drift", "soon"], "--drift is soon, but must be visits from 2 to 1000 in increasing order"),
        (["--drift", "5", "--moves", 2], "moves is 2.0, but must be from 0 to 1"),
    ],
)
def test_bad_requests_are_one_line(users, url, arguments, message: str) -> None:
    code, out, err = users("--url", url, *arguments)
    assert (code, out) == (2, "")
    assert err.strip().startswith(f"error: {message}")


def test_a_wrong_key_stops_the_crowd_at_once(users, url) -> None:
    code, out, err = users("--url", url, "--users", 500, "--key", "wrong", "--json")
    assert code == 1
    assert json.loads(out)["served"] == 0
    assert "HTTP 401" in err


def test_a_service_that_is_not_there_is_said_so(users) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        code, out, err = users("--url", f"http://127.0.0.1:{nobody.getsockname()[1]}", "--deadline", 0.3)
    assert (code, out) == (2, "")
    assert "no answer from" in err
    assert err.splitlines()[0].startswith("note: nothing answers at ")
    assert "is `reticent serve` running?" in err


def test_a_model_file_is_read_before_a_service_is_waited_for(users, tmp_path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("user,step\n")
    code, out, err = users("--url", "http://127.0.0.1:9", "--deadline", 300, "--model", log)
    assert (code, out) == (2, "")
    assert "log.csv is not a model file" in err


def test_in_the_shuffle_model_the_command_brings_a_shuffler(users, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RETICENT_SHUFFLER_KEY", SHUFFLER_KEY)
    agent = "private-score-vi:trust=shuffle,epsilon=8,delta=1e-3,first=60"
    with running_service(tmp_path, world=WORLD, episodes=60, agent=agent, rate_limit=0) as url:
        code, out, err = users("--url", url, "--users", 60, "--json")
        assert code == 0, err
        assert "also runs the users' shuffler" in err
        found = json.loads(out)
        assert (found["served"], found["counted"]) == (60, 60)
        with Client(url, APP_KEY) as client:  # the round was mixed, posted and learned from
            assert client.status()["version"] >= 1


@pytest.mark.parametrize(
    "spec", ["random-blend:states=3,actions=2,horizon=2,d=2", "large-blend:states=20,successors=4"]
)
def test_simulated_users_live_in_their_world(spec: str) -> None:
    """Next states of one pair against the world's own probabilities: chi-square, false alarm 1e-6; rewards likewise."""
    world = make_world(spec)
    truth, rng, size = Truth(world), np.random.default_rng(5), 4_000
    drawn = [truth.step(rng, 1, 2, 1) for _ in range(size)]
    expected = size * np.asarray(world.transitions)[1, 2, 1]
    counts = np.bincount([state for _, state in drawn], minlength=len(expected))
    assert (counts[expected == 0] == 0).all()
    common = expected >= 20
    spread = ((counts[common] - expected[common]) ** 2 / expected[common]).sum()
    assert spread < chi2.isf(1e-6, int(common.sum()))
    mean = float(np.asarray(world.mean_rewards)[1, 2, 1])
    # Five standard deviations of a mean of numbers in [0, 1].
    assert abs(np.mean([reward for reward, _ in drawn]) - mean) < 5 * 0.5 / np.sqrt(size)
    assert {truth.start(rng) for _ in range(200)} <= set(np.flatnonzero(np.asarray(world.model.initial)))


def test_a_visit_lives_in_its_phase() -> None:
    phases = phases_of(make_world(WORLD), [3, 5], 1)
    moving = MovingTruth(phases)
    expected = [0, 0, 0, 1, 1, 2, 2]
    for visit, phase in enumerate(expected):
        np.testing.assert_array_equal(moving.at(visit, 0)._means, np.asarray(phases[phase].world.reward_means))
    assert (moving.at(0, 0)._means != moving.at(3, 0)._means).any()


TURNING = "random-blend:states=4,actions=3,horizon=3,d=3"


@pytest.mark.verify
def test_users_who_change_and_return_are_learned_from_again(users, tmp_path) -> None:
    """The change that docs/endless.md is about, through a service that is told nothing of it: its plan of the first
    phase loses 0.83 in the second. In the end it loses less than half of that: in simulations with rounds of 50 it finds
    the best plan in 200 of 200 (of 10, whose noise is as large, in four of five), and a mean of 150 returns has a
    standard deviation below 0.07, a sixth of what may be lost."""
    agent = "private-score-vi:epsilon=16,contributions=3,first=5,growth=1,largest=50,alarm=0.001"
    world = make_world(TURNING)
    later = phases_of(world, [400], 10)[1].world
    old = float(later.policy_value(world.optimal_choices))
    with running_service(tmp_path, world=TURNING, agent=agent, episodes=900, rate_limit=0) as url:
        code, out, _ = users(
            "--url", url, "--users", 850, "--concurrency", 4, "--returning", 0.3, "--drift", 401, "--seed", 10, "--json"
        )
        found = json.loads(out)
        assert code == 0
        assert found["persons"] < 700
        assert found["counted"] + found["not_learned_from"] == 850
        first, second = found["phases"]
        assert (first["first"], first["visits"], second["first"], second["visits"]) == (1, 400, 401, 450)
        assert second["optimal"] == pytest.approx(later.optimal_value)
        assert second["last_third"] > (old + later.optimal_value) / 2
        code, out, _ = users("--url", url, "--users", 9, "--drift", 4, "--seed", 10)
        assert "from visit 4: return" in out


def test_only_worlds_with_numbered_states_and_shares_that_are_shares() -> None:
    with pytest.raises(InvalidInput, match="finitely many states"):
        Truth(make_world(WORLD).model)
    with pytest.raises(InvalidInput, match="share of the users"):
        Crowd(10, late=-0.1)
