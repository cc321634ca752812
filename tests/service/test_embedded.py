# SPDX-License-Identifier: Apache-2.0
"""A deployed agent: what it names is what runs, secure noise only, exact sums, places that no data move."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from line_world import line_world

from reticent.agents.tabular.learner import CountingLearner
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import mu_of
from reticent.privacy.noise import SecureNoise
from reticent.privacy.simulation_noise import SimulationNoise
from reticent.service import deployable
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import Mechanism
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

MODEL = make_world("mobile-health").model
RIVER = make_world("riverswim:states=3,horizon=5").model
H = MODEL.horizon


def episode(seed: int, model: Any = MODEL) -> Episode:
    draw = np.random.default_rng(seed)
    steps = model.horizon
    return Episode(
        draw.integers(0, model.states, steps + 1), draw.integers(0, model.actions, steps), draw.random(steps)
    )


def deployed(options: str = "", episodes: int = 6) -> DeployedAgent:
    return DeployedAgent(f"private-linopt-vi:first=2,growth=1{options}", MODEL, episodes, SecureNoise())


def counting(options: str = "", episodes: int = 6) -> DeployedAgent:
    spec = f"private-ucb-vi:counter=epochs,first=2,growth=1{options}"
    return DeployedAgent(spec, RIVER, episodes, SecureNoise())


def send(agent: DeployedAgent, user: Any, played: Episode) -> None:
    agent.submit(user, agent.report(played) if agent.guarantee.trust.noised_reports else played)


def public(agent: DeployedAgent) -> tuple[Any, ...]:
    """Everything the outside sees."""
    plan = agent.plan
    return agent.users, agent.version, agent.ledger, plan.policy.tolist(), plan.values.tolist()


def everything(agent: DeployedAgent) -> tuple[Any, ...]:
    """With what it does not."""
    state = agent.mechanism.to_bytes(agent._state)
    return public(agent), agent._open.tolist(), state, agent.tickets_out, agent.versions_kept


# -- what it names is what runs ---------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize(
    ("spec", "trust", "method", "tabular"),
    [
        ("private-linopt-vi", "joint", "value-iteration", False),
        ("private-linopt-po:trust=local", "local", "policy-optimization", False),
        ("private-linopt-vi:counter=tree-reduced", "joint", "value-iteration", False),
        ("private-ucb-vi:counter=epochs", "joint", "value-iteration", True),
        ("private-ucb-vi:trust=local", "local", "value-iteration", True),
        ("private-ucb-po:counter=tree", "joint", "policy-optimization", True),
        ("dp-ucbvi:counter=epochs", "joint", "value-iteration", True),
        ("pucb:law=gaussian,counter=epochs", "joint", "value-iteration", True),
        ("ldp-obi:law=gaussian", "local", "value-iteration", True),
    ],
)
def test_it_deploys_the_agent_that_it_names(spec: str, trust: str, method: str, tabular: bool) -> None:
    agent = DeployedAgent(spec, RIVER, 4, SecureNoise())
    inside = agent.mechanism.agent
    assert (agent.guarantee.trust.name, inside.method, inside.name) == (trust, method, spec)
    assert isinstance(inside, CountingLearner) == tabular
    assert f"({trust} differential privacy" in agent.guarantee.sentence()
    for user in range(4):
        send(agent, user, episode(user, RIVER))
    assert agent.version == inside.schedule.releases
    assert np.isfinite(agent.plan.values).all()
    assert agent.ledger.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("ldp-obi", "law is laplace, but must be 'gaussian' in a deployment"),
        ("pucb", "law is laplace, but must be 'gaussian' in a deployment"),
        ("private-ucb-vi", "counter is blt, but must be one of epochs, tree"),
        ("private-linopt-vi:counter=blt", "counter is blt"),
        ("private-linopt-vi:calibration=paper", "calibration is paper, but must be 'exact' in a deployment"),
        ("private-linopt-vi:trust=shuffle", "users' messages must meet a shuffler: use the service"),
        ("ldp-ucrl-vtr", "one whose noise can be drawn on an integer grid"),
        ("private-lsvi-ucb", "one whose noise can be drawn on an integer grid"),
        ("ucrl-vtr", "one that promises privacy"),
        ("psrl", "one that promises privacy"),
        ("noisy-q-learning", "one that promises privacy"),
        ("no-such-agent", "unknown agent"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_the_reason(spec: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DeployedAgent(spec, RIVER, 40, SecureNoise())


def test_real_states_are_not_deployed() -> None:
    with pytest.raises(InvalidInput, match=r"real states, but must be one with finitely many; deploy model\.on_nodes"):
        DeployedAgent("private-score-vi", line_world().model, 40, SecureNoise())


def test_simulated_noise_cannot_deploy() -> None:
    import jax

    with pytest.raises(InvalidInput, match="SecureNoise"):
        DeployedAgent("private-linopt-vi", MODEL, 6, SimulationNoise(jax.random.key(0)))  # type: ignore[arg-type]


def test_noise_that_covers_users_in_order_only_is_not_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = deployable.make_agent

    def short(*arguments: Any, **options: Any) -> Any:
        agent = made(*arguments, **options)
        return dataclasses.replace(agent, promise=dataclasses.replace(agent.promise, late_report_ratio=1.2))

    monkeypatch.setattr(deployable, "make_agent", short)
    with pytest.raises(InvalidInput, match=r"late_report_ratio is 1\.2"):
        deployed()


# -- users in order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["", ",counter=tree", ",counter=tree-reduced", ",trust=local"])
def test_it_serves_its_users_on_the_public_schedule(options: str) -> None:
    agent = deployed(options)
    for user in range(6):
        before = agent.plan
        send(agent, user, episode(user))
        ends = user + 1 in agent.mechanism.agent.schedule.ends
        assert (agent.plan is not before) == ends
    assert agent.finished
    assert agent.ledger.epsilon == pytest.approx(1.0, rel=1e-6)
    assert np.isfinite(agent.plan.values).all()


def test_statistics_and_noise_are_multiples_of_the_grid() -> None:
    agent = deployed(",counter=tree")
    grid = agent.mechanism.grid
    report = agent.report(episode(0))
    assert grid > 0
    assert report.dtype == np.int64
    agent.submit(0, episode(0))
    release = np.asarray(agent.mechanism.sums.released_sums(agent._state.aggregate))
    assert (release / grid == np.rint(release / grid)).all()
    assert not np.allclose(release, report * grid)


def test_malformed_episodes_are_refused_and_change_nothing() -> None:
    """Public form only: lengths and kinds of numbers. No message quotes a value."""
    agent = deployed(episodes=4)
    agent.submit("ann", episode(0))
    before, bad = everything(agent), episode(1)
    for contribution, match in (
        (bad._replace(actions=np.zeros(H - 1, int)), r"actions\.shape"),
        (bad._replace(states=np.full(H, 7)), r"states\.shape"),
        (bad._replace(states=bad.states + 0.5), r"states\.dtype"),
        (bad._replace(rewards=np.full(H + 1, 0.777)), "rewards"),
        (bad._replace(rewards=["0.777"] * H), "rewards"),
        (bad._replace(rewards=np.full(H, None)), "rewards"),
        (bad._replace(rewards=[[0.777], [0.777, 0.777]]), "rewards"),
        (agent.report(bad), "contribution"),
    ):
        with pytest.raises(InvalidInput, match=match) as refused:
            agent.submit("bob", contribution)
        assert "777" not in str(refused.value)
    with pytest.raises(InvalidInput, match="user"):
        agent.submit("ann", episode(1))
    assert everything(agent) == before


@pytest.mark.parametrize("make", [deployed, counting])
@pytest.mark.parametrize("value", [1.5, -2.0, np.nan, np.inf, -np.inf])
def test_values_out_of_range_are_clipped_and_use_up_her_place(make: Any, value: float) -> None:
    agent = make()
    model = agent.mechanism.agent.model
    good, steps = episode(0, model), model.horizon
    wild = Episode(good.states + model.states, good.actions - model.actions, np.full(steps, value))
    inside = Episode(np.full(steps + 1, model.states - 1), np.zeros(steps, int), np.full(steps, float(value > 0)))
    np.testing.assert_array_equal(agent.report(wild), agent.report(inside))
    agent.submit("ann", wild)
    assert agent.users == 1
    np.testing.assert_array_equal(agent._open, agent.report(inside))


def test_users_after_the_last_are_refused_and_the_plan_stays() -> None:
    agent = deployed(episodes=2)
    for user in range(2):
        agent.submit(user, episode(user))
    final = agent.plan
    for late in (lambda: agent.submit(2, episode(2)), lambda: agent.skip(2)):
        with pytest.raises(InvalidInput, match="at most K = 2"):
            late()
    assert agent.plan is final


def test_ready_made_statistics_are_taken_in_the_local_model_only() -> None:
    """In the joint model nobody could know whether they were clipped; locally their own noise protects them."""
    report = deployed().report(episode(0))
    with pytest.raises(InvalidInput, match="an Episode in the joint model"):
        deployed().submit("ann", 10**9 * report)
    local = deployed(",trust=local")
    limit = local.mechanism.report_limit
    for bad in (episode(0), np.full(report.shape, np.nan), np.zeros(3, int), limit + 1, -limit - 1):
        with pytest.raises(InvalidInput, match="report"):
            local.submit("ann", bad)
    local.submit("ann", local.report(episode(0)))
    assert local.users == 1


# -- places -----------------------------------------------------------------------------------------------------------


def silenced(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Take the noise away, and keep every round's sum."""
    sums: list[np.ndarray] = []
    close = Mechanism.close

    def noted(
        self: Mechanism, number: int, state: Any, billboard: Any, total: np.ndarray, *more: Any, **named: Any
    ) -> Any:
        sums.append(total)
        return close(self, number, state, billboard, total, *more, **named)

    def nothing(self: Mechanism, prefix: tuple[int, ...]) -> np.ndarray:
        return np.zeros(prefix + self.noise_scale.shape, np.int64)

    monkeypatch.setattr(Mechanism, "_draw", nothing)
    monkeypatch.setattr(Mechanism, "close", noted)
    return sums


def absent(agent: DeployedAgent, user: int, how: str) -> None:
    """A user of whom nothing good comes."""
    played = episode(user, RIVER)
    if how == "out of range":
        agent.submit(user, played._replace(rewards=np.full(RIVER.horizon, 1.5)))
    elif how == "no state":
        agent.submit(user, played._replace(states=np.full(RIVER.horizon + 1, -1)))
    elif how == "malformed":
        with pytest.raises(InvalidInput):
            agent.submit(user, played._replace(rewards=np.zeros(1)))
        agent.skip(user)
    else:
        agent.skip(user)


@pytest.mark.parametrize("how", ["out of range", "no state", "malformed", "no show"])
def test_a_refused_or_missing_episode_moves_no_later_epoch(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """16 epochs of 8. When her place went to the next user, every later epoch moved: ε = 1 was really 1.22."""
    sums, runs = silenced(monkeypatch), []
    for there in (True, False):
        agent = DeployedAgent("private-ucb-vi:counter=epochs,first=8,growth=1", RIVER, 128, SecureNoise())
        assert agent.mechanism.agent.schedule.round_sizes.tolist() == [8] * 16
        versions = []
        for user in range(128):
            versions.append(agent.version)
            if user == 3 and not there:
                absent(agent, user, how)
            else:
                agent.submit(user, episode(user, RIVER))
        runs.append((versions, np.array(sums)))
        sums.clear()
    (versions, moved), (others, still) = runs
    assert versions == others == [user // 8 for user in range(128)]
    np.testing.assert_array_equal(moved[1:], still[1:])  # her own epoch is the first
    assert (moved[0] != still[0]).any()
    # What all of it moves is what the promise was made for.
    mechanism = agent.mechanism
    strength = np.sqrt((((moved - still) * mechanism.grid / mechanism.noise_scale) ** 2).sum())
    assert 0 < strength <= mu_of(1.0, 1e-5)
    # The check can see it: with everybody one place on, nearly every epoch moves, and more than was promised.
    shifted = np.array([
        sum(agent.report(episode(user, RIVER)) for user in range(8 * epoch + 1, 8 * epoch + 9)) for epoch in range(16)
    ])  # fmt: skip
    assert np.sqrt((((moved - shifted) * mechanism.grid / mechanism.noise_scale) ** 2).sum()) > mu_of(1.0, 1e-5)


@pytest.mark.parametrize("options", ["", ",counter=tree", ",counter=tree-reduced", ",trust=local"])
def test_without_noise_releases_are_the_counters_of_exact_reports(
    monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """After every round, with the noise taken away; and nothing of it is left in the open sum."""
    silenced(monkeypatch)
    agent = deployed(options)
    mechanism = agent.mechanism
    counter, shape = mechanism.sums.counter, mechanism.noise_scale.shape
    by_hand = counter.init(shape, np.dtype(np.float64))
    noise = np.zeros(counter.noise_shape_prefix + shape)
    total = np.zeros(shape)
    for user in range(6):
        total = total + agent.report(episode(user)) * mechanism.grid
        send(agent, user, episode(user))
        if user + 1 in mechanism.agent.schedule.ends:
            by_hand = counter.close(by_hand, total, noise)
            released = np.asarray(mechanism.sums.released_sums(agent._state.aggregate))
            np.testing.assert_array_equal(released, np.asarray(counter.release(by_hand)))
            assert released.any()
            total = np.zeros(shape)
            assert not agent._open.any()


def test_a_skipped_user_is_a_user_who_contributes_nothing() -> None:
    agent = counting()
    before = agent._open
    agent.skip("ann")
    assert agent.users == 1
    np.testing.assert_array_equal(agent._open, before)
    with pytest.raises(InvalidInput, match="already counted"):
        agent.submit("ann", episode(0, RIVER))
    with pytest.raises(InvalidInput, match="already counted"):
        agent.skip("ann")
    overlapping = counting()
    overlapping.begin("bob")
    overlapping.skip("bob")  # her ticket is used up
    assert overlapping.tickets_out == 0


# -- users who overlap ------------------------------------------------------------------------------------------------


def test_a_late_episode_is_counted_under_the_plan_its_user_was_served() -> None:
    agent = deployed()
    first, second = agent.begin("ann"), agent.begin("bob")
    third = agent.begin("cas")  # the round of two has had its users, and ends before the third is served
    assert (first.version, second.version, third.version) == (0, 0, 1)
    assert first.billboard is second.billboard
    assert agent.plan is third.plan
    assert not agent._open.any()
    agent.submit(first, episode(0))
    np.testing.assert_array_equal(agent._open, agent.report(episode(0), first))
    assert not np.array_equal(agent._open, agent.report(episode(0)))
    agent.submit("cas", episode(2))  # by name: it stands for her ticket
    np.testing.assert_array_equal(agent._open, agent.report(episode(0), first) + agent.report(episode(2), third))


@pytest.mark.parametrize("options", ["", ",counter=tree", ",trust=local"])
def test_rounds_end_on_admissions_whoever_comes_back(options: str) -> None:
    """Versions and spending are the same whether all, some or no reports arrive."""
    local = "local" in options
    seen = []
    for returning in (set(), {0, 3}, set(range(6))):
        agent = deployed(options)
        versions, tickets = [], []
        for user in range(6):
            tickets.append(agent.begin(user))
            versions.append(tickets[-1].version)
            for late in tickets[:-1]:
                if late.user in returning and late.user == user - 1:
                    agent.submit(late, agent.report(episode(user), late) if local else episode(user))
        agent.finish()
        assert agent.finished
        assert np.isfinite(agent.plan.values).all()
        assert agent.ledger.epsilon == pytest.approx(1.0, rel=1e-6)
        seen.append((versions, agent.version))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1] == agent.mechanism.agent.schedule.releases


def test_tickets_are_good_once_for_their_own_version_and_in_time() -> None:
    agent = deployed(episodes=4)
    ticket, never, late, _ = (agent.begin(user) for user in ("ann", "bob", "cas", "eve"))
    agent.submit(ticket, episode(0))
    before = everything(agent)
    strange = dataclasses.replace(late, user="dan")
    for act, match in (
        (lambda: agent.submit(ticket, episode(0)), "ticket is used up"),
        (lambda: agent.submit("ann", episode(0)), "already counted"),
        (lambda: agent.submit(strange, episode(0)), "ticket is unknown"),
        (lambda: agent.submit(dataclasses.replace(late, version=0), episode(0)), r"ticket\.version is 0"),
        (lambda: agent.submit(dataclasses.replace(never, version=7), episode(0)), r"ticket\.version is 7"),
        (lambda: agent.submit(late, episode(0)._replace(rewards=np.zeros(H + 1))), "rewards"),
        (lambda: agent.begin("cas"), "already counted"),
        (lambda: agent.begin("dan"), "at most K = 4"),
        (lambda: agent.expire("ann"), "without a ticket"),
    ):
        with pytest.raises(InvalidInput, match=match):
            act()
    assert agent.users == 4
    assert everything(agent) == before
    agent.finish()
    final = agent.plan
    with pytest.raises(InvalidInput, match="ticket is used up"):
        agent.submit(late, episode(0))
    agent.finish()
    assert agent.plan is final


def test_only_versions_that_are_out_are_kept() -> None:
    agent = deployed(",counter=tree", episodes=5)
    tickets = [agent.begin(user) for user in range(5)]
    assert agent.versions_kept == (0, 1, 2, 3, 4)
    agent.submit(tickets[1], episode(1))
    agent.expire(2)
    assert agent.versions_kept == (0, 3, 4)
    assert agent.tickets_out == 3
    with pytest.raises(InvalidInput, match="ticket is used up"):
        agent.submit(tickets[2], episode(2))
    agent.finish()
    assert agent.versions_kept == ()


def test_a_forged_plan_in_a_ticket_changes_nothing() -> None:
    """The server keeps its own copy: what comes back with a ticket is a name and a number."""
    agent = deployed()
    ticket = agent.begin("ann")
    board = ticket.billboard
    wrong = {name: 0.5 * array for name, array in board.report.items()}
    forged = dataclasses.replace(ticket, billboard=dataclasses.replace(board, values=0.5 * board.values, report=wrong))
    agent.submit(forged, episode(0))
    np.testing.assert_array_equal(agent._open, agent.report(episode(0), ticket))
    assert not np.array_equal(agent._open, agent.report(episode(0), forged))


def test_the_two_protocols_are_not_mixed() -> None:
    agent = deployed()
    with pytest.raises(InvalidInput, match="users is 0"):
        agent.finish()
    agent.begin("ann")
    with pytest.raises(InvalidInput, match=r"admitted by begin\(\)"):
        agent.submit("bob", episode(0))
    in_order = deployed()
    in_order.submit("ann", episode(0))
    with pytest.raises(InvalidInput, match="in order"):
        in_order.begin("bob")
