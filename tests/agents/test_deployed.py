"""A deployed agent: secure noise only, exact grid arithmetic, and refusals that change nothing."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reticent.agents.deployed import DeployedAgent
from reticent.errors import InvalidInput
from reticent.privacy.noise import SecureNoise, SimulationNoise
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
    release = np.asarray(agent.agent.regularizer.counter.release(agent._state.regularizer.counter))
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
