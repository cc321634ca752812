# SPDX-License-Identifier: Apache-2.0
"""The flagship deployed: places, references, and the numbers of service, embedded agent and simulation, all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from durable import MODEL, deployment, episode, open_sum, played
from fastapi.testclient import TestClient
from serving import ADMIN, APP, settings

from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise
from reticent.service.embedded import DeployedAgent
from reticent.service.http.app import create_app
from reticent.service.mechanism import make_mechanism
from reticent.service.rounds.deployment import Deployment
from reticent.service.rounds.refusals import Refusal
from reticent.service.store import records
from reticent.worlds import Episode
from reticent_wire.trajectory import well_formed

AGENT = "private-score-vi:first=0.4,growth=1,epsilon=15"
"""Rounds of four users."""
USERS = 12


def serve(service: Deployment, user: int) -> Any:
    opened = service.admit(f"user {user}")
    service.submit_trajectory(opened.token, opened.episode, **episode(user))
    return opened


def simulated(agent: Any, users: int) -> list[tuple[np.ndarray, Any]]:
    """The sums and plans of the library's own functions on the same episodes, round by round, without noise."""
    state, number, rounds = agent.init(), 0, []
    for size in agent.schedule.round_sizes[: agent.schedule.releases]:
        plan = agent.plan(state)
        total = np.zeros(agent.aggregator.noise_scale.shape)
        for place in range(size):
            total = total + np.asarray(agent.report(agent.served(plan, place), played(number)))
            number += 1
        state = agent.close(
            agent.absorb(state, jnp.asarray(total)), plan, int(size), jnp.zeros_like(agent.aggregator.noise_scale)
        )
        rounds.append((total, plan))
    assert number == users
    return [*rounds, (np.zeros(0), agent.plan(state))]


def require_one_result(service: Deployment, spec: str, *, rtol: float, atol: float, sums: float) -> list[Any]:
    """Three rounds of four users: the service's plans are the embedded agent's to the bit, and within ``rtol`` and ``atol``
    those of the simulation; its sums are within ``sums`` of the simulation's. What each user was told when they were
    admitted.
    """
    agent = service.mechanism.agent
    assert agent.schedule.round_sizes.tolist() == [4, 4, 4]
    embedded = DeployedAgent(spec, MODEL, USERS, SecureNoise())
    plans, admitted = [embedded.plan], []
    for user in range(USERS):
        admitted.append(serve(service, user))
        assert embedded.place == admitted[-1].place
        embedded.submit(user, played(user))
        if embedded.plan is not plans[-1]:
            plans.append(embedded.plan)
    service.finish()
    service.advance()
    for version, (total, plan) in enumerate(simulated(agent, USERS)):
        stored = service.mechanism.plan_of(service.billboard(version))
        for mine, theirs, own in zip(*(jax.tree.leaves(p) for p in (stored, plan, plans[version])), strict=True):
            np.testing.assert_array_equal(mine, own)
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)
        if version < 3:
            with service.store.read() as tx:
                row = records.round_of(tx, version)
            np.testing.assert_allclose(np.frombuffer(row.release, "<f8"), total.ravel(), rtol=0, atol=sums)
    return admitted


@pytest.mark.verify
@pytest.mark.parametrize("spec", [AGENT, f"{AGENT},residual=on"])
def test_service_embedded_agent_and_simulation_have_the_same_sums_and_plans(
    tmp_path: Path, silent: None, spec: str
) -> None:
    service = deployment(tmp_path, spec, USERS)
    for user, opened in enumerate(require_one_result(service, spec, rtol=1e-7, atol=1e-9, sums=0.0)):
        assert (opened.round, opened.place, opened.version, opened.reference) == (user // 4, user % 4, *[user // 4] * 2)


@pytest.mark.verify
@pytest.mark.parametrize("spec", [AGENT, AGENT + ",residual=on", AGENT + ",score=likelihood", AGENT + ",trust=local"])
@pytest.mark.usefixtures("silent")
def test_numpy_and_jax_form_the_same_vectors_whatever_a_user_sends(spec: str) -> None:
    mechanism = make_mechanism(spec, MODEL, USERS, SecureNoise())
    agent, draw = mechanism.agent, np.random.default_rng(3)
    state = agent.init()
    total = sum(mechanism.contribution(mechanism.billboard(0, state), played(seed), 0) for seed in range(4))
    noise = None if agent.noised_reports else np.zeros(mechanism.noise_scale.shape, np.int64)
    state, _ = mechanism.close(0, state, mechanism.billboard(0, state), total, noise)
    report = jax.jit(agent.report)
    silence = jnp.zeros_like(agent.aggregator.noise_scale)
    for version in (0, 1):
        board = mechanism.billboard(version, agent.init() if version == 0 else state)
        plan = mechanism.plan_of(board)
        for trial in range(60):
            place = int(draw.integers(0, 12))
            steps, wild = MODEL.horizon, trial % 3
            states = draw.integers(-9 * wild, MODEL.states + 9 * wild, steps + 1)
            rewards = draw.normal(size=steps) * 10.0**wild
            if wild == 2:
                rewards[draw.integers(0, steps)] = draw.choice([np.nan, np.inf, -np.inf, 1e308])
            sent = Episode(states, draw.integers(-3, MODEL.actions + 3, steps), rewards)
            mine = mechanism.contribution(board, sent, place)
            inside = Episode(*well_formed(mechanism.published, *sent)[:3])
            theirs = np.asarray(report(agent.served(plan, place), inside, silence)) / mechanism.grid
            np.testing.assert_array_equal(mine, np.rint(theirs))
            assert np.linalg.norm(mine * mechanism.grid) <= 1 + mechanism.grid


@pytest.mark.verify
def test_the_first_places_explore_and_a_user_without_a_place_does_not(tmp_path: Path) -> None:
    service = deployment(tmp_path, "private-score-vi:first=0.4,growth=4,epsilon=15,explore=0,hope=0", 84)
    assert service.mechanism.agent.schedule.round_sizes.tolist() == [4, 16, 64]
    at_random = {
        tuple(
            service.act(service.submissions.token(opened.token, opened.episode), step, 0)
            for step in range(MODEL.horizon)
        )
        for opened in (serve(service, user) for user in range(4))
    }
    assert len(at_random) > 1  # coins of their own: chance of all four equal is 3^-24
    again = service.admit("user 0")
    assert (again.learning, again.place, again.round) == (False, None, None)
    board = service.billboard(1) if service.clock()[1] else None
    served = {}
    for user in range(4, 20):
        opened = serve(service, user)
        assert opened.version == 1
        board = service.billboard(1)
        served[opened.place] = [
            [
                service.act(service.submissions.token(opened.token, opened.episode), step, state)
                for state in range(MODEL.states)
            ]
            for step in range(MODEL.horizon)
        ]
    assert board is not None
    explorers = int(board.report["explorers"])
    assert 4 == explorers < 16
    for place, actions in served.items():
        wanted = board.report["curious"] if place < explorers else board.policy
        np.testing.assert_array_equal(actions, wanted)
    late = service.admit("user 1")
    actions = [
        service.act(service.submissions.token(late.token, late.episode), 0, state) for state in range(MODEL.states)
    ]
    np.testing.assert_array_equal(actions, service.billboard(late.version).policy[0])


@pytest.mark.parametrize("residual", ["off", "on"])
def test_a_late_report_is_formed_under_the_round_that_counts_it(tmp_path: Path, residual: str) -> None:
    """Radii of residuals may fall from round to round: a vector in the units of the round that counts it is within its
    ball, and one in the units of the round that it was played in would not be the same."""
    service = deployment(tmp_path, f"{AGENT},residual={residual}", USERS)
    late = service.admit("late")
    for user in range(4):
        serve(service, user)
    before = open_sum(service)
    service.submit_trajectory(late.token, late.episode, **episode(99))
    current, own = (service.mechanism.contribution(service.billboard(v), played(99), late.place) for v in (1, 0))
    assert (current != own).any()
    assert np.linalg.norm(service.mechanism.grid * current) <= 1 + service.mechanism.grid * np.sqrt(current.size)
    if residual == "on":
        radii = [float(service.billboard(version).report["residual_radius"]) for version in (0, 1)]
        assert radii[0] != radii[1]
    np.testing.assert_array_equal(open_sum(service) - before, current)


def test_between_two_rounds_reports_wait(tmp_path: Path) -> None:
    """A round without a reference takes nothing: nobody knows yet what its vectors are made of."""
    service = deployment(tmp_path, AGENT, USERS)
    late = service.admit("late")
    for user in range(3):
        serve(service, user)
    with service.store.write() as tx:
        service.closing.seal(tx, 0)
    for ask in (
        lambda: service.submit_trajectory(late.token, late.episode, **episode(9)),
        service.open_round,
    ):
        with pytest.raises(Refusal, match="being prepared"):
            ask()
    service.advance()
    assert service.open_round() == (1, 1)
    service.submit_trajectory(late.token, late.episode, **episode(9))
    assert open_sum(service).any()


def test_a_report_under_another_reference_counts_as_nothing(tmp_path: Path) -> None:
    service = deployment(tmp_path, AGENT + ",trust=local", 3000)
    shape = service.mechanism.noise_scale.shape
    opened = service.admit("ann")
    with pytest.raises(InvalidInput, match="reference is missing"):
        service.submit_report(opened.token, opened.episode, np.ones(shape, np.int64))
    assert service.submit_report(opened.token, opened.episode, np.ones(shape, np.int64), 7) == 0
    assert not open_sum(service).any()
    assert service.submit_report(opened.token, opened.episode, np.ones(shape, np.int64), 0) == 0
    assert not open_sum(service).any()  # there is no second report, whatever became of the first
    other = service.admit("bob")
    service.submit_report(other.token, other.episode, np.ones(shape, np.int64), 0)
    np.testing.assert_array_equal(open_sum(service), np.ones(shape))


@pytest.mark.verify
def test_in_the_background_a_round_refers_to_what_its_first_user_was_served(tmp_path: Path, silent: None) -> None:
    service = deployment(tmp_path, AGENT, USERS, inline=False)
    for user in range(5):
        opened = serve(service, user)
    assert (opened.round, opened.place, opened.version, opened.reference) == (1, 0, 0, 0)
    service.advance()
    rest = [serve(service, user) for user in range(5, 8)]
    assert [(one.version, one.reference) for one in rest] == [(1, 0)] * 3
    mechanism = service.mechanism
    wanted = sum(mechanism.contribution(service.billboard(0), played(user), user % 4) for user in range(4, 8))
    np.testing.assert_array_equal(open_sum(service), wanted)
    service.admit("the next")
    service.advance()
    with service.store.read() as tx:
        assert records.versions_served(tx, 4, 8) == {0: 1, 1: 3}
    served, reference = service.planner.releases._acted_by(1)
    assert (served.version, reference.version if reference else None) == (1, 0)
    with service.store.read() as tx:
        state = service.planner.releases._state(records.learner(tx))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


@pytest.mark.verify
def test_referring_a_plan_to_itself_changes_nothing() -> None:
    mechanism = make_mechanism(AGENT, MODEL, USERS, SecureNoise())
    agent, state = mechanism.agent, mechanism.agent.init()
    for number in range(2):
        plan = mechanism.plan_of(mechanism.billboard(number, state))
        referred = jax.jit(agent.rebase_plan)(plan, plan, 4)
        assert float(referred.extension.mixed_policies.share.sum()) == 1.0
        referred = referred._replace(extension=referred.extension._replace(mixed_policies=None))
        for mine, theirs in zip(jax.tree.leaves(referred), jax.tree.leaves(plan), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
        total = np.zeros(mechanism.noise_scale.shape, np.int64)
        state, _ = mechanism.close(number, state, mechanism.billboard(number, state), total, mechanism.round_noise())


def test_embedded_users_who_overlap(silent: None) -> None:
    agent = DeployedAgent(AGENT, MODEL, USERS, SecureNoise())
    tickets = [agent.begin(user) for user in range(5)]
    assert [(ticket.version, ticket.place) for ticket in tickets] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert bool(tickets[0].plan.extension.exploring)
    agent.submit(tickets[2], played(2))  # late: under the plan of the round that is open
    wanted = agent.mechanism.contribution(agent._board, played(2), 2)
    np.testing.assert_array_equal(agent._open, wanted)
    actions = {tickets[0].act(0, 0, uniform) for uniform in (0.0, 0.4, 0.9)}
    assert actions == {0, 1, 2}


def test_an_embedded_report_that_is_stale_counts_as_nothing() -> None:
    agent = DeployedAgent(AGENT + ",trust=local", MODEL, 1000, SecureNoise())
    first = int(agent.mechanism.agent.schedule.round_sizes[0])
    tickets = [agent.begin(user) for user in range(first)]
    report = agent.report(played(0), tickets[0])
    agent.begin("next")
    assert agent.version == 1
    agent.submit(tickets[0], report, reference=0)
    assert not agent._open.any()
    agent.submit(tickets[1], agent.report(played(1), tickets[1]), reference=1)
    assert agent._open.any()


def test_a_token_cannot_claim_another_place(tmp_path: Path) -> None:
    service = deployment(tmp_path, AGENT, USERS)
    opened = service.admit("ann")
    assert service.secrets.read(opened.token).place == 0
    again = service.admit("ann", opened.episode)
    assert (again.token, again.place, again.round, again.reference) == (opened.token, 0, 0, 0)


def test_in_shadow_everybody_acts_by_version_0_and_is_learned_from(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path, agent=AGENT, shadow=True), begin=True)) as client:
        service = client.app.state.deployment  # type: ignore[attr-defined]
        for user in range(USERS + 1):
            opened = client.post("/v1/episodes", json={"user": f"user {user}"}, headers=APP).json()
            assert opened["version"] == 0
            assert opened["learning"] == (user < USERS)
            if user < USERS:
                body = {"token": opened["token"], **episode(user)}
                path = f"/v1/episodes/{opened['episode']}"
                assert client.post(f"{path}/trajectory", json=body, headers=APP).json()["version"] == 0
        status = client.get("/v1/status").json()
        assert (status["served_version"], status["version"], status["fallback"]) == (2, 2, 0)
        assert client.get("/v1/billboard").json()["version"] == 0
        first, later = (client.get(f"/v1/billboards/{version}").json() for version in (0, 2))
        assert first["report"]["theta"] != later["report"]["theta"]  # it has learned
        # The moments of a round are those of the plan that its users acted by, under the round's own reference.
        acted, reference = service.planner.releases._acted_by(1)
        assert (acted.version, reference.version) == (0, 1)
        for version, code in ((None, 409), (1, 409), (0, 200)):
            answer = client.post("/v1/admin/fallback", json={"version": version}, headers=ADMIN)
            assert answer.status_code == code
    with pytest.raises(InvalidInput, match="shadow"):
        create_app(settings(tmp_path, agent=AGENT))
