"""A deployed agent: secure noise only, exact grid arithmetic, and refusals that change nothing."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise, SimulationNoise
from reticent.service.embedded import DeployedAgent
from reticent.worlds import Episode
from reticent.worlds.registry import make_world_from

MODEL = make_world_from("mobile-health").model
H = MODEL.horizon


def episode(seed: int) -> Episode:
    draw = np.random.default_rng(seed)
    return Episode(draw.integers(0, MODEL.states, H + 1), draw.integers(0, MODEL.actions, H), draw.random(H))


def deployed(options: str = "", episodes: int = 6) -> DeployedAgent:
    return DeployedAgent(f"private-linopt-vi:first=2,growth=1{options}", MODEL, episodes, SecureNoise())


@pytest.mark.parametrize("options", ["", ",counter=tree", ",counter=tree-reduced", ",trust=local"])
def test_it_serves_its_users_on_the_public_schedule(options: str) -> None:
    agent = deployed(options)
    for user in range(6):
        before = agent.plan
        agent.submit(user, agent.report(episode(user)) if "local" in options else episode(user))
        ends = user + 1 in agent.agent.schedule.ends
        assert (agent.plan is not before) == ends
    assert agent.finished
    assert agent.ledger.epsilon == pytest.approx(1.0, rel=1e-6)
    assert np.isfinite(agent.plan.values).all()


def test_statistics_and_noise_are_multiples_of_the_grid() -> None:
    agent = deployed(",counter=tree")
    grid = agent.privacy.calibration.grid
    report = np.asarray(agent.report(episode(0)))
    assert grid > 0
    assert (report / grid == np.rint(report / grid)).all()
    agent.submit(0, episode(0))
    release = np.asarray(agent.agent.aggregator.counter.release(agent._state.aggregate.counter))
    assert (release / grid == np.rint(release / grid)).all()
    assert not np.allclose(release, report)


def test_simulated_noise_cannot_deploy() -> None:
    with pytest.raises(InvalidInput, match="SecureNoise"):
        DeployedAgent("private-linopt-vi", MODEL, 6, SimulationNoise(jax.random.key(0)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("options", "match"), [(",counter=blt", "counter"), (",calibration=paper", "calibration")])
def test_inexact_plans_cannot_deploy(options: str, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        deployed(options)


def test_refusals_change_nothing() -> None:
    agent = deployed(episodes=4)
    agent.submit("ann", episode(0))
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(agent._state)]
    bad = episode(1)
    with pytest.raises(InvalidInput, match="user"):
        agent.submit("ann", episode(1))
    with pytest.raises(InvalidInput, match="reward at step 1"):
        agent.report(bad._replace(rewards=np.full(H, 1.5)))
    with pytest.raises(InvalidInput, match="states"):
        agent.report(bad._replace(states=np.full(H + 1, MODEL.states)))
    with pytest.raises(InvalidInput, match="actions"):
        agent.report(bad._replace(actions=np.zeros(H - 1, int)))
    with pytest.raises(InvalidInput, match="reward"):
        agent.report(bad._replace(rewards=np.full(H, np.nan)))
    with pytest.raises(InvalidInput, match="contribution"):
        agent.submit("bob", agent.report(episode(1)))
    assert agent.users == 1
    for before, after in zip(leaves, jax.tree.leaves(agent._state), strict=True):
        np.testing.assert_array_equal(before, after)


def test_users_after_the_last_are_refused_and_the_plan_stays() -> None:
    agent = deployed(episodes=2)
    for user in range(2):
        agent.submit(user, episode(user))
    final = agent.plan
    with pytest.raises(InvalidInput, match="at most K = 2"):
        agent.submit(2, episode(2))
    assert agent.plan is final


def test_ready_made_statistics_are_taken_in_the_local_model_only() -> None:
    """In the joint model nobody could know whether they were clipped; locally their own noise protects them."""
    report = deployed().report(episode(0))
    with pytest.raises(InvalidInput, match="an Episode in the joint model"):
        deployed().submit("ann", 1e9 * report)
    local = deployed(",trust=local")
    for bad in (episode(0), np.full(report.shape, np.nan), np.zeros(3)):
        with pytest.raises(InvalidInput, match="contribution"):
            local.submit("ann", bad)
    local.submit("ann", local.report(episode(0)))
    assert local.users == 1


# -- users who overlap ----------------------------------------------------------------------------------------------------


def open_sum(agent: DeployedAgent) -> np.ndarray:
    return np.asarray(agent._state.aggregate.open)


def test_a_late_episode_is_counted_under_the_plan_its_user_was_served() -> None:
    agent = deployed()
    first, second = agent.begin("ann"), agent.begin("bob")
    third = agent.begin("cas")  # the round of two has had its users, and ends before the third is served
    assert (first.version, second.version, third.version) == (0, 0, 1)
    assert first.plan is second.plan
    assert agent.plan is third.plan
    assert not open_sum(agent).any()
    agent.submit(first, episode(0))
    np.testing.assert_array_equal(open_sum(agent), agent.report(episode(0), first))
    assert not np.array_equal(open_sum(agent), agent.report(episode(0)))
    agent.submit("cas", episode(2))  # by name: it stands for her ticket
    np.testing.assert_array_equal(open_sum(agent), agent.report(episode(0), first) + agent.report(episode(2), third))


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
    assert seen[0][1] == agent.agent.schedule.releases


def test_tickets_are_good_once_for_their_own_version_and_in_time() -> None:
    agent = deployed(episodes=4)
    ticket, never, late, _ = (agent.begin(user) for user in ("ann", "bob", "cas", "eve"))
    agent.submit(ticket, episode(0))
    before = [np.array(leaf) for leaf in jax.tree.leaves(agent._state)]
    strange = dataclasses.replace(late, user="dan")
    for act, match in (
        (lambda: agent.submit(ticket, episode(0)), "ticket is used up"),
        (lambda: agent.submit("ann", episode(0)), "already counted"),
        (lambda: agent.submit(strange, episode(0)), "ticket is unknown"),
        (lambda: agent.submit(dataclasses.replace(late, version=0), episode(0)), r"ticket\.version is 0"),
        (lambda: agent.submit(dataclasses.replace(never, version=7), episode(0)), r"ticket\.version is 7"),
        (lambda: agent.submit(late, episode(0)._replace(rewards=np.full(H, 2.0))), "reward at step 1"),
        (lambda: agent.begin("cas"), "already counted"),
        (lambda: agent.begin("dan"), "at most K = 4"),
        (lambda: agent.expire("ann"), "without a ticket"),
    ):
        with pytest.raises(InvalidInput, match=match):
            act()
    assert agent.users == 4
    for one, other in zip(before, jax.tree.leaves(agent._state), strict=True):
        np.testing.assert_array_equal(one, other)
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
    forged = dataclasses.replace(ticket, plan=ticket.plan._replace(values=0.5 * ticket.plan.values))
    agent.submit(forged, episode(0))
    np.testing.assert_array_equal(open_sum(agent), agent.report(episode(0), ticket))


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


def test_noise_that_covers_users_in_order_only_gives_no_tickets() -> None:
    agent = deployed()
    noise = dataclasses.replace(agent.privacy.calibration.reward, arrival_ratio=np.full(H, 1.2))
    short = dataclasses.replace(agent.privacy.calibration, reward=noise)
    agent.privacy = dataclasses.replace(agent.privacy, calibration=short)
    with pytest.raises(InvalidInput, match=r"arrival_ratio is 1\.2"):
        agent.begin("ann")
