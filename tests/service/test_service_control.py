# SPDX-License-Identifier: Apache-2.0
"""An A/B share in the service: who is a control, what she is served, what is learned from her; nobody's data show in it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from durable import MODEL, SECRET, deployment, episode, open_sum, played
from fastapi.testclient import TestClient
from serving import ADMIN, APP, settings

from reticent.errors import InvalidInput
from reticent.learning.control import Control
from reticent.privacy.noise import SecureNoise
from reticent.service.durability.backup import back_up
from reticent.service.durability.export import choose_version, stored_status
from reticent.service.durability.restore import restore
from reticent.service.durability.rollback_guard import RollbackGuard
from reticent.service.embedded import DeployedAgent
from reticent.service.http.app import create_app
from reticent.service.mechanism import make_mechanism
from reticent.service.processes.worker import WorkerDeployment
from reticent.service.rounds.context import Context
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.frontend import Frontend
from reticent.service.rounds.release import Releases
from reticent.service.rounds.set_up import facts
from reticent.service.secrets import Secrets
from reticent.service.store import records, tables
from reticent.service.store.engine import Store

SCORE = "private-score-vi:first=0.4,growth=1,epsilon=15"
REGRESSIONS = "private-linopt-vi:first=4,growth=1"
USERS = 12
"""Three rounds of four."""
HALF = Control(0.5)


def serve(service: Frontend, user: int) -> Any:
    opened = service.admit(f"user {user}")
    service.submit_trajectory(opened.token, opened.episode, **episode(user))
    return opened


def with_identity(number: int, where: Path, agent: str) -> Deployment:
    """A deployment that begins with an identity of the test's choice, and so with its controls."""
    where.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=number))
        return deployment(where, agent, USERS, control=HALF)


def is_control(service: Frontend, opened: Any) -> bool:
    places = HALF.places(service.configuration.schedule, opened.round, service.identity)
    return places.has(opened.place)


@pytest.mark.parametrize("agent", [REGRESSIONS, pytest.param(SCORE, marks=pytest.mark.verify)])
def test_as_many_as_were_said_are_served_version_0_and_the_others_the_newest(tmp_path: Path, agent: str) -> None:
    chosen = settings(tmp_path, agent=agent, episodes=USERS, control={"share": 0.5, "version": 0})
    with TestClient(create_app(chosen, begin=True)) as client:
        service = client.app.state.deployment  # type: ignore[attr-defined]
        served: dict[int, list[int]] = {number: [] for number in range(3)}
        for user in range(USERS):
            asked = {"user": f"user {user}", "episode": f"{user:032x}"}
            opened = client.post("/v1/episodes", json=asked, headers=APP).json()
            controls = HALF.places(service.configuration.schedule, opened["round"], service.identity)
            assert opened["version"] == (0 if controls.has(opened["place"]) else opened["round"])
            assert opened["reference"] == (opened["round"] if agent == SCORE else None)
            again = client.post("/v1/episodes", json=asked, headers=APP).json()
            assert again == opened  # a retry keeps the part, and the very token
            served[opened["round"]].append(opened["version"])
            path, body = f"/v1/episodes/{opened['episode']}/trajectory", {"token": opened["token"], **episode(user)}
            assert client.post(path, json=body, headers=APP).json()["version"] == opened["version"]
        assert [sorted(versions) for versions in served.values()] == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 2, 2]]
        late = client.post("/v1/episodes", json={"user": "late"}, headers=APP).json()
        assert (late["learning"], late["version"]) == (False, 2)  # after the K-th there are no controls
        assert client.get("/v1/billboard").json()["version"] == 2
        status = client.get("/v1/status").json()
        assert (status["control_share"], status["control_version"], status["fallback"]) == (0.5, 0, None)
        stored = stored_status(service.store)
        assert (stored["control_share"], stored["control_version"]) == (0.5, 0)
        assert client.post("/v1/admin/finish", headers=ADMIN).json()["finished"]
    for other in ({}, {"control": {"share": 0.25}}):
        with pytest.raises(InvalidInput, match="control"):
            create_app(settings(tmp_path, agent=agent, episodes=USERS, **other))


def test_without_a_share_status_says_none_and_the_stored_settings_are_as_before(tmp_path: Path) -> None:
    service = deployment(tmp_path, REGRESSIONS, USERS)
    assert "control" not in facts(service.context)
    assert stored_status(service.store)["control_share"] is None
    assert service.context.control_places(1) is None


def test_workers_that_share_a_store_agree_and_so_do_groups(tmp_path: Path) -> None:
    """Two that meet users by turns, one of them without the agent, and a third deployment that admits all in one group."""
    first = deployment(tmp_path, REGRESSIONS, USERS, control=HALF, inline=False)
    shared = Context(
        first.mechanism.configuration, first.store, Secrets(SECRET), control=HALF, rollback_guard=first.rollback_guard
    )
    second = WorkerDeployment(shared, tmp_path)
    second.set_up()
    found = []
    for user in range(USERS):
        opened = serve(first if user % 2 else second, user)
        assert (opened.version == 0) or not is_control(first, opened)
        found.append(opened)
        first.advance()
    again = [(first if user % 3 else second).admit(f"user {user}", found[user].episode) for user in range(USERS)]
    assert [(one.version, one.place, one.token) for one in again] == [
        (one.version, one.place, one.token) for one in found
    ]
    assert all(is_control(second, one) == is_control(first, one) for one in found)


def test_a_group_that_fills_rounds_has_its_controls_in_their_places(tmp_path: Path) -> None:
    service = deployment(tmp_path, REGRESSIONS, USERS, control=HALF, inline=False)
    for user in range(5):
        serve(service, user)
    service.advance()
    answers: list[Any] = service.admit_all([(f"user {user}", None) for user in range(5, USERS)])
    assert [one.version for one in answers] == [0 if is_control(service, one) else 1 for one in answers]
    assert {one.round for one in answers} == {1, 2}


@pytest.mark.usefixtures("silent")
def test_a_regression_is_formed_under_what_its_own_user_was_served(tmp_path: Path) -> None:
    service = deployment(tmp_path, REGRESSIONS, USERS, control=HALF)
    for user in range(4):
        serve(service, user)
    came = [serve(service, user) for user in range(4, 8)]
    assert sorted(one.version for one in came) == [0, 0, 1, 1]
    own, newest = (
        sum(
            service.mechanism.contribution(service.billboard(version(one)), played(4 + index), one.place)
            for index, one in enumerate(came)
        )
        for version in (lambda one: one.version, lambda one: 1)
    )
    np.testing.assert_array_equal(open_sum(service), own)
    assert (own != newest).any()


@pytest.mark.usefixtures("silent")
@pytest.mark.verify
def test_a_mixed_round_of_vectors_has_one_reference_and_is_closed_as_a_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Service and embedded agent agree on every plan; one that takes controls for the others' kind publishes others."""
    service = with_identity(2, tmp_path / "service", SCORE)
    embedded = DeployedAgent(SCORE, MODEL, USERS, SecureNoise(), HALF)
    embedded.identity = service.identity
    plans = [embedded.plan]
    for user in range(USERS):
        opened = serve(service, user)
        ticket = embedded.begin(user)
        assert (ticket.version, ticket.place) == (opened.version, opened.place)
        if embedded.plan is not plans[-1]:
            plans.append(embedded.plan)
        embedded.submit(ticket, played(user))
    service.finish()
    service.advance()
    embedded.finish()
    plans.append(embedded.plan)
    for version, plan in enumerate(plans):
        stored = service.mechanism.plan_of(service.billboard(version))
        for mine, theirs in zip(jax.tree.leaves(stored), jax.tree.leaves(plan), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    acted, reference = service.planner.releases._acted_by(2)
    assert reference is not None
    assert (acted.version, reference.version) == (2, 2)
    group = service.planner.releases._control_group(2, acted)
    assert group is not None
    assert (group[0].version, group[1]) == (0, HALF.places(service.configuration.schedule, 2, service.identity))
    assert service.planner.releases._control_group(0, service.billboard(0)) is None  # everybody acted by version 0

    monkeypatch.setattr(Releases, "_control_group", lambda self, number, served: None)
    ignoring = with_identity(2, tmp_path / "ignoring", SCORE)
    for user in range(9):
        serve(ignoring, user)
    np.testing.assert_array_equal(ignoring.billboard(1).report["theta"], service.billboard(1).report["theta"])
    assert not np.allclose(ignoring.billboard(2).report["theta"], service.billboard(2).report["theta"], atol=1e-6)


def test_most_of_the_others_decide_whose_round_it_is_though_controls_are_more(tmp_path: Path) -> None:
    service = deployment(tmp_path, SCORE, USERS, control=Control(0.75))
    for user in range(9):
        serve(service, user)
    with service.store.read() as tx:
        assert records.versions_served(tx, 4, 8) == {0: 3, 1: 1}
    assert service.planner.releases._acted_by(1)[0].version == 1


def test_a_fallback_is_for_those_who_are_not_controls(tmp_path: Path) -> None:
    service = deployment(tmp_path, SCORE, USERS, control=HALF)
    for user in range(8):
        serve(service, user)
    assert choose_version(service.store, 1) == 1
    rest = [serve(service, user) for user in range(8, USERS)]
    assert [one.version for one in rest] == [0 if is_control(service, one) else 1 for one in rest]
    assert {one.reference for one in rest} == {2}
    service.finish()
    service.advance()
    assert service.planner.releases._acted_by(2)[0].version == 1
    assert service.clock()[1] == 3


def test_a_restored_store_has_the_same_controls(tmp_path: Path) -> None:
    service = deployment(tmp_path, REGRESSIONS, USERS, control=HALF)
    for user in range(9):
        serve(service, user)
    back_up(service.store, Secrets(SECRET), tmp_path / "backup", restores=0)
    identity, url = service.identity, str(service.store.engine.url)
    tables.METADATA.drop_all(service.store.engine)
    service.store.close()
    context = Context(
        make_mechanism(REGRESSIONS, MODEL, USERS, SecureNoise()), Store(url), Secrets(SECRET), inline=True,
        rollback_guard=RollbackGuard(tmp_path / "service.witness", Secrets(SECRET)), control=HALF,
    )  # fmt: skip
    made = Deployment(context)
    restore(made, tmp_path / "backup")
    made.store.close()
    service = deployment(tmp_path, REGRESSIONS, USERS, control=HALF)
    assert service.identity == identity
    rest = [serve(service, user) for user in range(9, USERS)]
    assert [one.version for one in rest] == [0 if is_control(service, one) else 2 for one in rest]


# -- privacy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [REGRESSIONS, SCORE])
@pytest.mark.parametrize("changed", [4, 5, 6, 7])
@pytest.mark.usefixtures("silent")
def test_neighbours_hold_the_same_places_and_move_the_sum_no_further(tmp_path: Path, agent: str, changed: int) -> None:
    """Replayed with one user's episode replaced, whether she is a control or not: everybody is served the same, and the
    one sum she is in moves by no more than noise is for."""
    told, sums = [], []
    for case in ("as it was", "replaced"):
        service = with_identity(1, tmp_path / case, agent)
        answers = []
        for user in range(8):
            opened = service.admit(f"user {user}", f"{user:032x}")
            sent = episode(1000 if user == changed and case == "replaced" else user)
            service.submit_trajectory(opened.token, opened.episode, **sent)
            answers.append(opened)
        sums.append(open_sum(service) * service.configuration.grid)
        answers += [service.admit(f"user {user}", f"{user:032x}") for user in range(8, USERS)]
        told.append([(one.version, one.round, one.place, one.reference) for one in answers])
    assert told[0] == told[1]
    assert {version for version, number, *_ in told[0] if number == 1} == {0, 1}
    scale, strength = service.configuration.noise_scale, service.mechanism.guarantee.mu
    assert strength is not None
    moved = np.linalg.norm(((sums[1] - sums[0]) / np.where(scale > 0, scale, 1.0))[scale > 0])
    assert 0 < moved <= strength
