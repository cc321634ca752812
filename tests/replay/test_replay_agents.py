# SPDX-License-Identifier: Apache-2.0
"""Recorded people meet agents: the same plan gives the same returns, everyone once, and learning pays."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from reticent.agents import make_agent
from reticent.learning.control import Control
from reticent.privacy.noise import SecureNoise
from reticent.replay.deployed import meet_deployed
from reticent.replay.logs import replayable
from reticent.replay.simulated import meet_recorded
from reticent.service.embedded import DeployedAgent
from reticent.worlds import blend
from reticent.worlds.records import Columns, read_log

USERS = 600


def people(kind: str):
    """Two contexts, two actions, one step: y pays 0.9 and x 0.1 in every context, but the candidates do not know which."""
    random = np.random.default_rng(0)
    state = random.integers(2, size=USERS)
    action = random.integers(2, size=USERS)
    pays = (random.random((USERS, 2)) < [0.1, 0.9]) * 1.0
    frame = pl.DataFrame(
        {"user": np.arange(USERS), "step": 0, "state": np.array(["a", "b"])[state], "action": np.array(["x", "y"])[action],
         "reward": pays[np.arange(USERS), action], "p": 0.5, "paid_x": pays[:, 0], "paid_y": pays[:, 1]}
    )  # fmt: skip
    columns = Columns(probability="p") if kind == "randomised" else Columns(rewards_of="paid_")
    return replayable(read_log(frame, columns=columns), 1)


def model():
    stay = np.broadcast_to(np.eye(2)[:, None, :], (1, 2, 2, 2))
    tables = np.stack([np.broadcast_to([0.9, 0.1], (2, 2)), np.broadcast_to([0.1, 0.9], (2, 2))])
    return blend(stay, tables, [1.0], [0.5, 0.5], 1, initial=[0.5, 0.5]).model


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["exact", "randomised"])
def test_learners_end_near_the_best_action(kind: str) -> None:
    users, count = people(kind), 200
    orders = [np.random.default_rng(seed).permutation(USERS) for seed in range(2)]
    for returns in meet_recorded(make_agent("score-vi", model(), count), users, orders):
        # All 200 places are used up: of 600 records one in two is accepted, Binomial(600, 1/2) < 200 once in 10^16.
        assert len(returns) == count
        # The last hundred earn 0.9 on average; below 0.75 with probability 10^-5.
        assert returns[-100:].mean() > 0.75
    deployed = DeployedAgent("private-score-vi:epsilon=8", model(), count, SecureNoise())
    met = meet_deployed(deployed, users, orders[0], np.random.default_rng(0))
    assert deployed.finished
    assert len(met) == count
    assert met[-100:].mean() > 0.7


@pytest.mark.verify
def test_recorded_people_at_the_places_of_controls_act_by_version_0() -> None:
    """It knows of no action that is better, and takes the first, which pays 0.1; the others learn as they do without."""
    control, count = Control(0.5), 400
    deployed = DeployedAgent("private-score-vi:epsilon=8,explore=0", model(), count, SecureNoise(), control)
    order = np.random.default_rng(0).permutation(USERS)
    met = meet_deployed(deployed, people("exact"), order, np.random.default_rng(0))
    schedule, control_at, others = deployed.mechanism.agent.schedule, [], []
    for user in range(count - 100, count):
        number, place = schedule.round_and_place(user)
        controls = control.places(schedule, number, deployed.identity).has(place)
        (control_at if controls else others).append(met[user])
    assert abs(len(control_at) - 50) <= 2
    # Fifty means of 0.1 and of 0.9 each: 0.35 and 0.65 are passed with probability 10^-7.
    assert np.mean(control_at) < 0.35
    assert np.mean(others) > 0.65


@pytest.mark.verify
def test_a_short_order_ends_the_meeting() -> None:
    agent = make_agent("score-vi", model(), 500)
    for kind, least, most in (("exact", 50, 50), ("randomised", 5, 45)):
        (returns,) = meet_recorded(agent, people(kind), [np.arange(50)])
        assert least <= len(returns) <= most
