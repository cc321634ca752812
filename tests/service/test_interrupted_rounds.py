# SPDX-License-Identifier: Apache-2.0
"""A deployed agent that is interrupted anywhere while it ends a round releases that round once.

Python can be interrupted between any two bytecodes. Here it is: at every bytecode of the deployed agent's own methods and
at every call below them, one after the other, by Ctrl-C and by an exception. A recorder keeps all sums that were closed
with their noise: two attempts to release one round must be the same attempt.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

import numpy as np
import pytest
from interruptions import (
    DELTA,
    EPSILON,
    Closed,
    episode,
    every_interruption,
    fresh_agent,
    recorded_attempts,
    twin,
)

from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.service.embedded import DeployedAgent


@pytest.fixture
def attempts() -> Iterator[list[Closed]]:
    with recorded_attempts() as seen:
        yield seen


@pytest.fixture(scope="module")
def fresh() -> DeployedAgent:
    return fresh_agent()


def realised(attempts: list[Closed]) -> float:
    """ε of seeing every attempt: m different noises on one round's sum are worth √m of the promised μ."""
    noises = collections.Counter(number for number, _ in {(one.number, one.noise) for one in attempts})
    return float(epsilon_of(mu_of(EPSILON, DELTA) * max(noises.values(), default=1) ** 0.5, DELTA))


def test_in_order_a_round_is_released_once_wherever_it_is_interrupted(
    fresh: DeployedAgent, attempts: list[Closed]
) -> None:
    start = twin(fresh)
    start.submit("first", episode(1))
    alone = start._open
    both = alone + start.report(episode(2))
    sealed = 0
    for at, agent in every_interruption(start, lambda one: one.submit("second", episode(2))):
        drawn = agent._sealed is not None or agent.version == 1
        assert agent.ledger.round == drawn, at  # spent from the moment that its noise is kept
        sealed += drawn and not agent.version
        if "second" in agent._users:
            with pytest.raises(InvalidInput, match="already counted"):
                agent.submit("second", episode(2))
        else:
            agent.submit("second", episode(2))
        assert (agent.version, agent.ledger.round) == (1, 1), at
        agent.submit("third", episode(3))
        assert {one.number for one in attempts} == {0}, at
        assert len(set(attempts)) == 1, at
        assert attempts[0].total in (alone.tobytes(), both.tobytes()), at
        np.testing.assert_array_equal(agent._open, agent.report(episode(3)), str(at))
        assert realised(attempts) <= EPSILON + 1e-6
        attempts.clear()
    assert min(at, 2 * sealed) > 100, (at, sealed)


def test_overlapping_a_round_is_released_once_wherever_it_is_interrupted(
    fresh: DeployedAgent, attempts: list[Closed]
) -> None:
    start = twin(fresh)
    tickets = [start.begin(user) for user in ("first", "second")]
    start.submit(tickets[0], episode(1))
    before = start._open.tobytes()
    for at, agent in every_interruption(start, lambda one: one.begin("third")):
        agent.submit(tickets[1], episode(2))  # late or not, as far as the interruption got
        if "third" not in agent._users:
            agent.begin("third")
        agent.begin("fourth")
        agent.begin("fifth")
        for number in (0, 1):
            assert len({one for one in attempts if one.number == number}) == 1, at
        late = attempts[0].total == before
        second = next(one for one in attempts if one.number == 1)
        assert np.frombuffer(second.total, agent._open.dtype).any() == late, at  # in one of the two rounds
        assert realised(attempts) <= EPSILON + 1e-6
        attempts.clear()


def test_a_report_is_counted_once_or_lost_wherever_it_is_interrupted(fresh: DeployedAgent) -> None:
    start = twin(fresh)
    ticket = start.begin("first")
    own = start.report(episode(1), ticket)
    for at, agent in every_interruption(start, lambda one: one.submit(ticket, episode(1))):
        if agent.tickets_out:
            agent.submit(ticket, episode(1))
        with pytest.raises(InvalidInput, match="used up"):
            agent.submit(ticket, episode(1))
        counted = agent._open
        assert not counted.any() or (counted == own).all(), at
