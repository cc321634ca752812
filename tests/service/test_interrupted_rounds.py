# SPDX-License-Identifier: Apache-2.0
"""A deployed agent that is interrupted anywhere while it ends a round releases that round once.

Python can be interrupted between any two bytecodes. Here it is: at every bytecode of the deployed agent's own methods and
at every call below them, one after the other, by Ctrl-C and by an exception. A recorder keeps all sums that were closed
with their noise: two attempts to release one round must be the same attempt.
"""

from __future__ import annotations

import collections
import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest

import reticent
from reticent.errors import InvalidInput
from reticent.privacy.accounting.gaussian import epsilon_of, mu_of
from reticent.privacy.noise import SecureNoise
from reticent.service import embedded
from reticent.service.embedded import DeployedAgent
from reticent.service.mechanism import Mechanism
from reticent.worlds import Episode
from reticent.worlds.registry import make_world

MODEL = make_world("riverswim:states=3,horizon=3").model
EPSILON, DELTA = 1.0, 1e-5
BELOW, OWN = str(Path(reticent.__file__).parent), embedded.__file__
INTERRUPTS = (KeyboardInterrupt, MemoryError)


def episode(seed: int) -> Episode:
    draw = np.random.default_rng(seed)
    steps = MODEL.horizon
    return Episode(
        draw.integers(0, MODEL.states, steps + 1), draw.integers(0, MODEL.actions, steps), draw.random(steps)
    )


class Closed(NamedTuple):
    """One attempt to end a round: which, the sum, and its noise."""

    number: int
    total: bytes
    noise: bytes


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Closed]]:
    seen: list[Closed] = []
    real = Mechanism.close

    def close(self: Mechanism, number: int, state: Any, served: Any, total: Any, noise: Any, *rest: Any, **more: Any):
        seen.append(Closed(number, np.asarray(total).tobytes(), np.asarray(noise).tobytes()))
        return real(self, number, state, served, total, noise, *rest, **more)

    monkeypatch.setattr(Mechanism, "close", close)
    yield seen


@pytest.fixture(scope="module")
def fresh() -> DeployedAgent:
    """Rounds of two users; nobody has come yet. Its programs are compiled."""
    spec = f"private-ucb-vi:counter=epochs,first=2,growth=1,epsilon={EPSILON},delta={DELTA}"
    agent = DeployedAgent(spec, MODEL, 8, SecureNoise())
    warm = twin(agent)
    for user in range(4):
        warm.submit(user, episode(user))
    return agent


def twin(agent: DeployedAgent) -> DeployedAgent:
    """Another deployed agent in the same state."""
    other = copy.copy(agent)
    for name in ("_users", "_out", "_out_by_version", "_versions"):
        setattr(other, name, copy.copy(getattr(agent, name)))
    return other


def interrupted(action: Callable[[], Any], at: int, how: type[BaseException]) -> bool:
    """Whether ``action`` was interrupted: at the ``at``-th bytecode of a deployed agent or call below it, if it has one."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == at:
            raise how

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            tick()
        return inside

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(BELOW):
            return None
        tick()
        frame.f_trace_opcodes = file == OWN
        return inside if file == OWN else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        action()
    except how:
        return True
    finally:
        sys.settrace(before)
    return False


def every_interruption(
    start: DeployedAgent, action: Callable[[DeployedAgent], Any]
) -> Iterator[tuple[int, DeployedAgent]]:
    """The agent after ``action`` was interrupted at its first, second, … point, until it has no more."""
    for at in range(1, 100_000):
        agent = twin(start)
        if not interrupted(lambda agent=agent: action(agent), at, INTERRUPTS[at % 2]):
            return
        yield at, agent


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
    assert at > 100 and sealed > 50, (at, sealed)


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
