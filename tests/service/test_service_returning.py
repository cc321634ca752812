# SPDX-License-Identifier: Apache-2.0
"""Users who return to a running service: the pattern that their noise is for, at the door, on arrival and on the device."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import sqlalchemy as sa
from durable import deployment
from running_service import APP_KEY, running_service

from reticent.errors import InvalidInput
from reticent.experiments.users import Crowd, Meter, Traffic, Truth, summary
from reticent.privacy.participation import Participation, allowed
from reticent.service.mechanism import Mechanism
from reticent.service.rounds.admit import Opened
from reticent.service.rounds.deployment import Deployment
from reticent.service.store import records
from reticent.worlds.registry import make_world
from reticent_client import Budget, Client, DecisionLog

WORLD = "random-blend:states=4,actions=2,horizon=2,d=2"
MODEL = make_world(WORLD).model
AGENT = "private-score-vi:contributions=3,gap=2,epsilon=12,first=0.4,growth=1,largest=4"


def admit(service: Deployment, user: str, visit: int) -> Opened:
    return service.admit(user, uuid.uuid5(uuid.NAMESPACE_OID, f"{user}, visit {visit}").hex)


def send(service: Deployment, opened: Opened, seed: int) -> None:
    draw = np.random.default_rng(seed)
    service.submit_trajectory(
        opened.token, opened.episode, draw.integers(0, 4, 3), draw.integers(0, 2, 2), draw.random(2)
    )


def open_sum(service: Deployment) -> np.ndarray:
    with service.store.read() as tx:
        row = records.round_of(tx, int(records.deployment(tx).open_round))
    return service.context.total(row.number, row.total)._value


def fill(service: Deployment, until: int) -> None:
    """New users until so many have been admitted."""
    for user in range(int(service.clock()[0].admitted), until):
        assert admit(service, f"new {user}", 0).learning


def test_a_user_is_admitted_by_the_pattern_of_her_places(database: str) -> None:
    service = deployment(database, agent=AGENT, episodes=40, model=MODEL)
    assert service.mechanism.agent.schedule.ends[:4].tolist() == [4, 8, 12, 16]
    told = []
    for number in range(6):  # she comes at the beginning of every round, and again at its end
        fill(service, 4 * number)
        told.append(admit(service, "ann", 2 * number).reason)
        fill(service, 4 * number + 3)
        told.append(admit(service, "ann", 2 * number + 1).reason)
        fill(service, 4 * number + 4)
    soon = "too-soon"
    assert told == [None, soon, soon, soon, None, soon, soon, soon, None, *["user-already-counted"] * 3]
    assert admit(service, "ann", 0).round == 0  # a retry is no new visit
    assert "at most 3 times, at most once in a round and never in rounds less than 2 apart" in (
        service.mechanism.guarantee.sentence()
    )


def test_reports_that_arrive_in_one_round_are_counted_once(database: str) -> None:
    """Two of hers from rounds 0 and 2 arrive in round 2: the later one adds nothing, is answered alike, never counts."""
    service = deployment(database, agent=AGENT, episodes=40, model=MODEL)
    early = admit(service, "ann", 0)
    fill(service, 8)
    punctual = admit(service, "ann", 1)
    assert (early.round, punctual.round) == (0, 2)
    before = open_sum(service)
    send(service, punctual, 1)
    one = open_sum(service)
    assert (one != before).any()
    send(service, early, 2)
    send(service, early, 2)
    np.testing.assert_array_equal(open_sum(service), one)
    fill(service, 13)  # in round 3, one round away, and in round 4, two away, nothing of it comes
    send(service, early, 2)
    other = admit(service, "ann", 2)
    assert other.reason == "too-soon"
    fill(service, 16)
    third = admit(service, "ann", 3)
    assert third.round == 4
    nothing = open_sum(service)
    send(service, third, 3)
    assert (open_sum(service) != nothing).any()


def test_whatever_arrives_when_the_rounds_that_count_a_user_keep_the_pattern(tmp_path: Path) -> None:
    often = Participation(3, gap=2)
    service = deployment(tmp_path, agent=AGENT, episodes=40, model=MODEL)
    draw = np.random.default_rng(4)
    waiting: list[tuple[str, Opened]] = []
    counted: dict[str, list[int]] = {}
    for visit in range(150):
        user = f"user {draw.integers(0, 14)}"
        opened = admit(service, user, visit)
        if opened.learning:
            waiting.append((user, opened))
        while waiting and draw.random() < 0.45:
            who, late = waiting.pop(int(draw.integers(0, len(waiting))))
            number, before = int(service.clock()[0].open_round), open_sum(service)
            send(service, late, visit)
            if (open_sum(service) != before).any():
                assert allowed(often, counted.setdefault(who, []), number)
                counted[who].append(number)
        if int(service.clock()[0].admitted) >= 36:
            break
    assert max(map(len, counted.values())) >= 2
    with service.store.read() as tx:
        noted = tx.execute(sa.text("SELECT user, counted_in FROM visits WHERE counted_in IS NOT NULL")).all()
    assert sorted(map(len, counted.values())) == sorted(
        [sum(name == other for other, _ in noted) for name in {name for name, _ in noted}]
    )


def test_a_pattern_is_said_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="contributions"):
        deployment(tmp_path, agent=AGENT, episodes=40, model=MODEL, contributions=2)


def test_a_devices_budget_keeps_the_pattern_and_outlives_it(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    budget = Budget(path, reports=3, per_round=1, gap=2)
    budget.spend("ann", 0)
    for number in (0, 1):
        assert not budget.allows("ann", number)
        with pytest.raises(InvalidInput, match="round of this report"):
            Budget(path, reports=3, per_round=1, gap=2).spend("ann", number)
    assert budget.allows("bob", 0)
    budget.spend("ann", 2)
    budget.spend("ann", 4)
    assert not budget.allows("ann", 9)
    with pytest.raises(InvalidInput, match="reports of this user"):
        budget.spend("ann", 9)
    old = json.loads(path.read_text())
    del old["rounds"]  # a file of before: what was spent counts, wherever it was
    path.write_text(json.dumps(old))
    assert not budget.allows("ann", 9)
    for wrong in ({"per_round": 0}, {"gap": 0}):
        with pytest.raises(InvalidInput):
            Budget(path, reports=3, **wrong)  # type: ignore[arg-type]


@pytest.mark.verify
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_users_return_through_the_service_with_a_floor_under_their_actions(tmp_path: Path, trust: str) -> None:
    """End to end: a third of 120 visits by people who were there, devices with budgets and logs, a floor of 0.2.

    Shares of actions under the floor against their logged probabilities: false alarm 1e-6.
    """
    world = make_world(WORLD)
    epsilon = 12 if trust == "joint" else 20
    agent = f"private-score-vi:contributions=3,epsilon={epsilon},first=0.4,growth=1,largest=10,floor=0.2,trust={trust}"
    log, meter = DecisionLog(tmp_path / "decisions.jsonl"), Meter()
    budget = Budget(tmp_path / "budget.json", reports=3, per_round=1)
    demanded: dict[str, Any] = {"epsilon": 20.0} if trust == "local" else {}
    with (
        running_service(tmp_path, world=WORLD, agent=agent, episodes=80, rate_limit=0) as url,
        Client(url, APP_KEY, budget=budget, decisions=log, observer=meter, trust=trust, **demanded) as client,  # type: ignore[arg-type]
    ):
        traffic = Traffic(client, Truth(world), Crowd(users=120, concurrency=1, returning=0.33, seed=3))
        traffic.run()
        found = summary(traffic, meter, world)
        status = client.status()
        assert found["stopped"] is None
        assert found["persons"] < 100 < found["users"] == 120
        assert status["admitted"] == 80 == found["counted"]
        assert found["not_learned_from"] == 40
        assert (status["contributions"], status["served_version"] >= 7) == (3, True)
        board = client.billboard(3)
        assert board.floor == 0.2
        # Asked for by the server, the action has its probability too.
        if trust == "joint":
            with Client(url, APP_KEY, act="server") as asking:
                episode = asking.episode("somebody").open()
                episode.act(0)
                assert episode.probability in (0.2, 0.8)
        if trust == "local":  # three reports keep ε = 20 together, and no less; one by itself does
            with Client(url, APP_KEY, trust="local", epsilon=17.0) as demanding:
                demanding.require_trustworthy()
            with (
                Client(url, APP_KEY, trust="local", epsilon=17.0, budget=budget) as demanding,
                pytest.raises(InvalidInput, match="less noise"),
            ):
                demanding.require_trustworthy()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/service.db")
    with engine.connect() as connection:
        visits = connection.execute(sa.text("SELECT user, admitted_in, counted_in FROM visits")).all()
    engine.dispose()
    assert all(counted is not None for *_, counted in visits)
    assert len({(user, counted) for user, _, counted in visits}) == len(visits) == 80
    assert len({user for user, *_ in visits}) < 80
    decisions = log.read()
    assert len(decisions) == 240
    assert {round(decision.probability, 9) for decision in decisions} == {0.2, 0.5, 0.8}
    rare = [decision.probability == 0.2 for decision in decisions if decision.probability != 0.5]
    assert abs(np.mean(rare) - 0.2) < 4.9 * np.sqrt(0.16 / len(rare))


@pytest.mark.verify
def test_devices_act_and_log_as_the_agent_does_with_a_floor(tmp_path: Path) -> None:
    """The same action for the same uniform number, the agent's own probabilities, for explorers and others."""
    service = deployment(
        tmp_path, agent="private-score-vi:epsilon=12,first=0.4,growth=1,floor=0.15", episodes=12, model=MODEL
    )
    mechanism: Mechanism = service.mechanism
    agent = mechanism.agent
    for user in range(9):
        send(service, admit(service, f"user {user}", 0), user)
    draw = np.random.default_rng(0)
    serve, chances, act = jax.jit(agent.served), jax.jit(agent.action_probabilities), jax.jit(agent.act)
    for version in (0, 1, 2):
        board = service.billboard(version)
        for place in (0, 2, 100):
            plan = serve(mechanism.plan_of(board), place)
            probabilities = np.asarray(chances(plan))
            assert (probabilities >= 0.15 - 1e-12).all()
            for step in range(MODEL.horizon):
                for state in range(MODEL.states):
                    own = [board.published.probability(step, state, place, action) for action in range(2)]
                    np.testing.assert_allclose(own, probabilities[step, state], rtol=1e-12)
                    for uniform in (*draw.random(3), 0.0, 0.2999999, 0.3):
                        expected = int(act(plan, step, state, float(uniform)))
                        assert board.act(step, state, place, float(uniform)) == expected
